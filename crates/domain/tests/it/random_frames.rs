//! Whatever is sent, in whatever frames: money is conserved, no limit is broken, every hold is in the index, and
//! what took effect once takes none when it comes again.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::participants::{AccountKind, FundsState};
use proptest::prelude::*;

use crate::memory::Memory;
use crate::world::*;

const PARTICIPANTS: std::ops::RangeInclusive<u32> = 1..=3;

/// A frame to be: how far the clock moves before it, and what it holds.
pub type Frame = (i64, Vec<Command>);

fn prepares() -> impl Strategy<Value = Command> {
    (0..20_u8, PARTICIPANTS, PARTICIPANTS, 0..14_i64, 0..60_i64, 0..20_u8).prop_map(
        |(n, payer, payee, amount, life, source)| {
            let payer = ParticipantId(payer);
            prepared(Prepare {
                source: if source == 0 { OTHER } else { payer },
                payer,
                payee: ParticipantId(payee),
                expiration: NOW + life,
                ..prepare_of(n, amount)
            })
        },
    )
}

fn ends() -> impl Strategy<Value = Command> {
    (0..20_u8, PARTICIPANTS, 0..9_u8).prop_map(|(n, source, kind)| {
        let source = ParticipantId(source);
        match kind {
            0 => fulfil_by(source, n, FulfilAction::Commit, fulfilment(99)),
            1 | 2 => abort_by(source, n, 5104),
            3 | 4 => fulfil_by(source, n, FulfilAction::Reserve, fulfilment(n)),
            5 => fulfil_by(source, n, FulfilAction::Reserve, fulfilment(99)),
            _ => fulfil_by(source, n, FulfilAction::Commit, fulfilment(n)),
        }
    })
}

fn lookups() -> impl Strategy<Value = Command> {
    (0..20_u8, PARTICIPANTS).prop_map(|(n, source)| lookup_by(ParticipantId(source), n))
}

fn operators() -> impl Strategy<Value = Command> {
    (0..8_u8, PARTICIPANTS, 1..25_i64, 0..6_u128, any::<bool>()).prop_map(
        |(kind, participant, amount, n, active)| {
            let (settlement, participant) = (AccountId(participant * 2), ParticipantId(participant));
            match kind {
                0 => funds_in(n, settlement, amount),
                1 => funds_out(n, settlement, amount),
                2 => funds_out_commit(n, settlement),
                3 => funds_out_abort(n, settlement),
                4 => set_limit(participant, amount, 100),
                5 => Command::Admin(Admin::SetParticipantActive { participant, active }),
                6 => Command::SetEndpoint(endpoint_of(participant, "KIND", &format!("http://{n}"))),
                _ => Command::Admin(Admin::SetAccountActive { account: AccountId(settlement.0 - 1), active }),
            }
        },
    )
}

pub fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let expiries = (0..4_u32).prop_map(expire);
    let command = prop_oneof![8 => prepares(), 8 => ends(), 1 => lookups(), 1 => expiries, 2 => operators()];
    let frame = (0..12_i64, proptest::collection::vec(command, 0..9));
    proptest::collection::vec(frame, 1..10)
}

/// A scheme with little room, so that limits matter.
pub fn tight(order: PrepareOrder) -> World {
    let mut world = World::with(20, 25);
    world.frame(&[set_limit(PAYEE, 15, 100), set_limit(OTHER, 30, 100)]);
    world.order = order;
    world
}

/// What came in less what went out or is on its way out, over all accounts.
fn funds_held(memory: &Memory) -> i128 {
    let sign = |state| match state {
        FundsState::ReceivedIn => 1,
        FundsState::OutReserved | FundsState::OutCommitted => -1,
        FundsState::OutAborted => 0,
    };
    memory.funds.values().map(|row| sign(row.state) * i128::from(row.amount.0)).sum()
}

/// Section 9.1 of the design, and every account recomputed from the rows of its transfers.
fn assert_money_is_conserved(memory: &Memory) {
    let total: i128 = memory.accounts.values().map(|account| account.value.0).sum();
    let held: i128 = memory
        .transfers
        .values()
        .filter(|transfer| transfer.state.holds_value())
        .map(|transfer| i128::from(transfer.amount.0))
        .sum();
    assert_eq!(total - held, -funds_held(memory));

    let mut positions: BTreeMap<AccountId, i128> = BTreeMap::new();
    for (account, change, _) in memory.transfers.values().flat_map(|row| row.position_changes()) {
        *positions.entry(account).or_default() += i128::from(change.0);
    }
    for account in memory.accounts.values().filter(|account| account.kind == AccountKind::Position) {
        assert_eq!(positions.get(&account.id).copied().unwrap_or(0), account.value.0, "{:?}", account.id);
    }
}

/// Every accepted prepare stood within the limits. Where the frame changed limits, within the widest of them.
fn assert_limits_hold(before: &Memory, after: &Memory, effects: &Effects) {
    let states = |id: AccountId| {
        let changed = effects.all(|step| &step.accounts).filter(move |row| row.id == id);
        [before.accounts[&id], after.accounts[&id]].into_iter().chain(changed.copied())
    };
    for change in effects.position_changes().iter().filter(|change| change.change > Amount::ZERO) {
        let cover = states(AccountId(change.account.0 + 1)).map(|row| -row.value.0).max().unwrap();
        let cap = states(change.account).filter_map(|row| row.net_debit_cap).max().unwrap();
        assert!(change.value.0 <= cover, "{change:?} with a cover of {cover}");
        assert!(change.value.0 <= i128::from(cap.0), "{change:?} with a cap of {cap}");
    }
}

fn assert_holds_are_indexed(memory: &Memory) {
    let open: BTreeSet<_> = memory
        .transfers
        .values()
        .filter(|transfer| transfer.state.may_expire())
        .map(|transfer| (transfer.expiration, transfer.no))
        .collect();
    assert_eq!(memory.holds, open);
}

/// Histories that follow from the rows are made of legal moves.
fn assert_histories_are_legal(memory: &Memory) {
    for transfer in memory.transfers.values() {
        let mut before = None;
        for (state, _) in transfer.history() {
            assert!(state.may_follow(before), "{transfer:?}");
            before = Some(state);
        }
        assert_eq!(before, Some(transfer.state));
    }
}

/// The commands of a frame that left something behind. What was refused without a trace (a fulfil before its
/// prepare, funds that were not there yet) may well be accepted another time, and an expiry may find more to do.
fn took_effect(commands: &[Command], effects: &Effects, memory: &Memory) -> Vec<Command> {
    let kept = |command: &Command| match command {
        Command::Prepare(prepare) => stored(memory, prepare),
        Command::Fulfil(Fulfil { id, fulfilment, .. }) => completion(memory, *id) == Some(*fulfilment),
        Command::Abort(abort) => completion(memory, abort.id) == Some(abort.digest),
        Command::Expire(_)
        | Command::Admin(_)
        | Command::Lookup(_)
        | Command::SetEndpoint(_)
        | Command::Token(_)
        | Command::Shop(_) => false,
    };
    let applied = |(command, outcome): &(&Command, &Outcome)| match command {
        Command::Admin(_) => outcome.code.is_none(),
        other => kept(other),
    };
    commands.iter().zip(&effects.outcomes()).filter(applied).map(|(command, _)| command.clone()).collect()
}

fn stored(memory: &Memory, prepare: &Prepare) -> bool {
    // The same content from somebody else is not the payer's prepare again; it is refused and told nothing.
    let same = |row: &&Transfer| row.id == prepare.id && row.hash == prepare.hash;
    memory.transfers.values().find(same).is_some_and(|row| row.payer == prepare.source)
}

fn completion(memory: &Memory, id: TransferId) -> Option<[u8; 32]> {
    let row = memory.transfers.values().find(|row| row.id == id)?;
    row.completion().map(|completion| completion.digest)
}

fn assert_repeat_changes_nothing(world: &mut World, commands: &[Command]) {
    let before = world.memory.clone();
    let again = world.frame(commands);
    assert_eq!(world.memory, before);
    assert!(
        again.transfers().is_empty() && again.state_changes().is_empty() && again.completions().is_empty()
    );
    assert!(
        again.position_changes().is_empty() && again.notifications().is_empty() && again.funds().is_empty()
    );
    for (command, outcome) in commands.iter().zip(&again.outcomes()) {
        let Some(id) = command.transfer() else { continue };
        let row = before.transfers.values().find(|row| row.id == id).unwrap();
        assert_eq!(
            (outcome.state, outcome.subject),
            (Some(row.state), Subject::Transfer(row.no)),
            "{command:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_sent_in_whatever_frames(frames in frames(), smallest in any::<bool>()) {
        let mut world = tight(if smallest { PrepareOrder::Smallest } else { PrepareOrder::Arrival });
        for (later, commands) in frames {
            world.now += later;
            let before = world.memory.clone();
            let effects = world.frame(&commands);
            prop_assert_eq!(effects.outcomes().len(), commands.len());
            prop_assert!(effects.dead_letters().is_empty(), "the transfers step lets nothing through that does not fit");
            assert_money_is_conserved(&world.memory);
            assert_limits_hold(&before, &world.memory, &effects);
            assert_holds_are_indexed(&world.memory);
            assert_histories_are_legal(&world.memory);
            let effective = took_effect(&commands, &effects, &world.memory);
            assert_repeat_changes_nothing(&mut world, &effective);
        }
    }

    #[test]
    fn a_frame_of_one_command_is_the_same_code(frames in frames()) {
        // Each command in a frame of its own: no bin has more than one message, all invariants stand.
        let mut world = tight(PrepareOrder::Arrival);
        for (later, commands) in frames {
            world.now += later;
            for command in commands {
                let before = world.memory.clone();
                let effects = world.frame(std::slice::from_ref(&command));
                assert_money_is_conserved(&world.memory);
                assert_limits_hold(&before, &world.memory, &effects);
                assert_holds_are_indexed(&world.memory);
                if effects.outcome(0).code.is_some() && effects.transfers().is_empty() && effects.completions().is_empty() {
                    prop_assert_eq!(&world.memory, &before, "a refusal leaves nothing but its rows");
                }
            }
        }
    }

    #[test]
    fn all_holds_end_when_their_time_has_come(frames in frames()) {
        let mut world = tight(PrepareOrder::Arrival);
        for (later, commands) in frames {
            world.now += later;
            world.frame(&commands);
        }
        world.now += 1_000;
        world.frame(&[expire(u32::MAX)]);
        prop_assert!(world.memory.holds.is_empty());
        prop_assert!(world.memory.transfers.values().all(|transfer| transfer.state.is_final()));
        let positions: i128 = world.memory.accounts.values()
            .filter(|account| account.kind == AccountKind::Position)
            .map(|account| account.value.0)
            .sum();
        prop_assert_eq!(positions, 0, "what one owes another is owed");
    }
}
