//! Whatever stands in the paths of the shop, and whatever is said about its checkouts: an answer with a status of the
//! table, in the form of its dialect, and nothing that breaks.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::Request;
use holdfast_domain::shop::Sides;
use holdfast_engine::CheckoutTimes;
use holdfast_hub::limits::HubOptions;
use proptest::prelude::*;
use serde_json::Value;

use crate::world::World;

const PATHS: [(&str, &str, usize); 15] = [
    ("POST", "/orders/create", 1),
    ("POST", "/orders/batch_init", 4),
    ("GET", "/orders/find", 1),
    ("POST", "/orders/addItem", 3),
    ("POST", "/orders/checkout", 1),
    ("POST", "/payment/create_user", 0),
    ("POST", "/payment/batch_init", 2),
    ("GET", "/payment/find_user", 1),
    ("POST", "/payment/add_funds", 2),
    ("POST", "/payment/pay", 2),
    ("POST", "/stock/item/create", 1),
    ("POST", "/stock/batch_init", 3),
    ("GET", "/stock/find", 1),
    ("POST", "/stock/add", 2),
    ("POST", "/stock/subtract", 2),
];

/// Small numbers are also ids that a batch_init has made.
fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0_u64..12).prop_map(|number| number.to_string()),
        1 => Just(i64::MAX.to_string()),
        1 => Just("-1".to_owned()),
        1 => any::<u128>().prop_map(|number| number.to_string()),
        1 => "[a-z0-9.+~-]{1,140}",
        1 => prop::collection::vec(any::<u8>(), 1..20)
            .prop_map(|bytes| bytes.iter().map(|byte| format!("%{byte:02X}")).collect()),
    ]
}

#[test]
fn whatever_stands_in_a_path_is_answered() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let world = World::new();
    let call =
        (0..PATHS.len(), prop::array::uniform4(segment()), any::<bool>(), prop::option::of("[ -~]{0,130}"));
    proptest!(ProptestConfig::with_cases(400), |((at, segments, proper, key) in call)| {
        let (method, path, parts) = PATHS[at];
        let tail: String = segments.iter().take(parts).map(|segment| format!("/{segment}")).collect();
        let uri = format!("{}{path}{tail}", if proper { "/shop" } else { "" });
        let mut request = Request::builder().method(method).uri(&uri);
        if let Some(key) = &key {
            request = request.header("Idempotency-Key", key);
        }
        let answer = runtime.block_on(world.call(request.body(Body::empty()).unwrap()));
        let good = answer.status < 300;
        match (proper, good) {
            (false, true) => prop_assert_eq!(answer.status, 200),
            (false, false) => prop_assert_eq!(answer.status, 400, "{}: {}", uri, answer.text),
            (true, true) => prop_assert!([200, 201].contains(&answer.status)),
            (true, false) => {
                prop_assert!([400, 402, 404, 409, 422].contains(&answer.status), "{}: {}", uri, answer.text);
                let problem: Value = serde_json::from_str(&answer.text).unwrap();
                prop_assert_eq!(&problem["status"], answer.status);
            }
        }
        let media_type = match (proper, good) {
            (true, false) => "application/problem+json",
            (false, false) => "text/plain; charset=utf-8",
            (true, true) => "application/json",
            (false, true) => answer.media_type.as_str(),
        };
        prop_assert_eq!(&answer.media_type, media_type);
    });
}

/// What callers, operators and an outside payment side do to one of three orders, in any order.
#[derive(Debug, Clone)]
enum Act {
    Checkout { key: Option<u8> },
    Say { tr: u32, outcome: &'static str },
    Cancel,
    Retry,
    AddItem,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => prop::option::of(0_u8..4).prop_map(|key| Act::Checkout { key }),
        6 => (0_u32..4, prop::sample::select(&["psucc", "pfail", "csucc"][..]))
            .prop_map(|(tr, outcome)| Act::Say { tr, outcome }),
        2 => Just(Act::Cancel),
        2 => Just(Act::Retry),
        1 => Just(Act::AddItem),
    ]
}

fn request(act: &Act, case: u64, order: &str, item: &str) -> Request<Body> {
    match act {
        Act::Checkout { key } => {
            let request = Request::post(format!("/shop/orders/checkout/{order}?waitMs=0"));
            match key {
                Some(key) => request.header("Idempotency-Key", format!("{case}-{key}")),
                None => request,
            }
            .body(Body::empty())
        }
        Act::Say { tr, outcome } => Request::post(format!("/hub/checkouts/{order}/{tr}/pay"))
            .body(Body::from(format!(r#"{{"outcome":"{outcome}"}}"#))),
        Act::Cancel => Request::post(format!("/hub/checkouts/{order}/cancel")).body(Body::empty()),
        Act::Retry => Request::post(format!("/hub/checkouts/{order}/retry")).body(Body::empty()),
        Act::AddItem => Request::post(format!("/shop/orders/addItem/{order}/{item}/0")).body(Body::empty()),
    }
    .unwrap()
}

/// With stock inside and payment outside, units are gone for exactly those orders that are paid or not yet decided,
/// whatever the outside side says, late, twice or against itself.
#[test]
fn whatever_an_outside_side_says_units_are_gone_for_what_is_paid() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let shop = CheckoutTimes { deadline_ms: 86_400_000, ..CheckoutTimes::default() };
    let world = World::with(HubOptions { shop, ..HubOptions::default() });
    let (user, item) = runtime.block_on(async {
        let outside = Sides { pay: true, stock: false };
        world.hub.shop().set_outside(outside).await.unwrap();
        (world.user(0).await, world.item(1, 1_000_000).await)
    });
    let case = AtomicU64::new(0);
    let acts = prop::collection::vec((0_usize..3, act()), 1..40);
    proptest!(ProptestConfig::with_cases(60), |(acts in acts)| {
        let case = case.fetch_add(1, Ordering::Relaxed);
        let gone: Result<(), TestCaseError> = runtime.block_on(async {
            let before = world.stock(&item).await;
            let mut orders = Vec::new();
            for _ in 0..3 {
                orders.push(world.order(&user, &[(&item, 2)]).await);
            }
            let mut paid = [false; 3];
            for (at, act) in &acts {
                let answer = world.call(request(act, case, &orders[*at], &item)).await;
                let known = [200, 202, 400, 402, 404, 409, 422].contains(&answer.status);
                prop_assert!(known, "{:?}: {} {}", act, answer.status, answer.text);
                let mut holding = 0;
                for (order, was_paid) in orders.iter().zip(&mut paid) {
                    let shown = world.got(&format!("/hub/checkouts/{order}")).await.json(200);
                    let state = shown["state"].as_str().unwrap().to_owned();
                    prop_assert!(!*was_paid || state == "paid", "paid is final, and {} is {}", order, state);
                    *was_paid = state == "paid";
                    holding += u64::from(state == "paid" || state == "pending");
                }
                let stock = world.stock(&item).await;
                prop_assert_eq!(before - stock, 2 * holding, "after {:?}", act);
            }
            Ok(())
        });
        gone?;
    });
}
