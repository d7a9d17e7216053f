//! Dividing a batch: which messages are repeats, and in which order the others are processed.

use super::{Action, BATCH_MESSAGES_MAX, Message, PrepareOrder};
use crate::ids::TransferNo;
use crate::transfers::TransferState;

/// A message's index in its batch.
pub(super) type Index = u32;
const NONE: Index = Index::MAX;

/// The batch put in order, holding references (indexes) and not the messages themselves.
pub(super) struct Division {
    /// Messages in the order of processing: by account, action and `order`.
    pub(super) sequence: Vec<Index>,
    /// Repeats: the message, and the first one with the same transfer and action.
    pub(super) repeats: Vec<(Index, Index)>,
    /// The entry of `running` that each message belongs to.
    pub(super) entry_of: Vec<u32>,
    /// The transfers of the batch.
    pub(super) running: Vec<RunningTransfer>,
}

/// A transfer as the batch has changed it so far.
pub(super) struct RunningTransfer {
    transfer: TransferNo,
    /// The state that the next message of this transfer meets.
    pub(super) state: TransferState,
    /// The first message of each action.
    first: [Index; Action::ALL.len()],
}

pub(super) fn divide(messages: &[Message], order: PrepareOrder) -> Division {
    let count = messages.len();
    assert!(count <= BATCH_MESSAGES_MAX, "a batch of {count} messages is too large");
    let mut running = Vec::with_capacity(count);
    let mut entry_of = Vec::with_capacity(count);
    let mut repeats = Vec::new();
    let mut fresh = Vec::with_capacity(count);
    let mut table = EntryTable::new(count);
    for (index, message) in (0..).zip(messages) {
        let entry = table.find_or_add(message, &mut running);
        entry_of.push(entry);
        let first = &mut running[entry as usize].first[message.action as usize];
        if *first == NONE {
            *first = index;
            fresh.push(index);
        } else {
            repeats.push((index, *first));
        }
    }
    let sequence = match order {
        PrepareOrder::Arrival => by_arrival(messages, &fresh),
        PrepareOrder::Smallest => by_amount(messages, fresh),
    };
    Division { sequence, repeats, entry_of, running }
}

/// Account, action and index fit one number, so that the sort compares nothing but integers.
fn by_arrival(messages: &[Message], fresh: &[Index]) -> Vec<Index> {
    let key = |index: &Index| {
        let message = &messages[*index as usize];
        u64::from(message.account.0) << 32 | u64::from(message.action as u8) << 28 | u64::from(*index)
    };
    let mut keys: Vec<u64> = fresh.iter().map(key).collect();
    keys.sort_unstable();
    #[allow(clippy::cast_possible_truncation, reason = "the mask leaves 28 bits")]
    keys.iter().map(|key| (key & 0x0fff_ffff) as Index).collect()
}

fn by_amount(messages: &[Message], mut fresh: Vec<Index>) -> Vec<Index> {
    fresh.sort_unstable_by_key(|index| {
        let message = &messages[*index as usize];
        let amount = if message.action == Action::Prepare { message.amount.0 } else { 0 };
        (message.account, message.action, amount, *index)
    });
    fresh
}

/// Finds the entry of a transfer by its number: open addressing over a power of two, at most half full.
struct EntryTable {
    slots: Vec<u32>,
    shift: u32,
}

impl EntryTable {
    fn new(count: usize) -> EntryTable {
        let size = (count * 2).next_power_of_two().max(2);
        EntryTable { slots: vec![NONE; size], shift: 64 - size.trailing_zeros() }
    }

    fn find_or_add(&mut self, message: &Message, running: &mut Vec<RunningTransfer>) -> u32 {
        // Numbers are dense and ours, so spreading them by the golden ratio is enough.
        let spread = message.transfer.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        let mask = self.slots.len() - 1;
        let mut at = usize::try_from(spread).expect("the shift leaves few bits");
        loop {
            match self.slots[at] {
                NONE => {
                    let entry = u32::try_from(running.len()).expect("bounded by the batch");
                    self.slots[at] = entry;
                    running.push(RunningTransfer {
                        transfer: message.transfer,
                        state: message.state,
                        first: [NONE; Action::ALL.len()],
                    });
                    return entry;
                }
                entry if running[entry as usize].transfer == message.transfer => return entry,
                _ => at = (at + 1) & mask,
            }
        }
    }
}
