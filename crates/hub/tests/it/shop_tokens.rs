//! Checkouts that tokens pay for, through a running hub: each is paid with tokens of its own, whoever comes at the same time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::shop::{
    ByTokens, Charging, CheckoutAnswer, OrderId, Said, Secret, ShopRefusal, Side, Sides, TrNum, TryKey,
    Whole, Why,
};
use holdfast_hub::clock::SystemClock;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::shop::CheckoutRequest;
use holdfast_hub::verify::{Places, verify};
use holdfast_hub::{Hub, HubHandle, Opened, ShopError};
use holdfast_log::SimFs;
use holdfast_tokens::{Scope, SelectRequest, Token};
use tokio::task::JoinSet;

use crate::support::{LOG_ID, small_segments, usd};

const DATA: &str = "/data";
const STOCK: Sides = Sides { pay: false, stock: true };

fn start(fs: &SimFs) -> Hub {
    let opened = Opened::open(Arc::new(fs.clone()), Path::new(DATA), small_segments(), LOG_ID).unwrap();
    Hub::start(opened, Arc::new(SystemClock::new()), HubOptions::default()).unwrap()
}

fn in_time(work: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await.expect("nobody hangs") });
}

fn whole(number: u64) -> Whole {
    Whole::new(number).unwrap()
}

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// Item `i` of price 1, and so many tokens of 1 in the wallet `alice`.
async fn open_shop(hub: &HubHandle, tokens: usize) {
    let by = ByTokens { wallet: "shop".into(), currency: usd(), unit: 1, secret: Secret([7; 32]) };
    hub.shop().set_charging(Charging::Tokens(by)).await.unwrap();
    hub.shop().create_item(id("i"), whole(1_000_000), whole(1)).await.unwrap();
    let tokens = (0..tokens).map(|number| Token::new(format!("t{number}").as_str(), "alice", "USD", 1));
    hub.tokens().issue(tokens.collect()).await.unwrap();
}

async fn order(hub: &HubHandle, name: &str, quantity: u64) -> OrderId {
    hub.shop().create_order(id(name), id("alice")).await.unwrap();
    hub.shop().add_item(id(name), id("i"), whole(quantity)).await.unwrap();
    id(name)
}

fn no_wait(order: OrderId) -> CheckoutRequest {
    CheckoutRequest { wait_ms: Some(0), ..CheckoutRequest::new(order) }
}

fn has(hub: &HubHandle, wallet: &str) -> (u64, u64) {
    let balance = hub.tokens().balance(&Scope::wallet(wallet, "USD")).unwrap();
    (u64::try_from(balance.free).unwrap(), u64::try_from(balance.locked).unwrap())
}

#[track_caller]
fn nothing_wrong(fs: &SimFs) {
    let places = Places { fs: Arc::new(fs.clone()), data: Path::new(DATA), scratch: Path::new("/scratch") };
    let verified = verify(&places, &mut |_, _| {}).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
}

/// Two hundred orders of two each and others who select, all of one wallet: whatever is won is won once.
#[test]
fn a_crowd_pays_with_each_token_once() {
    let fs = SimFs::new(1);
    let hub = start(&fs);
    let handle = hub.handle();
    in_time(async move {
        open_shop(&handle, 300).await;
        let mut crowd = JoinSet::new();
        for number in 0..200 {
            let order = order(&handle, &format!("o{number}"), 2).await;
            let hub = handle.clone();
            crowd.spawn(async move {
                match hub.shop().checkout(no_wait(order)).await {
                    Ok(CheckoutAnswer::Paid { .. }) => 2,
                    Ok(CheckoutAnswer::Failed { why: Why::Pay, .. })
                    | Err(ShopError::Refused(ShopRefusal::ChooseTokens { .. })) => 0,
                    other => panic!("{other:?}"),
                }
            });
            let hub = handle.clone();
            crowd.spawn(async move {
                let request = SelectRequest::new(format!("s{number}"), Scope::wallet("alice", "USD"), 1);
                drop(hub.tokens().select(request, 0).await);
                0
            });
        }
        let mut paid = 0;
        while let Some(more) = crowd.join_next().await {
            paid += more.unwrap();
        }
        let ((free, locked), shop) = (has(&handle, "alice"), has(&handle, "shop"));
        assert_eq!((shop, free + locked), ((paid, 0), 300 - paid));
        assert!(paid > 0, "somebody was served");
    });
    drop(hub);
    nothing_wrong(&fs);
}

#[test]
fn one_order_asked_for_by_many_at_once_is_paid_once() {
    let fs = SimFs::new(2);
    let hub = start(&fs);
    let handle = hub.handle();
    in_time(async move {
        // Just enough: a second choice beside the first would find too little.
        open_shop(&handle, 5).await;
        let order = order(&handle, "o", 5).await;
        let mut crowd = JoinSet::new();
        for _ in 0..50 {
            let (hub, order) = (handle.clone(), order.clone());
            crowd.spawn(async move { hub.shop().checkout(CheckoutRequest::new(order)).await.unwrap() });
        }
        let mut paid = 0;
        while let Some(answer) = crowd.join_next().await {
            match answer.unwrap() {
                CheckoutAnswer::Paid { tr } => paid += u32::from(tr == TrNum::FIRST),
                CheckoutAnswer::AlreadyPaid { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((paid, has(&handle, "alice"), has(&handle, "shop")), (1, (0, 0), (5, 0)));
    });
    drop(hub);
    nothing_wrong(&fs);
}

/// The warehouse has not answered when the hub ends: what is held is held after the start, and goes the way of the answer.
#[test]
fn what_an_open_checkout_holds_survives_a_restart() {
    for said in [Said::Taken, Said::Refused] {
        let fs = SimFs::new(3);
        let hub = start(&fs);
        let handle = hub.handle();
        in_time(async move {
            open_shop(&handle, 9).await;
            handle.shop().set_outside(STOCK).await.unwrap();
            let order = order(&handle, "o", 4).await;
            let answer = handle.shop().checkout(no_wait(order)).await.unwrap();
            assert!(matches!(answer, CheckoutAnswer::Open { .. }), "{answer:?}");
            assert_eq!(has(&handle, "alice"), (5, 4));
        });
        drop(hub);
        nothing_wrong(&fs);
        let hub = start(&fs);
        let handle = hub.handle();
        in_time(async move {
            assert_eq!(has(&handle, "alice"), (5, 4));
            // A second order cannot have them, and the same order joins its try.
            let second = order(&handle, "p", 6).await;
            let key = TryKey { order_id: second.clone(), tr_num: TrNum::FIRST };
            handle.shop().checkout(no_wait(second)).await.unwrap();
            let (_, answer) = handle.shop().answer(key, Side::Stock, Said::Refused).await.unwrap();
            assert!(matches!(answer, CheckoutAnswer::Failed { why: Why::Both, .. }), "{answer:?}");
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
        drop(hub);
        nothing_wrong(&fs);
    }
}
