//! Leases: shards that no Kafka group gives out are held for a while and renewed. Whoever takes over a shard whose lease
//! has ended gets a higher epoch, so the one before writes nothing any more.

use std::time::Duration;

use crate::hung::end_hung;
use crate::session::Store;
use crate::{Claim, Error, Source};

/// Nodes that said nothing for so long are forgotten.
const NODE_FORGOTTEN: &str = "1 hour";
/// What every node is, besides what it does.
const ANY_ROLE: &str = "node";

impl Store {
    /// Takes or renews the lease of a source for a node; `None` if another node holds it. The epoch rises when it changes
    /// hands, and only then.
    pub fn lease(&mut self, source: Source, node: i64, length: Duration) -> Result<Option<Claim>, Error> {
        let (segment_type, table_name) = (source.segment_type(), source.table_name());
        let enumeration = source.enumeration();
        let seconds = length.as_secs_f64();
        // Not waited for: a node that hangs in the middle of a transaction holds the row until the server ends it.
        let renewed = self.client.query_opt(
            "UPDATE segment s SET epoch = s.epoch + (s.lease_node IS DISTINCT FROM $4)::int,
                 lease_node = $4, lease_until = hub_clock() + $5::double precision * interval '1 second'
             WHERE s.segment_id = (
                 SELECT segment_id FROM segment
                 WHERE segment_type = $1 AND table_name = $2 AND enumeration = $3
                     AND (lease_node = $4 OR lease_until < hub_clock())
                 FOR UPDATE SKIP LOCKED)
             RETURNING segment_id, epoch, value",
            &[&segment_type, &table_name, &enumeration, &node, &seconds],
        )?;
        let row = match renewed {
            Some(row) => Some(row),
            None => self.client.query_opt(
                "INSERT INTO segment (segment_type, table_name, enumeration, lease_node, lease_until)
                 VALUES ($1, $2, $3, $4, hub_clock() + $5::double precision * interval '1 second')
                 ON CONFLICT DO NOTHING RETURNING segment_id, epoch, value",
                &[&segment_type, &table_name, &enumeration, &node, &seconds],
            )?,
        };
        match row {
            Some(row) => Ok(Some(Claim::of(source, &row)?)),
            None => self.locked_lease(source, node),
        }
    }

    /// A lease that could not be had because another node holds it, or because its row is locked. The lock may be our own: a
    /// scan or a relay of this node at work; then the lease goes on. One that hangs is ended, and the next look has the shard.
    fn locked_lease(&mut self, source: Source, node: i64) -> Result<Option<Claim>, Error> {
        let row = self.client.query_opt(
            "SELECT segment_id, epoch, value, lease_until < hub_clock() FROM segment
             WHERE segment_type = $1 AND table_name = $2 AND enumeration = $3
                 AND (lease_node = $4 OR lease_until < hub_clock())",
            &[&source.segment_type(), &source.table_name(), &source.enumeration(), &node],
        )?;
        let Some(row) = row else { return Ok(None) };
        if row.get(3) {
            end_hung(&mut self.client, self.settings.idle_timeout)?;
            return Ok(None);
        }
        Ok(Some(Claim::of(source, &row)?))
    }

    /// Ends a lease before its time, if the claim is still the latest.
    pub fn give_up(&mut self, claim: &Claim) -> Result<(), Error> {
        self.client.execute(
            "UPDATE segment SET lease_until = '-infinity', lease_node = NULL WHERE segment_id = $1 AND epoch = $2",
            &[&claim.segment_id, &claim.epoch],
        )?;
        Ok(())
    }

    /// Says that a node works on sources of this kind no more: the others share its shards at their next look, and need not
    /// wait until it has been silent for long enough.
    pub fn leave(&mut self, of: Source, node: i64) -> Result<(), Error> {
        self.forget(of.segment_type(), node)
    }

    /// Says that a node works on sources of this kind for another while, and tells how many nodes do. Shards are shared among
    /// those that do the same: one that does not would leave its share to nobody.
    pub fn count_nodes(&mut self, of: Source, node: i64, length: Duration) -> Result<usize, Error> {
        self.among_nodes(of, node, length).map(|(_, nodes)| nodes)
    }

    /// The same, with how many of them come before this one.
    pub fn among_nodes(&mut self, of: Source, node: i64, length: Duration) -> Result<(usize, usize), Error> {
        let role = of.segment_type();
        self.client.execute(
            "INSERT INTO node (role, node_id, seen_until)
             VALUES ($1, $2, hub_clock() + $3::double precision * interval '1 second')
             ON CONFLICT (role, node_id) DO UPDATE SET seen_until = greatest(node.seen_until, excluded.seen_until)",
            &[&role, &node, &length.as_secs_f64()],
        )?;
        let row = self.client.query_one(
            &format!(
                "WITH gone AS (DELETE FROM node
                     WHERE role = $1 AND seen_until < hub_clock() - interval '{NODE_FORGOTTEN}')
                 SELECT count(*) FILTER (WHERE node_id < $2), count(*) FROM node
                 WHERE role = $1 AND seen_until >= hub_clock()"
            ),
            &[&role, &node],
        )?;
        let number = |place| {
            let number = usize::try_from(row.get::<_, i64>(place));
            number.map_err(|_| Error::corrupt("node", "a negative count"))
        };
        Ok((number(0)?, number(1)?))
    }

    /// Says that a node lives for another while, whatever it does. Whoever wants something of all nodes to be otherwise asks
    /// whether one does.
    pub fn lives(&mut self, node: i64, length: Duration) -> Result<(), Error> {
        let sql = format!(
            "WITH gone AS (DELETE FROM node
                 WHERE role = $1 AND seen_until < hub_clock() - interval '{NODE_FORGOTTEN}')
             INSERT INTO node (role, node_id, seen_until)
             VALUES ($1, $2, hub_clock() + $3::double precision * interval '1 second')
             ON CONFLICT (role, node_id) DO UPDATE SET seen_until = excluded.seen_until"
        );
        self.client.execute(&sql, &[&ANY_ROLE, &node, &length.as_secs_f64()])?;
        Ok(())
    }

    /// Says that a node has ended.
    pub fn lives_no_more(&mut self, node: i64) -> Result<(), Error> {
        self.forget(ANY_ROLE, node)
    }

    fn forget(&mut self, role: &str, node: i64) -> Result<(), Error> {
        self.client.execute("DELETE FROM node WHERE role = $1 AND node_id = $2", &[&role, &node])?;
        Ok(())
    }
}
