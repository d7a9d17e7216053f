//! What a node knows of others' doings, also if nobody tells it.

use std::time::{Duration, Instant};

use holdfast_messages::{Message as _, TokenEvent};
use holdfast_postgres::{Settings, Store};
use holdfast_tokens::{Output, Scope, SelectRequest, SpendRequest, Token};

use crate::world::{World, runtime};

const WAIT_MS: i64 = 20_000;
/// Far below the wait, far above what a look costs.
const SOON: Duration = Duration::from_secs(5);

fn scope() -> Scope {
    Scope::wallet("alice", "EUR")
}

fn token(id: &str, quantity: u64) -> Token {
    Token::new(id, "alice", "EUR", quantity)
}

/// A wallet with a token of 1 that somebody holds, known at both nodes.
fn begun(name: &str) -> Option<World> {
    let world = World::start(name, 2, None)?;
    runtime().block_on(async {
        world.nodes[0].vault().issue(vec![token("held", 1)]).await.unwrap();
        for (number, node) in world.nodes.iter().enumerate() {
            let held = node.vault().select(SelectRequest::new("holder", scope(), 1), 0).await;
            assert!(held.is_ok(), "node {number}: {held:?}");
        }
    });
    Some(world)
}

/// Somebody waits at the second node while something happens elsewhere.
fn woken_by(world: &World, amount: u64, happens: impl FnOnce()) {
    let runtime = runtime();
    let waiting = world.nodes[1].vault().clone();
    let began = Instant::now();
    let waiter = runtime
        .spawn(async move { waiting.select(SelectRequest::new("waiter", scope(), amount), WAIT_MS).await });
    while world.nodes[1].vault().waiting() == 0 {
        assert!(began.elapsed() < SOON, "nobody waits");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    happens();
    let selected = runtime.block_on(waiter).unwrap().unwrap();
    assert_eq!(selected.sum, u128::from(amount));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// The change is there and its notification is lost.
#[test]
fn a_change_that_nobody_tells_of_is_found() {
    let Some(world) = begun("tokens_untold") else { return };
    woken_by(&world, 1, || {
        let mut store = Store::open_for_tokens(world.database.url(), Settings::default()).unwrap();
        store.release_tokens("holder", None, None).unwrap();
    });
}

/// A transaction that began early and commits late is not passed over, though others were read meanwhile.
#[test]
fn a_late_commit_is_not_passed_over() {
    let Some(world) = begun("tokens_late") else { return };
    let runtime = runtime();
    let mut sql = world.database.sql();
    let mut late = sql.transaction().unwrap();
    let event = TokenEvent::Issued(vec![token("late", 100)]);
    let json = String::from_utf8(event.to_json()).unwrap();
    late.execute("INSERT INTO token_change (event) VALUES ($1)", &[&json]).unwrap();
    late.batch_execute(
        "INSERT INTO token_lock (token_id) VALUES ('late');
         INSERT INTO token (token_id, wallet, token_type, currency, quantity, created_at)
         VALUES ('late', 'alice', 'token', 'EUR', 100, hub_clock())",
    )
    .unwrap();
    // Younger transactions are done and read by all.
    for number in 0..3 {
        let (spender, id) = (format!("young-{number}"), format!("young-{number}"));
        runtime.block_on(async {
            world.nodes[0].vault().issue(vec![token(&id, 7)]).await.unwrap();
            let there = world.nodes[1].vault();
            there.select(SelectRequest::new(&*spender, scope(), 7), WAIT_MS).await.unwrap();
            there.spend(SpendRequest::new(&*spender, vec![Output::new("bob", 7)])).await.unwrap();
        });
    }
    let refused = runtime
        .block_on(world.nodes[1].vault().select(SelectRequest::new("early", scope(), 100), 0))
        .unwrap_err();
    assert_eq!(refused.name(), "insufficient-funds");
    late.commit().unwrap();
    let found = runtime.block_on(async {
        // What can never be is refused at once; so this asks again until the look at the changes has come.
        let until = Instant::now() + SOON;
        loop {
            let found = world.nodes[1].vault().select(SelectRequest::new("after", scope(), 100), 0).await;
            if found.is_ok() || Instant::now() > until {
                break found;
            }
        }
    });
    assert_eq!(found.unwrap().tokens[0].id.as_str(), "late");
}

/// Changes that were removed before a node read them: its picture begins anew, and whoever waits goes on waiting.
#[test]
fn a_node_that_is_far_behind_begins_anew() {
    let Some(world) = begun("tokens_behind") else { return };
    woken_by(&world, 1, || {
        let mut sql = world.database.sql();
        sql.batch_execute("UPDATE token_progress SET removed_xid = '9000000000', removed_no = 1").unwrap();
        let mut store = Store::open_for_tokens(world.database.url(), Settings::default()).unwrap();
        store.release_tokens("holder", None, None).unwrap();
        // From now on the story is whole again.
        sql.batch_execute("UPDATE token_progress SET removed_xid = '0', removed_no = 0").unwrap();
    });
}
