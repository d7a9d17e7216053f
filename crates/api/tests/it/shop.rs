//! The shop's paths on a hub of its own, in both dialects: every path, every answer, every refusal that a caller can bring
//! about with both sides inside.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request};
use holdfast_hub::limits::HubOptions;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::guarded::Guarded;
use crate::world::{Heard, World, assert_has, until};

impl World {
    async fn with_key(&self, path: &str, key: &str) -> Heard {
        self.call(Request::post(path).header("Idempotency-Key", key).body(Body::empty()).unwrap()).await
    }

    /// A user with this credit.
    pub(crate) async fn user(&self, credit: u64) -> String {
        let user =
            self.posted("/shop/payment/create_user").await.json(201)["user_id"].as_str().unwrap().to_owned();
        self.posted(&format!("/shop/payment/add_funds/{user}/{credit}")).await.json(200);
        user
    }

    /// An item of this price and stock.
    pub(crate) async fn item(&self, price: u64, stock: u64) -> String {
        let made = self.posted(&format!("/shop/stock/item/create/{price}")).await.json(201);
        let item = made["item_id"].as_str().unwrap().to_owned();
        self.posted(&format!("/shop/stock/add/{item}/{stock}")).await.json(200);
        item
    }

    /// An order of that user with these lines.
    pub(crate) async fn order(&self, user: &str, lines: &[(&str, u64)]) -> String {
        let made = self.posted(&format!("/shop/orders/create/{user}")).await.json(201);
        let order = made["order_id"].as_str().unwrap().to_owned();
        for (item, quantity) in lines {
            self.posted(&format!("/shop/orders/addItem/{order}/{item}/{quantity}")).await.json(200);
        }
        order
    }

    /// A checkout under `/shop`, with that query.
    pub(crate) async fn checkout(&self, order: &str, query: &str) -> Heard {
        self.posted(&format!("/shop/orders/checkout/{order}{query}")).await
    }

    /// What an outside side says about a try.
    pub(crate) async fn say(&self, order: &str, tr: &str, side: &str, outcome: &str) -> Heard {
        self.post(&format!("/hub/checkouts/{order}/{tr}/{side}"), json!({"outcome": outcome})).await
    }

    /// The order, as its checkouts see it.
    pub(crate) async fn shown(&self, order: &str) -> Value {
        self.got(&format!("/hub/checkouts/{order}")).await.json(200)
    }

    /// The same, once it is in that state.
    pub(crate) async fn until_it_is(&self, state: &str, order: &str) -> Value {
        until(state, async || Some(self.shown(order).await).filter(|shown| shown["state"] == state)).await
    }

    pub(crate) async fn credit(&self, user: &str) -> u64 {
        self.got(&format!("/payment/find_user/{user}")).await.json(200)["credit"].as_u64().unwrap()
    }

    pub(crate) async fn stock(&self, item: &str) -> u64 {
        self.got(&format!("/stock/find/{item}")).await.json(200)["stock"].as_u64().unwrap()
    }
}

fn is_uuid(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == 36 && text.matches('-').count() == 4)
}

#[tokio::test]
async fn the_courses_paths_answer_as_the_course_has_it() {
    let world = World::new();
    let made = world.posted("/payment/create_user").await.json(200);
    assert!(is_uuid(&made["user_id"]) && made.as_object().unwrap().len() == 1, "{made}");
    let user = made["user_id"].as_str().unwrap();
    assert_eq!(
        world.got(&format!("/payment/find_user/{user}")).await.json(200),
        json!({"user_id": user, "credit": 0})
    );
    world.posted(&format!("/payment/add_funds/{user}/15")).await.text(200);
    world.posted(&format!("/payment/pay/{user}/5")).await.text(200);
    world.posted(&format!("/payment/pay/{user}/11")).await.text(400);
    assert_eq!(world.credit(user).await, 10);

    let made = world.posted("/stock/item/create/5").await.json(200);
    assert!(is_uuid(&made["item_id"]) && made.as_object().unwrap().len() == 1, "{made}");
    let item = made["item_id"].as_str().unwrap();
    assert_eq!(world.got(&format!("/stock/find/{item}")).await.json(200), json!({"stock": 0, "price": 5}));
    world.posted(&format!("/stock/add/{item}/50")).await.text(200);
    world.posted(&format!("/stock/subtract/{item}/49")).await.text(200);
    world.posted(&format!("/stock/subtract/{item}/2")).await.text(400);
    assert_eq!(world.stock(item).await, 1);

    let made = world.posted(&format!("/orders/create/{user}")).await.json(200);
    assert!(is_uuid(&made["order_id"]) && made.as_object().unwrap().len() == 1, "{made}");
    let order = made["order_id"].as_str().unwrap();
    world.posted(&format!("/orders/addItem/{order}/{item}/1")).await.text(200);
    world.posted(&format!("/orders/addItem/{order}/{item}/2")).await.text(200);
    let shown = |paid: bool| json!({"order_id": order, "paid": paid, "items": [[item, 1], [item, 2]], "user_id": user, "total_cost": 15});
    assert_eq!(world.got(&format!("/orders/find/{order}")).await.json(200), shown(false));
    // Three are wanted and one is there; then three are there, but 10 do not pay for 15.
    world.posted(&format!("/orders/checkout/{order}")).await.text(400);
    assert_eq!((world.stock(item).await, world.credit(user).await), (1, 10), "given back before the answer");
    world.posted(&format!("/stock/add/{item}/2")).await.text(200);
    world.posted(&format!("/orders/checkout/{order}")).await.text(400);
    assert_eq!((world.stock(item).await, world.credit(user).await), (3, 10));
    world.posted(&format!("/payment/add_funds/{user}/10")).await.text(200);
    world.posted(&format!("/orders/checkout/{order}")).await.text(200);
    assert_eq!((world.stock(item).await, world.credit(user).await), (0, 5));
    assert_eq!(world.got(&format!("/orders/find/{order}")).await.json(200), shown(true));
    world.posted(&format!("/orders/checkout/{order}")).await.text(200);
    assert_eq!((world.stock(item).await, world.credit(user).await), (0, 5), "a paid order charges nothing");
    world.posted(&format!("/orders/addItem/{order}/{item}/1")).await.text(400);
}

#[tokio::test]
async fn the_same_under_shop_in_json() {
    let world = World::new();
    let made = world.posted("/shop/payment/create_user").await.json(201);
    let user = made["user_id"].as_str().unwrap();
    assert_eq!(made, json!({"user_id": user, "credit": 0}));
    let shown = |credit: u64| json!({"user_id": user, "credit": credit});
    assert_eq!(world.posted(&format!("/shop/payment/add_funds/{user}/15")).await.json(200), shown(15));
    assert_eq!(world.posted(&format!("/shop/payment/pay/{user}/5")).await.json(200), shown(10));
    let short =
        world.posted(&format!("/shop/payment/pay/{user}/11")).await.problem(402, "insufficient-credit");
    assert_has(&short, &json!({"user": user, "credit": 10}));
    assert_eq!(world.got(&format!("/shop/payment/find_user/{user}")).await.json(200), shown(10));

    let made = world.posted("/shop/stock/item/create/5").await.json(201);
    let item = made["item_id"].as_str().unwrap();
    let shown = |stock: u64| json!({"item_id": item, "stock": stock, "price": 5});
    assert_eq!(made, shown(0));
    assert_eq!(world.posted(&format!("/shop/stock/add/{item}/9")).await.json(200), shown(9));
    assert_eq!(world.posted(&format!("/shop/stock/subtract/{item}/8")).await.json(200), shown(1));
    let short =
        world.posted(&format!("/shop/stock/subtract/{item}/2")).await.problem(402, "insufficient-stock");
    assert_has(&short, &json!({"item": item, "stock": 1}));
    assert_eq!(world.got(&format!("/shop/stock/find/{item}")).await.json(200), shown(1));

    let made = world.posted(&format!("/shop/orders/create/{user}")).await.json(201);
    let order = made["order_id"].as_str().unwrap();
    assert_eq!(
        made,
        json!({"order_id": order, "paid": false, "items": [], "user_id": user, "total_cost": 0, "state": "not_paid", "tr": null})
    );
    let filled = world.posted(&format!("/shop/orders/addItem/{order}/{item}/3")).await.json(200);
    assert_has(&filled, &json!({"items": [[item, 3]], "total_cost": 15}));
    let checkout = format!("/shop/orders/checkout/{order}");
    let both = world.posted(&checkout).await.problem(402, "payment-and-stock-refused");
    assert_has(&both, &json!({"order": order, "tr": 1, "state": "not_paid", "why": "both"}));
    let found = world.got(&format!("/shop/orders/find/{order}")).await.json(200);
    assert_has(&found, &json!({"state": "not_paid", "tr": 1, "why": "both"}));
    world.posted(&format!("/shop/stock/add/{item}/2")).await.json(200);
    assert_eq!(world.posted(&checkout).await.problem(402, "payment-refused")["why"], "pay");
    assert_eq!(world.stock(item).await, 3, "given back before the answer");
    world.posted(&format!("/shop/payment/add_funds/{user}/10")).await.json(200);
    world.posted(&format!("/shop/stock/subtract/{item}/1")).await.json(200);
    assert_eq!(world.posted(&checkout).await.problem(402, "stock-refused")["why"], "stock");
    assert_eq!(world.credit(user).await, 20, "given back before the answer");
    world.posted(&format!("/shop/stock/add/{item}/1")).await.json(200);
    let paid = |charged: bool| json!({"order": order, "tr": 4, "state": "paid", "charged": charged});
    assert_eq!(world.posted(&checkout).await.json(200), paid(true));
    assert_eq!(world.posted(&checkout).await.json(200), paid(false));
    assert_eq!((world.credit(user).await, world.stock(item).await), (5, 0));
    let found = world.got(&format!("/shop/orders/find/{order}")).await.json(200);
    assert_eq!(
        found,
        json!({"order_id": order, "paid": true, "items": [[item, 3]], "user_id": user, "total_cost": 15, "state": "paid", "tr": 4})
    );
    let late = world.posted(&format!("/shop/orders/addItem/{order}/{item}/1")).await.problem(409, "not-now");
    assert_has(&late, &json!({"order": order, "state": "paid", "tr": 4}));
}

#[tokio::test]
async fn many_rows_at_once_in_both_dialects() {
    let world = World::new();
    for (path, proper) in [
        ("/payment/batch_init/5000/1000", "/shop/payment/batch_init/5000/1000"),
        ("/stock/batch_init/10/1000000/7", "/shop/stock/batch_init/10/1000000/7"),
        ("/orders/batch_init/5000/10/5000/7", "/shop/orders/batch_init/5000/10/5000/7"),
    ] {
        let done = world.posted(path).await.json(200);
        assert!(done["msg"].is_string() && done.as_object().unwrap().len() == 1, "{done}");
        let count = path.split('/').nth(3).unwrap().parse::<u64>().unwrap();
        assert_eq!(world.posted(proper).await.json(200), json!({"count": count}), "{proper}");
    }
    let one = world.posted("/stock/batch_init/1/1000000/7").await.json(200);
    assert_eq!(one, json!({"msg": "1 item is ready"}));
    assert_eq!(world.credit("4999").await, 1000);
    world.got("/payment/find_user/5000").await.text(400);
    assert_eq!(world.got("/stock/find/9").await.json(200), json!({"stock": 1_000_000, "price": 7}));
    let order = world.got("/orders/find/4999").await.json(200);
    assert_has(&order, &json!({"total_cost": 14, "paid": false}));
    for line in order["items"].as_array().unwrap() {
        assert_eq!(line[1], 1);
        assert!(line[0].as_str().unwrap().parse::<u32>().unwrap() < 10);
    }
    assert_eq!(order["items"].as_array().unwrap().len(), 2);
    world.posted("/orders/checkout/4999").await.text(200);
    let user = order["user_id"].as_str().unwrap();
    assert_eq!(world.credit(user).await, 986);
    // A paid order is replaced as well, as the reference does.
    world.posted("/orders/batch_init/5000/10/5000/7").await.json(200);
    assert_eq!(world.got("/orders/find/4999").await.json(200)["paid"], false);
    world.posted("/shop/orders/batch_init/3/0/1/1").await.problem(422, "contradiction");
    world.posted("/orders/batch_init/3/0/1/1").await.text(400);
    assert_eq!(world.posted("/shop/payment/batch_init/0/5").await.json(200), json!({"count": 0}));
}

#[tokio::test]
async fn what_is_not_there_or_no_number_is_refused_in_both_dialects() {
    let world = World::new();
    let (user, item) = (world.user(10).await, world.item(5, 1).await);
    let order = world.order(&user, &[(&item, 1)]).await;
    let most = i64::MAX.to_string();
    world.posted(&format!("/shop/payment/add_funds/{user}/{}", i64::MAX - 10)).await.json(200);
    assert_eq!(world.credit(&user).await, i64::MAX.unsigned_abs());
    let long = "x".repeat(129);
    for (method, path, status, name) in [
        ("GET", "/orders/find/nobody".to_owned(), 404, "unknown-order"),
        ("GET", "/payment/find_user/nobody".to_owned(), 404, "unknown-user"),
        ("GET", "/stock/find/nobody".to_owned(), 404, "unknown-item"),
        ("GET", format!("/stock/find/{long}"), 400, "invalid"),
        ("GET", "/orders/find/%FF".to_owned(), 400, "invalid"),
        ("GET", "/payment/find_user/a%00b".to_owned(), 400, "invalid"),
        ("POST", "/orders/create/a%00b".to_owned(), 400, "invalid"),
        ("POST", "/orders/checkout/a%00b".to_owned(), 400, "invalid"),
        ("POST", format!("/orders/create/{long}"), 400, "invalid"),
        ("POST", "/orders/checkout/nobody".to_owned(), 404, "unknown-order"),
        ("POST", format!("/orders/checkout/{long}"), 400, "invalid"),
        ("POST", format!("/orders/addItem/nobody/{item}/1"), 404, "unknown-order"),
        ("POST", format!("/orders/addItem/{order}/nobody/1"), 404, "unknown-item"),
        ("POST", format!("/orders/addItem/{order}/{item}/-1"), 422, "invalid-number"),
        ("POST", format!("/orders/addItem/{order}/{item}/1.5"), 422, "invalid-number"),
        ("POST", format!("/orders/addItem/{order}/{item}/{most}"), 422, "out-of-bounds"),
        ("POST", "/payment/add_funds/nobody/1".to_owned(), 404, "unknown-user"),
        ("POST", format!("/payment/add_funds/{user}/1"), 422, "out-of-bounds"),
        ("POST", format!("/payment/add_funds/{user}/x"), 422, "invalid-number"),
        ("POST", format!("/payment/add_funds/{user}/9223372036854775808"), 422, "invalid-number"),
        ("POST", "/payment/pay/nobody/1".to_owned(), 404, "unknown-user"),
        ("POST", format!("/payment/pay/{user}/-5"), 422, "invalid-number"),
        ("POST", "/stock/add/nobody/1".to_owned(), 404, "unknown-item"),
        ("POST", format!("/stock/add/{item}/{most}"), 422, "out-of-bounds"),
        ("POST", "/stock/subtract/nobody/1".to_owned(), 404, "unknown-item"),
        ("POST", format!("/stock/subtract/{item}/1e3"), 422, "invalid-number"),
        ("POST", "/stock/item/create/-1".to_owned(), 422, "invalid-number"),
        ("POST", "/stock/item/create/many".to_owned(), 422, "invalid-number"),
        ("POST", "/payment/batch_init/1000001/1".to_owned(), 422, "invalid-number"),
        ("POST", "/stock/batch_init/1/1/-1".to_owned(), 422, "invalid-number"),
        ("POST", "/orders/batch_init/x/1/1/1".to_owned(), 422, "invalid-number"),
        ("POST", format!("/orders/batch_init/1/1/1/{most}"), 422, "out-of-bounds"),
    ] {
        let method: Method = method.parse().unwrap();
        let ask = |path: String| {
            world.call(Request::builder().method(method.clone()).uri(path).body(Body::empty()).unwrap())
        };
        ask(path.clone()).await.text(400);
        ask(format!("/shop{path}")).await.problem(status, name);
    }
    // Nothing of this has changed anything.
    assert_eq!((world.credit(&user).await, world.stock(&item).await), (i64::MAX.unsigned_abs(), 1));
    let shown = world.got(&format!("/orders/find/{order}")).await.json(200);
    assert_has(&shown, &json!({"items": [[item, 1]], "total_cost": 5}));
    for query in ["deadlineMs=0", "deadlineMs=86400001", "waitMs=60001", "waitMs=x"] {
        let refused = world.posted(&format!("/shop/orders/checkout/{order}?{query}")).await;
        refused.problem(422, "invalid-number");
    }
    world.posted(&format!("/shop/orders/checkout/{order}?now=1")).await.problem(400, "invalid");
}

#[tokio::test]
async fn ids_are_any_text_that_a_path_can_carry() {
    let world = World::new();
    for (sent, id) in
        [("a%2Fb", "a/b"), ("%C3%A9", "é"), ("a%20b%22", "a b\""), (&*"x".repeat(128), &*"x".repeat(128))]
    {
        let order = world.posted(&format!("/shop/orders/create/{sent}")).await.json(201);
        assert_eq!(order["user_id"], id);
    }
}

#[tokio::test]
async fn an_order_of_a_user_or_item_that_is_not_there_fails_at_the_checkout() {
    let world = World::new();
    let item = world.item(5, 1).await;
    let order = world.order("nobody", &[(&item, 1)]).await;
    world.posted(&format!("/orders/checkout/{order}")).await.text(400);
    world.posted(&format!("/shop/orders/checkout/{order}")).await.problem(402, "payment-refused");
    assert_eq!(world.stock(&item).await, 1);
}

#[tokio::test]
async fn a_key_gets_the_stored_answer() {
    let world = World::new();
    let (user, item) = (world.user(0).await, world.item(5, 2).await);
    let order = world.order(&user, &[(&item, 1)]).await;
    let (course, proper) = (format!("/orders/checkout/{order}"), format!("/shop/orders/checkout/{order}"));
    let failed = world.with_key(&proper, "key-1").await;
    failed.problem(402, "payment-refused");
    world.posted(&format!("/payment/add_funds/{user}/20")).await.text(200);
    assert_eq!(world.with_key(&proper, "key-1").await, failed, "a failure is an answer too");
    world.with_key(&course, "key-1").await.text(400);
    assert_eq!(world.credit(&user).await, 20);
    let paid = world.with_key(&proper, "key-2").await;
    assert_eq!(paid.json(200), json!({"order": order, "tr": 2, "state": "paid", "charged": true}));
    assert_eq!(world.with_key(&proper, "key-2").await, paid, "the very same answer");
    world.with_key(&course, "key-2").await.text(200);
    assert_eq!(world.with_key(&proper, "key-3").await.json(200)["charged"], false);
    assert_eq!(world.with_key(&proper, "key-1").await, failed, "the first is what it was");
    assert_eq!((world.credit(&user).await, world.stock(&item).await), (15, 1));

    let other = world.order(&user, &[(&item, 1)]).await;
    world.with_key(&format!("/shop/orders/checkout/{other}"), "key-2").await.problem(422, "key-reused");
    world.with_key(&format!("/orders/checkout/{other}"), "key-2").await.text(400);
    world.with_key(&format!("{proper}?deadlineMs=5"), "key-2").await.problem(422, "key-reused");
    assert_eq!(
        world.with_key(&format!("{proper}?waitMs=5"), "key-2").await,
        paid,
        "a wait is no other request"
    );
    assert_eq!((world.credit(&user).await, world.stock(&item).await), (15, 1));
    world.with_key(&proper, &"k".repeat(128)).await.json(200);
    for bad in ["", &"k".repeat(129)] {
        world.with_key(&proper, bad).await.problem(400, "invalid");
        world.with_key(&course, bad).await.text(400);
    }
    let twice = Request::post(&proper).header("Idempotency-Key", "a").header("Idempotency-Key", "b");
    world.call(twice.body(Body::empty()).unwrap()).await.problem(400, "invalid");
    // A key under which nothing could be found is not used up.
    world.with_key("/shop/orders/checkout/nobody", "key-4").await.problem(404, "unknown-order");
    assert_eq!(
        world.with_key(&format!("/shop/orders/checkout/{other}"), "key-4").await.json(200)["charged"],
        true
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_orders_on_a_hundred_units_pay_exactly_a_hundred() {
    let world = Arc::new(World::new());
    let item = world.item(1, 100).await;
    world.posted("/payment/batch_init/1000/1").await.json(200);
    let mut orders = Vec::new();
    for number in 0..1_000_u64 {
        // Some users have several orders and credit for one.
        orders.push(world.order(&(number * 7_919 % 700).to_string(), &[(&item, 1)]).await);
    }
    let mut calls = JoinSet::new();
    for (number, order) in orders.iter().enumerate() {
        let world = Arc::clone(&world);
        let dialect = if number % 2 == 0 { "/orders" } else { "/shop/orders" };
        let path = format!("{dialect}/checkout/{order}");
        calls.spawn(async move { world.posted(&path).await.status });
    }
    let statuses = calls.join_all().await;
    let paid = statuses.iter().filter(|status| **status == 200).count();
    assert!(statuses.iter().all(|status| [200, 400, 402].contains(status)), "{statuses:?}");
    assert_eq!(paid, 100);
    assert_eq!(world.stock(&item).await, 0);
    let mut left = 0;
    for user in 0..1_000 {
        left += world.credit(&user.to_string()).await;
    }
    assert_eq!(left, 900, "credit gone is what was paid, at once after the last answer");
    let mut seen = 0;
    for order in &orders {
        seen += usize::from(world.got(&format!("/orders/find/{order}")).await.json(200)["paid"] == true);
    }
    assert_eq!(seen, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_order_checked_out_by_many_at_once_is_charged_once() {
    let world = Arc::new(World::new());
    let (user, item) = (world.user(100).await, world.item(5, 100).await);
    let order = world.order(&user, &[(&item, 2)]).await;
    let mut calls = JoinSet::new();
    for number in 0..64 {
        let (world, order) = (Arc::clone(&world), order.clone());
        calls.spawn(async move {
            let proper = format!("/shop/orders/checkout/{order}");
            let answer = match number % 3 {
                0 => {
                    world.posted(&format!("/orders/checkout/{order}")).await.text(200);
                    return 0;
                }
                1 => world.posted(&proper).await,
                _ => world.with_key(&proper, &format!("key-{number}")).await,
            };
            u64::from(answer.json(200)["charged"] == true)
        });
    }
    let charged: u64 = calls.join_all().await.into_iter().sum();
    assert!(charged <= 1, "{charged} callers were told that they were charged");
    assert_eq!((world.credit(&user).await, world.stock(&item).await), (90, 98));
}

#[tokio::test]
async fn a_full_queue_is_told_in_both_dialects_with_a_time_to_wait() {
    let world = World::with(HubOptions { intake_records_max: 0, ..HubOptions::default() });
    world.posted("/payment/create_user").await.text(429);
    world.posted("/shop/payment/create_user").await.problem(429, "busy");
    world.posted("/orders/checkout/o").await.text(429);
    world.posted("/shop/orders/checkout/o").await.problem(429, "busy");
    world.posted("/hub/checkouts/o/cancel").await.refused(429, "2005");
}

#[tokio::test]
async fn the_paths_are_the_operators() {
    let world = World::new();
    let guarded = Guarded::new(&world.edge);
    let document = holdfast_api::openapi::document();
    let mut looked_at = 0;
    for (path, verbs) in document["paths"].as_object().unwrap() {
        let of_the_shop = ["/shop/", "/orders/", "/payment/", "/stock/", "/hub/checkouts"];
        if !of_the_shop.iter().any(|start| path.starts_with(start)) {
            continue;
        }
        looked_at += 1;
        let uri =
            path.split('/').map(|part| if part.starts_with('{') { "1" } else { part }).collect::<Vec<_>>();
        let uri = uri.join("/");
        for verb in verbs.as_object().unwrap().keys() {
            guarded.is_the_operators(&verb.to_uppercase(), &uri).await;
        }
    }
    assert_eq!(looked_at, 2 * 15 + 6);
}

#[tokio::test]
async fn other_verbs_are_refused() {
    let world = World::new();
    for (method, path) in
        [("GET", "/orders/checkout/o"), ("POST", "/orders/find/o"), ("DELETE", "/shop/orders/checkout/o")]
    {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        assert_eq!(world.call(request).await.status, 405, "{method} {path}");
    }
    assert_eq!(world.posted("/orders/create/").await.status, 404, "an empty id is no path");
}
