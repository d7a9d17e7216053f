//! Checkouts that tokens pay for, over HTTP: many at once on one wallet, one by one and in a batch, and tokens that others hold.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use holdfast_domain::command::Command;
use holdfast_domain::ids::Currency;
use holdfast_domain::records::{self, CheckoutReply, batch};
use holdfast_domain::shop::callers::TOKENS_WAIT_MS;
use holdfast_domain::shop::{ByTokens, Charging, CheckoutOrder, Secret, ShopCommand, TrNum};
use holdfast_engine::Wallets as _;
use holdfast_tokens::{Scope, SelectRequest, Token};
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::world::{Heard, World};

/// A shop where a price of 1 is one unit of a token, with one token of `quantity` in alice's wallet and so many orders of 5.
async fn shop(quantity: u64, orders: usize) -> (World, Vec<String>) {
    let world = World::new();
    let currency: Currency = "USD".parse().unwrap();
    let by = ByTokens { wallet: "shop".into(), currency, unit: 1, secret: Secret([7; 32]) };
    world.hub.shop().set_charging(Charging::Tokens(by)).await.unwrap();
    world.hub.tokens().issue(vec![Token::new("large", "alice", "USD", quantity)]).await.unwrap();
    let item = world.item(5, 1_000_000).await;
    let mut all = Vec::new();
    for _ in 0..orders {
        all.push(world.order("alice", &[(&item, 1)]).await);
    }
    (world, all)
}

async fn check_out(world: &World, order: &str, query: &str) -> Heard {
    let path = format!("/shop/orders/checkout/{order}{query}");
    let request = Request::post(path).header("Idempotency-Key", format!("key of {order}"));
    world.call(request.body(Body::empty()).unwrap()).await
}

fn free(world: &World, wallet: &str) -> u128 {
    world.hub.tokens().balance(&Scope::wallet(wallet, "USD")).unwrap().free
}

async fn send(world: &World, orders: &[String]) -> Vec<CheckoutReply> {
    let mut body = batch::request_header(u32::try_from(orders.len()).unwrap()).to_vec();
    for order in orders {
        let order = order.parse().unwrap();
        let checkout = CheckoutOrder { order, deadline_ms: 60_000, key: None, chosen: None };
        records::write(&Command::Shop(Box::new(ShopCommand::Checkout(checkout))), &mut body);
    }
    let request = Request::post("/hub/batch").header("content-type", batch::MEDIA_TYPE);
    let response = world.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let replies = batch::read_replies(&bytes).unwrap();
    replies.iter().map(|reply| CheckoutReply::from_reply(reply).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_at_once_on_one_token_are_all_paid() {
    let (world, orders) = shop(1_000, 40).await;
    let world = std::sync::Arc::new(world);
    for some in orders.chunks(20) {
        let mut crowd = JoinSet::new();
        for order in some {
            let (world, order) = (std::sync::Arc::clone(&world), order.clone());
            crowd.spawn(async move { check_out(&world, &order, "").await.json(200) });
        }
        crowd.join_all().await;
    }
    assert_eq!((free(&world, "alice"), free(&world, "shop")), (800, 200));
}

/// More than are asked for at a time, and one more than the token pays for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_on_one_token_is_paid_to_its_last_unit() {
    let (world, orders) = shop(1_500, 301).await;
    let told = send(&world, &orders).await;
    assert_eq!(told.iter().filter(|reply| reply.is_paid()).count(), 300);
    assert_eq!(told.iter().filter(|reply| matches!(reply, CheckoutReply::Failed { .. })).count(), 1);
    assert_eq!((free(&world, "alice"), free(&world, "shop")), (0, 1_500));
}

/// Somebody has selected the token and keeps it: nothing is tried, nothing is stored, and a batch does not wait once for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_in_vain_for_tokens_is_asked_to_come_again() {
    let (world, orders) = shop(10_000, 300).await;
    let select = SelectRequest::new("s", Scope::wallet("alice", "USD"), 1);
    world.hub.tokens().select(select, 0).await.unwrap();
    let refused = check_out(&world, &orders[0], "?waitMs=100").await.problem(503, "contention");
    assert!(refused["detail"].as_str().unwrap().contains("Nothing was tried: ask again"), "{refused}");
    let begun = Instant::now();
    let told = send(&world, &orders).await;
    let waited = begun.elapsed();
    assert!(told.iter().all(|reply| *reply == CheckoutReply::Refused { code: 2001 }), "{told:?}");
    let bound = Duration::from_millis(u64::from(TOKENS_WAIT_MS));
    assert!((bound..bound * 2).contains(&waited), "{waited:?}");
    world.hub.tokens().release("s".into(), None).await.unwrap();
    let paid = check_out(&world, &orders[0], "?waitMs=100").await.json(200);
    assert_eq!(paid["tr"], TrNum::FIRST.get(), "the key has no answer from before");
    assert!(send(&world, &orders).await.iter().all(CheckoutReply::is_paid));
}
