//! Reservation, settlement and the checkout's own rows happen together or not at all, whoever dies when.

use holdfast_postgres::Point;

use crate::crashes::lives;
use crate::shop_charges::Market;
use crate::shop_crashes::{self, step};
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

impl Role {
    const fn step(self) -> shop_crashes::Role {
        match self {
            Role::Pay | Role::Can => shop_crashes::Role::Pay,
            Role::Outcomes => shop_crashes::Role::Outcomes,
            Role::Rebuild => shop_crashes::Role::Rebuild,
        }
    }
}

/// A shop where `o` of `rich`, 21 in all, waits for that step.
fn before(means: Means, role: Role) -> Option<(World, Shop)> {
    let (world, mut shop) = match means {
        Means::Transfers => {
            let Market { world, shop, .. } = Market::open(1)?;
            (world, shop)
        }
        Means::Tokens => market(1)?,
    };
    shop.asks("o", checkout(), &[Orders, Relay]);
    if role != Role::Pay {
        shop.turn(0, Pay);
    }
    if role == Role::Can {
        shop.asks("o", CANCEL, &[Orders]);
    } else if role != Role::Pay {
        shop.turn(0, Stock);
    }
    shop.relay();
    Some((world, shop))
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
                died(step(&mut world.doomed(at), &mut shop, role.step(), 0), at);
                let committed = at == Point::Committed;
                for effect in effects(means, role) {
                    assert_eq!(world.count(effect), i64::from(committed), "{role:?} {at:?}: {effect}");
                }
            }
            // Others take over, and send what was committed and not sent.
            shop.take_over_all();
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
                    assert_eq!(world.rows("transfer_timeout"), 0);
                }
                Means::Tokens => {
                    let wallets = (wallet(&world, "till"), wallet(&world, "rich"));
                    assert_eq!(wallets, ((taken, 0), (100 - taken, 0)));
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
        shop.work_forgetting(12);
        shop.drain();
        assert_eq!((shop.state("o").as_str(), shop.state("by-stock").as_str()), ("paid", "not_paid"));
        assert_eq!((world.rows("checkout_charge"), shop.stock_of("i")), (2, 7));
        assert_eq!(shop.alarms, []);
        shop.is_at_rest(&world);
    }
}
