//! A step of a checkout happens whole or not at all, and once, whoever dies when.

use holdfast_checkout::coordinator::LogBounds;
use holdfast_messages::Topic;
use holdfast_postgres::shop::Rebuilt;
use holdfast_postgres::{Batch, Claim, Error, Point, Source, Step, Store};

use crate::crashes::lives;
use crate::shop_world::*;
use crate::world::*;

/// Who dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
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
fn before(role: Role) -> Option<(World, Shop)> {
    let (world, mut shop) = Shop::with_an_order(1)?;
    shop.ask("o", checkout());
    if role != Role::Orders {
        shop.turns(0, &[Orders, Relay]);
    }
    if matches!(role, Role::Outcomes | Role::Rebuild) {
        shop.turns(0, &[Pay, Stock, Relay]);
    }
    if role == Role::Deadline {
        world.set_clock(world.now() + i64::from(DEADLINE_MS) + 1);
    }
    Some((world, shop))
}

/// The role's step over what waits, by that store; whether it was the role's to do.
pub fn step(store: &mut Store, shop: &mut Shop, role: Role, shard: usize) -> Result<bool, Error> {
    let step = match role {
        Role::Orders => store.orders(&shop.orders[0].claim, &shop.orders[0].batch()),
        Role::Pay => {
            let pledges = shop.pledges(0);
            paid(store, &shop.pay[0].claim, &shop.pay[0].batch(), pledges.as_ref())
        }
        Role::Stock => store.stock(&shop.stock[0].claim, &shop.stock[0].batch()),
        Role::Outcomes => {
            let (queue, coordinator) = (&shop.outcomes[0], &mut shop.coordinators[0]);
            store.outcomes(&queue.claim, coordinator, &queue.batch())
        }
        Role::Rebuild => {
            let queue = &shop.outcomes[0];
            let log = LogBounds { start: 0, end: queue.log.len() as u64 };
            let rebuilt = store.rebuild_outcomes(&queue.claim, log, &queue.log)?;
            return Ok(matches!(rebuilt, Rebuilt::Done { .. }));
        }
        Role::Deadline => store.expire_checkouts(&shop.shards[shard], i16::try_from(shard).unwrap(), 10),
    };
    Ok(matches!(step?, Step::Done(_)))
}

/// The shard of the one order, once it is pending.
fn shard(world: &World) -> usize {
    let shard = world.count("SELECT coalesce(max(shard), 0)::bigint FROM orders");
    usize::try_from(shard).unwrap()
}

/// Fails if an offset is committed apart from the effects, or if what was committed is not sent by whoever comes after.
#[test]
fn every_step_dies_at_every_point() {
    for role in ROLES {
        for life in lives() {
            let Some((world, mut shop)) = before(role) else { return };
            let shard = shard(&world);
            let claim = role.claim(&shop, shard);
            for &at in life {
                let known = shop.coordinators[0].clone();
                let outcome = step(&mut world.doomed(at), &mut shop, role, shard);
                died(outcome.inspect(|whole| assert!(whole, "{role:?} {at:?}")), at);
                let committed = at == Point::Committed;
                assert_eq!(world.offset(&claim) > 0, committed, "{role:?} {at:?}: the offset");
                assert_eq!(world.count(role.effect()), i64::from(committed), "{role:?} {at:?}: the effect");
                assert_eq!(world.unsent(&claim) > 0, committed, "{role:?} {at:?}: the outbox");
                if role == Role::Outcomes {
                    let ahead = shop.coordinators[0] != known;
                    assert_eq!(ahead, committed, "{at:?}: the coordinator knows what is stored, and no more");
                }
            }
            // What was committed and not sent is sent by whoever comes after.
            shop.take_over_all();
            shop.expire();
            let stands = (shop.state("o"), shop.credit("u"), shop.stock_of("i"));
            let ended = if role == Role::Deadline { ("not_paid", 100, 10) } else { ("paid", 79, 7) };
            assert_eq!((stands.0.as_str(), stands.1, stands.2), ended);
            assert_eq!(shop.ends("o").len(), 1, "{role:?} {life:?}: it ended once");
            shop.is_at_rest(&world);
        }
    }
}

#[test]
fn everything_is_published_and_forgotten_before_every_step() {
    let Some((world, mut shop)) = Shop::open(1) else { return };
    shop.stocked(&[("u", 50)], &[("i", 10, 7)], &[("o", "u", "i", 3), ("p", "u", "i", 5)]);
    shop.ask("o", checkout());
    shop.ask("p", checkout());
    shop.work_forgetting(12);
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
        let Some((world, mut shop)) = before(role) else { return };
        let shard = shard(&world);
        let zombie = role.claim(&shop, shard);
        let mut heir = world.store();
        let claim = heir.claim(&zombie.source).unwrap();
        assert_eq!(claim.epoch, zombie.epoch + 1);
        let snapshot = world.snapshot();
        let mut store = world.store();
        assert!(!step(&mut store, &mut shop, role, shard).unwrap(), "{role:?}: fenced");
        assert!(!store.mark_sent(&zombie, 1).unwrap());
        assert!(store.unsent(&zombie, 10).unwrap().is_empty());
        assert_eq!(world.snapshot(), snapshot, "{role:?}");
        shop.take_over_all();
        shop.drain();
        shop.expire();
        shop.is_at_rest(&world);
    }
}

/// A reader that stands elsewhere than the stored offset writes nothing, though its claim is the latest.
#[test]
fn a_batch_at_another_offset_writes_nothing() {
    let Some((world, mut shop)) = before(Role::Pay) else { return };
    shop.turn(0, Pay);
    let snapshot = world.snapshot();
    let queue = &shop.pay[0];
    assert_eq!(shop.store.pay(&queue.claim, &Batch::new(0, &queue.log)).unwrap(), Step::Fenced);
    assert_eq!(shop.store.pay(&queue.claim, &Batch::new(7, &[])).unwrap(), Step::Fenced);
    assert_eq!(world.snapshot(), snapshot);
}

/// Every row of a step, the offset among them, was written by one and the same transaction.
#[test]
fn offset_and_effects_share_one_transaction() {
    let Some((world, mut shop)) = before(Role::Orders) else { return };
    for (role, turn, tables) in [
        (Role::Orders, Orders, &["orders"][..]),
        (Role::Pay, Pay, &["users", "pay_transaction"]),
        (Role::Stock, Stock, &["items", "stock_transaction"]),
        (Role::Outcomes, Outcomes, &["orders", "outcome_offset"]),
    ] {
        let claim = role.claim(&shop, 0);
        shop.turn(0, turn);
        world.share_a_transaction(&claim, tables);
        world.share_a_transaction(&claim, &[&format!("outbox WHERE segment_id = {}", claim.segment_id)]);
        shop.relay();
    }
    assert_eq!(shop.outcomes[0].claim.source, Source::Consumer(Topic::Outcomes, 0));
}
