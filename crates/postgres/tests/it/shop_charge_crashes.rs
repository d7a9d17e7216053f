//! Reservation, settlement and the checkout's own rows happen together or not at all, whoever dies when.

use std::sync::Arc;

use holdfast_checkout::coordinator::LogBounds;
use holdfast_messages::OrderCommand;
use holdfast_postgres::{Batch, Error, Point, Store};

use crate::crashes::{doomed, lives};
use crate::shop_charges::Market;
use crate::shop_crashes::take_over_all;
use crate::shop_token_charges::{market, wallet};
use crate::shop_world::*;
use crate::world::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    Transfers,
    Tokens,
}

/// Whose step dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Pay,
    Can,
    Outcomes,
    Rebuild,
}

/// A shop where `o` of `rich`, 21 in all, waits for that step.
fn before(means: Means, role: Role) -> Option<(Arc<World>, Shop)> {
    let (world, mut shop) = match means {
        Means::Transfers => {
            let Market { world, shop, .. } = Market::open(1)?;
            (world, shop)
        }
        Means::Tokens => market(1)?,
    };
    shop.ask("o", checkout());
    shop.step_orders(0);
    shop.relay();
    if role != Role::Pay {
        shop.step_pay(0);
    }
    if role == Role::Can {
        shop.ask("o", OrderCommand::Cancel { tr: None });
        shop.step_orders(0);
    } else if role != Role::Pay {
        shop.step_stock(0);
    }
    shop.relay();
    Some((world, shop))
}

fn step(store: &mut Store, shop: &mut Shop, role: Role) -> Result<(), Error> {
    match role {
        Role::Pay | Role::Can => {
            let queue = &shop.pay[0];
            let batch = Batch::new(queue.at, queue.pending());
            let Some(sql) = &mut shop.purse else { return store.pay(&queue.claim, &batch).map(drop) };
            let bills = shop.store.bills(batch.messages).unwrap();
            let pledges = pledge(&mut shop.store, sql, &bills);
            store.pay_with(&queue.claim, &batch, &pledges).map(drop)
        }
        Role::Outcomes => {
            let (queue, coordinator) = (&shop.outcomes[0], &mut shop.coordinators[0]);
            store.outcomes(&queue.claim, coordinator, &Batch::new(queue.at, queue.pending())).map(drop)
        }
        Role::Rebuild => {
            let queue = &shop.outcomes[0];
            let log = LogBounds { start: 0, end: queue.log.len() as u64 };
            store.rebuild_outcomes(&queue.claim, log, &queue.log).map(drop)
        }
    }
}

/// What the step leaves: of the checkout, and of what it charges.
const fn effects(means: Means, role: Role) -> [&'static str; 2] {
    match (role, means) {
        (Role::Pay, Means::Transfers) => [
            "SELECT count(*) FROM pay_transaction WHERE outcome = 'taken'",
            "SELECT count(*) FROM checkout_charge c JOIN transfer t ON t.transfer_id = c.charge_id AND t.current_state = 3",
        ],
        (Role::Pay, Means::Tokens) => [
            "SELECT count(*) FROM checkout_charge",
            "SELECT count(*) FROM token_selection WHERE state = 'HELD' AND payee_wallet = 'till'",
        ],
        (Role::Can, Means::Transfers) => [
            "SELECT count(*) FROM pay_transaction WHERE is_rollback",
            "SELECT count(*) FROM transfer WHERE current_state = 7",
        ],
        (Role::Can, Means::Tokens) => [
            "SELECT count(*) FROM pay_transaction WHERE is_rollback",
            "SELECT count(*) FROM token_selection WHERE state = 'RELEASED'",
        ],
        (Role::Outcomes | Role::Rebuild, Means::Transfers) => [
            "SELECT count(*) FROM orders WHERE paid",
            "SELECT count(*) FROM transfer WHERE current_state = 5",
        ],
        (Role::Outcomes | Role::Rebuild, Means::Tokens) => [
            "SELECT count(*) FROM orders WHERE paid",
            "SELECT count(*) FROM token_selection WHERE state = 'SPENT'",
        ],
    }
}

fn every_step_dies_at_every_point(means: Means) {
    for role in [Role::Pay, Role::Can, Role::Outcomes, Role::Rebuild] {
        for life in lives() {
            let Some((world, mut shop)) = before(means, role) else { return };
            for &at in life {
                let outcome = step(&mut doomed(&world, at), &mut shop, role);
                let committed = at == Point::Committed;
                match outcome {
                    Ok(()) => assert!(committed, "{means:?} {role:?} {at:?}"),
                    Err(Error::Unavailable(_)) => assert!(!committed, "{means:?} {role:?} {at:?}"),
                    Err(other) => panic!("{means:?} {role:?} {at:?}: {other}"),
                }
                for effect in effects(means, role) {
                    assert_eq!(world.count(effect), i64::from(committed), "{role:?} {at:?}: {effect}");
                }
            }
            // Others take over, and send what was committed and not sent.
            take_over_all(&mut shop);
            shop.drain();
            let paid = role != Role::Can;
            assert_eq!(shop.state("o"), if paid { "paid" } else { "not_paid" }, "{role:?} {life:?}");
            assert_eq!(shop.ends("o").len(), 1, "{role:?} {life:?}: it ended once");
            let taken = if paid { 21 } else { 0 };
            match means {
                Means::Transfers => {
                    let owed = "SELECT sum(value)::bigint FROM participant_position JOIN participant_currency
                        USING (participant_currency_id) WHERE ledger_account_type = 'POSITION' AND value > 0";
                    assert_eq!(world.count(&format!("SELECT coalesce(({owed}), 0)")), taken);
                    assert_eq!(world.count("SELECT count(*) FROM transfer_timeout"), 0);
                }
                Means::Tokens => {
                    assert_eq!(
                        (wallet(&world, "till"), wallet(&world, "rich")),
                        ((taken, 0), (100 - taken, 0))
                    );
                }
            }
            shop.is_at_rest(&world);
        }
    }
}

#[test]
fn every_step_that_charges_positions_dies_at_every_point() {
    every_step_dies_at_every_point(Means::Transfers);
}

#[test]
fn every_step_that_charges_tokens_dies_at_every_point() {
    every_step_dies_at_every_point(Means::Tokens);
}

/// Everything is sent, forgotten and sent again before every step.
#[test]
fn everything_is_published_and_forgotten_before_every_step() {
    for means in [Means::Transfers, Means::Tokens] {
        let Some((world, mut shop)) = before(means, Role::Pay) else { return };
        shop.ask("by-stock", checkout());
        for _ in 0..12 {
            for claim in shop.sources() {
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
        assert_eq!((shop.state("o").as_str(), shop.state("by-stock").as_str()), ("paid", "not_paid"));
        assert_eq!((world.count("SELECT count(*) FROM checkout_charge"), shop.stock_of("i")), (2, 7));
        assert_eq!(shop.alarms, []);
        shop.is_at_rest(&world);
    }
}
