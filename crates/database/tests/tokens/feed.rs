//! What a node knows of others' doings, also if nobody tells it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_database::tokens::alone::Alone;
use holdfast_database::tokens::limits::CHANGES_READ;
use holdfast_engine::Wallets as _;
use holdfast_messages::{Message as _, TokenEvent};
use holdfast_postgres::{Settings, Store};
use holdfast_services::Database;
use holdfast_tokens::{Output, Scope, SelectRequest, SpendRequest, Token};

use crate::world::{World, runtime, settings};

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
    hold(&world);
    Some(world)
}

fn hold(world: &World) {
    runtime().block_on(async {
        world.nodes[0].vault().issue(vec![token("held", 1)]).await.unwrap();
        for (number, node) in world.nodes.iter().enumerate() {
            let held = node.vault().select(SelectRequest::new("holder", scope(), 1), 0).await;
            assert!(held.is_ok(), "node {number}: {held:?}");
        }
    });
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
    // And more than are read at a time.
    let noise = "INSERT INTO token_change (event) SELECT $1 FROM generate_series(1, 2 * $2::bigint)";
    let nothing = String::from_utf8(TokenEvent::Issued(Vec::new()).to_json()).unwrap();
    let rows = i64::try_from(CHANGES_READ).unwrap();
    world.database.sql().execute(noise, &[&nothing, &rows]).unwrap();
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

/// Changes that were removed before a node read them: its cache begins anew, and whoever waits goes on waiting.
#[test]
fn a_node_that_is_far_behind_begins_anew() {
    let Some(world) = begun("tokens_behind") else { return };
    woken_by(&world, 1, || {
        // The release and the end of its change in one: nobody can read it, and only the gap tells of it.
        world.database.run(
            "BEGIN;
                 UPDATE token_lock SET spender_tx_id = NULL, expires_at = NULL WHERE spender_tx_id = 'holder';
                 UPDATE token_selection SET state = 'RELEASED' WHERE spender_tx_id = 'holder';
                 UPDATE token_progress SET removed_xid = pg_current_xact_id(), removed_no = 1;
                 COMMIT",
        );
    });
}

/// Tables that were dumped on one server and restored on another, whose transactions have low numbers.
#[test]
fn nodes_on_a_restored_database_see_what_happens() {
    let Some(world) = World::start("tokens_restored", 0, None) else { return };
    let database = world.database;
    let mut sql = database.sql();
    sql.batch_execute("UPDATE token_progress SET sent_xid = '9000000000', removed_xid = '9000000000'")
        .unwrap();
    let unsent = String::from_utf8(TokenEvent::Issued(vec![token("old", 1)]).to_json()).unwrap();
    sql.execute("INSERT INTO token_change (xid, event) VALUES ('9000000001', $1)", &[&unsent]).unwrap();
    let world = World::on(database, 2, None);
    hold(&world);
    woken_by(&world, 1, || {
        runtime().block_on(world.nodes[0].vault().release("holder".into(), None)).unwrap();
    });
    let unsent = "SELECT count(*) FROM token_change c, token_progress p
                  WHERE (c.xid, c.change_no) > (p.sent_xid, p.sent_no) AND c.xid < '1000000000'";
    assert_eq!(world.database.count(unsent), 3, "the issue of before, an issue and a release");
}

/// An owner whose load takes long, here because it waits for a lock, holds up nobody else.
#[test]
fn a_slow_load_holds_up_nobody_else() {
    let Some(world) = begun("tokens_slow_load") else { return };
    let runtime = runtime();
    let node = &world.nodes[1];
    let mut sql = world.database.sql();
    let mut slow = sql.transaction().unwrap();
    slow.batch_execute("LOCK TABLE token IN ACCESS EXCLUSIVE MODE").unwrap();
    let vault = node.vault().clone();
    let bob = Scope::wallet("bob", "EUR");
    let load = runtime.spawn(async move { vault.select(SelectRequest::new("b", bob, 1), 0).await });
    let waits = "SELECT count(*) FROM pg_locks WHERE relation = 'token'::regclass AND NOT granted";
    world.database.await_count(waits, |loads| loads == 1);
    // A shortage is told, and what others do is heard.
    let began = Instant::now();
    let short = runtime.block_on(node.vault().select(SelectRequest::new("s", scope(), 50), 0)).unwrap_err();
    assert_eq!(short.name(), "insufficient-funds");
    let mut store = Store::open_for_tokens(world.database.url(), Settings::default()).unwrap();
    store.release_tokens("holder", None, None).unwrap();
    while node.cached(&scope()).is_none_or(|balance| balance.free != 1) {
        assert!(began.elapsed() < SOON, "the node hears nothing while it loads");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(world.database.count(waits), 1, "it is loaded already");
    slow.rollback().unwrap();
    assert_eq!(runtime.block_on(load).unwrap().unwrap_err().name(), "insufficient-funds");
}

/// How often an owner is loaded, and of how many tokens.
const LOADS: usize = 12;
const TOKENS: usize = 20_000;

/// An owner that is loaded while others spend its tokens and give it new ones: nothing is missed, and nothing comes back.
#[test]
fn what_happens_during_a_load_is_in_the_cache() {
    let Some(world) = begun("tokens_busy_load") else { return };
    let runtime = runtime();
    let fill = format!(
        "INSERT INTO token_lock (token_id) SELECT 'many-' || n FROM generate_series(1, {TOKENS}) n;
         INSERT INTO token (token_id, wallet, token_type, currency, quantity, created_at)
         SELECT 'many-' || n, 'carol', 'token', 'EUR', 10, hub_clock() FROM generate_series(1, {TOKENS}) n"
    );
    world.database.run(&fill);
    let carol = Scope::wallet("carol", "EUR");
    let over = Arc::new(AtomicBool::new(false));
    let (vault, owner, end) = (world.nodes[0].vault().clone(), carol.clone(), Arc::clone(&over));
    let spender = runtime.spawn(async move {
        let mut number = 0;
        while !end.load(Ordering::Relaxed) {
            number += 1;
            let name = format!("spend-{number}");
            vault.select(SelectRequest::new(&*name, owner.clone(), 53), 0).await.unwrap();
            // 53 of 60: the rest comes back as a token of 7.
            vault.spend(SpendRequest::new(&*name, vec![Output::new("dave", 53)])).await.unwrap();
        }
        number
    });
    let node = &world.nodes[1];
    for load in 0..LOADS {
        node.begin_anew(0);
        let name = format!("load-{load}");
        runtime.block_on(async {
            node.vault().select(SelectRequest::new(&*name, carol.clone(), 1), 0).await.unwrap();
            node.vault().release((&*name).into(), None).await.unwrap();
        });
    }
    over.store(true, Ordering::Relaxed);
    let spends = runtime.block_on(spender).unwrap();
    let stored = runtime.block_on(node.vault().holdings(carol.clone())).unwrap().0;
    let until = Instant::now() + SOON;
    let cached = loop {
        let cached = node.cached(&carol).expect("loaded");
        if (cached.total, cached.tokens) == (stored.total, stored.tokens) || Instant::now() > until {
            break cached;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    };
    eprintln!("{spends} spends beside {LOADS} loads; stored {stored:?}, cached {cached:?}");
    assert_eq!((cached.total, cached.tokens), (stored.total, stored.tokens));
}

/// An owner that no cache has room for is refused, and those who ask for it again and again cost the others nothing.
#[test]
fn an_owner_that_is_too_large_leaves_the_others_their_place() {
    let Some(database) = Database::new("tokens_too_large") else { return };
    drop(Store::open(database.url(), Settings::default()).unwrap());
    let mut small = settings(&database, 1);
    small.tokens.cache_tokens_max = 10;
    let (node, runtime) = (Alone::start(small, None), runtime());
    let tokens = |wallet: &str, count: u64| -> Vec<Token> {
        (0..count).map(|number| Token::new(format!("{wallet}-{number}"), wallet, "EUR", 1)).collect()
    };
    runtime.block_on(node.vault().issue(tokens("large", 11))).unwrap();
    runtime.block_on(node.vault().issue(tokens("small", 3))).unwrap();
    let select = |spender: &str, wallet: &str| {
        let request = SelectRequest::new(spender, Scope::wallet(wallet, "EUR"), 1);
        runtime.block_on(node.vault().select(request, 0)).map_err(|refusal| refusal.name())
    };
    assert_eq!(select("a", "large"), Err("full"));
    select("b", "small").unwrap();
    assert_eq!(select("c", "large"), Err("full"));
    assert!(node.cached(&Scope::wallet("small", "EUR")).is_some(), "it had to make room");
    select("d", "small").unwrap();
}
