//! A step of a checkout happens whole or not at all, and once, whoever dies when.

use std::sync::Arc;

use holdfast_checkout::coordinator::LogBounds;
use holdfast_messages::{Message, Topic};
use holdfast_postgres::shop::Rebuilt;
use holdfast_postgres::{Batch, Claim, Error, Point, Source, Step, Store};

use crate::crashes::{doomed, lives};
use crate::shop_world::*;
use crate::world::*;

/// Who dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Orders,
    Pay,
    Stock,
    Outcomes,
    Rebuild,
    Deadline,
}

const ROLES: [Role; 6] =
    [Role::Orders, Role::Pay, Role::Stock, Role::Outcomes, Role::Rebuild, Role::Deadline];

impl Role {
    /// What its step leaves, as a count.
    const fn effect(self) -> &'static str {
        match self {
            Role::Orders => "SELECT count(*) FROM orders WHERE state = 'pending'",
            Role::Pay => "SELECT count(*) FROM pay_transaction",
            Role::Stock => "SELECT count(*) FROM stock_transaction",
            Role::Outcomes | Role::Rebuild => "SELECT count(*) FROM orders WHERE paid",
            Role::Deadline => "SELECT count(*) FROM orders WHERE state = 'cancelling'",
        }
    }

    fn claim(self, shop: &Shop, shard: usize) -> Claim {
        match self {
            Role::Orders => shop.orders[0].claim,
            Role::Pay => shop.pay[0].claim,
            Role::Stock => shop.stock[0].claim,
            Role::Outcomes | Role::Rebuild => shop.outcomes[0].claim,
            Role::Deadline => shop.shards[shard],
        }
    }
}

/// A shop with an order that waits for that role's step.
fn before(world: &World, role: Role) -> Shop {
    let mut shop = Shop::new(world, 1);
    shop.stocked(&[("u", 100)], &[("i", 10, 7)], &[("o", "u", "i", 3)]);
    shop.ask("o", checkout());
    let so_far = ROLES.iter().position(|of| *of == role).unwrap();
    if so_far > 0 {
        shop.step_orders(0);
        shop.relay();
    }
    if matches!(role, Role::Outcomes | Role::Rebuild) {
        shop.step_pay(0);
        shop.step_stock(0);
        shop.relay();
    }
    if role == Role::Deadline {
        let now = world.count("SELECT (extract(epoch FROM hub_clock()) * 1000)::bigint");
        world.set_clock(now + i64::from(DEADLINE_MS) + 1);
    }
    shop
}

fn step(store: &mut Store, shop: &mut Shop, role: Role, shard: usize) -> Result<bool, Error> {
    let whole = |step| matches!(step, Step::Done(_));
    match role {
        Role::Orders => store.orders(&shop.orders[0].claim, &Batch::new(0, &shop.orders[0].log)).map(whole),
        Role::Pay => store.pay(&shop.pay[0].claim, &Batch::new(0, &shop.pay[0].log)).map(whole),
        Role::Stock => store.stock(&shop.stock[0].claim, &Batch::new(0, &shop.stock[0].log)).map(whole),
        Role::Outcomes => {
            let (queue, coordinator) = (&shop.outcomes[0], &mut shop.coordinators[0]);
            store.outcomes(&queue.claim, coordinator, &Batch::new(0, &queue.log)).map(whole)
        }
        Role::Rebuild => {
            let queue = &shop.outcomes[0];
            let log = LogBounds { start: 0, end: queue.log.len() as u64 };
            let rebuilt = store.rebuild_outcomes(&queue.claim, log, &queue.log);
            rebuilt.map(|rebuilt| matches!(rebuilt, Rebuilt::Done { .. }))
        }
        Role::Deadline => {
            let (claim, shard_no) = (shop.shards[shard], i16::try_from(shard).unwrap());
            store.expire_checkouts(&claim, shard_no, 10).map(whole)
        }
    }
}

/// The shard of the one order, once it is pending.
fn shard(world: &World) -> usize {
    let shard = world.count("SELECT coalesce(max(shard), 0)::bigint FROM orders");
    usize::try_from(shard).unwrap()
}

/// Others take over everything, and go on where the stored offsets say.
pub fn take_over_all(shop: &mut Shop) {
    fn anew<M: Message>(store: &mut Store, queue: &mut Queue<M>) {
        queue.claim = store.claim(&Source::consumer(M::TOPIC, 0)).unwrap();
        queue.at = queue.claim.offset;
    }
    anew(&mut shop.store, &mut shop.orders[0]);
    anew(&mut shop.store, &mut shop.pay[0]);
    anew(&mut shop.store, &mut shop.stock[0]);
    shop.shards = (0..8).map(|shard| shop.store.claim(&Source::deadline(shard)).unwrap()).collect();
    shop.take_over(0, 0);
}

/// Fails if an offset is committed apart from the effects, or if what was committed is not sent by whoever comes after.
#[test]
fn every_step_dies_at_every_point() {
    for role in ROLES {
        for life in lives() {
            let Some(world) = World::new().map(Arc::new) else { return };
            let mut shop = before(&world, role);
            let shard = shard(&world);
            let claim = role.claim(&shop, shard);
            for &at in life {
                let known = shop.coordinators[0].clone();
                let outcome = step(&mut doomed(&world, at), &mut shop, role, shard);
                let committed = at == Point::Committed;
                match outcome {
                    Ok(whole) => assert!(whole && committed, "{role:?} {at:?}"),
                    Err(Error::Unavailable(_)) => assert!(!committed, "{role:?} {at:?}"),
                    Err(other) => panic!("{role:?} {at:?}: {other}"),
                }
                let stored = world
                    .count(&format!("SELECT value FROM segment WHERE segment_id = {}", claim.segment_id));
                assert_eq!(stored > 0, committed, "{role:?} {at:?}: the offset");
                assert_eq!(world.count(role.effect()), i64::from(committed), "{role:?} {at:?}: the effect");
                let outbox = format!("SELECT count(*) FROM outbox WHERE segment_id = {}", claim.segment_id);
                assert_eq!(world.count(&outbox) > 0, committed, "{role:?} {at:?}: the outbox");
                if role == Role::Outcomes {
                    let ahead = shop.coordinators[0] != known;
                    assert_eq!(ahead, committed, "{at:?}: the coordinator knows what is stored, and no more");
                }
            }
            // What was committed and not sent is sent by whoever comes after.
            take_over_all(&mut shop);
            shop.expire();
            if role == Role::Deadline {
                assert_eq!(
                    (shop.state("o").as_str(), shop.credit("u"), shop.stock_of("i")),
                    ("not_paid", 100, 10)
                );
            } else {
                assert_eq!((shop.state("o").as_str(), shop.credit("u"), shop.stock_of("i")), ("paid", 79, 7));
            }
            assert_eq!(shop.ends("o").len(), 1, "{role:?} {life:?}: it ended once");
            shop.is_at_rest(&world);
        }
    }
}

/// Before every step all that was committed is forgotten by those who sent it: it is sent once more, by others.
#[test]
fn everything_is_published_and_forgotten_before_every_step() {
    let Some(world) = World::new() else { return };
    let mut shop = Shop::new(&world, 1);
    shop.stocked(&[("u", 50)], &[("i", 10, 7)], &[("o", "u", "i", 3), ("p", "u", "i", 5)]);
    shop.ask("o", checkout());
    shop.ask("p", checkout());
    for _ in 0..12 {
        for claim in shop.sources() {
            // Published, and the crash comes before that is noted.
            let rows = shop.store.unsent(&claim, 100).unwrap();
            shop.publish(&rows);
        }
        take_over_all(&mut shop);
        shop.relay();
        shop.step_orders(0);
        shop.step_pay(0);
        shop.step_stock(0);
        shop.step_outcomes(0);
    }
    shop.drain();
    assert_eq!((shop.state("o").as_str(), shop.state("p").as_str()), ("paid", "not_paid"));
    assert_eq!((shop.credit("u"), shop.stock_of("i")), (29, 7));
    assert_eq!(shop.alarms, []);
    shop.is_at_rest(&world);
}

/// Whoever has lost its claim writes nothing, in every role.
#[test]
fn a_zombie_of_each_role_writes_nothing() {
    for role in ROLES {
        let Some(world) = World::new() else { return };
        let mut shop = before(&world, role);
        let shard = shard(&world);
        let zombie = role.claim(&shop, shard);
        let mut heir = world.store();
        let claim = heir.claim(&zombie.source).unwrap();
        assert_eq!(claim.epoch, zombie.epoch + 1);
        let picture = world.picture();
        let mut store = world.store();
        assert!(!step(&mut store, &mut shop, role, shard).unwrap(), "{role:?}: fenced");
        assert!(!store.mark_sent(&zombie, 1).unwrap());
        assert!(store.unsent(&zombie, 10).unwrap().is_empty());
        assert_eq!(world.picture(), picture, "{role:?}");
        take_over_all(&mut shop);
        shop.drain();
        shop.expire();
        shop.is_at_rest(&world);
    }
}

/// A reader that stands elsewhere than the stored offset writes nothing, though its claim is the latest.
#[test]
fn a_batch_at_another_offset_writes_nothing() {
    let Some(world) = World::new() else { return };
    let mut shop = before(&world, Role::Pay);
    shop.step_pay(0);
    let picture = world.picture();
    let queue = &shop.pay[0];
    assert_eq!(shop.store.pay(&queue.claim, &Batch::new(0, &queue.log)).unwrap(), Step::Fenced);
    assert_eq!(shop.store.pay(&queue.claim, &Batch::new(7, &[])).unwrap(), Step::Fenced);
    assert_eq!(world.picture(), picture);
}

/// Every row of a step, the offset among them, was written by one and the same transaction.
#[test]
fn offset_and_effects_share_one_transaction() {
    let Some(world) = World::new() else { return };
    let mut shop = before(&world, Role::Orders);
    let writers = |sql: &str| -> Vec<String> {
        let rows = world.sql().query(&format!("SELECT DISTINCT xmin::text FROM {sql}"), &[]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let of = |claim: &Claim| writers(&format!("segment WHERE segment_id = {}", claim.segment_id));
    let outbox = |claim: &Claim| format!("outbox WHERE segment_id = {}", claim.segment_id);
    shop.step_orders(0);
    let claim = shop.orders[0].claim;
    for rows in ["orders", &outbox(&claim)] {
        assert_eq!(writers(rows), of(&claim), "{rows}");
    }
    shop.relay();
    shop.step_pay(0);
    let claim = shop.pay[0].claim;
    for rows in ["users", "pay_transaction", &outbox(&claim)] {
        assert_eq!(writers(rows), of(&claim), "{rows}");
    }
    shop.step_stock(0);
    let claim = shop.stock[0].claim;
    for rows in ["items", "stock_transaction", &outbox(&claim)] {
        assert_eq!(writers(rows), of(&claim), "{rows}");
    }
    shop.relay();
    shop.step_outcomes(0);
    let claim = shop.outcomes[0].claim;
    for rows in ["orders", "outcome_offset", &outbox(&claim)] {
        assert_eq!(writers(rows), of(&claim), "{rows}");
    }
    assert_eq!(shop.outcomes[0].claim.source, Source::consumer(Topic::Outcomes, 0));
}
