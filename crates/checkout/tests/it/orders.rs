//! The order row: one try at a time, one decision per try, and items that stand still meanwhile.

use holdfast_checkout::order::{AddItemError, Checkout, Undo};
use holdfast_checkout::{OrderState, TrNum, Whole};

use crate::world::{Shop, items, types, whole};

fn shop() -> Shop {
    let mut shop = Shop::with(&[("u1", 10)], &[("a", 10)]);
    shop.add_order("o1", "u1", &[("a", 2), ("a", 1)]);
    shop
}

#[test]
fn two_checkouts_at_once_are_one() {
    let mut shop = shop();
    let Checkout::Started(moved) = shop.checkout("o1") else { panic!("the first one starts") };
    assert_eq!(types(&moved.sent), ["pay", "sub"]);
    assert_eq!(shop.checkout("o1"), Checkout::Joins(TrNum::FIRST));
    shop.run();
    assert_eq!((shop.credit("u1"), shop.stock_of("a")), (7, 7), "lines of one item are summed");
    assert_eq!(shop.order("o1").state, OrderState::Paid(TrNum::FIRST));
}

#[test]
fn a_paid_order_is_charged_no_more() {
    let mut shop = shop();
    shop.checkout("o1");
    shop.run();
    assert_eq!(shop.checkout("o1"), Checkout::AlreadyPaid);
    shop.run();
    assert_eq!(shop.credit("u1"), 7);
}

#[test]
fn items_change_only_while_nothing_is_under_way_and_nothing_is_paid() {
    let mut shop = shop();
    let more = |shop: &Shop| shop.order("o1").with_item("b".parse().unwrap(), whole(1), whole(1));
    assert_eq!(more(&shop).unwrap().items, items(&[("a", 2), ("a", 1), ("b", 1)]));
    shop.checkout("o1");
    assert_eq!(more(&shop), Err(AddItemError::NotNow(OrderState::Pending(TrNum::FIRST))));
    let key = shop.last_try("o1").unwrap();
    let sent = shop.cancel(&key);
    assert_eq!(types(&sent), ["trfail", "can", "add"]);
    assert_eq!(more(&shop), Err(AddItemError::NotNow(OrderState::Cancelling(TrNum::FIRST))));
    shop.run();
    assert!(more(&shop).is_ok(), "cancelled: it may change again");
    shop.checkout("o1");
    shop.run();
    let error = more(&shop).unwrap_err();
    assert_eq!(error, AddItemError::NotNow(OrderState::Paid(TrNum::try_from(2).unwrap())));
    assert_eq!(error.to_string(), "the order is paid: its items change only while it is not_paid");
}

#[test]
fn numbers_that_grow_too_large_are_refused() {
    let shop = shop();
    let order = shop.order("o1");
    let add = |quantity, price| order.with_item("b".parse().unwrap(), quantity, price);
    assert!(matches!(add(Whole::MAX, whole(2)), Err(AddItemError::TooLarge(_))));
    assert!(matches!(add(Whole::MAX, whole(1)), Err(AddItemError::TooLarge(_))), "the order's sum counts");
    assert!(matches!(
        order.with_item("a".parse().unwrap(), Whole::MAX, Whole::ZERO),
        Err(AddItemError::Items(_))
    ));
}

/// Whoever comes second finds another (state, tr#) and sends nothing.
#[test]
fn the_first_decision_is_the_only_one() {
    let mut shop = shop();
    shop.checkout("o1");
    let pending = shop.order("o1").clone();
    let tr = TrNum::FIRST;
    let (paid, cancelling) =
        (pending.succeed(tr).unwrap().order, pending.fail(tr, Undo::BOTH).unwrap().order);
    let over = pending.fail(tr, Undo { can: false, add: false }).unwrap();
    assert_eq!((over.order.state, types(&over.sent)), (OrderState::NotPaid(Some(tr)), vec!["trfail"]));
    for decided in [&paid, &cancelling, &over.order] {
        assert_eq!((decided.succeed(tr), decided.fail(tr, Undo::BOTH)), (None, None));
    }
    let later = tr.next().unwrap();
    assert_eq!((pending.succeed(later), pending.fail(later, Undo::BOTH)), (None, None));
    assert_eq!((pending.cancelled(tr), paid.cancelled(tr), cancelling.cancelled(later)), (None, None, None));
    assert_eq!(cancelling.cancelled(tr).unwrap().state, OrderState::NotPaid(Some(tr)));
}

#[test]
fn only_the_moves_of_the_design_are_legal() {
    let (one, two) = (TrNum::FIRST, TrNum::FIRST.next().unwrap());
    let states = [None, Some(one), Some(two)].map(OrderState::NotPaid).into_iter().chain(
        [one, two]
            .into_iter()
            .flat_map(|tr| [OrderState::Pending(tr), OrderState::Paid(tr), OrderState::Cancelling(tr)]),
    );
    let states: Vec<OrderState> = states.collect();
    let mut legal = Vec::new();
    for from in &states {
        legal.extend(states.iter().filter(|to| from.may_become(**to)).map(|to| (*from, *to)));
    }
    let mut expected = vec![
        (OrderState::NotPaid(None), OrderState::Pending(one)),
        (OrderState::NotPaid(Some(one)), OrderState::Pending(two)),
    ];
    for tr in [one, two] {
        expected.push((OrderState::Pending(tr), OrderState::NotPaid(Some(tr))));
        expected.push((OrderState::Pending(tr), OrderState::Paid(tr)));
        expected.push((OrderState::Pending(tr), OrderState::Cancelling(tr)));
        expected.push((OrderState::Cancelling(tr), OrderState::NotPaid(Some(tr))));
    }
    assert_eq!(legal.len(), expected.len());
    assert!(expected.iter().all(|moved| legal.contains(moved)), "{legal:?}");
}
