//! Checkouts that tokens pay for: they are locked without a lease, spent before the order is paid, and freed with every failure.

use std::collections::BTreeSet;

use holdfast_domain::tokens::{LockRow, NO_END, Name, TokenId, TokenOutcome, TokenRefusal};
use proptest::prelude::*;

use crate::funded_world::{issue, lock, spend, update, usd_token, wallet, wallets};
use crate::shop_world::*;
use crate::tokens_world::{as_command as of_vault, ids, renew, unlock};
use crate::world::*;

const STOCK: Sides = Sides { pay: false, stock: true };
const UNIT: u64 = 10;

fn by() -> ByTokens {
    by_tokens(UNIT, 7)
}

/// Order `o` of two items of price 5 for the wallet `alice`, which has tokens `a` of 70, `b` of 50 and `c` of 20.
fn selling(stock: u64, outside: Sides) -> World {
    let mut shop = World::empty();
    let tokens = [("a", 70), ("b", 50), ("c", 20)];
    shop.frame(&[issue(tokens.into_iter().map(|(id, much)| usd_token(id, "alice", much)).collect())]);
    shop.does(item("i", stock, 5));
    shop.sells("o", "alice", "i", 2);
    shop.does(ShopCommand::SetCharging { charging: Charging::Tokens(by()) });
    shop.does(ShopCommand::SetOutside { outside });
    shop
}

fn name_of(order: &str, number: u64) -> Name {
    let key = TryKey { order_id: order.parse().unwrap(), tr_num: tr(number) };
    by().spender(&key).to_string().into()
}

/// The checkout of that try with these tokens.
fn with(order: &str, number: u64, names: &[&str]) -> ShopCommand {
    with_tokens(&by(), order, number, names)
}

fn locks(shop: &World) -> Vec<&LockRow> {
    shop.memory.locks.values().map(AsRef::as_ref).collect()
}

fn anew(shop: &mut World, command: ShopCommand) -> (&'static str, Option<TokenId>) {
    match shop.refuses(command) {
        ShopRefusal::ChooseTokens { why, taken, .. } => (why, taken),
        other => panic!("{other}"),
    }
}

fn token_answer(effects: &Effects) -> &TokenOutcome {
    effects.outcome(0).token.as_deref().unwrap()
}

#[test]
fn a_checkout_moves_tokens_to_the_shop_and_change_back() {
    let mut shop = selling(2, Sides::NONE);
    let (outcome, effects) = shop.decided(with("o", 1, &["a", "b"]));
    assert_eq!(answer_of(outcome), paid(1));
    assert_eq!(types(&effects), ["pay", "sub", "psucc", "ssucc", "trsucc"]);
    assert!(
        effects.transfers().is_empty() && effects.notifications().is_empty(),
        "no transfer is made of it"
    );
    assert_eq!((wallet(&shop, "shop"), wallet(&shop, "alice")), ((100, 0), (40, 0)));
    assert!(locks(&shop).is_empty());
    let spent = &shop.memory.spends[&*name_of("o", 1)];
    assert_eq!(spent.transaction.consumed, ids(&["a", "b"]));
    assert!(spent.transaction.produced.iter().all(|token| token.id.as_str().starts_with("hold:")));
    // A paid order takes nothing more, whatever is offered.
    for again in [with("o", 1, &["c"]), with("o", 2, &["c"]), checkout("o")] {
        assert!(matches!(answer_of(shop.does(again)), CheckoutAnswer::AlreadyPaid { .. }));
    }
    assert_eq!((wallet(&shop, "shop"), wallet(&shop, "alice")), ((100, 0), (40, 0)));
}

#[test]
fn who_wants_for_tokens_is_refused_and_the_stock_comes_back() {
    let mut shop = selling(2, Sides::NONE);
    let (outcome, effects) = shop.decided(with("o", 1, &[]));
    assert_eq!(answer_of(outcome), failed(1, Why::Pay));
    assert_eq!(types(&effects), ["pay", "sub", "pfail", "ssucc", "trfail", "add", "asucc"]);
    assert!(effects.tokens().is_empty());
    assert_eq!((shop.stock("i"), wallet(&shop, "alice")), (2, (140, 0)));
    assert_eq!(answer_of(shop.does(with("o", 2, &["a", "b"]))), paid(2));
}

#[test]
fn without_stock_the_tokens_are_free_again() {
    let mut shop = selling(1, Sides::NONE);
    let (outcome, effects) = shop.decided(with("o", 1, &["a", "b"]));
    assert_eq!(answer_of(outcome), failed(1, Why::Stock));
    assert_eq!(types(&effects), ["pay", "sub", "psucc", "sfail", "trfail", "can", "csucc"]);
    assert_eq!((wallet(&shop, "alice"), locks(&shop).len()), ((140, 0), 0));
    shop.does(ShopCommand::AddStock { item: "i".parse().unwrap(), amount: whole(1) });
    assert_eq!(answer_of(shop.does(with("o", 2, &["a", "b"]))), paid(2));
}

/// Nothing is tried, so the order keeps its try and others may be chosen for it.
#[test]
fn tokens_that_are_not_to_be_had_are_chosen_anew() {
    let mut shop = selling(2, Sides::NONE);
    shop.frame(&[lock("eve", &["b"], 5_000), issue(vec![usd_token("x", "bob", 100)])]);
    let mut none = with("o", 1, &["a"]);
    if let ShopCommand::Checkout(command) = &mut none {
        command.chosen = None;
    }
    let not_enough = ("those that were chosen are not enough, or not the user's", None);
    let refused = [
        (none, ("none were chosen", None)),
        (with("o", 2, &["a", "c"]), ("those that were chosen are for another try", None)),
        (with("p", 1, &["a", "c"]), ("those that were chosen are for another try", None)),
        (with("o", 1, &["a", "c"]), not_enough.clone()),
        (with("o", 1, &["x"]), not_enough.clone()),
        (with("o", 1, &["a", "ghost"]), not_enough),
        (with("o", 1, &["a", "c", "c"]), ("those that were chosen cannot be locked", None)),
        (
            with("o", 1, &["a", "b"]),
            ("another has locked some of those that were chosen", Some(TokenId::from("b"))),
        ),
    ];
    for (command, why) in refused {
        let ShopCommand::Checkout(command) = command else { unreachable!() };
        let command = CheckoutOrder { order: "o".parse().unwrap(), ..command };
        assert_eq!(anew(&mut shop, ShopCommand::Checkout(command)), why);
        assert_eq!(shop.state("o"), OrderState::NotPaid(None));
    }
    // A lease that is over locks nothing.
    shop.now += 5_000;
    assert_eq!(answer_of(shop.does(with("o", 1, &["a", "b"]))), paid(1));
}

#[test]
fn an_order_of_nothing_needs_no_tokens_and_one_of_too_much_is_refused() {
    let mut shop = selling(2, Sides::NONE);
    shop.does(order("free", "nobody"));
    assert_eq!(shop.checkout("free"), paid(1));
    shop.does(item("gold", 9, i64::MAX as u64));
    shop.does(order("much", "alice"));
    shop.does(add("much", "gold", 1));
    assert_eq!(shop.checkout("much"), failed(1, Why::Pay));
    assert!(shop.memory.spends.is_empty() && locks(&shop).is_empty());
}

/// It has locked nothing, so its name is free for whoever reads it, and its end is not the end of that lock.
#[test]
fn an_order_of_nothing_leaves_alone_what_others_lock_in_its_name() {
    let mut shop = selling(2, STOCK);
    shop.does(order("free", "alice"));
    assert!(matches!(shop.checkout("free"), CheckoutAnswer::Open { .. }));
    shop.frame(&[lock(&name_of("free", 1), &["a"], 900_000)]);
    let locked = shop.memory.locks.clone();
    assert_eq!(locked.len(), 1);
    shop.does(cancel("free"));
    assert_eq!(shop.memory.locks, locked);
}

#[test]
fn an_open_checkout_holds_its_tokens_against_everybody() {
    let mut shop = selling(0, STOCK);
    let open = answer_of(shop.does(with("o", 1, &["a", "b"])));
    assert!(matches!(open, CheckoutAnswer::Open { waits, .. } if waits.sides == STOCK));
    let held = name_of("o", 1);
    let row = locks(&shop)[0].clone();
    assert_eq!((&row.spender, row.expires_at, row.amount), (&held, NO_END, 100));
    assert_eq!(row.fence, shop.offset, "its record's place and one");
    // Who asks again joins, and what is offered with that is not touched.
    for again in [with("o", 1, &["a", "b"]), with("o", 2, &["c"]), checkout("o")] {
        let joined = answer_of(shop.does(again));
        assert!(matches!(joined, CheckoutAnswer::Open { .. }));
    }
    assert_eq!((locks(&shop), wallet(&shop, "alice")), (vec![&row], (140, 120)));
    let in_use =
        TokenOutcome::Refused(TokenRefusal::SpenderInUse("a transfer or checkout holds it and will end it"));
    let (unlock, renew) = (of_vault(unlock(&held, None)), of_vault(renew(&held, None, 1)));
    for meddles in [unlock, renew, spend(&held, &[], 5)] {
        assert_eq!(token_answer(&shop.frame(&[meddles])), &in_use);
    }
    assert!(matches!(
        token_answer(&shop.frame(&[lock("eve", &["a"], 9)])),
        TokenOutcome::Refused(TokenRefusal::Taken(_))
    ));
    assert!(matches!(
        token_answer(&shop.frame(&[update(&["a"], Vec::new())])),
        TokenOutcome::Refused(TokenRefusal::Invalid(_))
    ));
    // No lease ends it; its deadline has not passed.
    shop.now += i64::from(DEADLINE);
    shop.expire(9);
    assert_eq!(locks(&shop), [&row]);
    // Another way of paying holds for later tries only.
    shop.does(ShopCommand::SetCharging { charging: Charging::Credit });
    let (outcome, effects) = shop.decided(says("o", 1, Side::Stock, Said::Taken));
    assert_eq!((answer_of(outcome), types(&effects)), (paid(1), vec!["ssucc", "trsucc"]));
    assert_eq!((wallet(&shop, "shop"), wallet(&shop, "alice")), ((100, 0), (40, 0)));
    assert!(shop.memory.checkouts.is_empty() && locks(&shop).is_empty());
}

#[test]
fn an_outside_no_a_cancel_and_the_deadline_free_the_tokens() {
    for (ends, why) in [("no", Why::Stock), ("cancel", Why::Cancelled), ("deadline", Why::Deadline)] {
        let mut shop = selling(0, STOCK);
        shop.does(with("o", 1, &["a", "b"]));
        match ends {
            "no" => drop(shop.does(says("o", 1, Side::Stock, Said::Refused))),
            "cancel" => drop(shop.does(cancel("o"))),
            _ => {
                shop.now += i64::from(DEADLINE) + 1;
                drop(shop.expire(9));
            }
        }
        // They are free with the decision, before the warehouse has given back.
        assert_eq!((wallet(&shop, "alice"), locks(&shop).len()), ((140, 0), 0), "{ends}");
        if why != Why::Stock {
            // Its late yes changes nothing: it is to give back.
            shop.does(says("o", 1, Side::Stock, Said::Taken));
            assert_eq!(wallet(&shop, "shop"), (0, 0), "{ends}");
            shop.does(says("o", 1, Side::Stock, Said::Undone));
        }
        assert_eq!(shop.memory.orders[&"o".parse().unwrap()].failed, Some(why), "{ends}");
        assert_eq!(shop.state("o"), OrderState::NotPaid(Some(tr(1))));
        // The next try is another spender.
        assert_eq!(anew(&mut shop, retry("o")).0, "none were chosen");
        shop.does(with("o", 2, &["a", "b"]));
        assert_eq!(locks(&shop)[0].spender, name_of("o", 2));
        assert_eq!(answer_of(shop.does(says("o", 2, Side::Stock, Said::Taken))), paid(2));
    }
}

/// Two orders of one frame are offered the same tokens: the first gets them, the second is to choose anew.
#[test]
fn checkouts_of_one_frame_see_each_others_locks() {
    let mut shop = selling(0, STOCK);
    shop.sells("p", "alice", "i", 2);
    let both = [as_command(with("o", 1, &["a", "b"])), as_command(with("p", 1, &["b", "a"]))];
    let effects = shop.frame(&both);
    let outcome = |at: usize| ShopOutcome::clone(effects.outcomes()[at].shop.as_ref().unwrap());
    assert!(matches!(answer_of(outcome(0)), CheckoutAnswer::Open { .. }));
    assert!(matches!(outcome(1), ShopOutcome::Refused(ShopRefusal::ChooseTokens { taken: Some(_), .. })));
    assert_eq!((shop.state("p"), locks(&shop).len()), (OrderState::NotPaid(None), 1));
}

/// An outside payment side is asked in place of the vault.
#[test]
fn an_outside_payment_side_takes_no_tokens() {
    let mut shop = selling(2, Sides { pay: true, stock: false });
    assert!(matches!(shop.checkout("o"), CheckoutAnswer::Open { .. }));
    assert!(locks(&shop).is_empty());
    assert_eq!(answer_of(shop.does(says("o", 1, Side::Pay, Said::Taken))), paid(1));
    assert_eq!(wallet(&shop, "alice"), (140, 0));
}

#[test]
fn a_unit_is_worth_something_and_names_cannot_be_guessed() {
    let mut shop = selling(2, Sides::NONE);
    let charging = Charging::Tokens(by_tokens(0, 1));
    assert!(matches!(shop.refuses(ShopCommand::SetCharging { charging }), ShopRefusal::Invalid(_)));
    let key = TryKey { order_id: "o".parse().unwrap(), tr_num: tr(1) };
    assert_ne!(by_tokens(UNIT, 7).spender(&key), by_tokens(UNIT, 8).spender(&key));
    assert_eq!(name_of("o", 1).as_bytes()[14], b'5', "a UUID of version 5");
    assert_ne!(name_of("o", 1), name_of("o", 2));
    let like = |one: &Charging, other: &Charging| one.is_like(other);
    let (one, other) = (Charging::Tokens(by()), Charging::Tokens(by_tokens(UNIT, 8)));
    assert!(like(&one, &other) && !like(&one, &Charging::Credit));
    assert!(!like(&one, &Charging::Tokens(by_tokens(UNIT + 1, 7))));
}

#[derive(Debug, Clone)]
enum Op {
    /// An order, which try of it the caller thinks it is (from the next one), and which tokens.
    Checkout(u8, u8, Vec<prop::sample::Index>),
    /// Enough of the user's free tokens, if there are.
    Pays(u8),
    Lock(prop::sample::Index, i64),
    Spend,
    Gone(prop::sample::Index),
    Turn(Turn),
}

fn ops() -> impl Strategy<Value = Op> {
    let some = proptest::collection::vec(any::<prop::sample::Index>(), 0..5);
    let pause = prop_oneof![1..900_i64, Just(i64::from(DEADLINE) + 1)];
    prop_oneof![
        3 => (0..5_u8, 0..3_u8, some).prop_map(|(order, tr, ids)| Op::Checkout(order, tr, ids)),
        8 => (0..5_u8).prop_map(Op::Pays),
        2 => (any::<prop::sample::Index>(), 1..2_000_i64).prop_map(|(id, lease)| Op::Lock(id, lease)),
        1 => Just(Op::Spend),
        1 => any::<prop::sample::Index>().prop_map(Op::Gone),
        23 => turns(pause).prop_map(Op::Turn),
    ]
}

/// The next try of an order.
fn next_try(shop: &World, order: u8) -> u64 {
    1 + shop.state(&order.to_string()).tr_num().map_or(0, |tr| u64::from(tr.get()))
}

/// Free tokens of alice's that cover the order, as an index would choose them; none if they do not.
fn choose(shop: &World, order: u8) -> Vec<TokenId> {
    let row = &shop.memory.orders[&order.to_string().parse().unwrap()];
    let amount = row.order.amount.get() * UNIT;
    let live = |holder: &Name| shop.memory.locks[&**holder].is_live(shop.now);
    let free = shop
        .memory
        .tokens
        .values()
        .filter(|row| &*row.token.kind.wallet == "alice" && !row.holder.as_ref().is_some_and(live));
    let (mut chosen, mut sum) = (Vec::new(), 0);
    for row in free {
        if sum >= amount {
            break;
        }
        sum += row.token.quantity;
        chosen.push(row.token.id.clone());
    }
    if sum >= amount { chosen } else { Vec::new() }
}

fn checkout_with(order: u8, number: u64, chosen: Vec<TokenId>) -> Command {
    let order = order.to_string();
    let names: Vec<&str> = chosen.iter().map(TokenId::as_str).collect();
    as_command(with(&order, number, &names))
}

/// Held tokens are those of open checkouts, each once; and what the shop has is what was paid for.
fn assert_books(shop: &World, gone: u64, by_credit: u64) {
    let holds: Vec<&LockRow> = locks(shop).into_iter().filter(|row| row.funding.is_some()).collect();
    let open: BTreeSet<String> = shop
        .memory
        .checkouts
        .values()
        .filter(|open| open.pay.branch == Some(SideBranch::Taken))
        .filter(|open| shop.memory.orders[&open.order].order.amount.get() > 0)
        .filter_map(|open| open.charge.map(|charge| charge.id().to_string()))
        .collect();
    assert_eq!(holds.iter().map(|row| row.spender.to_string()).collect::<BTreeSet<_>>(), open);
    let mut held = BTreeSet::new();
    for row in &holds {
        assert_eq!(row.expires_at, NO_END);
        for id in row.tokens.iter() {
            assert!(held.insert(id), "{id} is held twice");
            assert_eq!(shop.memory.tokens[id].holder.as_ref(), Some(&row.spender));
        }
    }
    let all: u64 = wallets(&shop.memory).values().map(|(sum, _)| sum).sum();
    assert_eq!(all + gone, 300, "no token is made or lost");
    let paid = shop.memory.orders.values().filter(|row| row.is_paid());
    let paid: u64 = paid.map(|row| row.order.amount.get()).sum();
    assert_eq!(wallet(shop, "shop").0, (paid - by_credit) * UNIT);
}

proptest! {
    #[test]
    fn tokens_go_where_orders_are_paid(ops in proptest::collection::vec(ops(), 1..60)) {
        let mut shop = World::empty();
        let tokens = (0..10_u64).map(|n| usd_token(&format!("t{n}"), "alice", 30));
        shop.frame(&[issue(tokens.collect())]);
        shop.does(item("i", 3, 5));
        shop.does(user("alice", 25));
        for number in 0..5_u64 {
            shop.sells(&number.to_string(), "alice", "i", number);
        }
        shop.does(ShopCommand::SetCharging { charging: Charging::Tokens(by()) });
        let (mut gone, mut spends) = (0, 0_u128);
        for op in ops {
            let known: Vec<TokenId> = shop.memory.tokens.keys().cloned().collect();
            match op {
                Op::Checkout(order, ahead, picks) => {
                    let number = (next_try(&shop, order) + u64::from(ahead)).saturating_sub(1).max(1);
                    let chosen = picks.iter().map(|pick| pick.get(&known).clone()).collect();
                    shop.frame(&[checkout_with(order, number, chosen)]);
                }
                Op::Pays(order) => {
                    let chosen = choose(&shop, order);
                    let number = next_try(&shop, order);
                    let is_new = matches!(shop.state(&order.to_string()), OrderState::NotPaid(_));
                    let effects = shop.frame(&[checkout_with(order, number, chosen)]);
                    let refused = matches!(effects.outcome(0).shop.as_deref(), Some(ShopOutcome::Refused(_)));
                    prop_assert!(!(is_new && refused), "what was chosen well is never refused");
                }
                Op::Lock(pick, lease) => {
                    let id = pick.get(&known).as_str();
                    drop(shop.frame(&[lock("eve", &[id], lease)]));
                }
                Op::Spend => {
                    // All that eve holds becomes change of its owner.
                    spends += 1;
                    drop(shop.frame(&[spend("eve", &[], spends)]));
                }
                Op::Gone(pick) => {
                    let id = pick.get(&known).clone();
                    let quantity = shop.memory.tokens[&id].token.quantity;
                    // The shop's are left to it, so that the books can be compared.
                    if &*shop.memory.tokens[&id].token.kind.wallet == "alice" {
                        shop.frame(&[update(&[id.as_str()], Vec::new())]);
                        gone += if shop.memory.tokens.contains_key(&id) { 0 } else { quantity };
                    }
                }
                Op::Turn(turn) => shop.turn(&turn, &Charging::Tokens(by())),
            }
            assert_books(&shop, gone, 25 - shop.credit("alice") - shop.credit_held());
        }
        // In the end nothing is held.
        shop.now += i64::from(DEADLINE) + 2_000;
        shop.expire(1_000);
        prop_assert!(locks(&shop).is_empty());
    }
}
