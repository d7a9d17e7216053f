//! The bytes of a frame's effects that enter the audit chain.
//!
//! Two programs that decide the same frame differently write different bytes here, so a replay under other
//! rules is noticed at the first frame where it matters. The commands themselves are in the frame and are not
//! repeated.

use crate::codec::{Chained, Put};
use crate::effects::{DeadLetterReason, Effects, Outcome, PositionChange, StateChange, Step};
use crate::ids::AccountId;
use crate::money::Amount;
use crate::participants::AccountKind;

/// Which rules these are. Raised with the first release that would decide a frame of an earlier one differently; nothing has been
/// released so far.
pub const RULES_VERSION: u32 = 1;

/// How many lists are counted before the rows; the last count is that of the steps.
const COUNTS: usize = 13;

impl Effects {
    /// Appends the canonical bytes of these effects to `out`: how long each list of a step is over all steps, then the rows, list
    /// by list. Whatever enters the chain is named here.
    pub fn write_digest(&self, out: &mut Vec<u8>) {
        let counts = out.len();
        out.resize(counts + COUNTS * size_of::<u64>(), 0);
        let mut lists = Lists { steps: &self.steps, counts, out };
        lists.write(
            |step| &step.participants,
            |row, out| {
                put(out, (row.id, row.name, row.active, &row.accounts));
            },
        );
        lists.write(
            |step| &step.accounts,
            |row, out| {
                let is_settlement = row.kind == AccountKind::Settlement;
                put(out, (row.id, row.participant, is_settlement, row.active, row.value, row.reserved));
                put(out, (row.net_debit_cap.unwrap_or(Amount(-1)), row.alarm_percentage));
            },
        );
        lists.write(|step| &step.funds, |row, out| put(out, (row.id, row.state)));
        lists.write(|step| &step.endpoints, |row, out| put(out, row.participant()));
        lists.write(
            |step| &step.transfers,
            |row, out| {
                let number = |account: Option<AccountId>| account.unwrap_or(AccountId(0));
                put(out, (row.no, number(row.payer_account), number(row.payee_account)));
            },
        );
        lists.write(|step| &step.state_changes, |row, out| out.extend_from_slice(&state_change(row)));
        lists.write(
            |step| &step.completions,
            |row, out| {
                put(out, (row.transfer, [row.completion.kind as u8]));
            },
        );
        lists.write(|step| &step.position_changes, |row, out| out.extend_from_slice(&position_change(row)));
        lists.write(
            |step| &step.notifications,
            |row, out| {
                let code = row.code().map_or(0, |code| code.number());
                put(out, (row.transfer, [row.to as u8, row.kind as u8], code));
            },
        );
        lists.write(|step| &step.alarms, |row, out| put(out, (row.account, row.value, row.net_debit_cap)));
        lists.write(
            |step| &step.dead_letters,
            |row, out| {
                // A tag of the reason, and what that names.
                let (tag, named) = match row.reason {
                    DeadLetterReason::UnknownAccount(account) => (1, account.0),
                    DeadLetterReason::WrongState(state) => (2, u32::from(state.number())),
                };
                put(out, (row.transfer, [row.action as u8, tag], named));
            },
        );
        lists.write(|step| &step.outcomes, |row, out| out.extend_from_slice(&outcome(row)));
        lists.count(self.steps.len());
        self.write_token_digest(out);
        self.write_shop_digest(out);
    }
}

/// Writes the lists of the steps one after the other, and each one's count to its place.
struct Lists<'a> {
    steps: &'a [Step],
    /// Where the next count belongs.
    counts: usize,
    out: &'a mut Vec<u8>,
}

impl Lists<'_> {
    fn write<R: 'static>(&mut self, list: fn(&Step) -> &[R], write: impl Fn(&R, &mut Vec<u8>)) {
        self.count(self.steps.iter().map(|step| list(step).len()).sum());
        self.steps.iter().flat_map(list).for_each(|row| write(row, self.out));
    }

    fn count(&mut self, count: usize) {
        let end = self.counts + size_of::<u64>();
        self.out[self.counts..end].copy_from_slice(&(count as u64).to_le_bytes());
        self.counts = end;
    }
}

fn put(out: &mut Vec<u8>, fields: impl Put) {
    fields.put::<Chained<4>>(out);
}

// Of these there are several for each transfer, so each is written at once.

fn state_change(row: &StateChange) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&row.transfer.0.to_le_bytes());
    bytes[8] = row.state.number();
    bytes[9..11].copy_from_slice(&row.code.map_or(0, |code| code.number()).to_le_bytes());
    bytes[11] = row.reason.map_or(0, |reason| reason as u8);
    bytes
}

fn position_change(row: &PositionChange) -> [u8; 36] {
    let mut bytes = [0; 36];
    bytes[..4].copy_from_slice(&row.account.0.to_le_bytes());
    bytes[4..12].copy_from_slice(&row.transfer.0.to_le_bytes());
    bytes[12..20].copy_from_slice(&row.change.0.to_le_bytes());
    bytes[20..].copy_from_slice(&row.value.0.to_le_bytes());
    bytes
}

fn outcome(row: &Outcome) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[0] = row.state.map_or(0, |state| state.number());
    bytes[1..3].copy_from_slice(&row.code.map_or(0, |code| code.number()).to_le_bytes());
    bytes[3] = row.reason.map_or(0, |reason| reason as u8);
    bytes[4..12].copy_from_slice(&row.subject.number().to_le_bytes());
    bytes[12..].copy_from_slice(&row.value.0.to_le_bytes());
    bytes
}
