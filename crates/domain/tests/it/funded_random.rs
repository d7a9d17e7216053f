//! Whatever is sent, in whatever frames: transfers that tokens pay for neither make nor lose any, leave positions alone, and
//! hold tokens from RESERVED to their end and not a moment longer.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::command::Funding;
use holdfast_domain::effects::Step;
use holdfast_domain::tokens::{
    Output, SpendRequest, SpendTokens, TokenCommand, TokenEffect, TokenId, TokenOutcome,
};
use proptest::prelude::*;

use crate::funded_world::*;
use crate::memory::Memory;
use crate::tokens_world::{as_command, unlock};
use crate::world::*;

const WALLETS: [&str; 3] = [ALICE, BOB, "carol"];
const TRANSFERS: std::ops::Range<u8> = 0..10;

/// A command to be. Tokens are named when the frame is made, by where they stand among the live ones of a wallet.
#[derive(Debug, Clone)]
enum Wish {
    Fund { n: u8, from: usize, to: usize, units: i64, fraction: bool, picks: Vec<usize>, life: i64 },
    Prepare { n: u8, amount: i64, life: i64 },
    Issue { n: u8, wallet: usize, quantity: u64 },
    Lock { spender: u8, wallet: usize, picks: Vec<usize>, lease: i64 },
    Spend { spender: u8, to: usize, quantity: u64, redeem: bool, transaction: u128 },
    Unlock { spender: u8 },
    Update { wallet: usize, picks: Vec<usize>, produced: u8 },
    End { n: u8, kind: u8 },
    Expire { max: u32 },
}

fn wishes() -> impl Strategy<Value = Wish> {
    let picks = || proptest::collection::vec(0..6_usize, 0..4);
    let quantity = 1..20_u64;
    prop_oneof![
        10 => (TRANSFERS, 0..3_usize, 0..3_usize, 1..16_i64, 0..12_u8, picks(), 1..60_i64).prop_map(
            |(n, from, to, units, odd, picks, life)| Wish::Fund { n, from, to, units, fraction: odd == 0, picks, life }
        ),
        2 => (TRANSFERS, 1..14_i64, 1..60_i64).prop_map(|(n, amount, life)| Wish::Prepare { n, amount, life }),
        5 => (0..40_u8, 0..3_usize, quantity.clone())
            .prop_map(|(n, wallet, quantity)| Wish::Issue { n, wallet, quantity }),
        4 => (0..18_u8, 0..3_usize, picks(), 1..50_i64)
            .prop_map(|(spender, wallet, picks, lease)| Wish::Lock { spender, wallet, picks, lease }),
        3 => (0..18_u8, 0..3_usize, quantity, any::<bool>(), any::<u128>()).prop_map(
            |(spender, to, quantity, redeem, transaction)| Wish::Spend { spender, to, quantity, redeem, transaction }
        ),
        1 => (0..18_u8).prop_map(|spender| Wish::Unlock { spender }),
        2 => (0..3_usize, picks(), 0..40_u8)
            .prop_map(|(wallet, picks, produced)| Wish::Update { wallet, picks, produced }),
        14 => (TRANSFERS, 0..6_u8).prop_map(|(n, kind)| Wish::End { n, kind }),
        1 => (0..4_u32).prop_map(|max| Wish::Expire { max }),
    ]
}

fn frames() -> impl Strategy<Value = Vec<(i64, Vec<Wish>)>> {
    proptest::collection::vec((0..12_i64, proptest::collection::vec(wishes(), 0..9)), 1..12)
}

/// So that there is something to pay with from the start.
fn first_tokens() -> Command {
    let of = |wallet: &'static str| {
        let quantity = |at: u8| 3 + 4 * u64::from(at % 4);
        (0..8_u8).map(move |at| usd_token(&format!("{wallet}{at}"), wallet, quantity(at)))
    };
    issue(WALLETS.into_iter().flat_map(of).collect())
}

/// The first spenders have names of transfers: whoever asks may call himself as he likes.
fn name(number: u8) -> String {
    if TRANSFERS.contains(&number) { spender(number).to_string() } else { format!("spender {number}") }
}

fn picked(memory: &Memory, wallet: usize, picks: &[usize]) -> Vec<TokenId> {
    let live = memory.tokens.values().filter(|row| *row.token.kind.wallet == *WALLETS[wallet]);
    let live: Vec<&TokenId> = live.map(|row| &row.token.id).collect();
    let chosen: BTreeSet<TokenId> =
        picks.iter().filter_map(|at| live.get(*at).map(|id| (*id).clone())).collect();
    chosen.into_iter().collect()
}

fn command(memory: &Memory, wish: &Wish) -> Command {
    match *wish {
        Wish::Fund { n, from, to, units, fraction, ref picks, life } => {
            let prepare = prepare_of(n, units * UNIT + i64::from(fraction));
            let ids = picked(memory, from, picks);
            let funding = Funding::new(prepare.id, WALLETS[from].into(), WALLETS[to].into(), ids);
            prepared(Prepare { expiration: NOW + life, funding: Some(Box::new(funding)), ..prepare })
        }
        Wish::Prepare { n, amount, life } => {
            prepared(Prepare { expiration: NOW + life, ..prepare_of(n, amount) })
        }
        Wish::Issue { n, wallet, quantity } => {
            issue(vec![usd_token(&format!("t{n}"), WALLETS[wallet], quantity)])
        }
        Wish::Lock { spender, wallet, ref picks, lease } => {
            let ids = picked(memory, wallet, picks);
            let names: Vec<&str> = ids.iter().map(TokenId::as_str).collect();
            lock(&name(spender), &names, lease)
        }
        Wish::Spend { spender, to, quantity, redeem, transaction } => {
            let by = name(spender);
            let request = if redeem {
                SpendRequest::redeem(by, quantity)
            } else {
                SpendRequest::new(by, vec![Output::new(WALLETS[to], quantity)])
            };
            let body = request.fingerprint();
            as_command(TokenCommand::Spend(SpendTokens { request, body, transaction }))
        }
        Wish::Unlock { spender } => as_command(unlock(&name(spender), None)),
        Wish::Update { wallet, ref picks, produced } => as_command(TokenCommand::Update {
            consumed: picked(memory, wallet, picks),
            produced: vec![usd_token(&format!("t{produced}"), WALLETS[wallet], 5)],
        }),
        Wish::End { n, kind } => match kind {
            0 => abort(n),
            1 => fulfil_by(PAYEE, n, FulfilAction::Commit, fulfilment(99)),
            2 => reserve(n),
            _ => fulfil(n),
        },
        Wish::Expire { max } => expire(max),
    }
}

/// What there must be, added up from the commands that were accepted.
#[derive(Default)]
struct Model {
    live: BTreeMap<TokenId, u64>,
    gone: BTreeSet<TokenId>,
    value: i128,
}

impl Model {
    /// What comes from outside and goes there. Transfers do neither.
    fn change_from_outside(&self, command: &Command, step: &Step) -> i128 {
        let Command::Token(command) = command else { return 0 };
        let outcome = step.outcomes[0].token.as_deref().expect("a token command has its answer");
        let came = |tokens: &[TokenEffect]| -> i128 {
            let quantity = |effect: &TokenEffect| match effect {
                TokenEffect::Produced(token) => i128::from(token.quantity),
                _ => 0,
            };
            tokens.iter().map(quantity).sum()
        };
        match (&**command, outcome) {
            (TokenCommand::Issue { tokens }, TokenOutcome::Issued) => {
                tokens.iter().map(|token| i128::from(token.quantity)).sum()
            }
            (TokenCommand::Update { consumed, .. }, TokenOutcome::Updated { .. }) => {
                let went = consumed.iter().filter_map(|id| self.live.get(id));
                came(&step.tokens) - went.map(|quantity| i128::from(*quantity)).sum::<i128>()
            }
            (TokenCommand::Spend(spend), TokenOutcome::Spent(_)) if !step.tokens.is_empty() => {
                -i128::from(spend.request.redeem)
            }
            _ => 0,
        }
    }

    fn follow(&mut self, commands: &[Command], effects: &Effects) {
        let mut rest = commands;
        for step in &effects.steps {
            let (here, after) = rest.split_at(step.outcomes.len());
            rest = after;
            self.value += here.iter().map(|command| self.change_from_outside(command, step)).sum::<i128>();
            for effect in &step.tokens {
                match effect {
                    TokenEffect::Produced(token) => {
                        assert!(!self.gone.contains(&token.id), "{} lives again", token.id);
                        assert_eq!(self.live.insert(token.id.clone(), token.quantity), None);
                    }
                    TokenEffect::Consumed(id) => {
                        self.live.remove(id);
                        assert!(self.gone.insert(id.clone()), "{id} is consumed twice");
                    }
                    _ => {}
                }
            }
            let is: i128 = self.live.values().map(|quantity| i128::from(*quantity)).sum();
            assert_eq!(is, self.value, "value is conserved by {here:?}");
        }
    }
}

/// Locks without end and open transfers that tokens pay for are the same things.
fn assert_holds_are_transfers(memory: &Memory) {
    let open = memory.transfers.values().filter(|row| row.is_funded() && !row.state.is_final());
    let open: BTreeSet<String> = open.map(|row| row.id.to_string()).collect();
    let holds = memory.locks.values().filter(|lock| lock.funding.is_some());
    let holds: BTreeSet<String> = holds.map(|lock| lock.spender.to_string()).collect();
    assert_eq!(open, holds);
    for row in
        memory.transfers.values().filter(|row| row.state == TransferState::Committed && row.is_funded())
    {
        let paid = &memory.spends[&row.id.to_string()].transaction.produced;
        let first = paid.first().expect("it paid out");
        assert!(i128::from(first.quantity) * i128::from(UNIT) <= i128::from(row.amount.0), "{row:?}");
    }
}

fn assert_positions_stand_apart(memory: &Memory, effects: &Effects) {
    let funded = |no: TransferNo| memory.transfers[&no].is_funded();
    assert!(effects.position_changes().iter().all(|change| !funded(change.transfer)));
    let mut positions: BTreeMap<_, i128> = BTreeMap::new();
    for (account, change, _) in memory.transfers.values().flat_map(|row| row.position_changes()) {
        *positions.entry(account).or_default() += i128::from(change.0);
    }
    for account in [PAYER_POSITION, PAYEE_POSITION] {
        assert_eq!(positions.get(&account).copied().unwrap_or(0), memory.accounts[&account].value.0);
    }
    let held = memory.transfers.values().filter(|row| row.holds_position()).map(|row| row.amount);
    let held: i128 = held.map(|Amount(amount)| i128::from(amount)).sum();
    let total: i128 = memory.accounts.values().map(|account| account.value.0).sum();
    assert_eq!(total - held, -3_000_000, "invariant 1: what {:?} brought in", memory.funds.len());
}

fn stored(memory: &Memory, command: &Command) -> bool {
    let Command::Prepare(prepare) = command else { return false };
    memory.transfers.values().any(|row| row.id == prepare.id && row.hash == prepare.hash)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tokens_and_transfers_in_whatever_frames(frames in frames()) {
        let (mut world, mut model) = (World::roomy(), Model::default());
        let mut run = |world: &mut World, commands: &[Command]| {
            let effects = world.frame(commands);
            model.follow(commands, &effects);
            let live = world.memory.tokens.values().map(|row| (row.token.id.clone(), row.token.quantity));
            assert_eq!(live.collect::<BTreeMap<_, _>>(), model.live);
            assert_holds_are_transfers(&world.memory);
            assert_positions_stand_apart(&world.memory, &effects);
            effects
        };
        run(&mut world, &[first_tokens()]);
        for (later, wishes) in frames {
            world.now += later;
            let commands: Vec<Command> = wishes.iter().map(|wish| command(&world.memory, wish)).collect();
            run(&mut world, &commands);
            let again: Vec<Command> =
                commands.into_iter().filter(|command| stored(&world.memory, command)).collect();
            let before = world.memory.clone();
            run(&mut world, &again);
            prop_assert_eq!(&world.memory, &before, "a repeat changes nothing");
        }
        world.now += 1_000;
        let before: u64 = wallets(&world.memory).values().map(|(all, _)| all).sum();
        run(&mut world, &[expire(u32::MAX)]);
        prop_assert!(world.memory.transfers.values().all(|row| row.state.is_final()));
        prop_assert!(world.memory.locks.is_empty(), "no hold and no lease is left");
        let after: u64 = wallets(&world.memory).values().map(|(all, _)| all).sum();
        prop_assert_eq!(before, after, "what runs out is given back");
    }
}

/// The wishes come true often enough for the test above to mean something.
#[test]
fn funded_transfers_reach_every_end() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..200 {
        let mut world = World::roomy();
        world.frame(&[first_tokens()]);
        for (later, wishes) in frames().new_tree(&mut runner).unwrap().current() {
            world.now += later;
            let commands: Vec<Command> = wishes.iter().map(|wish| command(&world.memory, wish)).collect();
            world.frame(&commands);
        }
        world.now += 1_000;
        world.frame(&[expire(u32::MAX)]);
        for row in world.memory.transfers.values().filter(|row| row.is_funded()) {
            *ends.entry(row.state.name()).or_default() += 1;
        }
    }
    for state in ["COMMITTED", "ABORTED_ERROR", "ABORTED_REJECTED", "EXPIRED_RESERVED"] {
        assert!(ends.get(state).is_some_and(|count| *count >= 20), "{ends:?}");
    }
}
