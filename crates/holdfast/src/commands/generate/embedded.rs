//! A data set for the embedded profile: a log whose frames lie in the past, decided by the hub's own rules.
//!
//! The order of time is the order of the log, and an expiry record ends what is oldest. So those that were ended by expiry
//! come first, just before the hours asked for; then, over those hours, what was answered and, among it, what has run out
//! since and waits; at last, now, what is still open.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use holdfast_domain::command::{Abort, Admin, Command, Expire, Fulfil, FulfilAction, Prepare};
use holdfast_domain::effects::Subject;
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::{AMOUNT_LIMIT, Amount};
use holdfast_domain::participants::Name;
use holdfast_domain::transfers::TransferState;
use holdfast_hub::limits::EXPIRY_HOLDS_MAX;
use holdfast_hub::{Offline, OpenError};
use holdfast_log::{LogId, RealFs};
use holdfast_postgres::generate::PREIMAGE;
use holdfast_postgres::generate::shape::{
    ANSWERED_AFTER, Chance, HOUR, LIFE, OPEN_PERCENT, PARTIES, PAYEE_REFUSES, prepare,
};
use holdfast_postgres::{DataSet, Generated};

use super::super::{BadInput, bad_input};

/// Of a hundred finished ones, this many ran out.
const EXPIRED_PERCENT: u64 = 7;
/// The others that are finished, as parts of each other.
const ENDS: [(u64, End); 3] = [(78, End::Committed), (9, End::Rejected), (6, End::Aborted)];
/// The last participant of each currency has no funds: what it wants to pay is refused.
const WITH_FUNDS: u32 = PARTIES - 1;
/// The most transfers of one frame.
const FRAME_TRANSFERS_MAX: u64 = EXPIRY_HOLDS_MAX as u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Committed,
    Rejected,
    Aborted,
    /// Not ended: it only ran out, or will.
    Held,
}

/// Makes the data set in an empty directory. `progress` is told how many transfers are there and durable.
pub(super) fn generate(
    data: &DataSet,
    directory: &Path,
    now: Millis,
    mut progress: impl FnMut(u64),
) -> anyhow::Result<Generated> {
    check_funds(data)?;
    let hub = Offline::create(Arc::new(RealFs), directory, LogId(rand::random())).map_err(told)?;
    let mut maker = Maker { data, hub, chance: Chance::new(data.seed), next: 0, made: Generated::default() };
    let (from, to) = (Millis::from(data.hours.0) * HOUR, Millis::from(data.hours.1) * HOUR);
    let begin = now - to - LIFE;
    let open = (data.total - data.expired) * OPEN_PERCENT / 100;
    let ran_out = (data.total - data.expired - open) * EXPIRED_PERCENT / 100;

    let before = begin - LIFE - 1;
    maker.participants(before)?;
    for count in chunks(ran_out, data.progress_every) {
        maker.hold(count, before, |_| before + LIFE)?;
        progress(maker.made.transfers);
    }
    for count in chunks(ran_out, data.progress_every) {
        maker.expire(count, before + LIFE + 1)?;
    }

    let rest: Vec<u64> = chunks(data.total - open - ran_out, data.progress_every).collect();
    let (slots, mut due, end) = (rest.len().max(1), data.expired, now - from - LIFE);
    let mut left = data.total - open - ran_out;
    let border = |slot: usize| {
        // Widths of centuries times a billion slots fit 128 bits.
        let passed = i128::from(end - begin) * slot as i128 / slots as i128;
        begin + Millis::try_from(passed).expect("at most the whole window")
    };
    for (slot, count) in rest.into_iter().enumerate() {
        maker.answered(count, (&mut left, &mut due), (border(slot), border(slot + 1)), now)?;
        progress(maker.made.transfers);
    }

    for count in chunks(open, data.progress_every) {
        maker.hold(count, now, |chance| now + chance.between(from, to).max(1))?;
        maker.made.open += count;
        progress(maker.made.transfers);
    }
    let made = maker.made;
    maker.hub.finish().map_err(told)?;
    Ok(made)
}

/// How many transfers each frame has.
fn chunks(total: u64, progress_every: u64) -> impl Iterator<Item = u64> {
    let most = progress_every.min(FRAME_TRANSFERS_MAX);
    (0..total.div_ceil(most)).map(move |chunk| most.min(total - chunk * most))
}

/// Everything may lie with one payer at once, and no cap is larger than the largest amount.
fn check_funds(data: &DataSet) -> anyhow::Result<()> {
    let most = Amount::whole(data.amount.1).and_then(|most| most.0.checked_mul(data.total.try_into().ok()?));
    if most.is_none_or(|most| most >= AMOUNT_LIMIT.0) {
        return Err(bad_input("the total times the largest amount must stay below 100,000,000,000,000"));
    }
    Ok(())
}

/// A directory that is not empty is the caller's fault.
fn told(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::NotEmpty { .. } => BadInput::from(anyhow::Error::from(error)).into(),
        other => anyhow::Error::from(other).context("cannot write the data directory"),
    }
}

struct Maker<'a> {
    data: &'a DataSet,
    hub: Offline,
    chance: Chance,
    /// The number of the next transfer.
    next: u64,
    made: Generated,
}

impl Maker<'_> {
    /// Participants of all currencies, with limits that nobody meets and, but for the last of each, funds.
    fn participants(&mut self, time: Millis) -> anyhow::Result<()> {
        let most = Amount(AMOUNT_LIMIT.0 - 1);
        for (at, currency) in self.data.currencies.iter().enumerate() {
            for party in 0..PARTIES {
                let name = format!("generated{}{}", currency.to_string().to_lowercase(), party + 1);
                let name = Name::new(&name).expect("a short name");
                let create = Command::Admin(Admin::CreateParticipant { name, currency: *currency });
                let made = self.hub.frame(time, &[create]).map_err(told)?;
                let made = made.outcome(0);
                let participant = participant(at, party);
                let position = match (made.code, made.subject) {
                    (None, Subject::Member(id, position)) if id == participant => position,
                    _ => bail!("participant {name} was not made as expected: {made:?}"),
                };
                let settlement = AccountId(position.0 + 1);
                let limits = Command::Admin(Admin::InitialPositionAndLimits {
                    participant,
                    currency: *currency,
                    net_debit_cap: most,
                    initial_position: Amount::ZERO,
                });
                let funds = Command::Admin(Admin::FundsIn {
                    id: TransferId(u128::from(participant.0)),
                    account: settlement,
                    currency: *currency,
                    amount: most,
                });
                let has_funds = party < WITH_FUNDS;
                let commands = [limits, funds];
                let done = self.hub.frame(time, &commands[..1 + usize::from(has_funds)]).map_err(told)?;
                if let Some(refused) = done.all(|step| &step.outcomes).find(|outcome| outcome.code.is_some())
                {
                    bail!("participant {name} was not given limits and funds: {refused:?}");
                }
            }
        }
        Ok(())
    }

    /// A frame of prepares that are all held.
    fn hold(
        &mut self,
        count: u64,
        time: Millis,
        mut expiration: impl FnMut(&mut Chance) -> Millis,
    ) -> anyhow::Result<()> {
        let mut prepares = Vec::new();
        for _ in 0..count {
            let expiration = expiration(&mut self.chance);
            prepares.push(Command::Prepare(self.draw(End::Held, expiration)));
        }
        self.made.transfers += count;
        self.frame(time, &prepares, |_| TransferState::Reserved)
    }

    /// A frame that ends the oldest holds.
    fn expire(&mut self, count: u64, time: Millis) -> anyhow::Result<()> {
        let holds_max = u32::try_from(count).context("a frame is bounded")?;
        let effects = self.hub.frame(time, &[Command::Expire(Expire { holds_max })]).map_err(told)?;
        let ended = effects.all(|step| &step.outcomes).next().map_or(0, |outcome| outcome.subject.ended());
        if ended != count {
            bail!("{ended} holds ended where {count} should have");
        }
        self.count(&effects);
        Ok(())
    }

    /// Two frames: prepares, and what the payees say to them; those that are due hear nothing.
    fn answered(
        &mut self,
        count: u64,
        (left, due): (&mut u64, &mut u64),
        (from, to): (Millis, Millis),
        now: Millis,
    ) -> anyhow::Result<()> {
        let (mut prepares, mut ends, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let is_due = self.chance.below(*left) < *due;
            *left -= 1;
            *due -= u64::from(is_due);
            let end = if is_due { End::Held } else { self.chance.one_of(&ENDS) };
            let expiration = (self.chance.between(from, to) + LIFE).min(now - 1);
            let prepare = self.draw(end, expiration);
            let (payee, id) = (prepare.payee, prepare.id);
            match end {
                End::Committed => {
                    answers.push(Command::Fulfil(Fulfil::new(payee, id, FulfilAction::Commit, PREIMAGE)))
                }
                End::Aborted => {
                    answers.push(Command::Abort(Abort::new(payee, id, PAYEE_REFUSES, Vec::new())));
                }
                End::Rejected | End::Held => {}
            }
            self.made.open += u64::from(is_due);
            self.made.expired += u64::from(is_due);
            ends.push(end);
            prepares.push(Command::Prepare(prepare));
        }
        self.made.transfers += count;
        self.frame(from, &prepares, |at| match ends[at] {
            End::Rejected => TransferState::AbortedRejected,
            _ => TransferState::Reserved,
        })?;
        if answers.is_empty() {
            return Ok(());
        }
        let time = self.hub.last_time() + ANSWERED_AFTER;
        self.frame(time, &answers, |at| match answers[at] {
            Command::Abort(_) => TransferState::AbortedError,
            _ => TransferState::Committed,
        })
    }

    /// Decides and writes a frame, and holds every outcome against what it should be.
    fn frame(
        &mut self,
        time: Millis,
        commands: &[Command],
        expected: impl Fn(usize) -> TransferState,
    ) -> anyhow::Result<()> {
        let effects = self.hub.frame(time, commands).map_err(told)?;
        for (at, outcome) in effects.all(|step| &step.outcomes).enumerate() {
            if outcome.state != Some(expected(at)) {
                bail!("a transfer became {outcome:?} and not {}", expected(at));
            }
        }
        self.count(&effects);
        Ok(())
    }

    fn count(&mut self, effects: &holdfast_domain::effects::Effects) {
        self.made.state_changes += effects.all(|step| &step.state_changes).count() as u64;
        self.made.position_changes += effects.all(|step| &step.position_changes).count() as u64;
    }

    fn draw(&mut self, end: End, expiration: Millis) -> Prepare {
        let of = self.chance.index(self.data.currencies.len());
        let currency: Currency = self.data.currencies[of];
        let with_funds = u64::from(WITH_FUNDS);
        let payer = if end == End::Rejected { with_funds } else { self.chance.below(with_funds) };
        // Never itself, and never the one without funds: being paid would give it room.
        let payee = match payer == with_funds {
            true => self.chance.below(with_funds),
            false => (payer + 1 + self.chance.below(with_funds - 1)) % with_funds,
        };
        let amount = self.chance.amount(self.data);
        let party = |number| participant(of, u32::try_from(number).expect("few"));
        let number = self.next;
        self.next += 1;
        prepare(self.data, number, (party(payer), party(payee)), (currency, amount), expiration)
    }
}

/// The number that a participant of an empty hub gets; its first is 1.
fn participant(currency: usize, party: u32) -> ParticipantId {
    let before = u32::try_from(currency).expect("at most a hundred currencies") * PARTIES;
    ParticipantId(before + party + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_add_up() {
        assert_eq!(chunks(10, 4).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!(chunks(0, 4).count(), 0);
        assert_eq!(chunks(10_000, 1_000_000).sum::<u64>(), 10_000);
        assert_eq!(chunks(10_000, 1_000_000).next(), Some(FRAME_TRANSFERS_MAX));
    }

    #[test]
    fn more_than_a_cap_can_hold_is_refused() {
        let data = DataSet { total: 1_000_000, amount: (1, 100_000_000), ..DataSet::default() };
        assert!(check_funds(&data).is_err());
        assert!(check_funds(&DataSet::default()).is_ok());
    }
}
