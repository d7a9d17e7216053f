//! What is over is removed bit by bit, and nobody has to look at it.

use std::time::Duration;

use holdfast_messages::{Message as _, TokenEvent};
use holdfast_postgres::tokens::{Position, Tidied};
use holdfast_postgres::{Claim, Settings, Source, Store};
use holdfast_services::Database;
use holdfast_tokens::Scope;

use crate::token_world::{rows_read, selected};

/// Far more than a look may read.
const ROWS: i64 = 20_000;
const LOOK: u32 = 1_000;
/// Up to wherever the topic has been written.
const ALL: Position = Position { xid: u64::MAX, change_no: 0 };

fn world(name: &str) -> Option<(Database, Claim)> {
    let database = Database::new(name)?;
    let mut store = Store::open(database.url(), Settings::default()).unwrap();
    let claim = store.claim(&Source::Tokens).unwrap();
    drop(store);
    let tables = ["token", "token_lock", "token_selection", "token_change"];
    for table in tables {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = off)");
        database.sql().batch_execute(&off).unwrap();
    }
    Some((database, claim))
}

fn keeper(database: &Database) -> Store {
    Store::open(database.url(), Settings::default()).unwrap()
}

/// So many selections of alice, whose leases ended a minute ago.
fn ended(database: &Database) {
    let insert = format!(
        "INSERT INTO token_selection
             (spender_tx_id, state, fence, body, amount, token_ids, wallet, created_at, expires_at, changed_at)
         SELECT 'old-' || n, 'HELD', nextval('token_fence'), gen_random_uuid(), 1, ARRAY['gone-' || n],
             CASE WHEN n % 2 = 0 THEN 'alice' END, hub_clock() - interval '2 minutes',
             hub_clock() - interval '1 minute', hub_clock() - interval '2 minutes'
         FROM generate_series(1, {ROWS}) n"
    );
    database.sql().batch_execute(&insert).unwrap();
}

/// Nobody has swept, and the look at the live ones reads these alone.
#[test]
fn a_look_at_live_locks_does_not_read_those_that_are_over() {
    let Some((database, _)) = world("token_live_locks") else { return };
    ended(&database);
    let mut store = Store::open_for_questions(database.url(), Settings::default()).unwrap();
    selected(&mut store, "live");
    drop(store);
    let before = rows_read(&database, 0, "'token_selection'");
    let mut store = Store::open_for_questions(database.url(), Settings::default()).unwrap();
    let locks = store.token_locks_of(Some(&Scope::wallet("alice", "EUR")), 10_000, None).unwrap();
    let spenders: Vec<&str> = locks.iter().map(|record| &*record.spender).collect();
    assert_eq!(spenders, ["live"]);
    assert_eq!(store.token_locks_of(None, 10_000, None).unwrap().len(), 1);
    drop(store);
    let read = rows_read(&database, 0, "'token_selection'") - before;
    assert!(read < 100, "{read} rows were read for one live lock");
}

/// Leases that ended become given back, so many at a time; a live one and what a transfer holds stay.
#[test]
fn leases_that_ended_count_as_given_back() {
    let Some((database, claim)) = world("token_ended") else { return };
    ended(&database);
    database
        .sql()
        .batch_execute(
            "INSERT INTO token_selection (spender_tx_id, state, fence, body, amount, token_ids, wallet, payee_wallet,
                 created_at, expires_at, changed_at)
             VALUES ('live', 'HELD', 1, gen_random_uuid(), 1, '{a}', 'alice', NULL, hub_clock(),
                     hub_clock() + interval '1 hour', hub_clock()),
                 ('transfer', 'HELD', 2, gen_random_uuid(), 1, '{b}', 'alice', 'bob', hub_clock(), 'infinity', hub_clock())",
        )
        .unwrap();
    let mut store = keeper(&database);
    let mut sum = 0;
    for _ in 0..ROWS / i64::from(LOOK) {
        let Tidied { ended, .. } = store.end_token_leases(&claim, None, LOOK, None).unwrap();
        assert_eq!(ended, u64::from(LOOK));
        sum += ended;
    }
    assert!(store.end_token_leases(&claim, None, LOOK, None).unwrap().is_nothing());
    assert_eq!(sum, u64::try_from(ROWS).unwrap());
    let left = "SELECT count(*) FROM token_selection WHERE state = 'HELD'";
    assert_eq!(database.count(left), 2);
    // Whoever is no longer the keeper does nothing.
    ended_again(&database);
    assert_ne!(store.claim(&Source::Tokens).unwrap().epoch, claim.epoch);
    assert!(store.end_token_leases(&claim, None, LOOK, None).unwrap().is_nothing());
}

fn ended_again(database: &Database) {
    let back = "UPDATE token_selection SET expires_at = hub_clock() - interval '1 second' WHERE spender_tx_id = 'live'";
    database.sql().batch_execute(back).unwrap();
}

/// Each look reads what it removes, and no more, however much is young or waits to be sent; and it loses nothing.
#[test]
fn a_look_for_old_changes_does_not_read_the_young_ones() {
    let Some((database, claim)) = world("token_old_changes") else { return };
    let mut sql = database.sql();
    let event = String::from_utf8(TokenEvent::Issued(Vec::new()).to_json()).unwrap();
    let old = i64::from(LOOK) + 500;
    let ages = format!(
        "INSERT INTO token_change (event, created_at)
         SELECT $1, hub_clock() - CASE WHEN n <= {old} THEN interval '5 minutes' ELSE interval '0' END
         FROM generate_series(1, {ROWS}) n"
    );
    sql.execute(&ages, &[&event]).unwrap();
    let sent =
        "UPDATE token_progress SET sent_xid = (SELECT max(xid) FROM token_change), sent_no = 1000000000";
    sql.batch_execute(sent).unwrap();
    drop(sql);
    let before = rows_read(&database, 0, "'token_change'");
    let mut store = keeper(&database);
    let removed: Vec<u64> = (0..3)
        .map(|_| store.tidy_changes(&claim, ALL, Duration::from_secs(60), LOOK, None).unwrap().changes)
        .collect();
    drop(store);
    assert_eq!(removed, [1_000, 500, 0]);
    let read = rows_read(&database, 0, "'token_change'") - before;
    assert!(read < 3 * i64::from(LOOK) + old + 100, "{read} rows were read");
    assert_eq!(database.count("SELECT count(*) FROM token_change"), ROWS - old);
}

/// One that is younger than those behind it: they stay with it, or its own turn would never come.
#[test]
fn no_change_is_left_behind() {
    let Some((database, claim)) = world("token_left_behind") else { return };
    let event = String::from_utf8(TokenEvent::Issued(Vec::new()).to_json()).unwrap();
    let mut sql = database.sql();
    for age in [300, 0, 300] {
        let insert = format!(
            "INSERT INTO token_change (event, created_at) VALUES ($1, hub_clock() - interval '{age} seconds')"
        );
        sql.execute(&insert, &[&event]).unwrap();
    }
    sql.batch_execute(
        "UPDATE token_progress SET sent_xid = (SELECT max(xid) FROM token_change), sent_no = 100",
    )
    .unwrap();
    let mut store = keeper(&database);
    let removed =
        |store: &mut Store, history| store.tidy_changes(&claim, ALL, history, LOOK, None).unwrap().changes;
    assert_eq!(removed(&mut store, Duration::from_secs(60)), 1);
    assert_eq!(removed(&mut store, Duration::from_secs(60)), 0);
    assert_eq!(removed(&mut store, Duration::ZERO), 2);
}

/// The oldest first, from where the last look ended.
#[test]
fn a_look_for_old_selections_does_not_read_the_young_ones() {
    let Some((database, claim)) = world("token_old_selections") else { return };
    let day = 24 * 3_600;
    let insert = format!(
        "INSERT INTO token_selection
             (spender_tx_id, state, fence, body, amount, token_ids, created_at, expires_at, changed_at)
         SELECT 's-' || n, CASE WHEN n % 2 = 0 THEN 'SPENT' ELSE 'RELEASED' END, n, gen_random_uuid(), 1, '{{}}',
             hub_clock(), hub_clock(),
             hub_clock() - CASE WHEN n <= 1500 THEN interval '8 days' - n * interval '1 second' ELSE interval '0' END
         FROM generate_series(1, {ROWS}) n"
    );
    database.sql().batch_execute(&insert).unwrap();
    let before = rows_read(&database, 0, "'token_selection'");
    let mut store = keeper(&database);
    let (mut from, mut removed) = (None, Vec::new());
    for _ in 0..3 {
        let memory = Duration::from_secs(7 * day);
        let (tidied, to) = store.tidy_selections(&claim, memory, from, LOOK, None).unwrap();
        removed.push(tidied.selections);
        from = to;
    }
    drop(store);
    assert_eq!(removed, [1_000, 500, 0]);
    let read = rows_read(&database, 0, "'token_selection'") - before;
    assert!(read < 5_000, "{read} rows were read");
}
