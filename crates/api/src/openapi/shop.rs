//! The shop's paths, in both dialects, and what the hub shows of checkouts.

use axum::http::Method;
use holdfast_wire::Count;
use holdfast_wire::admin::Text;
use holdfast_wire::limits::SHOP_ID_CHARS_MAX;
use holdfast_wire::shop::{OpenState, PayOutcome, StockOutcome};
use serde_json::{Value, json};

use super::operation::{Operation, operation};
use super::schemas::reference;

const PROBLEM: &str = "application/problem+json";
const TEXT: &str = "text/plain";
const KEY: &str =
    "1 to 128 plain characters. The same key with the same request gets the stored answer for 24 hours";

fn key() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": SHOP_ID_CHARS_MAX, "pattern": "^[ -~]*$"})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn whole(what: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": i64::MAX, "description": what})
}

fn id(what: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 128, "description": what})
}

fn object(required: &[&str], members: Value) -> Value {
    json!({"type": "object", "required": required, "properties": members})
}

/// A path as the course has it.
fn plain(method: Method, path: &'static str, summary: &'static str) -> Operation {
    operation(method, path, summary)
        .answers_as(
            400,
            "Every business failure, and ids or numbers that are none; nothing was changed",
            TEXT,
            &text(),
        )
        .answers_as(503, "No commands are taken now; after Retry-After", TEXT, &text())
        .answers_as(504, "No answer in time; the outcome is unknown", TEXT, &text())
}

impl Operation {
    fn says(self, what: &str) -> Operation {
        self.answers_as(200, what, TEXT, &text())
    }

    fn problem(self, status: u16, names: &str) -> Operation {
        self.answers_as(status, names, PROBLEM, &reference("ShopProblem"))
    }

    fn numbers(self) -> Operation {
        self.problem(422, "`invalid-number`, `out-of-bounds`")
    }
}

/// The same under `/shop`.
fn proper(method: Method, path: &'static str, summary: &'static str) -> Operation {
    operation(method, path, summary)
        .problem(400, "`invalid`: the detail names what is wrong")
        .problem(503, "`unavailable`, `full`: after Retry-After")
        .problem(504, "`no-answer`: the outcome is unknown")
}

/// As the course has them.
pub(super) fn course_operations() -> Vec<Operation> {
    let (get, post) = (|| Method::GET, || Method::POST);
    let one = |member: &str| object(&[member], json!({member: id("A UUID")}));
    let done = || object(&["msg"], json!({"msg": text()}));
    vec![
        plain(post(), "/orders/create/{user_id}", "A new order")
            .details("Whether there is such a user shows at the checkout.")
            .answers_with(200, "Its id", &one("order_id")),
        plain(
            post(),
            "/orders/batch_init/{n}/{n_items}/{n_users}/{item_price}",
            "Orders 0 to n - 1, each with two lines",
        )
        .details("Of any users and items. Those that are there are replaced, but not while a checkout is open.")
        .answers_with(200, "Done", &done()),
        plain(get(), "/orders/find/{order_id}", "An order").answers_with(
            200,
            "The order",
            &reference("CourseOrder"),
        ),
        plain(post(), "/orders/addItem/{order_id}/{item_id}/{quantity}", "A line more for an order")
            .says("The order with its new price"),
        plain(post(), "/orders/checkout/{order_id}", "Check an order out: charge and take stock, or neither")
            .details("A paid order answers 200 and is not charged again. A call while a checkout is under way gets its result. 400 goes out when everything is given back.")
            .header("Idempotency-Key", false, KEY, &key())
            .says("It is paid")
            .answers_as(504, "The wait is over, the checkout is not (the text says what it waits for); or no answer in time", TEXT, &text()),
        plain(post(), "/payment/create_user", "A new user, without credit")
            .answers_with(200, "Its id", &one("user_id")),
        plain(post(), "/payment/batch_init/{n}/{starting_money}", "Users 0 to n - 1")
            .answers_with(200, "Done", &done()),
        plain(get(), "/payment/find_user/{user_id}", "A user").answers_with(
            200,
            "The user",
            &reference("ShopUser"),
        ),
        plain(post(), "/payment/add_funds/{user_id}/{amount}", "More credit").says("The new credit"),
        plain(post(), "/payment/pay/{user_id}/{amount}", "Less credit").says("The new credit"),
        plain(post(), "/stock/item/create/{price}", "A new item, of which there are none")
            .answers_with(200, "Its id", &one("item_id")),
        plain(post(), "/stock/batch_init/{n}/{starting_stock}/{item_price}", "Items 0 to n - 1")
            .answers_with(200, "Done", &done()),
        plain(get(), "/stock/find/{item_id}", "An item").answers_with(
            200,
            "The item",
            &object(&["stock", "price"], json!({"stock": whole("How many there are"), "price": whole("What one costs")})),
        ),
        plain(post(), "/stock/add/{item_id}/{amount}", "More of an item").says("The new stock"),
        plain(post(), "/stock/subtract/{item_id}/{amount}", "Less of an item").says("The new stock"),
    ]
}

/// With proper codes.
pub(super) fn operations() -> Vec<Operation> {
    let (get, post) = (|| Method::GET, || Method::POST);
    let (user, item, order) = (reference("ShopUser"), reference("ShopItem"), reference("ShopOrder"));
    let filled = reference("ShopFilled");
    let checkout = reference("Checkout");
    vec![
        proper(post(), "/shop/orders/create/{user_id}", "A new order")
            .details("Whether there is such a user shows at the checkout.")
            .answers_with(201, "The order", &order),
        proper(
            post(),
            "/shop/orders/batch_init/{n}/{n_items}/{n_users}/{item_price}",
            "Orders 0 to n - 1, each with two lines",
        )
        .details("Of any users and items. Those that are there are replaced. At most 1,000,000.")
        .answers_with(200, "How many", &filled)
        .problem(409, "`not-now`: one of them is being checked out; `checkouts-open`: others are, and orders would be replaced")
        .problem(422, "`invalid-number`, `out-of-bounds`, `contradiction`: no user or no item to choose from"),
        proper(get(), "/shop/orders/find/{order_id}", "An order, and its checkout if one is open")
            .answers_with(200, "The order", &order)
            .problem(404, "`unknown-order`"),
        proper(post(), "/shop/orders/addItem/{order_id}/{item_id}/{quantity}", "A line more for an order")
            .answers_with(200, "The order", &order)
            .problem(404, "`unknown-order`, `unknown-item`")
            .problem(409, "`not-now`: the order is paid or being checked out")
            .numbers(),
        proper(post(), "/shop/orders/checkout/{order_id}", "Check an order out: charge and take stock, or neither")
            .details("A paid order answers 200 with `charged` false. A call while a checkout is under way gets its result. A failure goes out when everything is given back.")
            .header("Idempotency-Key", false, KEY, &key())
            .query::<Count<1, 86_400_000>>("deadlineMs", "It is cancelled if it is not decided after so long; 1 to 86,400,000; without it as the hub is set")
            .query::<Count<0, 60_000>>("waitMs", "How long to wait for it if it stays open; 0 to 60,000; without it as the hub is set. With 0 the answer is 202")
            .answers_with(200, "It is paid", &checkout)
            .answers_with(202, "With `waitMs=0`: it is under way", &checkout)
            .problem(402, "`payment-refused`, `stock-refused`, `payment-and-stock-refused`")
            .problem(404, "`unknown-order`")
            .problem(409, "`cancelled`, `deadline-passed`, `tries-used-up`")
            .problem(422, "`key-reused`: the key came with another request; `invalid-number`")
            .problem(504, "`checkout-open`: the wait is over, the checkout is not; `no-answer`: the outcome is unknown"),
        proper(post(), "/shop/payment/create_user", "A new user, without credit")
            .answers_with(201, "The user", &user),
        proper(post(), "/shop/payment/batch_init/{n}/{starting_money}", "Users 0 to n - 1")
            .details("Those that are there are replaced. At most 1,000,000.")
            .answers_with(200, "How many", &filled)
            .problem(409, "`checkouts-open`: users would be replaced")
            .numbers(),
        proper(get(), "/shop/payment/find_user/{user_id}", "A user")
            .answers_with(200, "The user", &user)
            .problem(404, "`unknown-user`"),
        proper(post(), "/shop/payment/add_funds/{user_id}/{amount}", "More credit")
            .answers_with(200, "The user", &user)
            .problem(404, "`unknown-user`")
            .numbers(),
        proper(post(), "/shop/payment/pay/{user_id}/{amount}", "Less credit")
            .answers_with(200, "The user", &user)
            .problem(402, "`insufficient-credit`")
            .problem(404, "`unknown-user`")
            .numbers(),
        proper(post(), "/shop/stock/item/create/{price}", "A new item, of which there are none")
            .answers_with(201, "The item", &item)
            .numbers(),
        proper(post(), "/shop/stock/batch_init/{n}/{starting_stock}/{item_price}", "Items 0 to n - 1")
            .details("Those that are there are replaced. At most 1,000,000.")
            .answers_with(200, "How many", &filled)
            .problem(409, "`checkouts-open`: items would be replaced")
            .numbers(),
        proper(get(), "/shop/stock/find/{item_id}", "An item")
            .answers_with(200, "The item", &item)
            .problem(404, "`unknown-item`"),
        proper(post(), "/shop/stock/add/{item_id}/{amount}", "More of an item")
            .answers_with(200, "The item", &item)
            .problem(404, "`unknown-item`")
            .numbers(),
        proper(post(), "/shop/stock/subtract/{item_id}/{amount}", "Less of an item")
            .answers_with(200, "The item", &item)
            .problem(402, "`insufficient-stock`")
            .problem(404, "`unknown-item`")
            .numbers(),
    ]
}

/// What the hub shows of checkouts, among its own paths.
pub(super) fn hub_operations() -> Vec<Operation> {
    let at = |method: Method, path: &'static str, summary: &'static str| {
        operation(method, path, summary)
            .refuses(400, "3101: a parameter, id or body is malformed")
            .asks_the_hub()
    };
    let checkout = reference("Checkout");
    let answer = |path: &'static str, side: &'static str| {
        at(Method::POST, path, side)
            .details("For a side that is outside. A repeat, and what comes when the try is over, is heard and changes nothing.")
            .answers_with(200, "How the checkout stands", &checkout)
            .refuses(404, "3200: there is no such order or try")
            .refuses(409, "3100: that side is inside for this try")
    };
    vec![
        at(Method::GET, "/hub/checkouts", "Open checkouts, the oldest first")
            .query::<OpenState>("state", "Only those that are `pending` or `cancelling`")
            .paged::<Text>()
            .answers_with(200, "A page", &reference("CheckoutPage")),
        at(Method::GET, "/hub/checkouts/{order}", "One order, whether a checkout of it is open or not")
            .answers_with(200, "The order", &reference("CheckoutStory"))
            .refuses(404, "3200: there is no such order"),
        at(Method::POST, "/hub/checkouts/{order}/cancel", "End a checkout that is not decided")
            .details("What it took is given back; this does not wait for an outside side that has to.")
            .answers_with(200, "How the checkout stands", &checkout)
            .refuses(404, "3200: there is no such order")
            .refuses(409, "3100: nothing undecided is under way"),
        at(
            Method::POST,
            "/hub/checkouts/{order}/retry",
            "Send again what was not answered, or check a failed order out anew",
        )
        .details("Does not wait.")
        .answers_with(200, "How the checkout stands", &checkout)
        .refuses(404, "3200: there is no such order")
        .refuses(409, "3100: the order is paid, or was never tried"),
        answer("/hub/checkouts/{order}/{tr}/pay", "What the payment side says about a try")
            .takes::<PayOutcome>(),
        answer("/hub/checkouts/{order}/{tr}/stock", "What the stock side says about a try")
            .takes::<StockOutcome>(),
    ]
}

fn instant(what: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": what, "examples": ["2026-11-15T08:24:36.000Z"]})
}

/// What is told of an open checkout.
fn waits() -> Value {
    json!({
        "startedAt": instant("When the checkout began"),
        "transfer": {"type": "string", "format": "uuid", "description": "The transfer that pays for it, where transfers do"},
        "spender": {"type": "string", "format": "uuid", "description": "In whose name tokens are locked for it, where tokens pay"},
        "since": instant("Since when it waits for these"),
        "deadline": instant("It is cancelled after this, unless it is decided by then"),
        "waitsFor": {"type": "array", "items": {"type": "string", "enum": ["pay", "stock"]}, "description": "For whom it waits"},
        "detail": {"type": "string", "description": "The same in words", "examples": ["waits for stock since 12 s, cancels in 18 s"]},
    })
}

/// These members and those.
fn and(mut members: Value, more: Value) -> Value {
    if let (Value::Object(members), Value::Object(more)) = (&mut members, more) {
        members.extend(more);
    }
    members
}

/// The schemas of the shop.
pub(super) fn schemas() -> Value {
    let why = || json!({"type": "string", "enum": ["pay", "stock", "both", "cancelled", "deadline"], "description": "Why its last try failed"});
    let state = || json!({"type": "string", "enum": ["not_paid", "pending", "cancelling", "paid"]});
    let tr = || json!({"type": "integer", "minimum": 1, "maximum": u32::MAX, "description": "The number of the try"});
    let last_tr = || json!({"type": ["integer", "null"], "description": "The number of its last try; null: never tried"});
    let order = || {
        json!({
            "order_id": id("Its id"),
            "paid": {"type": "boolean"},
            "items": {"type": "array", "maxItems": 1_000, "description": "Lines as they were added: item and quantity", "items": {"type": "array", "prefixItems": [id("The item"), whole("How many")], "minItems": 2, "maxItems": 2}},
            "user_id": id("Who pays"),
            "total_cost": whole("What it costs"),
        })
    };
    let story = || {
        and(
            json!({
                "order": id("The order"), "tr": last_tr(), "state": state(), "user": id("Who pays"),
                "amount": {"type": "string", "description": "What it costs"}, "why": why(),
            }),
            waits(),
        )
    };
    let needed = ["order_id", "paid", "items", "user_id", "total_cost"];
    json!({
        "CourseOrder": object(&needed, order()),
        "ShopOrder": object(&["order_id", "paid", "items", "user_id", "total_cost", "state", "tr"],
            and(and(order(), json!({"state": state(), "tr": last_tr(), "why": why()})), waits_without_start())),
        "ShopUser": object(&["user_id", "credit"], json!({"user_id": id("Its id"), "credit": whole("What it can spend")})),
        "ShopItem": object(&["item_id", "stock", "price"], json!({"item_id": id("Its id"), "stock": whole("How many there are"), "price": whole("What one costs")})),
        "ShopFilled": object(&["count"], json!({"count": whole("Rows that were made or replaced")})),
        "Checkout": object(&["order", "tr", "state"], and(json!({
            "counted": {"type": "boolean", "description": "In an answer to an outside side: whether what it said changed anything"},
            "order": id("The order"), "tr": tr(), "state": state(),
            "charged": {"type": "boolean", "description": "Where it is paid: by this checkout, and not before it"},
            "why": why(),
        }), waits_without_start())),
        "CheckoutStory": object(&["order", "tr", "state", "user", "amount"], story()),
        "CheckoutPage": object(&["checkouts", "next"], json!({
            "checkouts": {"type": "array", "maxItems": 1_000, "items": reference("CheckoutStory")},
            "next": {"type": ["string", "null"], "description": "For `after` of the next page; null at the end"},
        })),
        "ShopProblem": {
            "type": "object",
            "description": "A problem of RFC 9457, with what a program can go by.",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"type": "string", "description": "/problems/NAME", "examples": ["/problems/stock-refused"]},
                "title": {"type": "string", "description": "The same for each problem of the type"},
                "status": {"type": "integer", "description": "The HTTP status"},
                "detail": {"type": "string", "description": "What happened and what to do"},
                "order": id("Which order"), "tr": last_tr(), "state": state(), "why": why(),
                "user": id("Which user"), "credit": whole("What it has"),
                "item": id("Which item"), "stock": whole("How many there are"),
                "since": instant("Where it is open: since when it waits"),
                "deadline": instant("Where it is open: when it is cancelled"),
                "waitsFor": {"type": "array", "items": {"type": "string", "enum": ["pay", "stock"]}},
            },
        },
    })
}

fn waits_without_start() -> Value {
    let mut members = waits();
    if let Value::Object(members) = &mut members {
        for name in ["startedAt", "transfer", "spender"] {
            members.shift_remove(name);
        }
    }
    members
}
