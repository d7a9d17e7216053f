//! One data set, in the store's own tables and in the document's.

use holdfast_postgres::{DataSet, Store};

use super::seed;
use crate::database::own::OwnDatabase;

/// Open holds run out so many hours from now: not while anybody measures.
const HOURS: (u32, u32) = (24, 168);

/// The data set as it grows.
pub(super) struct Data {
    pub(super) store: Store,
    pub(super) place: OwnDatabase,
    pub(super) transfers: u64,
    /// Of the document's copy: the last transfer that it has.
    copied: Option<u64>,
}

impl Data {
    pub(super) fn new(mut place: OwnDatabase) -> anyhow::Result<Data> {
        let store = place.store()?;
        let tables = format!(
            "{}; CREATE TABLE seed.due (transfer_no bigint PRIMARY KEY, transferId varchar(36))",
            seed::TABLES
        );
        place.execute("create the document's tables", &tables)?;
        Ok(Data { store, place, transfers: 0, copied: None })
    }

    /// Generates until there are `size` transfers, none of them due, and copies them into the document's tables.
    pub(super) fn grow(&mut self, size: u64, mut progress: impl FnMut(u64)) -> anyhow::Result<()> {
        let before = self.transfers;
        let data = DataSet { total: size - before, expired: 0, hours: HOURS, ..DataSet::default() };
        self.store.generate(&data, |done| progress(before + done))?;
        self.transfers = size;
        let copied = self.copied.map_or(-1, i128::from);
        self.place.execute(
            "copy the data set into the document's tables",
            &format!(
                "INSERT INTO seed.transfer (transferId, expirationDate)
                 SELECT transfer_id::text, expiration_date AT TIME ZONE current_setting('TimeZone')
                 FROM transfer WHERE transfer_no > {copied} ORDER BY transfer_no;
                 INSERT INTO seed.transferStateChange (transferId, transferStateId)
                 SELECT t.transfer_id::text, s.enumeration
                 FROM transfer t JOIN transfer_state_change c USING (transfer_no) JOIN transfer_state s USING (transfer_state_id)
                 WHERE t.transfer_no > {copied} ORDER BY t.transfer_no, c.transfer_state_change_id;
                 ANALYZE"
            ),
        )?;
        self.copied = Some(self.place.number("SELECT max(transfer_no) FROM transfer")?);
        Ok(())
    }

    /// Lets `count` open holds, wherever chance finds them, have run out a minute ago; in both schemas.
    pub(super) fn make_due(&mut self, count: u64) -> anyhow::Result<()> {
        self.place.execute(
            "let holds run out",
            &format!(
                "BEGIN;
                 TRUNCATE seed.due;
                 INSERT INTO seed.due SELECT t.transfer_no, t.transfer_id::text
                 FROM transfer_timeout o JOIN transfer t USING (transfer_no) ORDER BY random() LIMIT {count};
                 UPDATE transfer t SET expiration_date = hub_clock() - interval '1 minute'
                 FROM seed.due d WHERE d.transfer_no = t.transfer_no;
                 UPDATE transfer_timeout o SET expiration_date = t.expiration_date
                 FROM seed.due d JOIN transfer t USING (transfer_no) WHERE d.transfer_no = o.transfer_no;
                 UPDATE seed.transfer t SET expirationDate = localtimestamp - interval '1 minute'
                 FROM seed.due d WHERE d.transferId = t.transferId;
                 UPDATE seed.transferTimeout t SET expirationDate = localtimestamp - interval '1 minute'
                 FROM seed.due d WHERE d.transferId = t.transferId;
                 COMMIT"
            ),
        )
    }

    /// The document's side of what the store has ended.
    pub(super) fn end_due_in_seed(&mut self) -> anyhow::Result<()> {
        self.place.execute(
            "end holds in the document's tables",
            "INSERT INTO seed.transferStateChange (transferId, transferStateId)
             SELECT transferId, 'EXPIRED_RESERVED' FROM seed.due",
        )
    }
}
