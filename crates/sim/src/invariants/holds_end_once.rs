//! Invariant 3. A transfer's history is legal and has one end; a hold gives its position back exactly once, on the
//! side where it belongs; only the payee ends it early; none is committed after its expiration or expired before it.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::command::Command;
use holdfast_domain::effects::{PositionChange, StateChange};
use holdfast_domain::ids::{Millis, TransferNo};
use holdfast_domain::transfers::{Transfer, TransferState};
use holdfast_store::{MemoryStore, Tables};

use super::expect;
use super::legal_moves::{is_end, may_begin, may_move};
use crate::witness::Decided;

/// A transfer's story by the rows of the log.
#[derive(Debug)]
struct Story {
    row: Transfer,
    history: Vec<TransferState>,
    reserved: bool,
    given_back: bool,
}

/// All stories, and which of them changed since somebody compared them with the store.
#[derive(Debug, Default)]
pub struct HoldsEndOnce {
    stories: BTreeMap<TransferNo, Story>,
    touched: BTreeSet<TransferNo>,
    /// Those that a checkout made, and which only the shop can fulfil.
    charged: BTreeSet<TransferNo>,
}

impl HoldsEndOnce {
    /// Goes on telling the stories.
    pub fn see(&mut self, frame: &Decided<'_>) -> Result<(), String> {
        let time = frame.header.time_ms;
        self.touched.clear();
        for row in frame.effects.all(|step| &step.transfers) {
            let story = Story { row: row.clone(), history: Vec::new(), reserved: false, given_back: false };
            if self.stories.insert(row.no, story).is_some() {
                return Err(format!("{} was seen for the first time twice", row.id));
            }
        }
        let by_shop = self.moved_by_shop(frame);
        for change in frame.effects.all(|step| &step.state_changes) {
            self.touched.insert(change.transfer);
            let is_charged = self.charged.contains(&change.transfer);
            let story = self.story(change.transfer)?;
            story.moves(change, time)?;
            if is_charged && by_shop.contains(&change.transfer) {
                continue;
            }
            story.payee_wants(change.state, frame.commands)?;
        }
        for change in frame.effects.all(|step| &step.position_changes) {
            self.touched.insert(change.transfer);
            self.story(change.transfer)?.holds(change)?;
        }
        for no in self.touched.clone() {
            self.story(no)?.rests()?;
        }
        self.nothing_is_left_over(frame)
    }

    /// Transfers that checkouts moved, or their deadlines. What a checkout begins is noted as its own.
    fn moved_by_shop(&mut self, frame: &Decided<'_>) -> BTreeSet<TransferNo> {
        let mut moved = BTreeSet::new();
        for (_, commands, step) in frame.steps() {
            if matches!(commands, [Command::Shop(_)]) {
                self.charged.extend(step.transfers.iter().map(|row| row.no));
            }
            if matches!(commands, [Command::Shop(_) | Command::Expire(_)]) {
                moved.extend(step.state_changes.iter().map(|change| change.transfer));
            }
        }
        moved
    }

    fn story(&mut self, no: TransferNo) -> Result<&mut Story, String> {
        self.stories.get_mut(&no).ok_or_else(|| format!("nobody has seen transfer {}", no.0))
    }

    /// A frame ends all holds that are due, unless it is told to end fewer.
    fn nothing_is_left_over(&self, frame: &Decided<'_>) -> Result<(), String> {
        let allowance = frame.commands.iter().find_map(|command| match command {
            Command::Expire(expire) => Some(u64::from(expire.holds_max)),
            _ => None,
        });
        let ended =
            frame.effects.all(|step| &step.outcomes).next().map_or(0, |outcome| outcome.subject.ended());
        if allowance.is_some_and(|allowance| ended == allowance) {
            return Ok(());
        }
        self.none_open_before(frame.header.time_ms)
    }

    /// No hold that ran out before `time` is open.
    pub fn none_open_before(&self, time: Millis) -> Result<(), String> {
        let open = |story: &&Story| story.state().is_none_or(|state| !is_end(state));
        match self.stories.values().filter(open).find(|story| story.row.expiration < time) {
            Some(story) => Err(format!(
                "{} ran out at {} and is open at {time}: {:?}",
                story.row.id, story.row.expiration, story.history
            )),
            None => Ok(()),
        }
    }

    /// Compares the rows of the store with the stories that changed last.
    pub fn inspect(&self, store: &MemoryStore) -> Result<(), String> {
        for no in &self.touched {
            let story = &self.stories[no];
            let row =
                store.transfers_from(*no).next().ok_or_else(|| format!("{} has no row", story.row.id))?;
            let history: Vec<TransferState> = row.history().into_iter().map(|(state, _)| state).collect();
            if history != story.history {
                return Err(format!("{} shows {history:?}, the log {:?}", row.id, story.history));
            }
            let changes = usize::from(story.reserved) + usize::from(story.given_back);
            if row.position_changes().len() != changes {
                return Err(format!("{} shows other position changes than the log", row.id));
            }
        }
        let open = self.stories.values().filter(|story| story.state().is_none_or(|state| !is_end(state)));
        let (open, indexed) = (open.count(), store.open_holds());
        expect(open == indexed, || format!("{open} holds are open, and the expiry index has {indexed}"))
    }
}

impl Story {
    fn state(&self) -> Option<TransferState> {
        self.history.last().copied()
    }

    fn moves(&mut self, change: &StateChange, time: Millis) -> Result<(), String> {
        let legal = match self.state() {
            None => may_begin(change.state),
            Some(from) => may_move(from, change.state),
        };
        if !legal {
            return Err(format!("{} cannot move from {:?} to {}", self.row.id, self.history, change.state));
        }
        let expiration = self.row.expiration;
        let in_time = match change.state {
            TransferState::Reserved | TransferState::ReceivedFulfil => time < expiration,
            TransferState::ReservedTimeout | TransferState::ExpiredPrepared => time > expiration,
            _ => true,
        };
        if !in_time {
            return Err(format!(
                "{} became {} at {time} and runs out at {expiration}",
                self.row.id, change.state
            ));
        }
        self.history.push(change.state);
        Ok(())
    }

    /// A fulfil shows the preimage, an abort or a wrong preimage gives up, and only the payee may do either.
    fn payee_wants(&self, state: TransferState, commands: &[Command]) -> Result<(), String> {
        let row = &self.row;
        let caused = |command: &Command| match command {
            Command::Fulfil(fulfil) if (fulfil.id, fulfil.source) == (row.id, row.payee) => {
                (state == TransferState::ReceivedFulfil) == (row.condition() == Some(&fulfil.digest))
            }
            Command::Abort(abort) if (abort.id, abort.source) == (row.id, row.payee) => {
                state == TransferState::ReceivedError
            }
            _ => false,
        };
        let asks = matches!(state, TransferState::ReceivedFulfil | TransferState::ReceivedError);
        if asks && !commands.iter().any(caused) {
            return Err(format!("{} became {state}, and its payee sent nothing that does so", row.id));
        }
        Ok(())
    }

    fn holds(&mut self, change: &PositionChange) -> Result<(), String> {
        let reserves = change.change.0 > 0;
        let side = if !reserves && self.state() == Some(TransferState::Committed) {
            self.row.payee_account
        } else {
            self.row.payer_account
        };
        let again = if reserves { self.reserved } else { self.given_back || !self.reserved };
        if again || Some(change.account) != side || change.change.0.abs() != self.row.amount.0 {
            return Err(format!("{}: {change:?} does not fit {self:?}", self.row.id));
        }
        if reserves {
            self.reserved = true;
        } else {
            self.given_back = true;
        }
        Ok(())
    }

    /// Between two frames a transfer is RESERVED or at its end, and its position agrees with that.
    fn rests(&self) -> Result<(), String> {
        let state = self.state().ok_or_else(|| format!("{} has no history", self.row.id))?;
        let was_reserved = self.history.contains(&TransferState::Reserved);
        let ended = is_end(state);
        if state != TransferState::Reserved && !ended {
            return Err(format!("{} is left half-way in {state}", self.row.id));
        }
        // What tokens pay for moves no position.
        let on_position = was_reserved && self.row.payer_account.is_some();
        if self.reserved != on_position || self.given_back != (on_position && ended) {
            return Err(format!(
                "{} went {:?}; its position was reserved: {}, given back: {}",
                self.row.id, self.history, self.reserved, self.given_back
            ));
        }
        Ok(())
    }
}
