//! Whatever is sent, in whatever frames: callbacks are the same live, on replay and from a later state; every hold
//! that ends tells its payer once; a payee that said RESERVED is told once for each time; no two messages disagree.

use std::collections::BTreeMap;

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::records;
use proptest::prelude::*;

use crate::memory::Memory;
use crate::random_frames::{Frame, frames, tight};
use crate::world::*;

/// A frame that was decided, and who was called for it.
struct Decided {
    time: Millis,
    commands: Vec<Command>,
    effects: Effects,
    calls: Vec<Callback>,
}

/// Decides the frames one after another; at last all holds run out.
fn run(frames: Vec<Frame>) -> (World, Vec<Decided>) {
    let mut world = tight(PrepareOrder::Arrival);
    let the_end = (1_000, vec![expire(u32::MAX)]);
    let mut decided = Vec::new();
    for (later, commands) in frames.into_iter().chain([the_end]) {
        world.now += later;
        let effects = world.frame(&commands);
        let calls = callbacks(&effects, &world.memory);
        decided.push(Decided { time: world.now, commands, effects, calls });
    }
    (world, decided)
}

fn transfer(memory: &Memory, id: TransferId) -> Option<&Transfer> {
    memory.transfers.values().find(|row| row.id == id)
}

/// Every callback with the command that caused it.
fn caused(decided: &[Decided]) -> impl Iterator<Item = (&Callback, &Command)> {
    decided
        .iter()
        .flat_map(|frame| frame.calls.iter().map(|call| (call, &frame.commands[call.origin as usize])))
}

fn sender(command: &Command) -> Option<ParticipantId> {
    match command {
        Command::Prepare(prepare) => Some(prepare.source),
        Command::Fulfil(fulfil) => Some(fulfil.source),
        Command::Abort(abort) => Some(abort.source),
        Command::Lookup(lookup) => Some(lookup.source),
        Command::Expire(_)
        | Command::Admin(_)
        | Command::SetEndpoint(_)
        | Command::Token(_)
        | Command::Shop(_) => None,
    }
}

/// The end that a message tells of the transfer, if it tells one.
fn end_told(message: CallbackMessage) -> Option<&'static str> {
    match message {
        CallbackMessage::ForwardFulfil => Some("COMMITTED"),
        CallbackMessage::ForwardError => Some("ABORTED"),
        CallbackMessage::Patch(state) => Some(state.external()),
        CallbackMessage::Put(state) => state.is_final().then(|| state.external()),
        CallbackMessage::ForwardPrepare | CallbackMessage::Error(..) | CallbackMessage::Alarm { .. } => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn they_follow_from_commands_effects_and_any_state_after(frames in frames()) {
        let (world, decided) = run(frames);
        let mut replayed = tight(PrepareOrder::Arrival);
        for frame in &decided {
            let payload: Vec<u8> = frame.commands.iter().flat_map(written).collect();
            let commands = records::read_all(&payload).unwrap();
            replayed.now = frame.time;
            prop_assert_eq!(&replayed.calls(&commands), &frame.calls, "on replay");
            let later = callbacks(&frame.effects, &world.memory);
            prop_assert_eq!(&later, &frame.calls, "from the state at the end");
        }
    }

    #[test]
    fn they_come_in_the_order_of_their_commands_and_only_the_sender_hears_of_what_moved_nothing(frames in frames()) {
        let (_, decided) = run(frames);
        for frame in &decided {
            prop_assert!(frame.calls.is_sorted_by_key(|call| call.origin));
            if frame.effects.state_changes().is_empty() {
                for call in &frame.calls {
                    prop_assert_eq!(sender(&frame.commands[call.origin as usize]), Some(call.to));
                }
            }
        }
    }

    #[test]
    fn a_hold_that_ends_tells_its_payer_exactly_once(frames in frames()) {
        let (world, decided) = run(frames);
        let mut payees: BTreeMap<TransferId, usize> = BTreeMap::new();
        let mut payers: BTreeMap<TransferId, usize> = BTreeMap::new();
        for (call, command) in caused(&decided) {
            let Some(row) = transfer(&world.memory, call.transfer) else { continue };
            // What the payer is told unasked: by the payee's doing, or by time.
            if call.to == row.payer && sender(command) != Some(row.payer) {
                *payers.entry(row.id).or_default() += 1;
            }
            if call.message == CallbackMessage::ForwardPrepare {
                prop_assert_eq!(call.to, row.payee);
                *payees.entry(row.id).or_default() += 1;
            }
        }
        for row in world.memory.transfers.values() {
            let held = usize::from(row.reserved_value.is_some());
            prop_assert!(row.state.is_final());
            prop_assert_eq!(payees.get(&row.id).copied().unwrap_or(0), held, "{:?}", row);
            prop_assert_eq!(payers.get(&row.id).copied().unwrap_or(0), held, "{:?}", row);
        }
    }

    #[test]
    fn a_payee_that_said_reserved_is_patched_once_for_each_time(frames in frames()) {
        let (world, decided) = run(frames);
        for frame in &decided {
            let mut patches = vec![0; frame.commands.len()];
            for call in &frame.calls {
                if let CallbackMessage::Patch(state) = call.message {
                    prop_assert!(state.is_final());
                    prop_assert_eq!(call.to, transfer(&world.memory, call.transfer).unwrap().payee);
                    patches[call.origin as usize] += 1;
                }
            }
            for ((command, outcome), patches) in frame.commands.iter().zip(&frame.effects.outcomes()).zip(patches) {
                let Command::Fulfil(fulfil) = command else {
                    prop_assert_eq!(patches, 0);
                    continue;
                };
                // The payee's, of a transfer that was there, and not after another fulfil or abort. (No payee here
                // gives 3106 as its own code.)
                let modified = outcome.code == Some(ErrorCode::ModifiedRequest.into());
                let by_payee = transfer(&world.memory, fulfil.id).is_some_and(|row| row.payee == fulfil.source);
                let its_own = by_payee && outcome.state.is_some() && !modified;
                let expected = u32::from(fulfil.action == FulfilAction::Reserve && its_own);
                prop_assert_eq!(patches, expected, "{:?} {:?}", command, outcome);
            }
        }
    }

    #[test]
    fn no_message_of_an_end_is_ever_contradicted(frames in frames()) {
        let (world, decided) = run(frames);
        for (call, command) in caused(&decided) {
            let Some(end) = end_told(call.message) else { continue };
            let row = transfer(&world.memory, call.transfer).unwrap();
            prop_assert_eq!(end, row.state.external(), "{:?} by {:?}", call, command);
            if call.message == CallbackMessage::Put(TransferState::Committed) {
                prop_assert!(row.completion().is_some(), "the fulfilment is there to be shown");
            }
        }
    }
}
