//! Rows that another has in hand: they are waited for in one order, and not for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_messages::{TokenUpdate, Topic, TraceId};
use holdfast_postgres::tokens::{ClaimVerdict, SpendVerdict, WantedClaim, WantedSpend};
use holdfast_postgres::{Batch, Error, Settings, Source, Store};
use holdfast_services::Database;
use holdfast_tokens::{Fingerprint, Token, TokenId, Transaction};

use crate::world::{done, incoming};

fn selected(store: &mut Store, name: &str) -> WantedSpend {
    let token = Token::new(format!("t-{name}"), "alice", "EUR", 1);
    store.issue_tokens(std::slice::from_ref(&token), None).unwrap().unwrap();
    let (spender, body, tokens) = (name.into(), Fingerprint(1), Arc::from([token.clone()]));
    let wanted = WantedClaim { spender, body, amount: 1, lease_ms: 60_000, tokens };
    let verdicts = store.claim_tokens(&[wanted], None).unwrap();
    let ClaimVerdict::Locked { fence, .. } = verdicts[0] else { panic!("{verdicts:?}") };
    let produced = vec![Token::new(format!("p-{name}"), "bob", "EUR", 1)];
    let transaction =
        Transaction { id: name.into(), spender: name.into(), consumed: vec![token.id], produced };
    WantedSpend { fence, body: Fingerprint(2), transaction }
}

/// Who waits for a row waits once, for as long as its connection may.
#[test]
fn a_locked_row_is_waited_for_once() {
    let Some(database) = Database::new("token_wait_once") else { return };
    let settings = Settings { lock_timeout: Duration::from_millis(200), ..Settings::default() };
    let mut store = Store::open_for_tokens(database.url(), settings).unwrap();
    let spend = selected(&mut store, "s");
    let mut sql = database.sql();
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
    let Some(database) = Database::new("token_order") else { return };
    let mut store = Store::open_for_tokens(database.url(), Settings::default()).unwrap();
    let spends = [selected(&mut store, "a"), selected(&mut store, "b")];
    let mut sql = database.sql();
    // As a spend does in its first step: the selection is locked, its token not yet.
    let mut spend = sql.transaction().unwrap();
    spend.batch_execute("SELECT FROM token_selection WHERE spender_tx_id = 'b' FOR UPDATE").unwrap();
    let url = database.url().to_owned();
    let update = std::thread::spawn(move || {
        let mut store = Store::open(&url, Settings::default()).unwrap();
        let partition = store.claim(&Source::consumer(Topic::TokenUpdates, 0)).unwrap();
        // In the order of the messages `b` comes first.
        let update = |id: &str| TokenUpdate {
            trace: TraceId::NOBODY,
            consumed: vec![TokenId::from(id)],
            produced: Vec::new(),
        };
        let messages = [incoming(0, &update("t-b")), incoming(1, &update("t-a"))];
        done(store.token_updates(&partition, &Batch::new(0, &messages)).unwrap())
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    database.await_count(waits, |waiting| waiting == 1);
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
    let Some(database) = Database::new("token_late_hold") else { return };
    let mut store = Store::open_for_tokens(database.url(), Settings::default()).unwrap();
    let (mut first, mut second) = (database.sql(), database.sql());
    // Somebody else is about to produce what the first message produces: the batch has its locks, and waits there.
    let mut producer = first.transaction().unwrap();
    producer.batch_execute("INSERT INTO token_lock (token_id) VALUES ('p')").unwrap();
    let url = database.url().to_owned();
    let update = std::thread::spawn(move || {
        let mut store = Store::open(&url, Settings::default()).unwrap();
        let partition = store.claim(&Source::consumer(Topic::TokenUpdates, 0)).unwrap();
        let update = |consumed: &[&str], produced: Vec<Token>| TokenUpdate {
            trace: TraceId::NOBODY,
            consumed: consumed.iter().map(|id| TokenId::from(*id)).collect(),
            produced,
        };
        let produces = update(&[], vec![Token::new("p", "alice", "EUR", 1)]);
        let messages = [incoming(0, &produces), incoming(1, &update(&["t-late"], Vec::new()))];
        done(store.token_updates(&partition, &Batch::new(0, &messages)).unwrap())
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    database.await_count(waits, |waiting| waiting == 1);
    // Now the token comes, is claimed, and a step makes a hold of the claim. It begins with the selection.
    selected(&mut store, "late");
    let mut step = second.transaction().unwrap();
    step.batch_execute("UPDATE token_selection SET payee_wallet = 'shop', expires_at = 'infinity'").unwrap();
    producer.rollback().unwrap();
    let waits_for_the_step = format!("{waits} AND query NOT LIKE 'INSERT INTO token_lock%'");
    database.await_count(&waits_for_the_step, |waiting| waiting == 1);
    step.commit().unwrap();
    let done = update.join().unwrap();
    assert_eq!((done.messages, done.dead_letters, done.retries), (2, 0, 0));
    assert_eq!(database.count("SELECT count(*) FROM token_selection WHERE state = 'HELD'"), 1);
    let kept = "SELECT count(*) FROM token_lock WHERE token_id = 't-late' AND gone_outside AND NOT spent AND fence IS NOT NULL";
    assert_eq!(database.count(kept), 1, "it is the hold's, and goes with it");
}

/// Who gives back what a transfer has just made a hold of is told so, and nobody hears of a release that was none.
#[test]
fn a_release_that_meets_a_hold_is_refused() {
    let Some(database) = Database::new("token_release_hold") else { return };
    let mut store = Store::open_for_tokens(database.url(), Settings::default()).unwrap();
    selected(&mut store, "s");
    let changes = database.count("SELECT count(*) FROM token_change");
    let mut sql = database.sql();
    let mut step = sql.transaction().unwrap();
    step.batch_execute("UPDATE token_selection SET payee_wallet = 'shop', expires_at = 'infinity'").unwrap();
    let release = std::thread::spawn(move || store.release_tokens("s", None, None));
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    database.await_count(waits, |waiting| waiting == 1);
    step.commit().unwrap();
    let refused = release.join().unwrap().unwrap_err();
    assert!(refused.to_string().contains("a transfer or checkout holds it"), "{refused}");
    assert_eq!(database.count("SELECT count(*) FROM token_change"), changes);
}
