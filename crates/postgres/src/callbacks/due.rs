//! What is to be delivered now.

use holdfast_domain::callbacks::{CallbackMessage, NO_TRANSFER};
use holdfast_domain::ids::{Millis, ParticipantId, TransferId};
use postgres::Row;

use super::message::Columns;
use crate::guard::{signed, unsigned};
use crate::load::number;
use crate::session::Store;
use crate::types::{Moment, Uuid};
use crate::{Claim, Error};

/// A callback that is to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueCallback {
    /// Its number.
    pub id: u64,
    /// Who is called.
    pub to: ParticipantId,
    /// About which transfer; [`NO_TRANSFER`] if about none.
    pub transfer: TransferId,
    /// With what.
    pub message: CallbackMessage,
    /// It answers a prepare, whose headers tell how.
    pub answers_prepare: bool,
    /// When it was decided.
    pub decided_at: Millis,
    /// Attempts made so far.
    pub attempts: u32,
}

impl Store {
    /// Callbacks of these shards that may go out now, oldest first: at most one of each transfer and participant, at most
    /// `each` of one participant, `max` in all. None of the participants `full`, and none that is in hand already. A
    /// claim that is no longer the latest gives none.
    ///
    /// # Errors
    /// If the database fails, or a row makes no sense.
    pub fn due_callbacks(
        &mut self,
        claims: &[Claim],
        in_hand: &[u64],
        full: &[ParticipantId],
        each: usize,
        max: usize,
    ) -> Result<Vec<DueCallback>, Error> {
        if claims.is_empty() || max == 0 {
            return Ok(Vec::new());
        }
        let (segments, epochs): (Vec<i32>, Vec<i64>) =
            claims.iter().map(|claim| (claim.segment_id, claim.epoch)).unzip();
        let in_hand: Vec<i64> = in_hand.iter().map(|id| signed(*id)).collect();
        let full: Vec<i32> = full.iter().filter_map(|id| i32::try_from(id.0).ok()).collect();
        let bound = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let rows = self.client.query(
            &self.statements.callbacks.due,
            &[&segments, &epochs, &in_hand, &bound(each), &full, &bound(max)],
        )?;
        rows.iter().map(due_of).collect()
    }
}

fn due_of(row: &Row) -> Result<DueCallback, Error> {
    let transfer: Option<Uuid> = row.get(2);
    let decided: Moment = row.get(11);
    Ok(DueCallback {
        id: unsigned("callback", row.get(0))?,
        to: ParticipantId(number("callback", row.get(1))?),
        transfer: transfer.map_or(NO_TRANSFER, |id| TransferId(id.0)),
        message: Columns::read(row, 3)?,
        answers_prepare: row.get(10),
        decided_at: decided.0,
        attempts: number("callback", row.get(12))?,
    })
}
