-- The audit chain covers the rows of tokens and of the shop. What a batch appends for a try stands with the batch's number, as
-- state changes and position changes do, so that it is computed again. What a batch overwrites is hashed as it is written.
-- Rows and records of before have neither.
ALTER TABLE pay_transaction ADD COLUMN batch_id bigint;
ALTER TABLE stock_transaction ADD COLUMN batch_id bigint;
ALTER TABLE audit ADD COLUMN rows_hash bytea;
