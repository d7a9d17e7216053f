//! One transfer after the other, drawn from a seed: the same seed and numbers give the same transfers.

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferNo};
use holdfast_domain::money::OptionalBalance;
use holdfast_domain::transfers::{Code, Completion, CompletionKind, Proof, Transfer, TransferState};

use super::shape::{ANSWERED_AFTER, Chance, HOUR, LIFE, OPEN_PERCENT, PAYEE_REFUSES, prepare};
use super::{DataSet, PREIMAGE};

/// Of a hundred holds, this many have not come to the position step.
const NOT_RESERVED_PERCENT: u64 = 20;
/// Of a hundred finished ones, how they ended; about 3.5 state changes a transfer come of it.
const ENDS: [(u64, TransferState); 5] = [
    (78, TransferState::Committed),
    (6, TransferState::AbortedError),
    (4, TransferState::ExpiredReserved),
    (9, TransferState::AbortedRejected),
    (3, TransferState::ExpiredPrepared),
];
/// A participant with its position account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Party {
    pub(super) participant: ParticipantId,
    pub(super) account: AccountId,
}

/// Draws transfers: exactly as many due ones as asked for, wherever chance puts them.
pub(super) struct Draw<'a> {
    data: &'a DataSet,
    /// Per currency, in the order of the data set's.
    parties: &'a [Vec<Party>],
    left: u64,
    due_left: u64,
    chance: Chance,
}

impl<'a> Draw<'a> {
    pub(super) fn new(data: &'a DataSet, parties: &'a [Vec<Party>]) -> Draw<'a> {
        Draw { data, parties, left: data.total, due_left: data.expired, chance: Chance::new(data.seed) }
    }

    pub(super) const fn left(&self) -> u64 {
        self.left
    }

    /// The next transfer, without the values of its accounts: those follow from what happened to them before.
    pub(super) fn next(&mut self, no: TransferNo, now: Millis) -> Transfer {
        self.chance = Chance::at(self.data.seed, no.0);
        let due = self.chance.below(self.left) < self.due_left;
        self.left -= 1;
        self.due_left -= u64::from(due);
        let state = self.state(due);
        let open = matches!(state, TransferState::ReceivedPrepare | TransferState::Reserved);
        let (from, to) = self.data.hours;
        let away = self.chance.between(Millis::from(from) * HOUR, Millis::from(to) * HOUR).max(1);
        let (prepared_at, expiration) = match (open, due) {
            (true, false) => (now, now + away),
            _ => (now - away - LIFE, now - away),
        };
        let changed_at = match state {
            TransferState::ExpiredReserved | TransferState::ExpiredPrepared => expiration + 1,
            _ if open => prepared_at,
            _ => prepared_at + ANSWERED_AFTER,
        };
        let of = self.chance.index(self.data.currencies.len());
        let (currency, payer, payee) = self.parties_of(of);
        let amount = self.chance.amount(self.data);
        let between = (payer.participant, payee.participant);
        let prepare = prepare(self.data, no.0, between, (currency, amount), expiration);
        let completed = |kind, digest| Proof::Completed(Completion { kind, digest });
        Transfer {
            no,
            id: prepare.id,
            payer: payer.participant,
            payee: payee.participant,
            payer_account: Some(payer.account),
            payee_account: Some(payee.account),
            currency,
            amount,
            expiration,
            proof: match state {
                TransferState::Committed => completed(CompletionKind::Commit, PREIMAGE),
                TransferState::AbortedError => completed(CompletionKind::Abort, [0; 32]),
                _ => Proof::Condition(prepare.condition),
            },
            hash: prepare.hash,
            state,
            code: match state {
                TransferState::AbortedError => Code::of_payee(PAYEE_REFUSES),
                TransferState::AbortedRejected => Some(ErrorCode::PayerInsufficientLiquidity.into()),
                TransferState::ExpiredReserved | TransferState::ExpiredPrepared => {
                    Some(ErrorCode::TransferExpired.into())
                }
                _ => None,
            },
            reason: None,
            offset: no.0,
            prepared_at,
            changed_at,
            reserved_value: OptionalBalance::NONE,
            final_value: OptionalBalance::NONE,
        }
    }

    fn state(&mut self, due: bool) -> TransferState {
        let open = due || self.chance.below(100) < OPEN_PERCENT;
        if open {
            let reserved = self.chance.below(100) >= NOT_RESERVED_PERCENT;
            return if reserved { TransferState::Reserved } else { TransferState::ReceivedPrepare };
        }
        self.chance.one_of(&ENDS)
    }

    fn parties_of(&mut self, currency: usize) -> (Currency, Party, Party) {
        let all = &self.parties[currency];
        let count = all.len() as u64;
        let payer = self.chance.below(count);
        let payee = (payer + 1 + self.chance.below(count - 1)) % count;
        let party = |at: u64| all[usize::try_from(at).expect("an index")];
        (self.data.currencies[currency], party(payer), party(payee))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parties() -> Vec<Vec<Party>> {
        let party = |number| Party { participant: ParticipantId(number), account: AccountId(2 * number) };
        vec![(1..=4).map(party).collect(), (5..=8).map(party).collect()]
    }

    proptest! {
        #[test]
        fn exactly_the_wanted_ones_are_due(total in 1_u64..400, share in 0_u64..=100, seed: u64) {
            let expired = total * share / 100;
            let currencies = vec!["USD".parse().unwrap(), "EUR".parse().unwrap()];
            let data = DataSet { total, expired, currencies, seed, hours: (1, 5), ..DataSet::default() };
            let parties = parties();
            let mut draw = Draw::new(&data, &parties);
            let now = 1_800_000_000_000;
            let all: Vec<Transfer> = (0..total).map(|no| draw.next(TransferNo(no), now)).collect();
            let open = |row: &&Transfer| matches!(row.state, TransferState::ReceivedPrepare | TransferState::Reserved);
            let due = all.iter().filter(open).filter(|row| row.expiration < now).count() as u64;
            prop_assert_eq!((draw.left(), due), (0, expired));
            for row in &all {
                prop_assert!(row.payer != row.payee && row.amount.0 >= 10_000 && row.amount.0 <= 1_000_000);
                prop_assert!((now - row.expiration).abs() >= HOUR && (now - row.expiration).abs() <= 5 * HOUR);
                prop_assert!(row.prepared_at <= row.changed_at && row.prepared_at < row.expiration);
                prop_assert_eq!(u32::from(row.currency.to_string() == "EUR"), (row.payer.0 - 1) / 4);
            }
        }
    }

    #[test]
    fn the_mix_is_that_of_the_document() {
        let data = DataSet { total: 20_000, expired: 20, ..DataSet::default() };
        let parties: Vec<Vec<Party>> = vec![parties().remove(0); data.currencies.len()];
        let mut draw = Draw::new(&data, &parties);
        let changes: usize = (0..20_000).map(|no| draw.next(TransferNo(no), 0).history().len()).sum();
        assert!((68_000..72_000).contains(&changes), "about 3.5 a transfer: {changes}");
    }
}
