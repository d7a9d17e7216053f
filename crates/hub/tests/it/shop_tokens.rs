//! Checkouts that tokens pay for, through a running hub: each is paid with tokens of its own, whoever comes at the same time.

use std::time::Duration;

use holdfast_domain::shop::{
    ByTokens, Charging, CheckoutAnswer, IdempotencyKey, OrderId, Said, Secret, ShopCommand, ShopRefusal,
    Side, TrNum, TryKey, Why,
};
use holdfast_domain::tokens::Fingerprint;
use holdfast_engine::{CheckoutRequest, Shop as _, ShopError, Wallets as _};
use holdfast_hub::HubHandle;
use holdfast_log::SimFs;
use holdfast_tokens::{Scope, SelectRequest, Token};
use tokio::task::JoinSet;

use crate::history::sound;
use crate::shop::{STOCK, done, id, whole};
use crate::support::{in_time, start_now, usd};

/// Lets callers come to a hub on that disk; then it ends, and nothing is wrong with what it leaves.
#[track_caller]
fn on(fs: &SimFs, callers: impl AsyncFnOnce(HubHandle)) {
    let hub = start_now(fs);
    in_time(callers(hub.handle()));
    drop(hub);
    sound(fs);
}

/// Item `i` of price 1, and so many tokens of 1 in the wallet `alice`.
async fn open_shop(hub: &HubHandle, tokens: usize) {
    let by = ByTokens { wallet: "shop".into(), currency: usd(), unit: 1, secret: Secret([7; 32]) };
    hub.shop().set_charging(Charging::Tokens(by)).await.unwrap();
    done(hub.shop(), ShopCommand::CreateItem { id: id("i"), stock: whole(1_000_000), price: whole(1) }).await;
    let tokens = (0..tokens).map(|number| Token::new(format!("t{number}").as_str(), "alice", "USD", 1));
    hub.tokens().issue(tokens.collect()).await.unwrap();
}

async fn order(hub: &HubHandle, name: &str, quantity: u64) -> OrderId {
    order_of(hub, name, "alice", quantity).await
}

async fn order_of(hub: &HubHandle, name: &str, user: &str, quantity: u64) -> OrderId {
    done(hub.shop(), ShopCommand::CreateOrder { id: id(name), user: id(user) }).await;
    done(hub.shop(), ShopCommand::AddItem { order: id(name), item: id("i"), quantity: whole(quantity) })
        .await;
    id(name)
}

async fn orders_of(hub: &HubHandle, count: usize, user: &str, quantity: u64) -> Vec<OrderId> {
    let mut orders = Vec::new();
    for number in 0..count {
        orders.push(order_of(hub, &format!("o{number}"), user, quantity).await);
    }
    orders
}

fn no_wait(order: OrderId) -> CheckoutRequest {
    CheckoutRequest { wait_ms: Some(0), ..CheckoutRequest::new(order) }
}

fn has(hub: &HubHandle, wallet: &str) -> (u64, u64) {
    let balance = hub.tokens().balance(&Scope::wallet(wallet, "USD")).unwrap();
    (u64::try_from(balance.free).unwrap(), u64::try_from(balance.locked).unwrap())
}

/// Checks all out at once. How many were paid, and how many refused by the payment side.
async fn all_at_once(hub: &HubHandle, orders: Vec<OrderId>) -> (usize, usize) {
    let mut crowd = JoinSet::new();
    for order in orders {
        let hub = hub.clone();
        crowd.spawn(async move { hub.shop().checkout(CheckoutRequest::new(order)).await.unwrap() });
    }
    let (mut paid, mut refused) = (0, 0);
    for answer in crowd.join_all().await {
        match answer {
            CheckoutAnswer::Paid { .. } => paid += 1,
            CheckoutAnswer::Failed { why: Why::Pay, .. } => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    (paid, refused)
}

/// Two hundred orders of two each of a wallet that has three hundred: all that can be paid are, and the rest are refused only
/// when the wallet is empty.
#[test]
fn a_crowd_pays_with_each_token_once() {
    on(&SimFs::new(1), async |handle| {
        open_shop(&handle, 300).await;
        let orders = orders_of(&handle, 200, "alice", 2).await;
        assert_eq!(all_at_once(&handle, orders).await, (150, 50));
        assert_eq!((has(&handle, "alice"), has(&handle, "shop")), ((0, 0), (300, 0)));
    });
}

/// The shop's own wallet gets no goods for its own money: it would have both.
#[test]
fn the_shop_does_not_pay_itself() {
    on(&SimFs::new(1), async |handle| {
        open_shop(&handle, 5).await;
        let paid = order(&handle, "paid", 5).await;
        assert_eq!(all_at_once(&handle, vec![paid]).await, (1, 0));
        let own = order_of(&handle, "own", "shop", 1).await;
        assert_eq!(all_at_once(&handle, vec![own]).await, (0, 1));
        assert_eq!(has(&handle, "shop"), (5, 0));
    });
}

/// Two hundred orders of two each and a hundred others who select one for themselves, on a wallet with just as many: whatever is
/// won is won once, and all are served.
#[test]
fn a_crowd_pays_beside_others_who_select() {
    on(&SimFs::new(7), async |handle| {
        open_shop(&handle, 500).await;
        let orders = orders_of(&handle, 200, "alice", 2).await;
        let mut others = JoinSet::new();
        for number in 0..100 {
            let hub = handle.clone();
            others.spawn(async move {
                let request = SelectRequest::new(format!("s{number}"), Scope::wallet("alice", "USD"), 1);
                hub.tokens().select(request, 30_000).await.unwrap();
            });
        }
        assert_eq!(all_at_once(&handle, orders).await, (200, 0));
        others.join_all().await;
        assert_eq!((has(&handle, "alice"), has(&handle, "shop")), ((0, 100), (400, 0)));
    });
}

/// Each has to wait for the change of the one before.
#[test]
fn orders_on_one_large_token_are_all_paid() {
    on(&SimFs::new(4), async |handle| {
        open_shop(&handle, 1).await;
        handle.tokens().issue(vec![Token::new("large", "bob", "USD", 1_000)]).await.unwrap();
        let orders = orders_of(&handle, 201, "bob", 5).await;
        assert_eq!(all_at_once(&handle, orders).await, (200, 1), "a thousand is two hundred times five");
        assert_eq!((has(&handle, "bob"), has(&handle, "shop")), ((0, 0), (1_000, 0)));
    });
}

/// Others who select for themselves hold tokens for long. Nobody is refused for that: either there is enough beside, or nothing
/// was tried, the key is unused, and a later call pays.
#[test]
fn what_others_hold_for_long_fails_no_order() {
    on(&SimFs::new(5), async |handle| {
        open_shop(&handle, 5).await;
        let select = SelectRequest::new("s", Scope::wallet("alice", "USD"), 3);
        handle.tokens().select(select, 0).await.unwrap();
        let order = order(&handle, "o", 4).await;
        let key = Some(IdempotencyKey { key: "k".into(), body: Fingerprint(1) });
        let request = CheckoutRequest { wait_ms: Some(200), key, ..CheckoutRequest::new(order.clone()) };
        let begun = tokio::time::Instant::now();
        let refused = handle.shop().checkout(request.clone()).await.unwrap_err();
        assert!(matches!(refused, ShopError::Refused(ShopRefusal::ChooseTokens { .. })), "{refused:?}");
        assert!(begun.elapsed() >= Duration::from_millis(200), "it has waited");
        let row = handle.shop().order(order.clone()).await.unwrap().unwrap().row;
        assert_eq!(row.order.state.tr_num(), None, "nothing was tried");
        assert_eq!(handle.shop().counts().await.unwrap().keys, 0, "no answer is stored");
        // Freed while somebody waits: that is all it takes.
        let waits = tokio::spawn({
            let (hub, request) = (handle.clone(), CheckoutRequest { wait_ms: None, ..request });
            async move { hub.shop().checkout(request).await }
        });
        while handle.tokens().counters().waiting == 0 {
            tokio::task::yield_now().await;
        }
        handle.tokens().release("s".into(), None).await.unwrap();
        let paid = waits.await.unwrap().unwrap();
        assert!(matches!(paid, CheckoutAnswer::Paid { tr: TrNum::FIRST }), "{paid:?}");
        assert_eq!((has(&handle, "alice"), has(&handle, "shop")), ((1, 0), (4, 0)));
    });
}

/// The warehouse does not answer, so the first order holds the only token until its deadline. The second does not wait for that.
#[test]
fn a_checkout_that_stays_open_is_not_waited_for_without_end() {
    on(&SimFs::new(6), async |handle| {
        open_shop(&handle, 1).await;
        handle.tokens().issue(vec![Token::new("large", "bob", "USD", 1_000)]).await.unwrap();
        handle.shop().set_outside(STOCK).await.unwrap();
        let first = order_of(&handle, "o", "bob", 1).await;
        let second = order_of(&handle, "p", "bob", 1).await;
        let answer = handle.shop().checkout(no_wait(first)).await.unwrap();
        assert!(matches!(answer, CheckoutAnswer::Open { .. }), "{answer:?}");
        let long = CheckoutRequest {
            deadline_ms: Some(600_000),
            wait_ms: Some(60_000),
            ..CheckoutRequest::new(second.clone())
        };
        let begun = tokio::time::Instant::now();
        let refused = handle.shop().checkout(long).await.unwrap_err();
        assert!(matches!(refused, ShopError::Refused(ShopRefusal::ChooseTokens { .. })), "{refused:?}");
        let bound = Duration::from_millis(u64::from(holdfast_domain::shop::callers::TOKENS_WAIT_MS));
        // The hub counts in whole milliseconds of another clock.
        let least = bound - Duration::from_millis(5);
        assert!((least..2 * bound).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        // Its own deadline bounds it too.
        let short = CheckoutRequest { deadline_ms: Some(50), ..CheckoutRequest::new(second) };
        let begun = tokio::time::Instant::now();
        handle.shop().checkout(short).await.unwrap_err();
        assert!(begun.elapsed() < bound);
    });
}

#[test]
fn one_order_asked_for_by_many_at_once_is_paid_once() {
    on(&SimFs::new(2), async |handle| {
        // Just enough: a second choice beside the first would find too little.
        open_shop(&handle, 5).await;
        let order = order(&handle, "o", 5).await;
        let mut crowd = JoinSet::new();
        for _ in 0..50 {
            let (hub, order) = (handle.clone(), order.clone());
            crowd.spawn(async move { hub.shop().checkout(CheckoutRequest::new(order)).await.unwrap() });
        }
        let mut paid = 0;
        for answer in crowd.join_all().await {
            match answer {
                CheckoutAnswer::Paid { tr } => paid += u32::from(tr == TrNum::FIRST),
                CheckoutAnswer::AlreadyPaid { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((paid, has(&handle, "alice"), has(&handle, "shop")), (1, (0, 0), (5, 0)));
    });
}

/// The warehouse has not answered when the hub ends: what is held is held after the start, and goes the way of the answer.
#[test]
fn what_an_open_checkout_holds_survives_a_restart() {
    for said in [Said::Taken, Said::Refused] {
        let fs = SimFs::new(3);
        on(&fs, async |handle| {
            open_shop(&handle, 9).await;
            handle.shop().set_outside(STOCK).await.unwrap();
            let order = order(&handle, "o", 4).await;
            let answer = handle.shop().checkout(no_wait(order)).await.unwrap();
            assert!(matches!(answer, CheckoutAnswer::Open { .. }), "{answer:?}");
            assert_eq!(has(&handle, "alice"), (5, 4));
        });
        on(&fs, async |handle| {
            assert_eq!(has(&handle, "alice"), (5, 4));
            // A second order cannot have them, and the same order joins its try.
            let second = order(&handle, "p", 6).await;
            let refused = handle.shop().checkout(no_wait(second)).await.unwrap_err();
            assert!(matches!(refused, ShopError::Refused(ShopRefusal::ChooseTokens { .. })), "{refused:?}");
            let again = handle.shop().checkout(no_wait(id("o"))).await.unwrap();
            assert!(matches!(again, CheckoutAnswer::Open { .. }), "{again:?}");
            let key = TryKey { order_id: id("o"), tr_num: TrNum::FIRST };
            let (_, answer) = handle.shop().answer(key, Side::Stock, said).await.unwrap();
            let wallets = (has(&handle, "alice"), has(&handle, "shop"));
            if said == Said::Taken {
                assert!(matches!(answer, CheckoutAnswer::Paid { .. }), "{answer:?}");
                assert_eq!(wallets, ((5, 0), (4, 0)));
            } else {
                assert!(matches!(answer, CheckoutAnswer::Failed { why: Why::Stock, .. }), "{answer:?}");
                assert_eq!(wallets, ((9, 0), (0, 0)));
            }
        });
    }
}
