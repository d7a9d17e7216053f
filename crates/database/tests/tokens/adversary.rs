//! Attacks: what an adversary who knows the tables and the caches would try.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_database::tokens::alone::Alone;
use holdfast_database::tokens::limits::CHANGES_READ;
use holdfast_engine::{TokenError, Wallets as _};
use holdfast_messages::{Message as _, TokenEvent};
use holdfast_postgres::tokens::{Position, Tidied};
use holdfast_postgres::{Settings, Source, Store};
use holdfast_services::PATIENCE;
use holdfast_tokens::{Output, Owner, Scope, SelectRequest, SpendRequest, Token};

use crate::world::{World, runtime, settings};

fn wallet(name: &str) -> Scope {
    Scope::wallet(name, "EUR")
}

/// The owner whose tokens lie in several wallets.
fn everywhere() -> Scope {
    Scope::new(Owner::ExternalId("x".into()), "EUR")
}

fn token(id: &str, wallet: &str, quantity: u64) -> Token {
    Token::new(id, wallet, "EUR", quantity).external_id("x")
}

fn store(world: &World) -> Store {
    Store::open_for_tokens(world.database.url(), Settings::default()).unwrap()
}

/// The sum of all tokens that are not spent.
fn money(world: &World) -> i64 {
    world.database.count(
        "SELECT coalesce(sum(t.quantity), 0)::bigint FROM token t JOIN token_lock l USING (token_id) WHERE NOT l.spent",
    )
}

/// A selection over two wallets, made at one node; the other has seen only one of the wallets.
fn half_seen(name: &str) -> Option<World> {
    let world = World::start(name, 2, None)?;
    runtime().block_on(async {
        let (here, there) = (world.nodes[0].vault(), world.nodes[1].vault());
        here.issue(vec![token("t-a", "a", 100), token("t-b", "b", 100)]).await.unwrap();
        let held = here.select(SelectRequest::new("s", everywhere(), 200), 0).await.unwrap();
        assert_eq!(held.tokens.len(), 2);
        let refused = there.select(SelectRequest::new("other", wallet("a"), 100), 0).await.unwrap_err();
        assert_eq!(refused.name(), "funds-locked", "{refused}");
    });
    Some(world)
}

/// What a node knows half of is spent whole, wherever the spend is asked for.
#[test]
fn a_selection_that_a_node_knows_half_of_is_spent_whole() {
    let Some(world) = half_seen("tokens_half_spent") else { return };
    let runtime = runtime();
    let (here, there) = (world.nodes[0].vault(), world.nodes[1].vault());
    let spend = SpendRequest::new("s", vec![Output::new("shop", 60)]);
    let done = runtime.block_on(there.spend(spend)).unwrap();
    assert_eq!(money(&world), 200, "money was made or lost");
    let mut consumed: Vec<&str> = done.consumed.iter().map(|id| id.as_str()).collect();
    consumed.sort_unstable();
    let locked = "SELECT count(*) FROM token_lock WHERE NOT spent AND spender_tx_id = 's' AND expires_at > hub_clock()";
    let frozen = world.database.count(locked);
    assert_eq!(consumed, ["t-a", "t-b"]);
    assert_eq!(frozen, 0, "a spent selection holds tokens");
    let freed = runtime.block_on(there.release("s".into(), None));
    assert_eq!(freed.unwrap(), 0, "there is nothing left to give back");
    let other = runtime.block_on(here.select(SelectRequest::new("next", everywhere(), 141), 0));
    assert_eq!(other.unwrap_err().name(), "insufficient-funds", "the change is all that is left");
}

/// A lock over two wallets is seen in both, also by a node that saw the one before the other.
#[test]
fn a_lock_over_two_wallets_is_seen_in_both() {
    let Some(world) = half_seen("tokens_half_seen") else { return };
    runtime().block_on(async {
        let there = world.nodes[1].vault();
        let refused = there.select(SelectRequest::new("other", wallet("b"), 100), 0).await.unwrap_err();
        assert_eq!(refused.name(), "funds-locked", "{refused}");
    });
}

/// A transaction that stays open anywhere on the server does not blind the nodes, however much happens meanwhile; and what it
/// has to tell itself is seen when it ends.
#[test]
fn an_open_transaction_does_not_blind_the_nodes() {
    let Some(world) = World::start("tokens_blind", 2, None) else { return };
    let runtime = runtime();
    let (here, there) = (world.nodes[0].vault(), world.nodes[1].vault());
    runtime.block_on(async {
        here.issue(vec![Token::new("seed", "alice", "EUR", 1)]).await.unwrap();
        there.select(SelectRequest::new("s", wallet("alice"), 1), 0).await.unwrap();
    });
    let mut sql = world.database.sql();
    let mut open = sql.transaction().unwrap();
    let event = TokenEvent::Issued(vec![Token::new("own", "alice", "EUR", 1_000)]);
    let json = String::from_utf8(event.to_json()).unwrap();
    open.execute("INSERT INTO token_change (event) VALUES ($1)", &[&json]).unwrap();
    open.batch_execute(
        "INSERT INTO token_lock (token_id) VALUES ('own');
         INSERT INTO token (token_id, wallet, token_type, currency, quantity, created_at)
         VALUES ('own', 'alice', 'token', 'EUR', 1000, hub_clock())",
    )
    .unwrap();
    let (found, balance) = runtime.block_on(async {
        for number in 0..=CHANGES_READ {
            let id = format!("noise-{number}");
            here.issue(vec![Token::new(id, "bob", "EUR", 1)]).await.unwrap();
        }
        here.issue(vec![Token::new("late", "alice", "EUR", 100)]).await.unwrap();
        let found = there.select(SelectRequest::new("t", wallet("alice"), 100), 0).await;
        (found, there.holdings(wallet("alice")).await.unwrap().0)
    });
    assert!(found.is_ok(), "{found:?}; the database counts {balance:?}");
    open.commit().unwrap();
    let found = runtime.block_on(there.select(SelectRequest::new("u", wallet("alice"), 1_000), 0));
    assert_eq!(found.expect("it reads before it says no").tokens[0].id.as_str(), "own");
}

/// As if the topic had all of it.
const SENT: &str =
    "UPDATE token_progress SET sent_xid = (SELECT max(xid) FROM token_change), sent_no = 1000000";

/// All that a keeper removes who remembers so long.
fn tidied(world: &World, memory: Duration) -> (Tidied, Tidied) {
    let mut store = store(world);
    let claim = store.claim(&Source::Tokens).unwrap();
    let all = Position { xid: u64::MAX, change_no: 0 };
    let changes = store.tidy_changes(&claim, all, Duration::ZERO, 1_000, None).unwrap();
    let (selections, _) = store.tidy_selections(&claim, memory, None, 1_000, None).unwrap();
    // Whoever has lost its epoch removes nothing.
    assert_ne!(store.claim(&Source::Tokens).unwrap().epoch, claim.epoch);
    assert!(store.tidy_changes(&claim, all, Duration::ZERO, 1_000, None).unwrap().is_nothing());
    (changes, selections)
}

/// A lease that ended long ago, and whose tokens were spent by another and are gone: it is lost, no more.
#[test]
fn a_lease_that_ended_is_lost_also_when_its_tokens_are_gone() {
    let Some(world) = World::start("tokens_gone", 1, None) else { return };
    let runtime = runtime();
    let here = world.nodes[0].vault();
    runtime.block_on(async {
        here.issue(vec![token("t", "a", 100)]).await.unwrap();
        let short = SelectRequest { lease_ms: 1, ..SelectRequest::new("slow", wallet("a"), 100) };
        here.select(short, 0).await.unwrap();
        here.select(SelectRequest::new("fast", wallet("a"), 100), 1_000).await.unwrap();
        here.spend(SpendRequest::new("fast", vec![Output::new("b", 100)])).await.unwrap();
    });
    // As the keeper does, once the topic has it and its time is over.
    world.database.run(SENT);
    let gone = tidied(&world, Duration::from_secs(3_600));
    assert_eq!(gone.0.tokens, 1, "{gone:?}");
    let late = SpendRequest::new("slow", vec![Output::new("c", 1)]);
    let refused = runtime.block_on(here.spend(late)).unwrap_err();
    assert_eq!(refused.name(), "lease-lost", "{refused}");
}

/// What was spent does not come back with a late repeat of the update that brought it, however late.
#[test]
fn a_spent_token_does_not_come_back_with_a_late_repeat() {
    let Some(world) = World::start("tokens_back", 1, None) else { return };
    let runtime = runtime();
    let here = world.nodes[0].vault();
    let produced = vec![token("t", "a", 100)];
    runtime.block_on(async {
        here.update(Vec::new(), produced.clone()).await.unwrap();
        here.select(SelectRequest::new("s", wallet("a"), 100), 0).await.unwrap();
        here.spend(SpendRequest::new("s", vec![Output::new("shop", 100)])).await.unwrap();
    });
    let mut sql = world.database.sql();
    sql.batch_execute(SENT).unwrap();
    sql.batch_execute("UPDATE token_selection SET changed_at = changed_at - interval '8 days'").unwrap();
    let memory = holdfast_database::tokens::limits::MEMORY;
    let gone = tidied(&world, memory);
    assert_eq!((gone.0.tokens, gone.1.selections), (1, 1), "nothing is left that would remember: {gone:?}");
    assert_eq!(money(&world), 100);
    // Kafka delivers at least once, and an outside ledger may tell its story from the beginning.
    let counts = runtime.block_on(here.update(Vec::new(), produced)).unwrap();
    assert_eq!(money(&world), 100, "a spent token is alive again: {counts:?}");
}

/// Large selections over several wallets are no burden on requests for other wallets.
#[test]
fn large_selections_elsewhere_are_no_burden() {
    let Some(world) = World::start("tokens_burden", 1, None) else { return };
    let (runtime, here) = (runtime(), world.nodes[0].vault());
    runtime.block_on(here.issue(vec![Token::new("mine", "other", "EUR", 5)])).unwrap();
    // As other nodes have them: tokens that this node never looked at. There may be a thousand of these.
    world.database.run(
        "INSERT INTO token_selection
                 (spender_tx_id, state, fence, body, amount, token_ids, created_at, expires_at, changed_at)
             SELECT 'large-' || s, 'HELD', nextval('token_fence'), gen_random_uuid(), 10000,
                 ARRAY(SELECT 'dust-' || s || '-' || n FROM generate_series(1, 10000) n),
                 hub_clock(), hub_clock() + interval '1 hour', hub_clock()
             FROM generate_series(1, 5) s",
    );
    let began = Instant::now();
    runtime.block_on(here.select(SelectRequest::new("s", wallet("other"), 5), 0)).unwrap();
    let first = began.elapsed();
    let began = Instant::now();
    runtime.block_on(here.select(SelectRequest::new("t", wallet("other"), 5), 0)).unwrap_err();
    let refused = began.elapsed();
    assert!(first < Duration::from_secs(1) && refused < Duration::from_secs(1), "{first:?} {refused:?}");
}

/// Whoever waits is answered when its time is over, also if caches are replaced meanwhile.
#[test]
fn nobody_waits_in_a_cache_that_was_replaced() {
    let Some(world) = World::start("tokens_replaced", 1, None) else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let vault = world.nodes[0].vault().clone();
    runtime.block_on(async {
        vault.issue(vec![token("t", "a", 1)]).await.unwrap();
        let holder = SelectRequest::new("holder", wallet("a"), 1);
        vault.select(SelectRequest { lease_ms: 600_000, ..holder }, 0).await.unwrap();
    });
    let mut sql = world.database.sql();
    // Each look finds that a part of the story is missing.
    sql.batch_execute("UPDATE token_progress SET removed_xid = '9000000000', removed_no = 1").unwrap();
    let wait = |number| {
        let vault = vault.clone();
        let request = SelectRequest::new(format!("w-{number}"), wallet("a"), 1);
        runtime.spawn(async move { vault.select(request, 4_000).await })
    };
    let tasks: Vec<_> = (0..400).map(wait).collect();
    // So long the story stays broken; nothing is waited for.
    std::thread::park_timeout(Duration::from_secs(2));
    sql.batch_execute("UPDATE token_progress SET removed_xid = '0', removed_no = 0").unwrap();
    let (hung, named) = runtime.block_on(async {
        let until = tokio::time::Instant::now() + Duration::from_secs(15);
        let (mut hung, mut named) = (0, BTreeMap::<&str, usize>::new());
        for task in tasks {
            match tokio::time::timeout_at(until, task).await {
                Ok(answer) => {
                    let name = answer.unwrap().err().map_or("selected", |error: TokenError| error.name());
                    *named.entry(name).or_default() += 1;
                }
                Err(_) => hung += 1,
            }
        }
        (hung, named)
    });
    assert_eq!(hung, 0, "they wait for ever; the others: {named:?}");
    assert!(!named.contains_key("selected"), "the token is another's: {named:?}");
}

/// A spend that others were in the way of has not lost its lease.
#[test]
fn a_spend_that_is_held_up_has_not_lost_its_lease() {
    let Some(world) = World::start("tokens_held_up", 0, None) else { return };
    let mut settings = settings(&world.database, 1);
    settings.store.lock_timeout = Duration::from_millis(100);
    let node = Alone::start(settings, None);
    let (runtime, here) = (runtime(), node.vault());
    let spend = SpendRequest::new("s", vec![Output::new("shop", 1)]);
    runtime.block_on(async {
        here.issue(vec![token("t", "a", 1)]).await.unwrap();
        here.select(SelectRequest::new("s", wallet("a"), 1), 0).await.unwrap();
    });
    let mut sql = world.database.sql();
    let mut other = sql.transaction().unwrap();
    other.batch_execute("SELECT FROM token_selection WHERE spender_tx_id = 's' FOR UPDATE").unwrap();
    let refused = runtime.block_on(here.spend(spend.clone())).unwrap_err();
    drop(other);
    let then = runtime.block_on(here.spend(spend));
    assert!(then.is_ok(), "{then:?}");
    assert_ne!(refused.name(), "lease-lost", "it had not ended: the same spend went later");
}

/// A fence that no selection can have is refused as any other wrong one.
#[test]
fn an_impossible_fence_is_a_lost_lease() {
    let Some(world) = World::start("tokens_fence", 1, None) else { return };
    runtime().block_on(async {
        let here = world.nodes[0].vault();
        here.issue(vec![token("t", "a", 1)]).await.unwrap();
        here.select(SelectRequest::new("s", wallet("a"), 1), 0).await.unwrap();
        for fence in [0, u64::MAX] {
            let renewed = here.renew("s".into(), Some(fence), 1_000).await.unwrap_err();
            let released = here.release("s".into(), Some(fence)).await.unwrap_err();
            let spent = here
                .spend(SpendRequest {
                    fence: Some(fence),
                    ..SpendRequest::new("s", vec![Output::new("b", 1)])
                })
                .await
                .unwrap_err();
            let names = [renewed.name(), released.name(), spent.name()];
            assert_eq!(names, ["lease-lost"; 3], "fence {fence}");
        }
        assert!(here.locks(None, Some(u64::MAX), 10).await.unwrap().locks.is_empty());
    });
}

/// Same spender, same request, another node: the same answer, though this node remembers an older selection.
#[test]
fn the_same_request_gets_the_same_answer_at_a_node_that_is_behind() {
    let Some(world) = World::start("tokens_same", 2, None) else { return };
    runtime().block_on(async {
        let (here, there) = (world.nodes[0].vault(), world.nodes[1].vault());
        here.issue((0..50).map(|n| token(&format!("t-{n}"), "a", 10)).collect()).await.unwrap();
        let mut wrong = Vec::new();
        for round in 0..20 {
            let spender = format!("s-{round}");
            let first = SelectRequest::new(&*spender, wallet("a"), 10);
            let second = SelectRequest::new(&*spender, wallet("a"), 20);
            there.select(first, 1_000).await.unwrap();
            here.release((&*spender).into(), None).await.unwrap();
            let held = here.select(second.clone(), 1_000).await.unwrap();
            match there.select(second, 0).await {
                Ok(again) => assert_eq!(again.fence, held.fence),
                Err(refusal) => wrong.push(refusal.to_string()),
            }
            here.release((&*spender).into(), None).await.unwrap();
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}

/// Many who wait until the same moment all hear soon after it.
#[test]
fn a_crowd_that_waits_is_answered_in_time() {
    let Some(world) = World::start("tokens_crowd_waits", 1, None) else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let vault = world.nodes[0].vault().clone();
    runtime.block_on(async {
        vault.issue(vec![token("t", "a", 1)]).await.unwrap();
        vault.select(SelectRequest::new("holder", wallet("a"), 1), 0).await.unwrap();
        let tasks: Vec<_> = (0..2_000)
            .map(|number| {
                let vault = vault.clone();
                tokio::spawn(async move {
                    let began = Instant::now();
                    let refused =
                        vault.select(SelectRequest::new(format!("w-{number}"), wallet("a"), 1), 1_000).await;
                    (began.elapsed(), refused.unwrap_err().name())
                })
            })
            .collect();
        let mut longest = Duration::ZERO;
        for task in tasks {
            let (took, name) = task.await.unwrap();
            assert_eq!(name, "funds-locked");
            longest = longest.max(took);
        }
        assert!(longest < Duration::from_secs(3), "{longest:?}");
    });
}

/// A lease that another node has renewed to an earlier end is over for all at that end, also for those who wait already.
#[test]
fn a_lease_that_another_node_made_shorter_ends_for_all() {
    let Some(world) = World::start("tokens_shorter", 2, None) else { return };
    runtime().block_on(async {
        let (here, there) = (world.nodes[0].vault(), world.nodes[1].vault());
        here.issue(vec![token("t", "a", 1), token("u", "b", 1)]).await.unwrap();
        for (spender, of) in [("s", "a"), ("l", "b")] {
            let request = SelectRequest::new(spender, wallet(of), 1);
            here.select(SelectRequest { lease_ms: 3_600_000, ..request }, 0).await.unwrap();
        }
        // Over before it is looked at, and over while it is waited for.
        there.renew("s".into(), None, 1).await.unwrap();
        there.renew("l".into(), None, 3_000).await.unwrap();
        let next = here.select(SelectRequest::new("next", wallet("a"), 1), 100).await;
        assert_eq!(next.map_err(|refusal| refusal.to_string()).unwrap().tokens[0].id.as_str(), "t");
        let later = here.select(SelectRequest::new("later", wallet("b"), 1), 0).await.unwrap_err();
        assert_eq!(later.name(), "funds-locked", "not yet");
        let later = here.select(SelectRequest::new("later", wallet("b"), 1), 10_000).await;
        assert_eq!(later.map_err(|refusal| refusal.to_string()).unwrap().tokens[0].id.as_str(), "u");
        // Nobody looks again for whoever waits already: he is told.
        here.renew("later".into(), None, 3_600_000).await.unwrap();
        let last = here.select(SelectRequest::new("last", wallet("b"), 1), 30_000);
        let shorten = async {
            let until = Instant::now() + PATIENCE;
            while here.waiting() == 0 {
                assert!(Instant::now() < until, "nobody waits");
                tokio::task::yield_now().await;
            }
            there.renew("later".into(), None, 1).await.unwrap();
        };
        let began = Instant::now();
        let (last, ()) = tokio::join!(last, shorten);
        // At the end of its wait it would look for itself.
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        assert_eq!(last.map_err(|refusal| refusal.to_string()).unwrap().tokens[0].id.as_str(), "u");
    });
}

/// Whoever takes what he can get gets all there is, also what this node believes to be locked still.
#[test]
fn a_shortfall_is_looked_at_twice() {
    let Some(world) = World::start("tokens_shortfall", 1, None) else { return };
    let (runtime, vault) = (runtime(), world.nodes[0].vault());
    runtime.block_on(vault.issue(vec![token("t", "a", 5), token("u", "a", 6)])).unwrap();
    let long = SelectRequest { lease_ms: 3_600_000, ..SelectRequest::new("s", wallet("a"), 5) };
    runtime.block_on(vault.select(long, 0)).unwrap();
    // As after a lock was put back that had ended: nobody is told.
    let ended = "UPDATE token_selection SET expires_at = now(); UPDATE token_lock SET expires_at = now()";
    world.database.run(ended);
    let all = SelectRequest { allow_shortfall: true, ..SelectRequest::new("next", wallet("a"), 100) };
    assert_eq!(runtime.block_on(vault.select(all, 0)).unwrap().sum, 11);
}
