//! The bytes of a frame's effects that enter the audit chain.
//!
//! Two programs that decide the same frame differently write different bytes here, so a replay under other
//! rules is noticed at the first frame where it matters. The commands themselves are in the frame and are not
//! repeated.

use crate::effects::{DeadLetterReason, Effects, Outcome, PositionChange, StateChange};

/// Which rules these are. Raised with the first release that would decide a frame of an earlier one differently; nothing has been
/// released so far.
pub const RULES_VERSION: u32 = 1;

impl Effects {
    /// Appends the canonical bytes of these effects to `out`.
    pub fn write_digest(&self, out: &mut Vec<u8>) {
        let counts = [
            self.participants.len(),
            self.accounts.len(),
            self.funds.len(),
            self.endpoints.len(),
            self.transfers.len(),
            self.state_changes.len(),
            self.completions.len(),
            self.position_changes.len(),
            self.notifications.len(),
            self.alarms.len(),
            self.dead_letters.len(),
            self.outcomes.len(),
            self.sections.len(),
        ];
        counts.iter().for_each(|count| out.extend_from_slice(&(*count as u64).to_le_bytes()));
        for row in &self.participants {
            out.extend_from_slice(&row.id.0.to_le_bytes());
            out.extend_from_slice(&row.name.padded());
            out.push(u8::from(row.active));
            out.extend_from_slice(&(row.accounts.len() as u64).to_le_bytes());
            for (currency, account) in &row.accounts {
                out.extend_from_slice(&currency.letters());
                out.extend_from_slice(&account.0.to_le_bytes());
            }
        }
        for row in &self.accounts {
            out.extend_from_slice(&row.id.0.to_le_bytes());
            out.extend_from_slice(&row.participant.0.to_le_bytes());
            out.extend_from_slice(&[row.kind as u8, u8::from(row.active)]);
            out.extend_from_slice(&row.value.0.to_le_bytes());
            out.extend_from_slice(&row.reserved.0.to_le_bytes());
            out.extend_from_slice(&row.net_debit_cap.map_or(-1, |cap| cap.0).to_le_bytes());
            out.extend_from_slice(&row.alarm_percentage.to_le_bytes());
        }
        for row in &self.funds {
            out.extend_from_slice(&row.id.0.to_le_bytes());
            out.push(row.state as u8);
        }
        for row in &self.endpoints {
            out.extend_from_slice(&row.participant().0.to_le_bytes());
        }
        for row in &self.transfers {
            out.extend_from_slice(&row.no.0.to_le_bytes());
            out.extend_from_slice(&row.payer_account.map_or(0, |account| account.0).to_le_bytes());
            out.extend_from_slice(&row.payee_account.map_or(0, |account| account.0).to_le_bytes());
        }
        self.state_changes.iter().for_each(|row| row.write(out));
        for row in &self.completions {
            out.extend_from_slice(&row.transfer.0.to_le_bytes());
            out.push(row.completion.kind as u8);
        }
        self.position_changes.iter().for_each(|row| row.write(out));
        for row in &self.notifications {
            out.extend_from_slice(&row.transfer.0.to_le_bytes());
            out.extend_from_slice(&[row.to as u8, row.kind as u8]);
            out.extend_from_slice(&row.code().map_or(0, |code| code.number()).to_le_bytes());
        }
        for row in &self.alarms {
            out.extend_from_slice(&row.account.0.to_le_bytes());
            out.extend_from_slice(&row.value.0.to_le_bytes());
            out.extend_from_slice(&row.net_debit_cap.0.to_le_bytes());
        }
        for row in &self.dead_letters {
            out.extend_from_slice(&row.transfer.0.to_le_bytes());
            out.push(row.action as u8);
            row.reason.write(out);
        }
        self.outcomes.iter().for_each(|row| row.write(out));
        self.write_token_digest(out);
        self.write_shop_digest(out);
    }
}

impl StateChange {
    fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.transfer.0.to_le_bytes());
        bytes[8] = self.state.number();
        bytes[9..11].copy_from_slice(&self.code.map_or(0, |code| code.number()).to_le_bytes());
        bytes[11] = self.reason.map_or(0, |reason| reason as u8);
        out.extend_from_slice(&bytes);
    }
}

impl DeadLetterReason {
    /// A tag, and what the reason names.
    fn write(self, out: &mut Vec<u8>) {
        let (tag, named) = match self {
            DeadLetterReason::UnknownAccount(account) => (1, account.0),
            DeadLetterReason::WrongState(state) => (2, u32::from(state.number())),
        };
        out.push(tag);
        out.extend_from_slice(&named.to_le_bytes());
    }
}

impl PositionChange {
    fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; 36];
        bytes[..4].copy_from_slice(&self.account.0.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.transfer.0.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.change.0.to_le_bytes());
        bytes[20..].copy_from_slice(&self.value.0.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
}

impl Outcome {
    fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; 28];
        bytes[0] = self.state.map_or(0, |state| state.number());
        bytes[1..3].copy_from_slice(&self.code.map_or(0, |code| code.number()).to_le_bytes());
        bytes[3] = self.reason.map_or(0, |reason| reason as u8);
        bytes[4..12].copy_from_slice(&self.subject.to_le_bytes());
        bytes[12..].copy_from_slice(&self.value.0.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
}
