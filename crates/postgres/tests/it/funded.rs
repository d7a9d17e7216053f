//! Transfers that tokens pay for: held with RESERVED, paid out with COMMITTED, given back by every other end, each in the
//! step that moves the transfer.

use holdfast_domain::command::{Command, Fulfil, FulfilAction, Funding};
use holdfast_domain::ids::{Millis, ParticipantId, TransferId};
use holdfast_domain::transfers::TransferState;
use holdfast_messages::{Message as _, Notice, TokenEvent, TokenUpdate, Topic, TraceId};
use holdfast_postgres::tokens::{ClaimVerdict, HoldError, SpendVerdict};
use holdfast_postgres::{Batch, Error, Point, Source, Store};
use holdfast_tokens::{Refusal, Token, TokenId};

use crate::token_world::{LEASE_MS, lock, spend, wanted};
use crate::world::*;

const NOW: Millis = 1_800_000_000_000;

/// Two participants with no room at all on their positions, and alice with tokens of 60 and 40.
fn world() -> Option<(World, Node)> {
    let world = World::new()?;
    let mut node = Node::new(&world, 1);
    node.participant("payer", 0, 0);
    node.participant("payee", 0, 0);
    world.set_clock(NOW);
    issue(&mut node.store, &[("a60", 60), ("a40", 40)]);
    Some((world, node))
}

fn alices(tokens: &[(&str, u64)]) -> Vec<Token> {
    tokens.iter().map(|(id, quantity)| Token::new(*id, "alice", "USD", *quantity)).collect()
}

fn issue(store: &mut Store, tokens: &[(&str, u64)]) {
    store.issue_tokens(&alices(tokens), None).unwrap().unwrap();
}

/// Locks tokens for the prepare of that transfer, as a node does before it sends one.
fn claim(store: &mut Store, id: u128, tokens: &[(&str, u64)]) {
    lock(store, &TransferId(id).to_string(), &alices(tokens));
}

fn funded(id: u128, units: i64, tokens: &[&str], expiration: Millis) -> Command {
    let Command::Prepare(mut prepare) = prepare(id, 1, 2, units, expiration) else { unreachable!() };
    let ids = tokens.iter().map(|id| TokenId::from(*id)).collect();
    prepare.funding = Some(Box::new(Funding::new(TransferId(id), "alice".into(), "bob".into(), ids)));
    Command::Prepare(prepare)
}

/// What wallets have that is not spent, and what of it is under a live lock: wallet, sum, locked.
fn wallets(world: &World) -> Vec<(String, i64, i64)> {
    let rows = world.sql().query(
        "SELECT t.wallet, sum(t.quantity)::bigint,
             (sum(t.quantity) FILTER (WHERE l.spender_tx_id IS NOT NULL AND l.expires_at > hub_clock()))::bigint
         FROM token t JOIN token_lock l USING (token_id) WHERE NOT l.spent GROUP BY 1 ORDER BY 1",
        &[],
    );
    rows.unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get::<_, Option<i64>>(2).unwrap_or(0)))
        .collect()
}

fn alice(world: &World, sum: i64, locked: i64) {
    assert_eq!(wallets(world), [("alice".to_owned(), sum, locked)]);
}

/// What participants were told of a transfer: to whom, in what state.
fn told(node: &Node, id: u128) -> Vec<(u32, Option<TransferState>)> {
    let of = |notice: &Notice| match notice {
        Notice::Transfer(notice) if notice.transfer == TransferId(id) => Some(notice.state),
        _ => None,
    };
    node.notifications.iter().filter_map(|told| Some((told.notice.to()?.0, of(&told.notice)?))).collect()
}

#[test]
fn a_commit_pays_out_and_gives_change() {
    for duplicate in [false, true] {
        let Some((world, mut node)) = world() else { return };
        node.duplicate = duplicate;
        claim(&mut node.store, 1, &[("a60", 60), ("a40", 40)]);
        node.ask(&[funded(1, 70, &["a60", "a40"], FAR)]);
        assert_eq!(world.state(TransferId(1)), "RESERVED");
        assert_eq!(node.answered(asked(0)).state, Some(TransferState::Reserved));
        alice(&world, 100, 100);
        // No lease ends it.
        world.set_clock(NOW + LEASE_MS + 1);
        alice(&world, 100, 100);
        world.verify();
        node.ask(&[fulfil(1, 2)]);
        assert_eq!(world.state(TransferId(1)), "COMMITTED");
        let both = [("alice".to_owned(), 30, 0), ("bob".to_owned(), 70, 0)];
        assert_eq!(wallets(&world), both);
        let told = told(&node, 1);
        let (reserved, committed) = (Some(TransferState::Reserved), Some(TransferState::Committed));
        assert!(told.contains(&(2, reserved)) && told.contains(&(1, committed)), "{told:?}");
        assert_eq!(node.positions[0].log.len(), node.operations, "no position moves");
        // The same again finds it as it is.
        node.ask(&[funded(1, 70, &[], FAR), fulfil(1, 2)]);
        assert_eq!(node.last().state, committed);
        assert_eq!(wallets(&world), both);
        world.verify();
    }
}

#[test]
fn a_whole_life_in_one_batch() {
    let Some((world, mut node)) = world() else { return };
    claim(&mut node.store, 1, &[("a60", 60)]);
    claim(&mut node.store, 2, &[("a40", 40)]);
    let commands = [
        funded(1, 50, &["a60"], FAR),
        funded(2, 40, &["a40"], FAR),
        fulfil(1, 2),
        abort(2, 2),
        funded(1, 50, &["a60"], FAR),
    ];
    node.ask(&commands);
    assert_eq!(
        (world.state(TransferId(1)), world.state(TransferId(2))),
        ("COMMITTED".into(), "ABORTED_ERROR".into())
    );
    assert_eq!(wallets(&world), [("alice".to_owned(), 50, 0), ("bob".to_owned(), 50, 0)]);
    assert_eq!(world.rows("transfer_timeout"), 0);
    world.verify();
}

#[test]
fn whatever_else_ends_it_gives_the_tokens_back() {
    let Some((world, mut node)) = world() else { return };
    let both = [("a60", 60), ("a40", 40)];
    let ids = ["a60", "a40"];
    claim(&mut node.store, 1, &both);
    node.ask(&[funded(1, 70, &ids, FAR)]);
    node.ask(&[abort(1, 2)]);
    assert_eq!(world.state(TransferId(1)), "ABORTED_ERROR");
    alice(&world, 100, 0);

    claim(&mut node.store, 2, &both);
    node.ask(&[funded(2, 70, &ids, FAR)]);
    let guess = Fulfil::new(ParticipantId(2), TransferId(2), FulfilAction::Commit, [8; 32]);
    node.ask(&[Command::Fulfil(guess)]);
    assert_eq!(world.state(TransferId(2)), "ABORTED_ERROR");
    let aborted = Some(TransferState::AbortedError);
    let heard = told(&node, 2);
    assert!(heard.contains(&(1, aborted)) && heard.contains(&(2, aborted)), "both hear of a wrong preimage");
    alice(&world, 100, 0);

    claim(&mut node.store, 3, &both);
    node.ask(&[funded(3, 70, &ids, NOW + 100)]);
    alice(&world, 100, 100);
    world.set_clock(NOW + 101);
    assert_eq!(node.expire(), 2, "it is taken out of RESERVED and ended, in one step");
    assert_eq!(world.state(TransferId(3)), "EXPIRED_RESERVED");
    let expired = Some(TransferState::ExpiredReserved);
    let heard = told(&node, 3);
    assert!(heard.contains(&(1, expired)) && heard.contains(&(2, expired)), "{heard:?}");
    alice(&world, 100, 0);
    node.ask(&[fulfil(3, 2)]);
    assert_eq!(world.state(TransferId(3)), "EXPIRED_RESERVED");
    alice(&world, 100, 0);
    world.verify();
}

#[test]
fn a_prepare_has_what_was_locked_for_it_and_nothing_else() {
    let Some((world, mut node)) = world() else { return };
    // Nothing was locked; another's lock; fewer than were locked.
    node.ask(&[funded(1, 60, &["a60"], FAR)]);
    claim(&mut node.store, 2, &[("a60", 60)]);
    node.ask(&[funded(3, 60, &["a60"], FAR)]);
    claim(&mut node.store, 4, &[("a40", 40)]);
    node.ask(&[funded(4, 40, &["a40", "a60"], FAR)]);
    for id in [1, 3, 4] {
        assert_eq!(world.state(TransferId(id)), "ABORTED_REJECTED", "{id}");
    }
    alice(&world, 100, 100);
    // Too little for the amount: refused, and given back at once.
    node.ask(&[funded(2, 61, &["a60"], FAR)]);
    assert_eq!(world.state(TransferId(2)), "ABORTED_REJECTED");
    assert_eq!(node.last().code.map(|code| code.number()), Some(4001));
    alice(&world, 100, 40);
    // Broken rules give it back, too.
    claim(&mut node.store, 5, &[("a60", 60)]);
    node.ask(&[funded(5, 60, &["a60"], NOW - 1)]);
    assert_eq!(world.state(TransferId(5)), "INVALID");
    alice(&world, 100, 40);
    // A lease that is over locks nothing, also for the prepare that comes late.
    claim(&mut node.store, 6, &[("a60", 60)]);
    world.set_clock(NOW + LEASE_MS);
    node.ask(&[funded(6, 60, &["a60"], FAR)]);
    assert_eq!(world.state(TransferId(6)), "ABORTED_REJECTED");
    alice(&world, 100, 0);
    world.verify();
}

#[test]
fn nobody_but_the_transfer_ends_its_hold() {
    let Some((world, mut node)) = world() else { return };
    claim(&mut node.store, 1, &[("a60", 60)]);
    node.ask(&[funded(1, 60, &["a60"], FAR)]);
    let (store, name) = (&mut node.store, TransferId(1).to_string());
    let in_use = |refused: Result<(), HoldError>| {
        assert!(matches!(refused, Err(HoldError::Refused(Refusal::SpenderInUse { .. }))), "{refused:?}");
    };
    in_use(store.release_tokens(&name, None, None).map(drop));
    in_use(store.renew_tokens(&name, None, 1_000, None).map(drop));
    let fence = u64::try_from(world.count("SELECT fence FROM token_selection")).unwrap();
    let stolen = Token::new("stolen", "eve", "USD", 60);
    let spend = spend(fence, &name, &alices(&[("a60", 60)]), stolen);
    assert_eq!(store.spend_tokens(&[spend], None).unwrap(), [Some(SpendVerdict::Lost)]);
    // An outside ledger that consumes it over HTTP is refused whole.
    let (gone, came) = ([TokenId::from("a40"), "a60".into()], Token::new("new", "alice", "USD", 1));
    let refused = store.update_tokens(&gone, std::slice::from_ref(&came), None).unwrap();
    assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
    // So is one that names an output before it is there: the transfer could not be paid out.
    let output = TokenId::from(format!("hold:{name}:0").as_str());
    let refused = store.update_tokens(std::slice::from_ref(&output), &[], None).unwrap();
    assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
    alice(&world, 100, 60);
    node.ask(&[fulfil(1, 2)]);
    assert_eq!(wallets(&world), [("alice".to_owned(), 40, 0), ("bob".to_owned(), 60, 0)]);
    world.verify();
}

/// What an outside ledger did, told by its topic; how many dead letters that made.
fn told_by_topic(store: &mut Store, consumed: &[&str], produced: &[(&str, u64)]) -> usize {
    let partition = store.claim(&Source::Consumer(Topic::TokenUpdates, 0)).unwrap();
    let consumed = consumed.iter().map(|id| TokenId::from(*id)).collect();
    let update = TokenUpdate { trace: TraceId::NOBODY, consumed, produced: alices(produced) };
    let messages = [incoming(partition.offset, &update)];
    let step = done(store.token_updates(&partition, &Batch::new(partition.offset, &messages)).unwrap());
    assert_eq!(step.messages, 1);
    step.dead_letters
}

/// The rest of the message is taken at once, and the token goes with the hold, whatever ends that without paying.
#[test]
fn what_another_ledger_consumed_under_a_transfer_never_comes_free() {
    for expires in [false, true] {
        let Some((world, mut node)) = world() else { return };
        claim(&mut node.store, 1, &[("a60", 60), ("a40", 40)]);
        let end = if expires { NOW + 1_000 } else { FAR };
        node.ask(&[funded(1, 70, &["a60", "a40"], end)]);
        let store = &mut node.store;
        for _ in 0..2 {
            assert_eq!(told_by_topic(store, &["a60"], &[("u", 7)]), 0);
            alice(&world, 107, 100);
            let outside = store.tokens_gone_outside(10).unwrap();
            assert_eq!((outside.held, outside.paid), (1, 0));
            let refused = store.update_tokens(&["a60".into()], &[], None).unwrap();
            assert!(matches!(refused, Err(Refusal::Invalid(_))), "over HTTP as before: {refused:?}");
        }
        world.verify();
        if expires {
            world.set_clock(NOW + 2_000);
            node.expire();
        } else {
            node.ask(&[abort(1, 2)]);
        }
        // 40 are free again, the 60 are gone, and nobody gets them.
        alice(&world, 47, 0);
        let wanted = wanted("eve", &alices(&[("a60", 60)]));
        assert_eq!(node.store.claim_tokens(&[wanted], None).unwrap(), [ClaimVerdict::Taken]);
        let outside = node.store.tokens_gone_outside(10).unwrap();
        assert_eq!((outside.held, outside.paid), (0, 0));
        // Other nodes hear that it went, behind the release.
        let last = "SELECT event FROM token_change ORDER BY xid DESC, change_no DESC LIMIT 2";
        let last = world.sql().query(last, &[]).unwrap();
        let last: Vec<TokenEvent> =
            last.iter().map(|row| TokenEvent::from_json(row.get::<_, &str>(0).as_bytes()).unwrap()).collect();
        assert!(
            matches!(&last[..], [TokenEvent::Updated { consumed, .. }, TokenEvent::Released { .. }]
                if *consumed == [TokenId::from("a60")]),
            "{last:?}"
        );
        world.verify();
    }
}

/// Whoever was told RESERVED is paid. That it was paid twice is remembered.
#[test]
fn a_transfer_is_paid_also_out_of_what_another_ledger_consumed() {
    let Some((world, mut node)) = world() else { return };
    claim(&mut node.store, 1, &[("a60", 60)]);
    node.ask(&[funded(1, 50, &["a60"], FAR)]);
    assert_eq!(told_by_topic(&mut node.store, &["a60", "a40"], &[]), 0);
    alice(&world, 60, 60);
    node.ask(&[fulfil(1, 2)]);
    assert_eq!(wallets(&world), [("alice".to_owned(), 10, 0), ("bob".to_owned(), 50, 0)]);
    let outside = node.store.tokens_gone_outside(10).unwrap();
    assert_eq!((outside.held, outside.paid), (0, 1));
    assert_eq!(told_by_topic(&mut node.store, &["a60"], &[]), 0);
    assert_eq!(wallets(&world), [("alice".to_owned(), 10, 0), ("bob".to_owned(), 50, 0)]);
    world.verify();
}

/// At every point, the hold is there with RESERVED or not at all, and whoever takes over goes on.
#[test]
fn the_step_dies_at_every_point() {
    for at in Point::ALL {
        let Some((world, mut node)) = world() else { return };
        claim(&mut node.store, 1, &[("a60", 60)]);
        node.transfers.log = all(0, &[funded(1, 50, &["a60"], FAR)]);
        let queue = &mut node.transfers;
        died(world.doomed(at).transfers(&queue.claim, &queue.batch()), at);
        let held = "SELECT count(*) FROM token_selection WHERE payee_wallet IS NOT NULL";
        assert_eq!(world.count(held), i64::from(at == Point::Committed), "{at:?}");
        node.store = world.store();
        node.transfers.taken_over(&mut node.store);
        node.drain_transfers();
        node.first_hop(&[fulfil(1, 2)]);
        assert_eq!(wallets(&world), [("alice".to_owned(), 50, 0), ("bob".to_owned(), 50, 0)], "{at:?}");
        world.verify();
    }
}

/// A hold without its transfer, and a transfer without its hold, are found.
#[test]
fn what_does_not_belong_together_is_found() {
    let Some((world, mut node)) = world() else { return };
    claim(&mut node.store, 1, &[("a60", 60)]);
    node.ask(&[funded(1, 60, &["a60"], FAR)]);
    world.run("UPDATE token_selection SET amount = 59");
    world.finds("not reserved, or its amount is another");
    world.run("UPDATE token_selection SET payee_wallet = NULL");
    world.finds("is reserved, paid for by tokens, and holds none");
    // Nobody can end such a transfer, and nothing is made up for it.
    let outcome = node.store.transfers(&node.transfers.claim, &Batch::new(1, &all(1, &[fulfil(1, 2)])));
    match outcome {
        Ok(step) => assert_eq!(done(step).dead_letters, 1),
        Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
    }
    assert_eq!(world.state(TransferId(1)), "RESERVED");
}

#[test]
fn shattered_wallets_are_found_a_few_at_a_time() {
    let Some((_world, mut node)) = world() else { return };
    let store = &mut node.store;
    let many = |wallet: &str, count: usize| {
        let token = |number| Token::new(format!("{wallet}-{number:03}"), wallet, "EUR", 1);
        (0..count).map(token).collect::<Vec<Token>>()
    };
    for (wallet, count) in [("w1", 30), ("w2", 2), ("w3", 31)] {
        store.issue_tokens(&many(wallet, count), None).unwrap().unwrap();
    }
    let name = |scope: &holdfast_tokens::Scope| format!("{}/{}", scope.owner.name(), scope.currency);
    let first = store.wallets_after(None, 30, 2).unwrap();
    let shown: Vec<_> = first.iter().map(|(scope, many)| (name(scope), *many)).collect();
    assert_eq!(shown, [("alice/USD".to_owned(), false), ("w1/EUR".to_owned(), true)]);
    let rest = store.wallets_after(Some(&first[1].0), 30, 5).unwrap();
    let shown: Vec<_> = rest.iter().map(|(scope, many)| (name(scope), *many)).collect();
    assert_eq!(shown, [("w2/EUR".to_owned(), false), ("w3/EUR".to_owned(), true)]);
    // What is locked cannot be brought together.
    lock(store, "s", &many("w3", 2));
    assert!(store.wallets_after(None, 30, 10).unwrap().iter().filter(|(_, many)| *many).count() == 1);
}

fn funded_to(payee: &str, command: Command) -> Command {
    let Command::Prepare(mut prepare) = command else { unreachable!() };
    if let Some(funding) = prepare.funding.as_deref_mut() {
        funding.payee_wallet = payee.into();
    }
    Command::Prepare(prepare)
}

/// What cannot be stored is refused and told, and takes nobody else with it.
#[test]
fn a_payees_wallet_that_cannot_be_stored_gets_nothing() {
    let Some((world, mut node)) = world() else { return };
    claim(&mut node.store, 1, &[("a60", 60)]);
    node.ask(&[funded_to("bob\0", funded(1, 60, &["a60"], FAR))]);
    assert_eq!(node.dead_letters.len(), 0);
    assert_eq!(node.answered(asked(0)).state, Some(TransferState::AbortedRejected));
    alice(&world, 100, 0);
}

/// A statement's time and that of an idle transaction are bounded, so what a batch costs must follow its size: five thousand
/// tokens, and two thousand prepares that break a rule.
#[test]
fn large_batches_are_done_in_the_time_there_is() {
    let Some((world, mut node)) = world() else { return };
    let mut prepares = Vec::new();
    for id in 1..=5_u128 {
        let names: Vec<String> = (0..1_000).map(|number| format!("t{id}-{number:04}")).collect();
        let tokens: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        issue(&mut node.store, &tokens);
        claim(&mut node.store, id, &tokens);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        prepares.push(funded(id, 1_000, &names, FAR));
    }
    world.run("ANALYZE token; ANALYZE token_lock; ANALYZE token_selection");
    node.ask(&prepares);
    let fulfils: Vec<Command> = (1..=5).map(|id| fulfil(id, 2)).collect();
    node.ask(&fulfils);
    assert_eq!(wallets(&world), [("alice".to_owned(), 100, 0), ("bob".to_owned(), 5_000, 0)]);
    // Nobody pays itself.
    let invalid: Vec<Command> = (1_001..=3_000).map(|id| prepare(id, 1, 1, 5, FAR)).collect();
    node.ask(&invalid);
    assert_eq!(world.rows("transfer WHERE current_state = 2"), 2_000);
    world.verify();
}

#[test]
fn what_was_paid_out_is_what_the_spend_says() {
    let Some((world, mut node)) = world() else { return };
    for (id, (name, quantity)) in [(1, ("a60", 60)), (2, ("a40", 40))] {
        claim(&mut node.store, id, &[(name, quantity)]);
        node.ask(&[funded(id, 7, &[name], FAR), fulfil(id, 2)]);
    }
    world.verify();
    world.run("UPDATE token SET quantity = 700 WHERE token_id LIKE 'hold:%1.0'");
    world.finds("has another quantity");
    world
        .sql()
        .batch_execute(&format!(
            "UPDATE token_selection SET state = 'RELEASED' WHERE spender_tx_id = '{}';
             UPDATE token_lock SET spent = false, spender_tx_id = NULL, expires_at = NULL WHERE token_id = 'a40'",
            TransferId(2)
        ))
        .unwrap();
    world.finds("is committed, and the tokens that paid for it are not spent");
}
