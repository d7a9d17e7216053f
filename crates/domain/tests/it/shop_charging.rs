//! Checkouts that charge positions: the transfer goes through the steps of any other, is settled before the order is paid, and
//! ends with every failure.

use holdfast_domain::callbacks::CallbackMessage;
use proptest::prelude::*;

use TransferState as S;

use crate::shop_world::*;
use crate::world::*;

const STOCK: Sides = Sides { pay: false, stock: true };
const UNIT: i64 = 100;

/// Order `o` of two items of price 5 for the participant `payer`: 1,000 for `payee`.
fn charging(payer_funds: i64, stock: u64, outside: Sides) -> World {
    let mut shop = World::with(1_000_000, payer_funds);
    shop.does(item("i", stock, 5));
    shop.sells("o", "payer", "i", 2);
    shop.does(ShopCommand::SetCharging { charging: by_transfers(PAYEE.0, UNIT, 7) });
    shop.does(ShopCommand::SetOutside { outside });
    shop
}

fn positions(shop: &World) -> (i128, i128) {
    (shop.value(PAYER_POSITION), shop.value(PAYEE_POSITION))
}

fn calls(shop: &World, effects: &Effects) -> Vec<(ParticipantId, CallbackMessage)> {
    let told = |call: Callback| (call.to, call.message);
    callbacks(effects, &shop.memory).into_iter().map(told).collect()
}

fn open(answer: CheckoutAnswer) -> Sides {
    match answer {
        CheckoutAnswer::Open { waits, .. } => waits.sides,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_checkout_is_a_transfer_from_prepare_to_commit() {
    let mut shop = charging(1_000, 2, Sides::NONE);
    let (outcome, effects) = shop.decided(checkout("o"));
    assert_eq!(answer_of(outcome), paid(1));
    assert_eq!(types(&effects), ["pay", "sub", "psucc", "ssucc", "trsucc"]);
    let states = [S::ReceivedPrepare, S::Reserved, S::ReceivedFulfil, S::Committed];
    assert_eq!(effects.state_changes(), states.map(|state| moved(0, state)));
    assert_eq!(
        effects.position_changes(),
        [changed(PAYER_POSITION, 0, 1_000, 1_000), changed(PAYEE_POSITION, 0, -1_000, -1_000)]
    );
    assert_eq!(
        effects.notifications(),
        [
            Notification { silent: true, ..told(0, Party::Payee, NotificationKind::Prepared) },
            told_reserved(0, Party::Payer),
            told_reserved(0, Party::Payee),
        ]
    );
    assert_eq!((effects.outcomes().len(), effects.completions().len()), (1, 1));
    let row = shop.transfer(0);
    assert_eq!((row.state, row.payer, row.payee, row.amount.0), (S::Committed, PAYER, PAYEE, 1_000));
    assert_eq!((row.reserved_value.get(), row.final_value.get()).0.map(|value| value.0), Some(1_000));
    assert_eq!(row.id.to_string().as_bytes()[14], b'5', "a UUID of version 5: {}", row.id);
    assert!(shop.memory.holds.is_empty());
    assert_eq!(
        calls(&shop, &effects),
        [(PAYER, CallbackMessage::Put(S::Committed)), (PAYEE, CallbackMessage::Patch(S::Committed)),]
    );
    // A paid order is charged no more.
    assert!(matches!(shop.checkout("o"), CheckoutAnswer::AlreadyPaid { .. }));
    assert_eq!((positions(&shop), shop.memory.transfers.len()), ((1_000, -1_000), 1));
    assert!(shop.memory.users.is_empty(), "the user is the participant");
}

#[test]
fn what_the_limits_do_not_allow_is_refused_and_the_stock_comes_back() {
    let mut shop = charging(999, 2, Sides::NONE);
    let (outcome, effects) = shop.decided(checkout("o"));
    assert_eq!(answer_of(outcome), failed(1, Why::Pay));
    assert_eq!(types(&effects), ["pay", "sub", "pfail", "ssucc", "trfail", "add", "asucc"]);
    let rejected = moved_with(0, S::AbortedRejected, ErrorCode::PayerInsufficientLiquidity);
    assert_eq!(effects.state_changes(), [moved(0, S::ReceivedPrepare), rejected]);
    let code = ErrorCode::PayerInsufficientLiquidity;
    assert_eq!(effects.notifications(), [told_with(0, Party::Payer, NotificationKind::Refused, code)]);
    assert_eq!((positions(&shop), shop.stock("i")), ((0, 0), 2));
    // The next try is another transfer.
    shop.frame(&[funds_in(1, PAYER_SETTLEMENT, 1)]);
    assert_eq!(shop.checkout("o"), paid(2));
    assert_eq!(positions(&shop), (1_000, -1_000));
    assert_ne!(shop.transfer(0).id, shop.transfer(1).id);
}

#[test]
fn a_user_that_is_no_participant_or_the_payee_itself_cannot_pay() {
    let mut shop = charging(1_000, 8, Sides::NONE);
    for (name, payer) in [("p", "nobody"), ("q", "?"), ("r", "payee")] {
        shop.sells(name, payer, "i", 1);
        assert_eq!(shop.checkout(name), failed(1, Why::Pay), "{payer}");
    }
    assert_eq!(shop.memory.transfers.len(), 1, "only where there is a payer");
    assert_eq!((shop.transfer(0).state, shop.stock("i")), (S::Invalid, 8));
}

#[test]
fn without_stock_the_position_comes_back() {
    let mut shop = charging(1_000, 1, Sides::NONE);
    let (outcome, effects) = shop.decided(checkout("o"));
    assert_eq!(answer_of(outcome), failed(1, Why::Stock));
    assert_eq!(types(&effects), ["pay", "sub", "psucc", "sfail", "trfail", "can", "csucc"]);
    let states: Vec<_> = effects.state_changes().iter().map(|change| change.state).collect();
    assert_eq!(states, [S::ReceivedPrepare, S::Reserved, S::ReceivedError, S::AbortedError]);
    assert_eq!(positions(&shop), (0, 0));
    let code = Code::of_payee(CHARGE_ABORTED);
    assert_eq!(shop.transfer(0).code, code);
    let told = calls(&shop, &effects);
    assert_eq!(told, [(PAYER, CallbackMessage::Error(code.unwrap(), None))]);
}

#[test]
fn an_order_of_nothing_costs_nothing_and_one_of_too_much_is_refused() {
    let mut shop = charging(1, 8, Sides::NONE);
    shop.does(order("free", "payer"));
    assert_eq!(shop.checkout("free"), paid(1));
    shop.does(item("gold", 9, i64::MAX as u64));
    shop.does(order("much", "payer"));
    shop.does(add("much", "gold", 1));
    assert_eq!(shop.checkout("much"), failed(1, Why::Pay));
    assert!(shop.memory.transfers.is_empty());
}

#[test]
fn an_outside_yes_settles_what_was_reserved() {
    let mut shop = charging(1_000, 0, STOCK);
    assert_eq!(open(shop.checkout("o")), STOCK);
    let row = shop.transfer(0);
    assert_eq!((row.state, positions(&shop)), (S::Reserved, (1_000, 0)));
    assert_eq!(row.expiration, shop.now + i64::from(DEADLINE) + CHARGE_MARGIN_MS);
    assert_eq!(open(shop.checkout("o")), STOCK, "who joins reserves nothing");
    // Another way of paying holds for later tries only.
    shop.does(ShopCommand::SetCharging { charging: Charging::Credit });
    let (outcome, effects) = shop.decided(says("o", 1, Side::Stock, Said::Taken));
    assert_eq!(answer_of(outcome), paid(1));
    assert_eq!(types(&effects), ["ssucc", "trsucc"]);
    assert_eq!((positions(&shop), shop.transfer(0).state), ((1_000, -1_000), S::Committed));
    assert!(shop.memory.checkouts.is_empty() && shop.memory.holds.is_empty());
}

#[test]
fn an_outside_no_a_cancel_and_the_deadline_give_the_position_back() {
    for (ends, why) in [("no", Why::Stock), ("cancel", Why::Cancelled), ("deadline", Why::Deadline)] {
        let mut shop = charging(1_000, 0, STOCK);
        shop.checkout("o");
        let effects = match ends {
            "no" => shop.decided(says("o", 1, Side::Stock, Said::Refused)).1,
            "cancel" => shop.decided(cancel("o")).1,
            _ => {
                shop.now += i64::from(DEADLINE) + 1;
                shop.expire(9)
            }
        };
        assert_eq!((positions(&shop), shop.transfer(0).state), ((0, 0), S::AbortedError), "{ends}");
        let error = CallbackMessage::Error(Code::of_payee(CHARGE_ABORTED).unwrap(), None);
        assert_eq!(calls(&shop, &effects), [(PAYER, error)], "{ends}");
        if why != Why::Stock {
            shop.does(says("o", 1, Side::Stock, Said::Undone));
        }
        assert_eq!(shop.memory.orders[&"o".parse().unwrap()].failed, Some(why), "{ends}");
        assert_eq!(shop.state("o"), OrderState::NotPaid(Some(tr(1))));
        assert!(shop.memory.holds.is_empty() && shop.memory.checkouts.is_empty());
    }
}

/// The payee ends the transfer, or it runs out, before the warehouse has answered: the yes comes too late and is undone.
#[test]
fn a_transfer_that_has_ended_fails_the_order() {
    for ends in ["abort", "late", "expired"] {
        let mut shop = charging(1_000, 0, STOCK);
        shop.checkout("o");
        let id = shop.transfer(0).id;
        let state = match ends {
            "abort" => {
                shop.frame(&[Command::Abort(Abort::new(PAYEE, id, 5104, Vec::new()))]);
                S::AbortedError
            }
            "late" => {
                // Neither the deadline nor the expiration has been looked at: the hub was away.
                shop.now += i64::from(DEADLINE) + CHARGE_MARGIN_MS;
                S::Reserved
            }
            _ => {
                shop.now += i64::from(DEADLINE) + CHARGE_MARGIN_MS + 1;
                // Room for one, at a place in the log where a transfer goes first: the checkout is still open.
                shop.offset = shop.offset.next_multiple_of(4);
                shop.expire(1);
                assert_eq!(shop.state("o"), OrderState::Pending(tr(1)));
                S::ExpiredReserved
            }
        };
        let (outcome, effects) = shop.decided(says("o", 1, Side::Stock, Said::Taken));
        assert_eq!(open(answer_of(outcome)), STOCK, "{ends}");
        assert_eq!(types(&effects), ["ssucc", "trfail", "can", "add", "csucc"], "{ends}");
        assert_eq!(shop.transfer(0).state, state, "{ends}");
        let undone = shop.does(says("o", 1, Side::Stock, Said::Undone));
        assert_eq!(answer_of(undone), failed(1, Why::Pay), "{ends}");
        shop.now += 1;
        shop.expire(9);
        assert_eq!((positions(&shop), shop.memory.holds.len()), ((0, 0), 0), "{ends}");
    }
}

/// Both are due in one record: the transfer runs out, and the deadline finds it ended.
#[test]
fn a_record_that_ends_the_transfer_and_the_checkout_ends_each_once() {
    let mut shop = charging(1_000, 0, STOCK);
    shop.checkout("o");
    shop.now += i64::from(DEADLINE) + CHARGE_MARGIN_MS + 1;
    let effects = shop.expire(9);
    assert_eq!(effects.outcome(0).subject.ended(), 2);
    assert_eq!(types(&effects), ["trfail", "can", "add", "csucc"]);
    let states: Vec<_> = effects.state_changes().iter().map(|change| change.state).collect();
    assert_eq!(states, [S::ReservedTimeout, S::ExpiredReserved]);
    assert_eq!(positions(&shop), (0, 0));
}

/// Several deadlines of one record change the same position: each sees the one before it.
#[test]
fn deadlines_of_one_record_see_each_others_positions() {
    let mut shop = charging(10_000, 0, STOCK);
    for name in ["p", "q"] {
        shop.sells(name, "payer", "i", 1);
    }
    for name in ["o", "p", "q"] {
        shop.checkout(name);
    }
    assert_eq!(positions(&shop), (2_000, 0));
    shop.now += i64::from(DEADLINE) + 1;
    let effects = shop.expire(9);
    let values: Vec<_> = effects.position_changes().iter().map(|change| change.value.0).collect();
    assert_eq!((values, positions(&shop)), (vec![1_000, 500, 0], (0, 0)));
}

#[test]
fn the_payee_cannot_fulfil_what_the_shop_has_not_decided() {
    let mut shop = charging(1_000, 0, STOCK);
    shop.checkout("o");
    let id = shop.transfer(0).id;
    // The payee knows the order, its try and where it lies, and not the secret.
    shop.frame(&[Command::Fulfil(Fulfil::new(PAYEE, id, FulfilAction::Commit, [0; 32]))]);
    assert_eq!((shop.transfer(0).state, positions(&shop)), (S::AbortedError, (0, 0)));
    assert_eq!(open(answer_of(shop.does(says("o", 1, Side::Stock, Said::Taken)))), STOCK);
}

#[test]
fn one_frame_of_checkouts_never_breaks_a_limit() {
    let mut shop = charging(2_500, 100, Sides::NONE);
    let names: Vec<String> = (0..5).map(|number| format!("n{number}")).collect();
    for name in &names {
        shop.sells(name, "payer", "i", 2);
    }
    let mut commands: Vec<Command> = names.iter().map(|name| as_command(checkout(name))).collect();
    commands.insert(1, prepare(9, 600));
    let effects = shop.frame(&commands);
    let is_paid = |name: &&String| matches!(shop.state(name), OrderState::Paid(_));
    assert_eq!(names.iter().filter(is_paid).count(), 1, "1,000, then 600 by a prepare: 900 are left");
    assert_eq!((positions(&shop), shop.stock("i")), ((1_600, -1_000), 98));
    let calls = callbacks(&effects, &shop.memory);
    let origins: Vec<_> = calls.iter().map(|call| call.origin).collect();
    assert_eq!(origins, [0, 0, 1, 2, 3, 4, 5]);
}

#[test]
fn who_cannot_be_paid_is_no_payee() {
    let mut shop = charging(1, 0, Sides::NONE);
    for charging in [by_transfers(99, UNIT, 1), by_transfers(PAYEE.0, 0, 1), by_transfers(0, UNIT, 1)] {
        assert!(matches!(shop.refuses(ShopCommand::SetCharging { charging }), ShopRefusal::Invalid(_)));
    }
    assert_eq!(format!("{:?}", by_transfers(2, 1, 7)).matches('7').count(), 0, "the secret is not shown");
}

#[derive(Debug, Clone)]
enum Op {
    Checkout(u8),
    PayeeEnds(u8),
    Turn(Turn),
}

fn ops() -> impl Strategy<Value = Op> {
    let pause = prop_oneof![1..900_i64, Just(i64::from(DEADLINE)), Just(CHARGE_MARGIN_MS)];
    prop_oneof![
        8 => (0..5_u8).prop_map(Op::Checkout),
        1 => (0..5_u8).prop_map(Op::PayeeEnds),
        23 => turns(pause).prop_map(Op::Turn),
    ]
}

/// What the payer's position should be: committed and reserved amounts; and that paid orders and committed transfers are the
/// same sums.
fn assert_books(shop: &World, by_credit: u64) {
    let sum = |keep: fn(TransferState) -> bool| -> i128 {
        let rows = shop.memory.transfers.values().filter(|row| keep(row.state));
        rows.map(|row| i128::from(row.amount.0)).sum()
    };
    let (committed, reserved) = (sum(|state| state == S::Committed), sum(|state| state == S::Reserved));
    assert_eq!(positions(shop), (committed + reserved, -committed));
    assert!(committed + reserved <= 4_000, "the limit holds");
    let paid = shop.memory.orders.values().filter(|row| row.is_paid());
    let paid: u64 = paid.map(|row| row.order.amount.get()).sum();
    assert_eq!(i128::from(paid), committed / i128::from(UNIT) + i128::from(by_credit));
    for row in shop.memory.transfers.values().filter(|row| row.state == S::Reserved) {
        let held = shop
            .memory
            .checkouts
            .values()
            .find(|open| open.charge.is_some_and(|charge| charge.id() == row.id));
        // One that has run out may outlive its checkout until the next expiry.
        assert!(held.is_some_and(|open| open.undo.is_none()) || row.expiration <= shop.now, "{row:?}");
    }
}

proptest! {
    #[test]
    fn charged_is_what_is_paid(ops in proptest::collection::vec(ops(), 1..60)) {
        let mut shop = charging(4_000, 3, Sides::NONE);
        shop.does(user("payer", 25));
        for number in 0..5_u64 {
            shop.sells(&number.to_string(), "payer", "i", number);
        }
        for op in ops {
            match op {
                Op::Checkout(order) => drop(shop.decided(checkout(&order.to_string()))),
                Op::PayeeEnds(order) => {
                    let open = shop.memory.checkouts.get(&order.to_string().parse().unwrap());
                    if let Some(charge) = open.and_then(|open| open.charge) {
                        let abort = Abort::new(PAYEE, charge.id(), 5104, Vec::new());
                        shop.frame(&[Command::Abort(abort)]);
                    }
                }
                Op::Turn(turn) => shop.turn(&turn, &by_transfers(PAYEE.0, UNIT, 7)),
            }
            assert_books(&shop, 25 - shop.credit("payer") - shop.credit_held());
        }
        // In the end nothing is left reserved.
        shop.now += i64::from(DEADLINE) + CHARGE_MARGIN_MS + 1;
        shop.expire(100);
        prop_assert!(shop.memory.holds.is_empty());
    }
}
