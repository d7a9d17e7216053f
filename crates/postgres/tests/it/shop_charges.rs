//! Checkouts that charge positions of participants: reserved when `pay` comes, settled by whoever decides, given back by
//! everything else.

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::shop::{
    CHARGE_ABORTED, CHARGE_MARGIN_MS, Charging, CheckoutAnswer, Secret, ShopCommand, TrNum, Why,
};
use holdfast_domain::transfers::{Code, TransferState};
use holdfast_messages::Notice;
use holdfast_postgres::Error;
use holdfast_postgres::shop::WantedCharging;

use crate::shop_world::*;
use crate::world::*;

pub const NOW: Millis = 1_800_000_000_000;
const NODE: i64 = 1;
const SECRET: Secret = Secret([9; 32]);

/// The shop is paid, `rich` has 1,000 and `poor` 10.
pub struct Market {
    pub world: World,
    pub node: Node,
    pub shop: Shop,
    pub payee: (ParticipantId, AccountId),
    pub rich: AccountId,
    pub poor: AccountId,
}

pub fn transfers() -> WantedCharging {
    transfers_to("Shop", usd())
}

fn transfers_to(payee: &str, currency: Currency) -> WantedCharging {
    WantedCharging::Transfers { payee: Name::new(payee).unwrap(), currency, unit: Amount::whole(1).unwrap() }
}

impl Market {
    pub fn open(partitions: u32) -> Option<Market> {
        let (world, mut node) = node(2)?;
        let payee = node.participant("shop", 0, 0);
        let (_, rich) = node.participant("rich", 1_000, 1_000);
        let (_, poor) = node.participant("poor", 10, 10);
        world.set_clock(NOW);
        let mut shop = Shop::new(&world, partitions);
        shop.store.agree_on_charging(&transfers(), SECRET, NODE).unwrap();
        shop.stocked(
            &[],
            &[("i", 10, 7), ("gone", 0, 1), ("free", 10, 0)],
            &[
                ("o", "rich", "i", 3),
                ("by-limit", "poor", "i", 2),
                ("by-stock", "RICH", "gone", 1),
                ("nobody", "nobody", "i", 1),
                ("costs-nothing", "nobody", "free", 2),
            ],
        );
        Some(Market { world, node, shop, payee, rich, poor })
    }

    /// Where rich, poor and the shop stand.
    pub fn positions(&self) -> (i64, i64, i64) {
        (self.world.value(self.rich), self.world.value(self.poor), self.world.value(self.payee.1))
    }

    /// The transfer that pays for an order.
    pub fn transfer(&self, order: &str) -> Option<TransferId> {
        let sql = "SELECT charge_id::text FROM checkout_charge WHERE order_id = $1";
        let row = self.world.sql().query_opt(sql, &[&order]).unwrap()?;
        Some(row.get::<_, &str>(0).parse().unwrap())
    }

    /// Who was called about the transfer of an order, and with what.
    fn told(&self, order: &str) -> Vec<(u32, CallbackMessage)> {
        let id = self.transfer(order).unwrap();
        let mut calls = Vec::new();
        for told in &self.shop.told_parties {
            if matches!(&told.notice, Notice::Transfer(notice) if notice.transfer == id) {
                calls.extend(told.callbacks().into_iter().map(|call| (told.notice.to().unwrap().0, call)));
            }
        }
        calls
    }

    pub fn state_of(&self, order: &str) -> String {
        self.transfer(order).map_or_else(|| "none".to_owned(), |id| self.world.state(id))
    }

    /// The order is at the place where both sides have taken, and nobody has heard of it.
    pub fn both_have_taken(&mut self, order: &str) {
        self.shop.asks(order, checkout(), BOTH_TAKE);
        assert_eq!((self.shop.state(order).as_str(), self.state_of(order).as_str()), ("pending", "RESERVED"));
    }

    /// Nothing is reserved, nothing open, and everything adds up.
    pub fn is_at_rest(&mut self) {
        assert_eq!(self.world.rows("transfer WHERE current_state NOT IN (2, 5, 7, 8, 10, 11)"), 0);
        assert_eq!(self.world.rows("transfer_timeout"), 0);
        self.shop.is_at_rest(&self.world);
    }
}

#[test]
fn a_checkout_moves_positions() {
    for delivery in [Delivery::Once, Delivery::TwiceAndLate] {
        let Some(mut market) = Market::open(2) else { return };
        market.shop.delivery = delivery;
        market.shop.stocked(&[("rich", 5)], &[], &[]);
        let (_, state) = market.shop.run("o", checkout());
        assert_eq!((state.as_str(), market.state_of("o").as_str()), ("paid", "COMMITTED"));
        assert_eq!((market.positions(), market.shop.stock_of("i")), ((21, 0, -21), 7));
        assert_eq!(market.shop.credit("rich"), 5, "a user of that name keeps its credit");
        let (again, _) = market.shop.run("o", checkout());
        assert_eq!(again, Ok(CheckoutAnswer::AlreadyPaid { tr: TrNum::FIRST }));
        assert_eq!(market.positions(), (21, 0, -21));
        // Both hear that it is committed, and nobody was asked to fulfil.
        let (payee, payer) = (market.payee.0.0, market.payee.0.0 + 1);
        let committed = TransferState::Committed;
        let mut told = market.told("o");
        told.sort_by_key(|(to, _)| *to);
        assert_eq!(
            told,
            [(payee, CallbackMessage::Patch(committed)), (payer, CallbackMessage::Put(committed))]
        );
        let values = "SELECT count(*) FROM transfer WHERE reserved_value = 21 AND final_value = -21";
        assert_eq!(market.world.count(values), 1, "both position values are kept");
        market.is_at_rest();
    }
}

/// Fails if a refusal keeps what the other side took, or leaves a reservation.
#[test]
fn what_is_refused_is_given_back() {
    for delivery in [Delivery::Once, Delivery::TwiceAndLate] {
        let Some(mut market) = Market::open(2) else { return };
        market.shop.delivery = delivery;
        for (order, why, transfer) in [
            ("by-limit", Why::Pay, "none"),
            ("by-stock", Why::Stock, "ABORTED_ERROR"),
            ("nobody", Why::Pay, "none"),
        ] {
            let (_, state) = market.shop.run(order, checkout());
            assert_eq!((state.as_str(), market.shop.ends(order)), ("not_paid", vec![failed(why)]), "{order}");
            assert_eq!(market.state_of(order), transfer, "{order}");
        }
        // The refused prepare is told of as any other: 4001, the cover comes before the cap.
        assert_eq!(market.world.rows("transfer WHERE current_state = 8 AND error_code = 4001"), 1);
        let (_, state) = market.shop.run("costs-nothing", checkout());
        assert_eq!((state.as_str(), market.state_of("costs-nothing").as_str()), ("paid", "none"));
        assert_eq!((market.positions(), market.shop.stock_of("i")), ((0, 0, 0), 10));
        assert_eq!(market.shop.alarms, []);
        // Its second try has another transfer.
        market.shop.does(&ShopCommand::AddStock { item: id("gone"), amount: whole(1) });
        let (_, state) = market.shop.run("by-stock", checkout());
        assert_eq!((state.as_str(), market.positions()), ("paid", (1, 0, -1)));
        assert_eq!(market.world.rows("checkout_charge WHERE order_id = 'by-stock'"), 2);
        market.is_at_rest();
    }
}

#[test]
fn a_rollback_of_what_cost_nothing_gives_nothing_back() {
    let Some(mut market) = Market::open(1) else { return };
    market.shop.asks("costs-nothing", checkout(), &[Orders, Relay, Pay]);
    let (_, state) = market.shop.run("costs-nothing", CANCEL);
    assert_eq!((state.as_str(), &market.shop.alarms[..]), ("not_paid", &[][..]));
    market.is_at_rest();
}

/// The deadline comes while the payment side has reserved and the stock side is silent; or before it was asked at all.
#[test]
fn a_deadline_gives_the_reservation_back() {
    for asked in [true, false] {
        let Some(mut market) = Market::open(1) else { return };
        market.shop.asks("o", checkout(), &[Orders, Relay]);
        if asked {
            market.shop.turn(0, Pay);
            assert_eq!((market.state_of("o").as_str(), market.positions()), ("RESERVED", (21, 0, 0)));
        }
        market.world.set_clock(NOW + i64::from(DEADLINE_MS) + 1);
        assert_eq!(market.shop.expire(), 1);
        assert_eq!(market.shop.ends("o"), [failed(Why::Deadline)]);
        if asked {
            let rejected = CallbackMessage::Error(Code::of_payee(CHARGE_ABORTED).unwrap(), None);
            assert_eq!(
                market.told("o"),
                [(market.payee.0.0 + 1, rejected)],
                "the payer hears that it is over"
            );
        }
        assert_eq!(market.state_of("o"), if asked { "ABORTED_ERROR" } else { "none" });
        assert_eq!((market.positions(), market.shop.stock_of("i")), ((0, 0, 0), 10));
        market.is_at_rest();
    }
}

/// How a reservation may end before the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Its time is over, and the scan has ended it.
    Expired,
    /// Its time is over, and the scan comes later.
    RanOut,
    /// The payee did not want it.
    Aborted,
}

/// Fails if an order is paid without its money, or if one side keeps what it took.
#[test]
fn what_has_ended_before_the_decision_fails_the_order() {
    for ended in [Ended::Expired, Ended::RanOut, Ended::Aborted] {
        for takes_over in [false, true] {
            let Some(mut market) = Market::open(1) else { return };
            market.both_have_taken("o");
            let over = NOW + i64::from(DEADLINE_MS) + CHARGE_MARGIN_MS + 1;
            match ended {
                Ended::Expired => {
                    market.world.set_clock(over);
                    assert_eq!(market.node.expire(), 1);
                }
                Ended::RanOut => market.world.set_clock(over),
                Ended::Aborted => {
                    let transfer = market.transfer("o").unwrap();
                    market.node.ask(&[abort(transfer.0, market.payee.0.0)]);
                    assert_eq!(market.state_of("o"), "ABORTED_ERROR");
                }
            }
            if takes_over {
                market.shop.take_over(0, 0);
            } else {
                market.shop.turn(0, Outcomes);
            }
            assert_eq!(market.shop.state("o"), "cancelling", "{ended:?}");
            market.shop.drain();
            assert_eq!(market.shop.ends("o"), [failed(Why::Pay)], "{ended:?}");
            market.node.expire();
            assert_eq!((market.positions(), market.shop.stock_of("i")), ((0, 0, 0), 10), "{ended:?}");
            assert_eq!(market.shop.alarms, []);
            market.is_at_rest();
        }
    }
}

/// Whoever takes over decides what has both answers, and settles it.
#[test]
fn a_rebuild_settles_what_it_decides() {
    let Some(mut market) = Market::open(1) else { return };
    market.both_have_taken("o");
    let open = market.shop.store.open_checkouts(None, None, 10).unwrap();
    let charge = open.checkouts[0].row.charge.map(|charge| charge.id());
    assert_eq!((open.checkouts.len(), charge), (1, market.transfer("o")), "an operator sees what pays");
    market.shop.take_over(0, 0);
    assert_eq!((market.shop.state("o").as_str(), market.state_of("o").as_str()), ("paid", "COMMITTED"));
    market.shop.drain();
    assert_eq!((market.positions(), market.shop.stock_of("i")), ((21, 0, -21), 7));
    // Everything once more, from the beginning.
    market.shop.take_over(0, 0);
    market.shop.drain();
    assert_eq!(market.positions(), (21, 0, -21));
    market.is_at_rest();
}

#[test]
fn pay_and_can_in_one_batch() {
    let Some(mut market) = Market::open(1) else { return };
    market.shop.asks("o", checkout(), &[Orders, Relay]);
    // The order is cancelled before its `pay` is read, and still said to wait when it is: both come at once.
    let claim = market.shop.orders[0].claim;
    market.shop.ask("o", CANCEL);
    let (key, value) = {
        let pay = &market.shop.pay[0].log[0];
        (pay.key.clone(), pay.body.clone())
    };
    let can = String::from_utf8(value).unwrap().replace("\"pay\"", "\"can\"");
    market.shop.pay[0].push(std::str::from_utf8(&key).unwrap(), can.as_bytes());
    market.shop.turn(0, Pay);
    assert_eq!((market.state_of("o").as_str(), market.positions()), ("ABORTED_ERROR", (0, 0, 0)));
    market.shop.turn(0, Orders);
    market.shop.relay_of(&claim);
    market.shop.drain();
    assert_eq!(market.shop.state("o"), "not_paid");
    market.is_at_rest();
}

/// Nodes agree; only one that is alone may change what is charged; and tries end as they began.
#[test]
fn nodes_agree_on_what_is_charged() {
    let Some(mut market) = Market::open(1) else { return };
    let mut store = market.world.store();
    let before = store.charging().unwrap();
    assert!(matches!(before, Charging::Transfers(by) if by.secret == SECRET));
    // The same again, from elsewhere, with another draw: the first one counts.
    assert_eq!(store.agree_on_charging(&transfers(), Secret([1; 32]), 2).unwrap(), before);
    let refused = |store: &mut holdfast_postgres::Store, wanted: &WantedCharging| match store
        .agree_on_charging(wanted, Secret([1; 32]), 2)
    {
        Err(Error::Charging(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = refused(&mut store, &WantedCharging::Credit);
    assert!(why.contains("charge credit, and the other nodes charge transfers"), "{why}");
    let nobody = transfers_to("nobody", usd());
    assert!(refused(&mut store, &nobody).contains("there is no participant nobody"));
    let other = transfers_to("shop", "EUR".parse().unwrap());
    assert!(refused(&mut store, &other).contains("no position account in EUR"));

    market.both_have_taken("o");
    market.world.set_clock(NOW + 60_000);
    let source = holdfast_postgres::Source::Timeout(0);
    store.count_nodes(source, 3, std::time::Duration::from_secs(5)).unwrap();
    assert!(refused(&mut store, &WantedCharging::Credit).contains("the other nodes"), "another is at work");
    store.leave(source, 3).unwrap();
    assert_eq!(store.agree_on_charging(&WantedCharging::Credit, SECRET, 2).unwrap(), Charging::Credit);
    market.shop.stocked(&[("u", 100)], &[], &[("later", "u", "i", 1)]);
    market.shop.drain();
    assert_eq!((market.shop.state("o").as_str(), market.positions()), ("paid", (21, 0, -21)));
    let (_, state) = market.shop.run("later", checkout());
    assert_eq!((state.as_str(), market.shop.credit("u")), ("paid", 93));
    market.is_at_rest();
}

/// Fails if an order can be paid without its money, or money reserved for nothing, and `verify` says nothing.
#[test]
fn tampering_with_charges_is_found() {
    let open = |market: &mut Market| {
        // One is paid, one given back, and one open that has taken.
        assert_eq!(market.shop.run("o", checkout()).1, "paid");
        assert_eq!(market.shop.run("by-stock", checkout()).1, "not_paid");
        market.shop.stocked(&[], &[], &[("open", "rich", "i", 1)]);
        market.both_have_taken("open");
    };
    for tamper in [
        "UPDATE transfer SET current_state = 7 WHERE transfer_id = (SELECT charge_id FROM checkout_charge WHERE order_id = 'o')",
        "UPDATE transfer SET current_state = 5
         WHERE transfer_id = (SELECT charge_id FROM checkout_charge WHERE order_id = 'open')",
        "UPDATE transfer SET current_state = 3
         WHERE transfer_id = (SELECT charge_id FROM checkout_charge WHERE order_id = 'by-stock')",
        "DELETE FROM pay_transaction WHERE order_id = 'open'",
        "UPDATE checkout_charge SET charge_id = gen_random_uuid() WHERE order_id = 'open'",
    ] {
        let Some(mut market) = Market::open(1) else { return };
        open(&mut market);
        market.world.verify();
        market.world.notices(tamper, "checkout_charge");
    }
}
