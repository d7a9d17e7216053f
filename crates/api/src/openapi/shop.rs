//! The shop's paths, in both dialects, and what the hub shows of checkouts. Whoever may call them can give credit: a shop's
//! backend holds an operator's key.

use axum::handler::Handler;
use axum::http::Method;
use holdfast_wire::Count;
use holdfast_wire::admin::Text;
use holdfast_wire::limits::SHOP_ID_CHARS_MAX;
use holdfast_wire::shop::{
    Checkout, CheckoutPage, CheckoutStory, Filled, Item, OpenState, Order, PayOutcome, Problem, StockOutcome,
    User, WholeOrder,
};
use serde_json::{Value, json};

use super::operation::{GET, Operation, POST, operation};
use crate::routes::Handled;
use crate::shop::{Course, Proper, Shop, checkouts, orders, payment, stock};
use holdfast_wire::schema::Shape;

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

/// A path of the shop.
fn at<H: Handler<T, Shop>, T: 'static>(
    method: Method,
    path: &'static str,
    handler: H,
    summary: &'static str,
) -> Operation {
    operation(Handled::Shop, method, path, handler, summary)
}

/// One as the course has it.
fn plain(operation: Operation) -> Operation {
    operation
        .says(400, "Every business failure, and ids or numbers that are none; nothing was changed")
        .says(503, "No commands are taken now; after Retry-After")
        .says(504, "No answer in time; the outcome is unknown")
}

/// The same under `/shop`.
fn proper(operation: Operation) -> Operation {
    operation
        .problem(400, "`invalid`: the detail names what is wrong")
        .problem(503, "`unavailable`, `full`: after Retry-After")
        .problem(504, "`no-answer`: the outcome is unknown")
}

/// One about checkouts, among the hub's own.
fn shown(operation: Operation) -> Operation {
    operation.refuses(400, "3101: a parameter, id or body is malformed").asks_the_hub()
}

impl Operation {
    fn says(self, status: u16, what: &str) -> Operation {
        self.answers_as(status, what, "text/plain", Shape::taken::<String>())
    }

    fn problem(self, status: u16, names: &str) -> Operation {
        self.refuses_with::<Problem>(status, names)
    }

    fn numbers(self) -> Operation {
        self.problem(422, "`invalid-number`, `out-of-bounds`")
    }
}

/// As the course has them.
pub(super) fn course_operations() -> Vec<Operation> {
    let one = |member: &str| object(&[member], json!({member: id("A UUID")}));
    let done = || object(&["msg"], json!({"msg": text()}));
    vec![
        plain(at(POST, "/orders/create/{user_id}", orders::create::<Course>, "A new order"))
            .details("Whether there is such a user shows at the checkout.")
            .answers_with(200, "Its id", one("order_id")),
        plain(at(POST, "/orders/batch_init/{n}/{n_items}/{n_users}/{item_price}", orders::batch_init::<Course>, "Orders 0 to n - 1, each with two lines"))
            .details("Of any users and items. Those that are there are replaced, but not while a checkout is open.")
            .answers_with(200, "Done", done()),
        plain(at(GET, "/orders/find/{order_id}", orders::find::<Course>, "An order")).gives::<Order>(200, "The order"),
        plain(at(POST, "/orders/addItem/{order_id}/{item_id}/{quantity}", orders::add_item::<Course>, "A line more for an order"))
            .says(200, "The order with its new price"),
        plain(at(POST, "/orders/checkout/{order_id}", orders::checkout, "Check an order out: charge and take stock, or neither"))
            .details("A paid order answers 200 and is not charged again. A call while a checkout is under way gets its result. 400 goes out when everything is given back.")
            .header("Idempotency-Key", false, KEY, key())
            .says(200, "It is paid")
            .says(504, "The wait is over, the checkout is not (the text says what it waits for); or no answer in time"),
        plain(at(POST, "/payment/create_user", payment::create_user::<Course>, "A new user, without credit"))
            .answers_with(200, "Its id", one("user_id")),
        plain(at(POST, "/payment/batch_init/{n}/{starting_money}", payment::batch_init::<Course>, "Users 0 to n - 1"))
            .answers_with(200, "Done", done()),
        plain(at(GET, "/payment/find_user/{user_id}", payment::find_user::<Course>, "A user")).gives::<User>(200, "The user"),
        plain(at(POST, "/payment/add_funds/{user_id}/{amount}", payment::add_funds::<Course>, "More credit")).says(200, "The new credit"),
        plain(at(POST, "/payment/pay/{user_id}/{amount}", payment::pay::<Course>, "Less credit")).says(200, "The new credit"),
        plain(at(POST, "/stock/item/create/{price}", stock::create::<Course>, "A new item, of which there are none"))
            .answers_with(200, "Its id", one("item_id")),
        plain(at(POST, "/stock/batch_init/{n}/{starting_stock}/{item_price}", stock::batch_init::<Course>, "Items 0 to n - 1"))
            .answers_with(200, "Done", done()),
        plain(at(GET, "/stock/find/{item_id}", stock::find::<Course>, "An item")).answers_with(
            200,
            "The item",
            object(&["stock", "price"], json!({"stock": whole("How many there are"), "price": whole("What one costs")})),
        ),
        plain(at(POST, "/stock/add/{item_id}/{amount}", stock::add::<Course>, "More of an item")).says(200, "The new stock"),
        plain(at(POST, "/stock/subtract/{item_id}/{amount}", stock::subtract::<Course>, "Less of an item")).says(200, "The new stock"),
    ]
}

/// With proper codes.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        proper(at(POST, "/shop/orders/create/{user_id}", orders::create::<Proper>, "A new order"))
            .details("Whether there is such a user shows at the checkout.")
            .gives::<WholeOrder>(201, "The order"),
        proper(at(POST, "/shop/orders/batch_init/{n}/{n_items}/{n_users}/{item_price}", orders::batch_init::<Proper>, "Orders 0 to n - 1, each with two lines"))
            .details("Of any users and items. Those that are there are replaced. At most 1,000,000.")
            .gives::<Filled>(200, "How many")
            .problem(409, "`not-now`: one of them is being checked out; `checkouts-open`: others are, and orders would be replaced")
            .problem(422, "`invalid-number`, `out-of-bounds`, `contradiction`: no user or no item to choose from"),
        proper(at(GET, "/shop/orders/find/{order_id}", orders::find::<Proper>, "An order, and its checkout if one is open"))
            .gives::<WholeOrder>(200, "The order")
            .problem(404, "`unknown-order`"),
        proper(at(POST, "/shop/orders/addItem/{order_id}/{item_id}/{quantity}", orders::add_item::<Proper>, "A line more for an order"))
            .gives::<WholeOrder>(200, "The order")
            .problem(404, "`unknown-order`, `unknown-item`")
            .problem(409, "`not-now`: the order is paid or being checked out")
            .numbers(),
        proper(at(POST, "/shop/orders/checkout/{order_id}", orders::checkout_properly, "Check an order out: charge and take stock, or neither"))
            .details("A paid order answers 200 with `charged` false. A call while a checkout is under way gets its result. A failure goes out when everything is given back.")
            .header("Idempotency-Key", false, KEY, key())
            .query::<Count<1, 86_400_000>>("deadlineMs", "It is cancelled if it is not decided after so long; 1 to 86,400,000; without it as the hub is set")
            .query::<Count<0, 60_000>>("waitMs", "How long to wait for it if it stays open; 0 to 60,000; without it as the hub is set. With 0 the answer is 202")
            .gives::<Checkout>(200, "It is paid")
            .gives::<Checkout>(202, "With `waitMs=0`: it is under way")
            .problem(402, "`payment-refused`, `stock-refused`, `payment-and-stock-refused`")
            .problem(404, "`unknown-order`")
            .problem(409, "`cancelled`, `deadline-passed`, `tries-used-up`")
            .problem(422, "`key-reused`: the key came with another request; `invalid-number`")
            .problem(504, "`checkout-open`: the wait is over, the checkout is not; `no-answer`: the outcome is unknown"),
        proper(at(POST, "/shop/payment/create_user", payment::create_user::<Proper>, "A new user, without credit"))
            .gives::<User>(201, "The user"),
        proper(at(POST, "/shop/payment/batch_init/{n}/{starting_money}", payment::batch_init::<Proper>, "Users 0 to n - 1"))
            .details("Those that are there are replaced. At most 1,000,000.")
            .gives::<Filled>(200, "How many")
            .problem(409, "`checkouts-open`: users would be replaced")
            .numbers(),
        proper(at(GET, "/shop/payment/find_user/{user_id}", payment::find_user::<Proper>, "A user"))
            .gives::<User>(200, "The user")
            .problem(404, "`unknown-user`"),
        proper(at(POST, "/shop/payment/add_funds/{user_id}/{amount}", payment::add_funds::<Proper>, "More credit"))
            .gives::<User>(200, "The user")
            .problem(404, "`unknown-user`")
            .numbers(),
        proper(at(POST, "/shop/payment/pay/{user_id}/{amount}", payment::pay::<Proper>, "Less credit"))
            .gives::<User>(200, "The user")
            .problem(402, "`insufficient-credit`")
            .problem(404, "`unknown-user`")
            .numbers(),
        proper(at(POST, "/shop/stock/item/create/{price}", stock::create::<Proper>, "A new item, of which there are none"))
            .gives::<Item>(201, "The item")
            .numbers(),
        proper(at(POST, "/shop/stock/batch_init/{n}/{starting_stock}/{item_price}", stock::batch_init::<Proper>, "Items 0 to n - 1"))
            .details("Those that are there are replaced. At most 1,000,000.")
            .gives::<Filled>(200, "How many")
            .problem(409, "`checkouts-open`: items would be replaced")
            .numbers(),
        proper(at(GET, "/shop/stock/find/{item_id}", stock::find::<Proper>, "An item"))
            .gives::<Item>(200, "The item")
            .problem(404, "`unknown-item`"),
        proper(at(POST, "/shop/stock/add/{item_id}/{amount}", stock::add::<Proper>, "More of an item"))
            .gives::<Item>(200, "The item")
            .problem(404, "`unknown-item`")
            .numbers(),
        proper(at(POST, "/shop/stock/subtract/{item_id}/{amount}", stock::subtract::<Proper>, "Less of an item"))
            .gives::<Item>(200, "The item")
            .problem(402, "`insufficient-stock`")
            .problem(404, "`unknown-item`")
            .numbers(),
    ]
}

/// What the hub shows of checkouts, among its own paths.
pub(super) fn hub_operations() -> Vec<Operation> {
    let answer = |operation: Operation| {
        operation
            .details("For a side that is outside. A repeat, and what comes when the try is over, is heard and changes nothing.")
            .gives::<Checkout>(200, "How the checkout stands")
            .refuses(404, "3200: there is no such order or try")
            .refuses(409, "3100: that side is inside for this try")
    };
    vec![
        shown(at(GET, "/hub/checkouts", checkouts::list, "Open checkouts, the oldest first"))
            .query::<OpenState>("state", "Only those that are `pending` or `cancelling`")
            .paged::<Text>()
            .gives::<CheckoutPage>(200, "A page"),
        shown(at(
            GET,
            "/hub/checkouts/{order}",
            checkouts::show,
            "One order, whether a checkout of it is open or not",
        ))
        .gives::<CheckoutStory>(200, "The order")
        .refuses(404, "3200: there is no such order"),
        shown(at(
            POST,
            "/hub/checkouts/{order}/cancel",
            checkouts::cancel,
            "End a checkout that is not decided",
        ))
        .details("What it took is given back; this does not wait for an outside side that has to.")
        .gives::<Checkout>(200, "How the checkout stands")
        .refuses(404, "3200: there is no such order")
        .refuses(409, "3100: nothing undecided is under way"),
        shown(at(
            POST,
            "/hub/checkouts/{order}/retry",
            checkouts::retry,
            "Send again what was not answered, or check a failed order out anew",
        ))
        .details("Does not wait.")
        .gives::<Checkout>(200, "How the checkout stands")
        .refuses(404, "3200: there is no such order")
        .refuses(409, "3100: the order is paid, or was never tried"),
        answer(shown(at(
            POST,
            "/hub/checkouts/{order}/{tr}/pay",
            checkouts::pay_answers,
            "What the payment side says about a try",
        )))
        .takes::<PayOutcome>(),
        answer(shown(at(
            POST,
            "/hub/checkouts/{order}/{tr}/stock",
            checkouts::stock_answers,
            "What the stock side says about a try",
        )))
        .takes::<StockOutcome>(),
    ]
}
