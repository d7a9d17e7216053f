//! Rows that another has in hand: they are waited for in one order, and not for long.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdfast_messages::{TokenUpdate, TraceId};
use holdfast_postgres::tokens::SpendVerdict;
use holdfast_postgres::{Done, Error, Settings, Store};
use holdfast_tokens::{Token, TokenId};

use crate::token_world::selected;
use crate::world::{Queue, World};

/// What another ledger has done, as a message.
fn update(consumed: &[&str], produced: Vec<Token>) -> TokenUpdate {
    let consumed = consumed.iter().map(|id| TokenId::from(*id)).collect();
    TokenUpdate { trace: TraceId::NOBODY, consumed, produced }
}

/// Takes over two messages, on another thread.
fn take_over(world: &World, messages: [TokenUpdate; 2]) -> JoinHandle<Done> {
    let mut store = world.store();
    std::thread::spawn(move || {
        let mut partition = Queue::new(&mut store, 0);
        messages.iter().for_each(|message| partition.say(message));
        partition.take(|claim, batch| store.token_updates(claim, batch)).unwrap()
    })
}

/// Who waits for a row waits once, for as long as its connection may.
#[test]
fn a_locked_row_is_waited_for_once() {
    let Some(world) = World::new() else { return };
    let settings = Settings { lock_timeout: Duration::from_millis(200), ..Settings::default() };
    let mut store = Store::open_for_tokens(&world.url, settings).unwrap();
    let spend = selected(&mut store, "s");
    let mut sql = world.sql();
    let mut other = sql.transaction().unwrap();
    other.batch_execute("SELECT FROM token_selection FOR UPDATE").unwrap();
    let began = Instant::now();
    let refused = store.spend_tokens(std::slice::from_ref(&spend), None).unwrap_err();
    let took = began.elapsed();
    assert!(matches!(refused, Error::Busy { attempts: 1, .. }), "{refused}");
    assert!(took < Duration::from_millis(600), "{took:?}");
    drop(other);
    assert_eq!(store.spend_tokens(&[spend], None).unwrap(), [Some(SpendVerdict::Spent)]);
}

/// An update that meets a spend waits for the selection and holds no token meanwhile: the spend goes through. In the other
/// order each would wait for the other.
#[test]
fn an_update_and_a_spend_do_not_wait_for_each_other() {
    let Some(world) = World::new() else { return };
    let mut store = Store::open_for_tokens(&world.url, Settings::default()).unwrap();
    let spends = [selected(&mut store, "a"), selected(&mut store, "b")];
    let mut sql = world.sql();
    // As a spend does in its first step: the selection is locked, its token not yet.
    let mut spend = sql.transaction().unwrap();
    spend.batch_execute("SELECT FROM token_selection WHERE spender_tx_id = 'b' FOR UPDATE").unwrap();
    // In the order of the messages `b` comes first.
    let update = take_over(&world, [update(&["t-b"], Vec::new()), update(&["t-a"], Vec::new())]);
    world.await_waiting();
    // And in its second: nobody has the token in hand.
    let second = "SELECT FROM token_lock WHERE token_id = 't-b' FOR UPDATE NOWAIT";
    spend.batch_execute(second).unwrap();
    spend.commit().unwrap();
    let step = update.join().unwrap();
    assert_eq!((step.messages, step.dead_letters, step.retries), (2, 0, 0));
    assert_eq!(
        store.spend_tokens(&spends, None).unwrap(),
        [Some(SpendVerdict::Lost), Some(SpendVerdict::Lost)]
    );
}

/// A token that came after an update had locked what was there, and that a step is just making a hold of: the update waits for
/// the step, and the token goes with the hold. The hold is not broken.
#[test]
fn an_update_waits_for_a_hold_of_what_came_late() {
    let Some(world) = World::new() else { return };
    let mut store = Store::open_for_tokens(&world.url, Settings::default()).unwrap();
    let (mut first, mut second) = (world.sql(), world.sql());
    // Somebody else is about to produce what the first message produces: the batch has its locks, and waits there.
    let mut producer = first.transaction().unwrap();
    producer.batch_execute("INSERT INTO token_lock (token_id) VALUES ('p')").unwrap();
    let produces = update(&[], vec![Token::new("p", "alice", "EUR", 1)]);
    let update = take_over(&world, [produces, update(&["t-late"], Vec::new())]);
    world.await_waiting();
    // Now the token comes, is claimed, and a step makes a hold of the claim. It begins with the selection.
    selected(&mut store, "late");
    let mut step = second.transaction().unwrap();
    step.batch_execute("UPDATE token_selection SET payee_wallet = 'shop', expires_at = 'infinity'").unwrap();
    producer.rollback().unwrap();
    let waits_for_the_step = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
         AND wait_event_type = 'Lock' AND query NOT LIKE 'INSERT INTO token_lock%'";
    world.await_count(waits_for_the_step, 1);
    step.commit().unwrap();
    let done = update.join().unwrap();
    assert_eq!((done.messages, done.dead_letters, done.retries), (2, 0, 0));
    assert_eq!(world.rows("token_selection WHERE state = 'HELD'"), 1);
    let kept = "SELECT count(*) FROM token_lock WHERE token_id = 't-late' AND gone_outside AND NOT spent AND fence IS NOT NULL";
    assert_eq!(world.count(kept), 1, "it is the hold's, and goes with it");
}

/// Who gives back what a transfer has just made a hold of is told so, and nobody hears of a release that was none.
#[test]
fn a_release_that_meets_a_hold_is_refused() {
    let Some(world) = World::new() else { return };
    let mut store = Store::open_for_tokens(&world.url, Settings::default()).unwrap();
    selected(&mut store, "s");
    let changes = world.rows("token_change");
    let mut sql = world.sql();
    let mut step = sql.transaction().unwrap();
    step.batch_execute("UPDATE token_selection SET payee_wallet = 'shop', expires_at = 'infinity'").unwrap();
    let release = std::thread::spawn(move || store.release_tokens("s", None, None));
    world.await_waiting();
    step.commit().unwrap();
    let refused = release.join().unwrap().unwrap_err();
    assert!(refused.to_string().contains("a transfer or checkout holds it"), "{refused}");
    assert_eq!(world.rows("token_change"), changes);
}
