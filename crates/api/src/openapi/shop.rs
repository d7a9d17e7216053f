//! The shop's paths, in both dialects, and what the hub shows of checkouts.

use axum::http::Method;
use holdfast_wire::Count;
use holdfast_wire::admin::Text;
use holdfast_wire::limits::SHOP_ID_CHARS_MAX;
use holdfast_wire::shop::{
    Checkout, CheckoutPage, CheckoutStory, Filled, Item, OpenState, Order, PayOutcome, Problem, StockOutcome,
    User, WholeOrder,
};
use serde_json::{Value, json};

use super::operation::{Operation, operation};

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
    json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX, "description": what})
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
        self.refuses_with::<Problem>(status, names)
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
        plain(get(), "/orders/find/{order_id}", "An order").gives::<Order>(200, "The order"),
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
        plain(get(), "/payment/find_user/{user_id}", "A user").gives::<User>(200, "The user"),
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
    vec![
        proper(post(), "/shop/orders/create/{user_id}", "A new order")
            .details("Whether there is such a user shows at the checkout.")
            .gives::<WholeOrder>(201, "The order"),
        proper(
            post(),
            "/shop/orders/batch_init/{n}/{n_items}/{n_users}/{item_price}",
            "Orders 0 to n - 1, each with two lines",
        )
        .details("Of any users and items. Those that are there are replaced. At most 1,000,000.")
        .gives::<Filled>(200, "How many")
        .problem(409, "`not-now`: one of them is being checked out; `checkouts-open`: others are, and orders would be replaced")
        .problem(422, "`invalid-number`, `out-of-bounds`, `contradiction`: no user or no item to choose from"),
        proper(get(), "/shop/orders/find/{order_id}", "An order, and its checkout if one is open")
            .gives::<WholeOrder>(200, "The order")
            .problem(404, "`unknown-order`"),
        proper(post(), "/shop/orders/addItem/{order_id}/{item_id}/{quantity}", "A line more for an order")
            .gives::<WholeOrder>(200, "The order")
            .problem(404, "`unknown-order`, `unknown-item`")
            .problem(409, "`not-now`: the order is paid or being checked out")
            .numbers(),
        proper(post(), "/shop/orders/checkout/{order_id}", "Check an order out: charge and take stock, or neither")
            .details("A paid order answers 200 with `charged` false. A call while a checkout is under way gets its result. A failure goes out when everything is given back.")
            .header("Idempotency-Key", false, KEY, &key())
            .query::<Count<1, 86_400_000>>("deadlineMs", "It is cancelled if it is not decided after so long; 1 to 86,400,000; without it as the hub is set")
            .query::<Count<0, 60_000>>("waitMs", "How long to wait for it if it stays open; 0 to 60,000; without it as the hub is set. With 0 the answer is 202")
            .gives::<Checkout>(200, "It is paid")
            .gives::<Checkout>(202, "With `waitMs=0`: it is under way")
            .problem(402, "`payment-refused`, `stock-refused`, `payment-and-stock-refused`")
            .problem(404, "`unknown-order`")
            .problem(409, "`cancelled`, `deadline-passed`, `tries-used-up`")
            .problem(422, "`key-reused`: the key came with another request; `invalid-number`")
            .problem(504, "`checkout-open`: the wait is over, the checkout is not; `no-answer`: the outcome is unknown"),
        proper(post(), "/shop/payment/create_user", "A new user, without credit")
            .gives::<User>(201, "The user"),
        proper(post(), "/shop/payment/batch_init/{n}/{starting_money}", "Users 0 to n - 1")
            .details("Those that are there are replaced. At most 1,000,000.")
            .gives::<Filled>(200, "How many")
            .problem(409, "`checkouts-open`: users would be replaced")
            .numbers(),
        proper(get(), "/shop/payment/find_user/{user_id}", "A user")
            .gives::<User>(200, "The user")
            .problem(404, "`unknown-user`"),
        proper(post(), "/shop/payment/add_funds/{user_id}/{amount}", "More credit")
            .gives::<User>(200, "The user")
            .problem(404, "`unknown-user`")
            .numbers(),
        proper(post(), "/shop/payment/pay/{user_id}/{amount}", "Less credit")
            .gives::<User>(200, "The user")
            .problem(402, "`insufficient-credit`")
            .problem(404, "`unknown-user`")
            .numbers(),
        proper(post(), "/shop/stock/item/create/{price}", "A new item, of which there are none")
            .gives::<Item>(201, "The item")
            .numbers(),
        proper(post(), "/shop/stock/batch_init/{n}/{starting_stock}/{item_price}", "Items 0 to n - 1")
            .details("Those that are there are replaced. At most 1,000,000.")
            .gives::<Filled>(200, "How many")
            .problem(409, "`checkouts-open`: items would be replaced")
            .numbers(),
        proper(get(), "/shop/stock/find/{item_id}", "An item")
            .gives::<Item>(200, "The item")
            .problem(404, "`unknown-item`"),
        proper(post(), "/shop/stock/add/{item_id}/{amount}", "More of an item")
            .gives::<Item>(200, "The item")
            .problem(404, "`unknown-item`")
            .numbers(),
        proper(post(), "/shop/stock/subtract/{item_id}/{amount}", "Less of an item")
            .gives::<Item>(200, "The item")
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
    let answer = |path: &'static str, side: &'static str| {
        at(Method::POST, path, side)
            .details("For a side that is outside. A repeat, and what comes when the try is over, is heard and changes nothing.")
            .gives::<Checkout>(200, "How the checkout stands")
            .refuses(404, "3200: there is no such order or try")
            .refuses(409, "3100: that side is inside for this try")
    };
    vec![
        at(Method::GET, "/hub/checkouts", "Open checkouts, the oldest first")
            .query::<OpenState>("state", "Only those that are `pending` or `cancelling`")
            .paged::<Text>()
            .gives::<CheckoutPage>(200, "A page"),
        at(Method::GET, "/hub/checkouts/{order}", "One order, whether a checkout of it is open or not")
            .gives::<CheckoutStory>(200, "The order")
            .refuses(404, "3200: there is no such order"),
        at(Method::POST, "/hub/checkouts/{order}/cancel", "End a checkout that is not decided")
            .details("What it took is given back; this does not wait for an outside side that has to.")
            .gives::<Checkout>(200, "How the checkout stands")
            .refuses(404, "3200: there is no such order")
            .refuses(409, "3100: nothing undecided is under way"),
        at(
            Method::POST,
            "/hub/checkouts/{order}/retry",
            "Send again what was not answered, or check a failed order out anew",
        )
        .details("Does not wait.")
        .gives::<Checkout>(200, "How the checkout stands")
        .refuses(404, "3200: there is no such order")
        .refuses(409, "3100: the order is paid, or was never tried"),
        answer("/hub/checkouts/{order}/{tr}/pay", "What the payment side says about a try")
            .takes::<PayOutcome>(),
        answer("/hub/checkouts/{order}/{tr}/stock", "What the stock side says about a try")
            .takes::<StockOutcome>(),
    ]
}
