//! The audit chain covers what steps write about tokens and the shop.

use holdfast_messages::{TokenUpdate, Topic, TraceId};
use holdfast_postgres::{Batch, Source};
use holdfast_tokens::Token;

use crate::shop_world::*;
use crate::world::*;

/// A shop of whose two orders one is paid and one was refused.
fn shop(world: &World) -> Shop {
    let mut shop = Shop::new(world, 1);
    shop.stocked(
        &[("u", 100)],
        &[("i", 10, 7), ("gone", 0, 1)],
        &[("paid", "u", "i", 3), ("refused", "u", "gone", 1)],
    );
    assert_eq!(shop.run("paid", checkout()).1, "paid");
    assert_eq!(shop.run("refused", checkout()).1, "not_paid");
    shop
}

#[test]
fn every_row_of_a_try_that_is_changed_by_hand_breaks_it() {
    let Some(world) = World::new() else { return };
    drop(shop(&world));
    world.verify();
    for by_hand in [
        "UPDATE pay_transaction SET amnt = amnt + 1 WHERE order_id = 'paid'",
        "UPDATE pay_transaction SET user_id = 'thief' WHERE order_id = 'paid'",
        "UPDATE pay_transaction SET outcome = 'refused' WHERE order_id = 'paid'",
        "DELETE FROM pay_transaction WHERE order_id = 'refused' AND is_rollback",
        "UPDATE stock_transaction SET items = '[]' WHERE order_id = 'paid'",
        "UPDATE stock_transaction SET tr_num = 2 WHERE order_id = 'refused'",
        "UPDATE stock_transaction SET batch_id = NULL WHERE order_id = 'paid'",
        "INSERT INTO pay_transaction SELECT 'other', tr_num, is_rollback, outcome, user_id, amnt, batch_id
         FROM pay_transaction WHERE order_id = 'paid'",
        "UPDATE audit SET rows_hash = effects_hash WHERE batch_id = (SELECT min(batch_id) FROM audit WHERE rows_hash IS NOT NULL)",
        "UPDATE audit SET rows_hash = NULL WHERE batch_id = (SELECT max(batch_id) FROM audit WHERE rows_hash IS NOT NULL)",
    ] {
        world.copy().notices(by_hand, "audit");
    }
    let orphan = "UPDATE pay_transaction SET batch_id = 0 WHERE order_id = 'paid'";
    world.notices(orphan, "pay_transaction");
}

/// What is overwritten is hashed in every step that writes it, and in no other.
#[test]
fn steps_that_overwrite_rows_hash_them() {
    let Some(world) = World::new() else { return };
    let mut store = world.store();
    let claim = store.claim(&Source::Consumer(Topic::TokenUpdates, 0)).unwrap();
    let token = Token::new("a", "alice", "EUR", 1);
    let update = TokenUpdate { trace: TraceId::NOBODY, consumed: vec!["b".into()], produced: vec![token] };
    for offset in 0..2 {
        done(store.token_updates(&claim, &Batch::new(offset, &[incoming(offset, &update)])).unwrap());
    }
    let hashed = "SELECT count(rows_hash) FROM audit WHERE first_offset = ";
    assert_eq!(world.count(&format!("{hashed}0")), 1);
    assert_eq!(world.count(&format!("{hashed}1")), 0, "it was known, and nothing was written");
    drop(shop(&world));
    let hashes = |topic: &str| {
        world.count(&format!(
            "SELECT count(rows_hash) FROM audit JOIN segment USING (segment_id) WHERE table_name = '{topic}'"
        ))
    };
    for topic in ["orders", "pay", "stock", "outcomes"] {
        assert!(hashes(topic) > 0, "{topic}");
    }
    world.verify();
}

/// The chain as programs have written it that knew nothing of these rows.
fn forget_the_rows(world: &World) {
    let mut sql = world.sql();
    let audits =
        "SELECT batch_id, segment_id, audit_no, epoch, first_offset, next_offset, created_date FROM audit
         ORDER BY segment_id, audit_no";
    let mut before = (0, [0; 32]);
    for row in sql.query(audits, &[]).unwrap() {
        let (batch, segment): (i64, i32) = (row.get(0), row.get(1));
        let empty = *blake3::hash(&0_u64.to_le_bytes()).as_bytes();
        if before.0 != segment {
            before = (segment, [0; 32]);
        }
        let time = "SELECT (extract(epoch FROM created_date) * 1000)::bigint FROM audit WHERE batch_id = $1";
        let time: i64 = sql.query_one(time, &[&batch]).unwrap().get(0);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&before.1).update(&segment.to_le_bytes());
        for number in [row.get(2), batch, row.get(3), row.get(4), row.get(5), time] {
            hasher.update(&number.to_le_bytes());
        }
        before.1 = *hasher.update(&empty).finalize().as_bytes();
        let (empty, hash) = (&empty[..], &before.1[..]);
        sql.execute(
            "UPDATE audit SET effects_hash = $2, hash = $3 WHERE batch_id = $1",
            &[&batch, &empty, &hash],
        )
        .unwrap();
        sql.execute("UPDATE segment SET audit_hash = $2 WHERE segment_id = $1", &[&segment, &hash]).unwrap();
    }
    sql.batch_execute(
        "ALTER TABLE audit DROP COLUMN rows_hash;
         ALTER TABLE pay_transaction DROP COLUMN batch_id;
         ALTER TABLE stock_transaction DROP COLUMN batch_id;
         DELETE FROM schema_version WHERE version >= 13",
    )
    .unwrap();
}

#[test]
fn what_older_programs_have_written_still_verifies() {
    let Some(world) = World::new() else { return };
    let mut shop = shop(&world);
    forget_the_rows(&world);
    shop.store = world.store();
    world.verify();
    let uncovered = "SELECT count(*) FROM pay_transaction WHERE batch_id IS NULL";
    let old = world.count(uncovered);
    assert!(old > 0);
    assert_eq!(world.count("SELECT count(rows_hash) FROM audit"), 0);
    // What comes after that is covered.
    shop.stocked(&[("v", 100)], &[("j", 10, 7)], &[("new", "v", "j", 3)]);
    assert_eq!(shop.run("new", checkout()).1, "paid");
    shop.is_at_rest(&world);
    assert_eq!(world.count(uncovered), old);
    assert!(world.count("SELECT count(rows_hash) FROM audit") > 0);
    world.notices("UPDATE stock_transaction SET items = '[]' WHERE order_id = 'new'", "audit");
}
