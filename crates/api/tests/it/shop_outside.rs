//! Checkouts with a side outside: they stay open, are seen, answered, cancelled, tried again, and end at their deadline.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use holdfast_domain::shop::Sides;
use holdfast_engine::CheckoutTimes;
use holdfast_hub::limits::HubOptions;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::world::{Heard, World, assert_has};

/// A world with these sides outside, a user, an item, and an order of two for 10.
pub(crate) struct Shop {
    pub(crate) world: Arc<World>,
    user: String,
    item: String,
    pub(crate) order: String,
}

impl Shop {
    pub(crate) async fn with(outside: Sides) -> Shop {
        Shop::of(World::new(), outside).await
    }

    async fn of(world: World, outside: Sides) -> Shop {
        world.hub.shop().set_outside(outside).await.unwrap();
        let (user, item) = (world.user(100).await, world.item(5, 100).await);
        let order = world.order(&user, &[(&item, 2)]).await;
        Shop { world: Arc::new(world), user, item, order }
    }

    async fn another(&self) -> String {
        self.world.order(&self.user, &[(&self.item, 2)]).await
    }

    /// A caller who waits.
    fn checkout(&self, order: &str, query: &str, key: Option<&'static str>) -> JoinHandle<Heard> {
        let world = Arc::clone(&self.world);
        let mut request = Request::post(format!("/shop/orders/checkout/{order}{query}"));
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let request = request.body(Body::empty()).unwrap();
        tokio::spawn(async move { world.call(request).await })
    }

    async fn rows(&self, query: &str) -> Vec<String> {
        let page = self.world.got(&format!("/hub/checkouts{query}")).await.json(200);
        orders(page["checkouts"].as_array().unwrap())
    }
}

fn orders(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["order"].as_str().unwrap().to_owned()).collect()
}

const PAY: Sides = Sides { pay: true, stock: false };
pub(crate) const STOCK: Sides = Sides { pay: false, stock: true };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_answer_and_who_waits_is_told() {
    let shop = Shop::with(Sides::BOTH).await;
    let order = shop.order.as_str();
    let waiting = shop.checkout(order, "?deadlineMs=590000", None);
    let row = shop.world.until_it_is("pending", order).await;
    assert_has(
        &row,
        &json!({"order": order, "tr": 1, "user": shop.user, "amount": "10", "waitsFor": ["pay", "stock"]}),
    );
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.starts_with("waits for pay and stock since 0 s, cancels in 9 min"), "{detail}");
    for instant in ["startedAt", "since", "deadline"] {
        assert!(row[instant].as_str().is_some_and(|text| text.len() == 24 && text.ends_with('Z')), "{row}");
    }
    assert!(row.get("why").is_none());
    assert_eq!(shop.rows("").await, [order]);
    let found = shop.world.got(&format!("/shop/orders/find/{order}")).await.json(200);
    assert_has(&found, &json!({"state": "pending", "waitsFor": ["pay", "stock"]}));
    // Items stand still while a checkout is open.
    let add = format!("/orders/addItem/{order}/{}/1", shop.item);
    shop.world.posted(&add).await.text(400);
    shop.world.posted(&format!("/shop{add}")).await.problem(409, "not-now");

    let heard = shop.world.say(order, "1", "pay", "psucc").await.json(200);
    assert_has(&heard, &json!({"counted": true, "state": "pending", "waitsFor": ["stock"]}));
    let again = shop.world.say(order, "1", "pay", "psucc").await.json(200);
    assert_has(&again, &json!({"counted": false, "waitsFor": ["stock"]}));
    let heard = shop.world.say(order, "1", "stock", "ssucc").await.json(200);
    assert_eq!(heard, json!({"counted": true, "order": order, "tr": 1, "state": "paid", "charged": true}));
    let paid = json!({"order": order, "tr": 1, "state": "paid", "charged": true});
    assert_eq!(waiting.await.unwrap().json(200), paid);
    let late = shop.world.say(order, "1", "stock", "ssucc").await.json(200);
    assert_has(&late, &json!({"counted": false, "state": "paid"}));
    assert!(shop.rows("").await.is_empty());
    let shown = shop.world.shown(order).await;
    assert_eq!(shown, json!({"order": order, "tr": 1, "state": "paid", "user": shop.user, "amount": "10"}));
    // Both sides are elsewhere, so nothing was taken here.
    assert_eq!((shop.world.credit(&shop.user).await, shop.world.stock(&shop.item).await), (100, 100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_goes_out_when_all_is_given_back() {
    // The payment side is inside and charges; stock is outside and refuses.
    let shop = Shop::with(STOCK).await;
    let order = shop.order.as_str();
    let waiting = shop.checkout(order, "", None);
    let row = shop.world.until_it_is("pending", order).await;
    assert_eq!(row["waitsFor"], json!(["stock"]));
    assert_eq!(shop.world.credit(&shop.user).await, 90);
    shop.world.say(order, "1", "pay", "psucc").await.refused(409, "3100");
    let heard = shop.world.say(order, "1", "stock", "sfail").await.json(200);
    assert_has(&heard, &json!({"counted": true, "state": "not_paid", "why": "stock"}));
    waiting.await.unwrap().problem(402, "stock-refused");
    assert_eq!(shop.world.credit(&shop.user).await, 100);

    // Now both are outside: the one that took has to give back before anybody is told.
    shop.world.hub.shop().set_outside(Sides::BOTH).await.unwrap();
    let other = shop.another().await;
    let waiting = shop.checkout(&other, "", None);
    shop.world.until_it_is("pending", &other).await;
    shop.world.say(&other, "1", "pay", "psucc").await.json(200);
    let heard = shop.world.say(&other, "1", "stock", "sfail").await.json(200);
    assert_has(&heard, &json!({"state": "cancelling", "waitsFor": ["pay"]}));
    assert!(
        heard["detail"].as_str().unwrap().starts_with("has failed and waits for pay to give back since ")
    );
    assert!(!waiting.is_finished());
    assert_eq!(shop.rows("?state=cancelling").await, [other.as_str()]);
    assert!(shop.rows("?state=pending").await.is_empty());
    assert_eq!(shop.world.shown(&other).await["why"], "stock");
    let heard = shop.world.say(&other, "1", "pay", "csucc").await.json(200);
    assert_has(&heard, &json!({"state": "not_paid", "why": "stock"}));
    waiting.await.unwrap().problem(402, "stock-refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_over_tells_where_the_checkout_stands() {
    let shop_options = CheckoutTimes { wait_ms: 1, ..CheckoutTimes::default() };
    let world = World::with(HubOptions { shop: shop_options, ..HubOptions::default() });
    let shop = Shop::of(world, PAY).await;
    let order = shop.order.as_str();
    let text = shop.world.posted(&format!("/orders/checkout/{order}")).await;
    let said = text.text(504);
    assert!(said.starts_with(&format!("order {order} is pending: it waits for pay since ")), "{said}");
    let open = shop.world.checkout(order, "?waitMs=2").await;
    let open = open.problem(504, "checkout-open");
    assert_has(&open, &json!({"order": order, "tr": 1, "state": "pending", "waitsFor": ["pay"]}));
    assert!(open["since"].is_string() && open["deadline"].is_string(), "{open}");
    assert!(open["detail"].as_str().unwrap().contains("cancels in "), "{open}");
    let begun = shop.world.checkout(order, "?waitMs=0").await.json(202);
    assert_eq!((&begun["state"], &begun["tr"]), (&json!("pending"), &json!(1)), "still the first try");
    // A try that is over takes nothing from a later caller.
    shop.world.say(order, "1", "pay", "pfail").await.json(200);
    assert_eq!(shop.world.stock(&shop.item).await, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_with_and_without_keys_join_the_open_checkout() {
    let shop = Shop::with(PAY).await;
    let order = shop.order.as_str();
    let first = shop.checkout(order, "", Some("k1"));
    shop.world.until_it_is("pending", order).await;
    let joined = [
        shop.checkout(order, "", Some("k1")),
        shop.checkout(order, "", Some("k2")),
        shop.checkout(order, "", None),
    ];
    // Whether they have joined by now or come after the end: the order is charged once.
    shop.world.say(order, "1", "pay", "psucc").await.json(200);
    let paid = first.await.unwrap();
    assert_eq!(paid.json(200), json!({"order": order, "tr": 1, "state": "paid", "charged": true}));
    for caller in joined {
        let answer = caller.await.unwrap().json(200);
        assert_has(&answer, &json!({"state": "paid", "tr": 1}));
    }
    assert_eq!(shop.checkout(order, "", Some("k1")).await.unwrap(), paid, "the stored answer");
    assert_eq!(shop.checkout(order, "", None).await.unwrap().json(200)["charged"], false);
    assert_eq!(shop.world.stock(&shop.item).await, 98);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_cancels_and_tries_again() {
    let shop = Shop::with(PAY).await;
    let order = shop.order.as_str();
    let post = |what: &'static str| {
        let path = format!("/hub/checkouts/{order}/{what}");
        let world = Arc::clone(&shop.world);
        async move { world.posted(&path).await }
    };
    post("cancel").await.refused(409, "3100");
    post("retry").await.refused(409, "3100");
    let waiting = shop.checkout(order, "", None);
    shop.world.until_it_is("pending", order).await;
    assert_eq!(shop.world.stock(&shop.item).await, 98);
    let sent_again = post("retry").await.json(200);
    assert_has(&sent_again, &json!({"state": "pending", "tr": 1}));
    let cancelled = post("cancel").await.json(200);
    assert_has(&cancelled, &json!({"state": "cancelling", "tr": 1, "waitsFor": ["pay"]}));
    assert_eq!(shop.world.stock(&shop.item).await, 100, "the inside side has given back at once");
    assert!(post("cancel").await.refused(409, "3100").contains("cancelling"));
    assert!(!waiting.is_finished());
    shop.world.say(order, "1", "pay", "csucc").await.json(200);
    let problem = waiting.await.unwrap().problem(409, "cancelled");
    assert_has(&problem, &json!({"why": "cancelled", "state": "not_paid"}));
    // A late word of the first try is heard and changes nothing.
    let late = shop.world.say(order, "1", "pay", "csucc").await.json(200);
    assert_has(&late, &json!({"counted": false, "state": "not_paid"}));

    let anew = post("retry").await.json(200);
    assert_has(&anew, &json!({"state": "pending", "tr": 2}));
    let paid = shop.world.say(order, "2", "pay", "psucc").await.json(200);
    assert_has(&paid, &json!({"state": "paid", "tr": 2}));
    for what in ["cancel", "retry"] {
        assert!(post(what).await.refused(409, "3100").contains("paid"));
        let path = format!("/hub/checkouts/nobody/{what}");
        shop.world.posted(&path).await.refused(404, "3200");
    }
    shop.world.got("/hub/checkouts/nobody").await.refused(404, "3200");
    assert_eq!(shop.world.stock(&shop.item).await, 98);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_course_hears_of_a_cancelled_checkout_as_400_after_all_is_given_back() {
    let shop = Shop::with(PAY).await;
    let order = shop.order.as_str();
    let waiting = {
        let (world, path) = (Arc::clone(&shop.world), format!("/orders/checkout/{order}"));
        tokio::spawn(async move { world.posted(&path).await })
    };
    shop.world.until_it_is("pending", order).await;
    shop.world.posted(&format!("/hub/checkouts/{order}/cancel")).await.json(200);
    assert!(!waiting.is_finished());
    shop.world.say(order, "1", "pay", "csucc").await.json(200);
    waiting.await.unwrap().text(400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_side_that_never_answers_is_cancelled_at_the_deadline() {
    let shop = Shop::with(PAY).await;
    let order = shop.order.as_str();
    let waiting = shop.checkout(order, "?deadlineMs=20", None);
    let row = shop.world.until_it_is("cancelling", order).await;
    assert_has(&row, &json!({"why": "deadline", "waitsFor": ["pay"]}));
    assert_eq!(shop.world.stock(&shop.item).await, 100);
    // A late success is no success any more.
    let late = shop.world.say(order, "1", "pay", "psucc").await.json(200);
    assert_eq!(late["state"], "cancelling");
    shop.world.say(order, "1", "pay", "csucc").await.json(200);
    assert_eq!(waiting.await.unwrap().problem(409, "deadline-passed")["why"], "deadline");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_checkouts_are_listed_by_age_and_in_pages() {
    let shop = Shop::with(PAY).await;
    let mut open = Vec::new();
    for _ in 0..5 {
        let order = shop.another().await;
        shop.world.checkout(&order, "?waitMs=0").await.json(202);
        open.push(order);
    }
    assert_eq!(shop.rows("").await, open);
    shop.world.posted(&format!("/hub/checkouts/{}/cancel", open[1])).await.json(200);
    assert_eq!(shop.rows("?state=cancelling").await, [open[1].as_str()]);
    assert_eq!(shop.rows("?state=pending").await.len(), 4);
    assert_eq!(orders(&shop.world.all_pages("/hub/checkouts?limit=2", "checkouts").await), open);
    for query in ["state=paid", "after=x", "limit=0", "limit=1001", "limit=x", "order=1", "limit=1&limit=2"] {
        shop.world.got(&format!("/hub/checkouts?{query}")).await.refused(400, "3101");
    }
}

#[tokio::test]
async fn orders_that_are_being_checked_out_are_not_replaced() {
    let shop = Shop::with(PAY).await;
    shop.world.posted("/payment/batch_init/1/100").await.json(200);
    shop.world.posted("/stock/batch_init/1/100/1").await.json(200);
    shop.world.posted("/orders/batch_init/3/1/1/1").await.json(200);
    shop.world.posted("/shop/orders/checkout/1?waitMs=0").await.json(202);
    shop.world.posted("/orders/batch_init/3/1/1/1").await.text(400);
    let refused = shop.world.posted("/shop/orders/batch_init/3/1/1/1").await.problem(409, "not-now");
    assert_has(&refused, &json!({"order": "1", "state": "pending"}));
    shop.world.say("1", "1", "pay", "pfail").await.json(200);
    shop.world.posted("/orders/batch_init/3/1/1/1").await.json(200);
}

#[tokio::test]
async fn answers_from_outside_are_read_strictly() {
    let shop = Shop::with(PAY).await;
    let order = shop.order.as_str();
    shop.world.checkout(order, "?waitMs=0").await.json(202);
    for (tr, side, outcome, status, code) in [
        ("1", "pay", "ssucc", 400, "3101"),
        ("1", "stock", "psucc", 400, "3101"),
        ("1", "pay", "", 400, "3101"),
        ("0", "pay", "psucc", 400, "3101"),
        ("x", "pay", "psucc", 400, "3101"),
        ("4294967296", "pay", "psucc", 400, "3101"),
        ("2", "pay", "psucc", 404, "3200"),
        ("1", "stock", "ssucc", 409, "3100"),
    ] {
        shop.world.say(order, tr, side, outcome).await.refused(status, code);
    }
    shop.world.say("nobody", "1", "pay", "psucc").await.refused(404, "3200");
    for body in ["", "psucc", "[]", r#"{"outcome":5}"#, "{}"] {
        let request = Request::post(format!("/hub/checkouts/{order}/1/pay")).body(Body::from(body)).unwrap();
        shop.world.call(request).await.refused(400, "3101");
    }
    assert_eq!(shop.world.shown(order).await["waitsFor"], json!(["pay"]), "nothing of this was heard");
}
