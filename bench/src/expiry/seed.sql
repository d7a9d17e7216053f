-- The four tables of the timeout document, in a schema of their own. MySQL indexes a foreign key by itself; here the index is
-- written out.
CREATE SCHEMA seed;
CREATE TABLE seed.transfer (
    transferId varchar(36) PRIMARY KEY,
    expirationDate timestamp(0) NOT NULL
);
CREATE TABLE seed.transferStateChange (
    transferStateChangeId bigserial PRIMARY KEY,
    transferId varchar(36) NOT NULL REFERENCES seed.transfer,
    transferStateId varchar(50) NOT NULL
);
CREATE INDEX transferstatechange_transferid ON seed.transferStateChange (transferId);
CREATE TABLE seed.segment (
    segmentId serial PRIMARY KEY,
    segmentType varchar(50) NOT NULL,
    enumeration int NOT NULL DEFAULT 0,
    tableName varchar(50) NOT NULL,
    value bigint NOT NULL,
    changedDate timestamp(0) NOT NULL DEFAULT localtimestamp
);
CREATE TABLE seed.transferTimeout (
    transferTimeoutId bigserial PRIMARY KEY,
    transferId varchar(36) NOT NULL UNIQUE REFERENCES seed.transfer,
    expirationDate timestamp(0) NOT NULL,
    createdDate timestamp(0) NOT NULL DEFAULT localtimestamp
);
