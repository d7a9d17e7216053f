//! The bytes of a frame's effects that enter the audit chain.
//!
//! Two programs that decide the same frame differently write different bytes here, so a replay under other
//! rules is noticed at the first frame where it matters. The commands themselves are in the frame and are not
//! repeated.

use crate::command::SetEndpoint;
use crate::effects::{
    CompletionRow, DeadLetter, DeadLetterReason, Effects, LimitAlarm, Notification, Outcome, PositionChange,
    StateChange, Step,
};
use crate::participants::{Account, FundsMovement, Participant};
use crate::transfers::Transfer;

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
        lists.write(|step| &step.participants);
        lists.write(|step| &step.accounts);
        lists.write(|step| &step.funds);
        lists.write(|step| &step.endpoints);
        lists.write(|step| &step.transfers);
        lists.write(|step| &step.state_changes);
        lists.write(|step| &step.completions);
        lists.write(|step| &step.position_changes);
        lists.write(|step| &step.notifications);
        lists.write(|step| &step.alarms);
        lists.write(|step| &step.dead_letters);
        lists.write(|step| &step.outcomes);
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
    fn write<R: Row>(&mut self, list: fn(&Step) -> &[R]) {
        self.count(self.steps.iter().map(|step| list(step).len()).sum());
        self.steps.iter().flat_map(list).for_each(|row| row.write(self.out));
    }

    fn count(&mut self, count: usize) {
        let end = self.counts + size_of::<u64>();
        self.out[self.counts..end].copy_from_slice(&(count as u64).to_le_bytes());
        self.counts = end;
    }
}

/// A row with bytes that enter the chain.
trait Row {
    fn write(&self, out: &mut Vec<u8>);
}

impl Row for Participant {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.extend_from_slice(&self.name.padded());
        out.push(u8::from(self.active));
        out.extend_from_slice(&(self.accounts.len() as u64).to_le_bytes());
        for (currency, account) in &self.accounts {
            out.extend_from_slice(&currency.letters());
            out.extend_from_slice(&account.0.to_le_bytes());
        }
    }
}

impl Row for Account {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.extend_from_slice(&self.participant.0.to_le_bytes());
        out.extend_from_slice(&[self.kind as u8, u8::from(self.active)]);
        out.extend_from_slice(&self.value.0.to_le_bytes());
        out.extend_from_slice(&self.reserved.0.to_le_bytes());
        out.extend_from_slice(&self.net_debit_cap.map_or(-1, |cap| cap.0).to_le_bytes());
        out.extend_from_slice(&self.alarm_percentage.to_le_bytes());
    }
}

impl Row for FundsMovement {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.push(self.state as u8);
    }
}

impl Row for SetEndpoint {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.participant().0.to_le_bytes());
    }
}

impl Row for Transfer {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.no.0.to_le_bytes());
        out.extend_from_slice(&self.payer_account.map_or(0, |account| account.0).to_le_bytes());
        out.extend_from_slice(&self.payee_account.map_or(0, |account| account.0).to_le_bytes());
    }
}

impl Row for CompletionRow {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.transfer.0.to_le_bytes());
        out.push(self.completion.kind as u8);
    }
}

impl Row for Notification {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.transfer.0.to_le_bytes());
        out.extend_from_slice(&[self.to as u8, self.kind as u8]);
        out.extend_from_slice(&self.code().map_or(0, |code| code.number()).to_le_bytes());
    }
}

impl Row for LimitAlarm {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.account.0.to_le_bytes());
        out.extend_from_slice(&self.value.0.to_le_bytes());
        out.extend_from_slice(&self.net_debit_cap.0.to_le_bytes());
    }
}

impl Row for DeadLetter {
    /// With a tag of the reason, and what that names.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.transfer.0.to_le_bytes());
        out.push(self.action as u8);
        let (tag, named) = match self.reason {
            DeadLetterReason::UnknownAccount(account) => (1, account.0),
            DeadLetterReason::WrongState(state) => (2, u32::from(state.number())),
        };
        out.push(tag);
        out.extend_from_slice(&named.to_le_bytes());
    }
}

impl Row for StateChange {
    fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.transfer.0.to_le_bytes());
        bytes[8] = self.state.number();
        bytes[9..11].copy_from_slice(&self.code.map_or(0, |code| code.number()).to_le_bytes());
        bytes[11] = self.reason.map_or(0, |reason| reason as u8);
        out.extend_from_slice(&bytes);
    }
}

impl Row for PositionChange {
    fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; 36];
        bytes[..4].copy_from_slice(&self.account.0.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.transfer.0.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.change.0.to_le_bytes());
        bytes[20..].copy_from_slice(&self.value.0.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
}

impl Row for Outcome {
    fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; 28];
        bytes[0] = self.state.map_or(0, |state| state.number());
        bytes[1..3].copy_from_slice(&self.code.map_or(0, |code| code.number()).to_le_bytes());
        bytes[3] = self.reason.map_or(0, |reason| reason as u8);
        bytes[4..12].copy_from_slice(&self.subject.number().to_le_bytes());
        bytes[12..].copy_from_slice(&self.value.0.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
}
