//! What is over is removed, by the one node that keeps housekeeping: bit by bit, each look bounded by what it removes and not by what
//! there is, and often enough to keep up with all that nodes can do.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use holdfast_domain::ids::Millis;
use holdfast_postgres::tokens::{GoneOutside, Position, Tidied};
use holdfast_postgres::{Claim, Error, Store};

use super::limits::{
    ANEW_EVERY, GONE_OUTSIDE_COUNTED, LOOK_BACK_MS, MEMORY, TIDIED_ROWS, TIDY_EVERY, TIDY_TIME,
};

/// How far the topic had been written at moments of the last minute. A change is kept for that long from then on, and not from
/// when it was written: its transaction may have shown late, and what it held up no node could have missed before.
#[derive(Debug, Default)]
struct Sent {
    noted: VecDeque<(Instant, Position)>,
    /// Up to where changes may be removed.
    over: Position,
}

impl Sent {
    /// Notes how far it is now, as often as is tidied.
    fn note(&mut self, now: Instant, sent: Position, history: Duration) {
        self.noted.push_back((now, sent));
        while let Some((_, sent)) = self.noted.pop_front_if(|(then, _)| now.duration_since(*then) >= history)
        {
            self.over = sent;
        }
    }
}

/// Whoever tidies, and up to where he has.
pub(super) struct Tidier {
    /// For how long changes are kept.
    history: Duration,
    sent: Sent,
    looked: Option<Instant>,
    anew: Option<Instant>,
    /// Leases that ended before were looked at.
    leases_from: Option<Millis>,
    /// Selections that ended before were removed.
    selections_from: Option<Millis>,
}

impl Tidier {
    pub(super) fn new(history: Duration) -> Tidier {
        Tidier {
            history,
            sent: Sent::default(),
            looked: None,
            anew: None,
            leases_from: None,
            selections_from: None,
        }
    }

    /// Another may have written the topic meanwhile, or it is another database: the time for which changes are kept begins anew.
    pub(super) fn forget_sent(&mut self) {
        self.sent = Sent::default();
    }

    /// Another keeps housekeeping: what it counts is shown there alone.
    pub(super) fn hand_over(&mut self) {
        self.forget_sent();
        publish(GoneOutside::default());
    }

    /// Removes what is over, if it is time to.
    pub(super) fn look(
        &mut self,
        store: &mut Store,
        claim: &Claim,
        may_go_on: impl Fn() -> bool,
    ) -> Result<Tidied, Error> {
        if self.looked.is_some_and(|looked| looked.elapsed() < TIDY_EVERY) {
            return Ok(Tidied::default());
        }
        self.looked = Some(Instant::now());
        if self.anew.is_none_or(|anew| anew.elapsed() >= ANEW_EVERY) {
            self.anew = Some(Instant::now());
            (self.leases_from, self.selections_from) = (None, None);
        }
        let (sent, now) = store.tokens_sent()?;
        self.sent.note(Instant::now(), sent, self.history);
        let from = self.leases_from;
        let (ended, all) = bit_by_bit(&may_go_on, || store.end_token_leases(claim, from, TIDIED_ROWS, None))?;
        if all {
            self.leases_from = Some(now.saturating_sub(LOOK_BACK_MS));
        }
        let (history, over) = (self.history, self.sent.over);
        let (changes, _) =
            bit_by_bit(&may_go_on, || store.tidy_changes(claim, over, history, TIDIED_ROWS, None))?;
        let (selections, _) = bit_by_bit(&may_go_on, || {
            let (tidied, to) =
                store.tidy_selections(claim, MEMORY, self.selections_from, TIDIED_ROWS, None)?;
            self.selections_from = to;
            Ok(tidied)
        })?;
        publish(store.tokens_gone_outside(GONE_OUTSIDE_COUNTED)?);
        Ok(ended.and(changes).and(selections))
    }
}

/// Again and again, until there is no more or the time for it is over; with whether all is done. How much a bit is is its own
/// business: it is bounded by rows and bytes.
fn bit_by_bit(
    may_go_on: &impl Fn() -> bool,
    mut remove: impl FnMut() -> Result<Tidied, Error>,
) -> Result<(Tidied, bool), Error> {
    let began = Instant::now();
    let mut sum = Tidied::default();
    loop {
        let tidied = remove()?;
        sum = sum.and(tidied);
        if tidied.is_nothing() {
            return Ok((sum, true));
        }
        if began.elapsed() >= TIDY_TIME || !may_go_on() {
            return Ok((sum, false));
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "gauges are for the eye")]
fn publish(gone: GoneOutside) {
    metrics::gauge!("holdfast_token_gone_outside", "hold" => "open").set(gone.held as f64);
    metrics::gauge!("holdfast_token_gone_outside", "hold" => "paid").set(gone.paid as f64);
}

#[cfg(test)]
mod tests {
    use super::super::limits::HISTORY;
    use super::*;

    /// A transaction that stayed open for long holds up the topic. When it ends, all that waited is old already; no node has
    /// seen that one yet.
    #[test]
    fn changes_are_kept_for_their_time_after_they_were_sent() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let place = |xid| Position { xid, change_no: 1 };
        let mut sent = Sent::default();
        sent.note(at(0), place(5), HISTORY);
        sent.note(at(59), place(5), HISTORY);
        assert_eq!(sent.over, Position::default());
        sent.note(at(60), place(900), HISTORY);
        assert_eq!(sent.over, place(5));
        for second in 61..120 {
            sent.note(at(second), place(900), HISTORY);
        }
        assert_eq!(sent.over, place(5), "what was held up is kept for a minute");
        sent.note(at(120), place(901), HISTORY);
        assert_eq!(sent.over, place(900));
        assert!(sent.noted.len() <= 61);
    }
}
