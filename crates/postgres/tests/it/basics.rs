//! The plain ways: what one node does when nothing goes wrong.

use std::time::Duration;

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_messages::{Answer, Notice, Topic};
use holdfast_postgres::{DataSet, Error, Settings, Source, Store};

use crate::world::*;

#[test]
fn several_nodes_migrate_at_once() {
    let Some(world) = World::new() else { return };
    std::thread::scope(|scope| {
        let nodes: Vec<_> = (0..6).map(|_| scope.spawn(|| drop(world.store()))).collect();
        nodes.into_iter().for_each(|node| node.join().unwrap());
    });
    let versions = world.count("SELECT max(version)::bigint FROM schema_version");
    assert_eq!(world.rows("schema_version"), versions, "each was applied once");
    world.run("INSERT INTO schema_version (version) VALUES (1000)");
    let refused = Store::open(&world.url, Settings::default());
    assert!(matches!(refused, Err(Error::TooNew { found: 1000, .. })));
}

/// An index over a large table takes longer than any statement of a node may, and the other nodes wait for it.
#[test]
fn a_migration_is_waited_for_longer_than_for_any_statement() {
    let Some(world) = World::new() else { return };
    let mut migrating = world.sql();
    // "holdfast" in letters.
    migrating.batch_execute("SELECT pg_advisory_lock(x'686f6c6466617374'::bigint)").unwrap();
    let settings = Settings { statement_timeout: Duration::from_millis(500), ..Settings::default() };
    let url = world.url.clone();
    let waiting = std::thread::spawn(move || Store::open(&url, settings).map(drop));
    world.await_count(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
             AND wait_event = 'advisory' AND query_start < clock_timestamp() - interval '800 ms'",
        1,
    );
    drop(migrating);
    waiting.join().unwrap().expect("it has waited, and goes on");
}

#[test]
fn what_an_older_outbox_holds_is_sent() {
    let Some(world) = World::new() else { return };
    let mut sql = world.sql();
    sql.batch_execute(include_str!("../../migrations/0001_tables.sql")).unwrap();
    sql.batch_execute(
        "CREATE TABLE schema_version (version int PRIMARY KEY, applied_date timestamptz NOT NULL DEFAULT now());
         INSERT INTO schema_version (version) VALUES (1);
         INSERT INTO segment (segment_type, table_name, enumeration, value, outbox_next, outbox_sent)
         VALUES ('consumer', 'transfers', 0, 3, 9, 7);
         INSERT INTO outbox VALUES (1, 7, 'position', '3', '{\"v\":1}'), (1, 8, 'notifications', 'k', '{\"v\":2}')",
    )
    .unwrap();
    let mut store = world.store();
    let claim = store.claim(&Source::Consumer(Topic::Transfers, 0)).unwrap();
    let rows = store.unsent(&claim, 10).unwrap();
    let told: Vec<_> = rows.iter().map(|row| (row.number, row.topic, &*row.key, &row.value[..])).collect();
    assert_eq!(
        told,
        [(7, Topic::Position, "3", &br#"{"v":1}"#[..]), (8, Topic::Notifications, "k", &br#"{"v":2}"#[..])]
    );
    assert!(store.mark_sent(&claim, 9).unwrap());
    assert_eq!(world.rows("outbox"), 0);
}

#[test]
fn counts_are_fixed_for_life() {
    let Some(world) = World::new() else { return };
    let mut store = world.store();
    store.fix("partitions.transfers", 12).unwrap();
    store.fix("partitions.transfers", 12).unwrap();
    let error = store.fix("partitions.transfers", 13).unwrap_err().to_string();
    assert!(error.contains("partitions.transfers is 12 in this database and 13 in the settings"), "{error}");
    let shards = Store::open(&world.url, Settings { expiry_shards: 9, ..Settings::default() });
    assert!(matches!(shards, Err(Error::Fixed { stored: 8, wanted: 9, .. })));
}

/// Tools are told no counts, and must divide the work as the nodes do.
#[test]
fn a_tool_works_with_the_counts_of_the_nodes() {
    let Some(world) = World::new() else { return };
    let settings = Settings { expiry_shards: 3, callback_shards: 5, ..Settings::default() };
    drop(Store::open(&world.url, settings.clone()).unwrap());
    let mut tool = Store::open_as_set_up(&world.url).expect("it takes them from the database");
    tool.generate(&DataSet { total: 500, expired: 200, ..DataSet::default() }, |_| ()).unwrap();
    assert_eq!(world.count("SELECT count(DISTINCT shard) FROM transfer_timeout"), 3);
    assert_eq!(tool.due_shards().unwrap(), [0, 1, 2]);
    drop(Store::open(&world.url, settings).expect("a tool leaves them as they are"));
}

#[test]
fn a_tool_that_comes_first_sets_up_the_usual_counts() {
    let Some(world) = World::new() else { return };
    drop(Store::open_as_set_up(&world.url).unwrap());
    let other = Store::open(&world.url, Settings { callback_shards: 5, ..Settings::default() });
    assert!(matches!(other, Err(Error::Fixed { stored: 8, wanted: 5, .. })));
    drop(world.store());
}

#[test]
fn a_cap_of_ten_takes_two_of_three_fives() {
    let Some((world, mut node)) = payer_and_payee(1_000, 10) else { return };
    let ask = |id| prepare(id, 1, 2, 5, FAR);
    node.ask(&[ask(1), ask(2), ask(3)]);
    let states: Vec<String> = world.states().into_values().collect();
    assert_eq!(states, ["RESERVED", "RESERVED", "ABORTED_REJECTED"]);
    assert_eq!(world.value(PAYER_ACCOUNT), 10);
    assert_eq!(node.answered(asked(2)).code, Some(ErrorCode::PayerLimitError.into()));
    assert_eq!(world.rows("transfer_timeout"), 2);

    node.ask(&[fulfil(1, 2), abort(2, 2)]);
    assert_eq!(world.state(TransferId(1)), "COMMITTED");
    assert_eq!(world.state(TransferId(2)), "ABORTED_ERROR");
    assert_eq!((world.value(PAYER_ACCOUNT), world.value(PAYEE_ACCOUNT)), (5, -5));
    assert_eq!(world.rows("transfer_timeout"), 0);
    let alarm = node.notifications.iter().any(|told| matches!(told.notice, Notice::Alarm(_)));
    assert!(alarm, "the cap's alarm percentage was passed");
    world.verify();
}

#[test]
fn limits_and_funds_change_on_the_accounts_key() {
    let Some((world, mut node)) = payer_and_payee(100, 50) else { return };
    let (account, settlement) = (PAYER_ACCOUNT, AccountId(PAYER_ACCOUNT.0 + 1));
    let amount = |units| Amount::whole(units).unwrap();
    let out = |id, units| Admin::FundsOutReserve {
        id: TransferId(id),
        account: settlement,
        currency: usd(),
        amount: amount(units),
    };
    node.ask(&[prepare(1, 1, 2, 40, FAR)]);
    // 100 held, 40 in use: 61 are too much, 60 go.
    node.operate(account, out(900, 61));
    assert_eq!(node.last().code, Some(ErrorCode::PayerInsufficientLiquidity.into()));
    node.operate(account, out(901, 60));
    assert_eq!(node.last().code, None);
    assert_eq!(world.value(settlement), -40);
    node.operate(account, Admin::FundsOutAbort { id: TransferId(901), account: settlement });
    assert_eq!(world.value(settlement), -100);
    node.operate(account, out(902, 10));
    node.operate(account, Admin::FundsOutCommit { id: TransferId(902), account: settlement });
    node.operate(account, Admin::FundsOutCommit { id: TransferId(902), account: settlement });
    assert_eq!(world.value(settlement), -90);
    // The same id on another account is another request.
    node.operate(
        AccountId(3),
        Admin::FundsIn { id: TransferId(902), account: AccountId(4), currency: usd(), amount: amount(10) },
    );
    assert_eq!(node.last().code, Some(ErrorCode::ModifiedRequest.into()));

    let limit = |units| Admin::SetLimit {
        participant: ParticipantId(1),
        currency: usd(),
        net_debit_cap: amount(units),
        alarm_percentage: 80,
    };
    node.operate(account, limit(40));
    node.ask(&[prepare(2, 1, 2, 1, FAR)]);
    assert_eq!(world.state(TransferId(2)), "ABORTED_REJECTED");
    node.operate(account, limit(41));
    node.ask(&[prepare(3, 1, 2, 1, FAR)]);
    assert_eq!(world.state(TransferId(3)), "RESERVED");
    assert_eq!(world.rows("participant_limit WHERE participant_currency_id = 1"), 3);

    node.operate(account, Admin::SetAccountActive { account, active: false });
    node.ask(&[prepare(4, 1, 2, 1, FAR)]);
    assert_eq!(world.state(TransferId(4)), "INVALID");
    let inactive = Admin::SetParticipantActive { participant: ParticipantId(2), active: false };
    assert_eq!(node.store.participant(&inactive).unwrap().code, None);
    node.operate(account, Admin::SetAccountActive { account, active: true });
    node.ask(&[prepare(5, 1, 2, 1, FAR)]);
    assert_eq!(world.state(TransferId(5)), "INVALID");
    world.verify();
}

#[test]
fn repeats_get_the_stored_answer_and_modified_ones_3106() {
    let Some((world, mut node)) = payer_and_payee(1_000, 1_000) else { return };
    let ask = prepare(1, 1, 2, 5, FAR);
    node.ask(std::slice::from_ref(&ask));
    node.ask(&[fulfil(1, 2)]);
    let rows = world.rows("transfer_state_change");
    node.notifications.clear();
    node.ask(&[ask, prepare(1, 1, 2, 6, FAR), fulfil(1, 2), abort(1, 2)]);
    let answers: Vec<_> = node
        .notifications
        .iter()
        .map(|told| match told.notice {
            Notice::Answer(Answer { repeat, state, error, .. }) => {
                (repeat, state.unwrap().name(), error.map(|(code, _)| code.number()))
            }
            _ => panic!("{told:?}"),
        })
        .collect();
    let committed = "COMMITTED";
    assert_eq!(
        answers,
        [
            (true, committed, None),
            (false, committed, Some(3106)),
            (true, committed, None),
            (false, committed, Some(3106))
        ]
    );
    assert_eq!(world.rows("transfer_state_change"), rows);
    world.verify();
}

/// What is handed on unread comes back byte for byte.
#[test]
fn opaque_parts_are_kept() {
    let Some((world, mut node)) = payer_and_payee(1_000, 1_000) else { return };
    let Command::Prepare(mut ask) = prepare(1, 1, 2, 5, FAR) else { panic!() };
    ask.tail = vec![0, 1, 2, 255];
    node.ask(&[Command::Prepare(ask.hashed())]);
    let body: Vec<u8> =
        world.sql().query_one("SELECT body FROM transfer_opaque WHERE part = 0", &[]).unwrap().get(0);
    assert_eq!(body, [0, 1, 2, 255]);
}
