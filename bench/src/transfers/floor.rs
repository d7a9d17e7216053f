//! The floor: the rows that are left of payments in the end, and nothing else, through the same PostgreSQL. A transfer in its
//! last state, its four state changes and two position changes, with the indexes of the real tables; written by COPY, a
//! commit with fsync per batch.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use holdfast_load::figures::per_second;
use postgres::{Client, Statement};

use crate::database::own::OwnDatabase;

/// The tables.
const TABLES: [&str; 3] = ["transfer", "transfer_state_change", "participant_position_change"];
/// Payments whose rows are kept in memory at most, at about 1 KiB each.
const PAYMENTS_MAX: usize = 200_000;

/// Rows of one batch, as COPY gave them and takes them.
struct Rows {
    payments: u64,
    tables: Vec<Vec<u8>>,
}

/// Bare rows, ready to be written.
pub(super) struct Floor {
    /// How each table takes them.
    copies: Vec<String>,
    batches: Vec<Rows>,
}

impl Floor {
    /// Takes the final rows of up to `payments` of the run's own payments out of the tables that the node wrote.
    pub(super) fn take(client: &mut Client, payments: u64, batch: usize) -> anyhow::Result<Floor> {
        let most = i64::try_from(payments.min(PAYMENTS_MAX as u64)).unwrap_or(i64::MAX);
        let numbers: Vec<i64> = client
            .query(
                "SELECT transfer_no FROM transfer WHERE current_state = 5 ORDER BY transfer_no DESC LIMIT $1",
                &[&most],
            )
            .context("cannot read the transfers of the run")?
            .iter()
            .map(|row| row.get(0))
            .collect();
        client
            .batch_execute(
                "CREATE TEMPORARY TABLE floor_batch (transfer_no bigint PRIMARY KEY, batch int);
                 CREATE TEMPORARY TABLE floor_change AS SELECT * FROM participant_position_change WITH NO DATA",
            )
            .context("cannot make room for the floor's rows")?;
        let mut batches = Vec::new();
        for (number, chunk) in (0_i32..).zip(numbers.chunks(batch)) {
            client
                .execute("INSERT INTO floor_batch SELECT unnest($1::bigint[]), $2", &[&chunk, &number])
                .context("cannot choose the floor's rows")?;
            batches.push(Rows { payments: chunk.len() as u64, tables: Vec::new() });
        }
        // By transfer there is no index: once over the table.
        client
            .batch_execute(
                "ANALYZE floor_batch;
                 INSERT INTO floor_change SELECT c.* FROM participant_position_change c JOIN floor_batch USING (transfer_no);
                 CREATE INDEX ON floor_change (transfer_no); ANALYZE floor_change",
            )
            .context("cannot find the floor's position changes")?;
        let mut copies = Vec::new();
        for (table, from) in TABLES.iter().zip(["transfer", "transfer_state_change", "floor_change"]) {
            let columns = columns(client, table)?;
            copies.push(format!("COPY {table} ({columns}) FROM STDIN (FORMAT binary)"));
            for (number, rows) in batches.iter_mut().enumerate() {
                let sql = format!(
                    "COPY (SELECT {columns} FROM {from} WHERE transfer_no IN
                         (SELECT transfer_no FROM floor_batch WHERE batch = {number})) TO STDOUT (FORMAT binary)"
                );
                let mut bytes = Vec::new();
                let mut reader = client.copy_out(&sql).context("cannot read the floor's rows")?;
                reader.read_to_end(&mut bytes).context("cannot read the floor's rows")?;
                drop(reader);
                rows.tables.push(bytes);
            }
        }
        Ok(Floor { copies, batches })
    }

    /// Writes them into a database of its own, on so many connections at once: payments per second.
    pub(super) fn write(&self, store: &str, connections: usize) -> anyhow::Result<f64> {
        let place = OwnDatabase::create_second(store)?;
        // The tables as they are, empty.
        drop(place.store()?);
        let mut clients = Vec::new();
        for _ in 0..connections {
            let mut client = place.connect()?;
            let copies: Result<Vec<Statement>, _> =
                self.copies.iter().map(|copy| client.prepare(copy)).collect();
            clients.push((client, copies.context("cannot prepare the floor's writes")?));
        }
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let mut writers = Vec::new();
            for (number, (client, copies)) in clients.iter_mut().enumerate() {
                let mut own = self.batches.iter().skip(number).step_by(connections);
                writers.push(scope.spawn(move || own.try_for_each(|rows| write(client, copies, rows))));
            }
            for writer in writers {
                writer.join().map_err(|_| anyhow!("a writer of the floor stopped"))??;
            }
            anyhow::Ok(())
        })?;
        Ok(self.rate(begun.elapsed()))
    }

    fn rate(&self, took: Duration) -> f64 {
        let payments: u64 = self.batches.iter().map(|rows| rows.payments).sum();
        per_second(payments, took)
    }
}

/// All columns but those that the database numbers itself.
fn columns(client: &mut Client, table: &str) -> anyhow::Result<String> {
    let row = client.query_one(
        "SELECT string_agg(column_name, ', ' ORDER BY ordinal_position) FROM information_schema.columns
         WHERE table_schema = 'public' AND table_name = $1 AND is_identity = 'NO'",
        &[&table],
    );
    Ok(row.context("cannot read the columns of a table")?.get(0))
}

fn write(client: &mut Client, copies: &[Statement], rows: &Rows) -> anyhow::Result<()> {
    let mut tx = client.transaction().context("cannot begin a batch of the floor")?;
    for (copy, bytes) in copies.iter().zip(&rows.tables) {
        let mut writer = tx.copy_in(copy).context("cannot write the floor's rows")?;
        // What breaks here shows itself in `finish`.
        let _ = writer.write_all(bytes);
        writer.finish().context("cannot write the floor's rows")?;
    }
    tx.commit().context("cannot commit the floor's rows")
}
