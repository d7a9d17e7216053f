//! Every path, once: verb, path, who may call it, and the handler.
//!
//! The router is made from this table and so is the list that the OpenAPI document is held against: a path that is
//! served and not described, or described and not served, fails a test. Who may call a path stands beside it, so a
//! new path cannot be left without a rule.

use axum::Router;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::admin::{accounts, endpoints, funds, limits, participants, positions};
use crate::callbacks::views as dead_letters;
use crate::gate::{self, Access};
use crate::shop::{Course, Proper, checkouts, orders, payment, stock};
use crate::tokens::{holdings, locks, select, spend, supply};
use crate::{Edge, backup, batch, error, fspiop, health, openapi, views};

/// One verb on one path.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    handler: MethodRouter<Edge>,
}

/// One line of the table.
fn route<H, T>(method: &Method, path: &'static str, access: Access, handler: H) -> Route
where
    H: axum::handler::Handler<T, Edge>,
    T: 'static,
{
    let filter = MethodFilter::try_from(method.clone()).expect("the table has common verbs only");
    Route { method: method.clone(), path, access, handler: on(filter, handler) }
}

const GET: &Method = &Method::GET;
const POST: &Method = &Method::POST;
const PUT: &Method = &Method::PUT;
const PATCH: &Method = &Method::PATCH;
const DELETE: &Method = &Method::DELETE;

/// The table, group by group.
pub(crate) fn table() -> Vec<Route> {
    use Access::{Batch, Metrics, Open, Operator, Participant};
    vec![
        // The operator's paths, as central-ledger has them.
        route(GET, "/participants", Operator, participants::list),
        route(POST, "/participants", Operator, participants::create),
        route(GET, "/participants/limits", Operator, limits::list_all),
        route(GET, "/participants/{name}", Operator, participants::show),
        route(PUT, "/participants/{name}", Operator, participants::set_active),
        route(POST, "/participants/{name}/initialPositionAndLimits", Operator, limits::initialize),
        route(GET, "/participants/{name}/limits", Operator, limits::list),
        route(PUT, "/participants/{name}/limits", Operator, limits::set),
        route(GET, "/participants/{name}/positions", Operator, positions::list),
        route(GET, "/participants/{name}/accounts", Operator, accounts::list),
        route(POST, "/participants/{name}/accounts", Operator, accounts::create),
        route(POST, "/participants/{name}/accounts/{id}", Operator, funds::record),
        route(PUT, "/participants/{name}/accounts/{id}", Operator, accounts::set_active),
        route(PUT, "/participants/{name}/accounts/{id}/transfers/{transferId}", Operator, funds::end),
        route(GET, "/participants/{name}/endpoints", Operator, endpoints::list),
        route(POST, "/participants/{name}/endpoints", Operator, endpoints::set),
        // The participants' paths, FSPIOP 1.1.
        route(POST, "/transfers", Participant, fspiop::post),
        route(GET, "/transfers/{id}", Participant, fspiop::get),
        route(PUT, "/transfers/{id}", Participant, fspiop::put),
        route(PATCH, "/transfers/{id}", Participant, fspiop::patch),
        route(PUT, "/transfers/{id}/error", Participant, fspiop::put_error),
        // The wallets' paths. Whoever may call them can issue, and spend from any wallet: their backends hold an
        // operator's key.
        route(POST, "/tokens/issue", Operator, supply::issue),
        route(POST, "/tokens/select", Operator, select::select),
        route(POST, "/tokens/spend", Operator, spend::spend),
        route(POST, "/tokens/redeem", Operator, spend::redeem),
        route(POST, "/tokens/updates", Operator, supply::updates),
        route(POST, "/tokens/consolidate", Operator, spend::consolidate),
        route(GET, "/tokens", Operator, holdings::list),
        route(GET, "/tokens/balance", Operator, holdings::balance),
        route(GET, "/tokens/locks", Operator, locks::list),
        route(POST, "/tokens/locks/{spender}/renew", Operator, locks::renew),
        route(DELETE, "/tokens/locks/{spender}", Operator, locks::release),
        // The shop's paths as the course has them, and the same with proper codes. Whoever may call them can give credit:
        // a shop's backend holds an operator's key.
        route(POST, "/orders/create/{user_id}", Operator, orders::create::<Course>),
        route(
            POST,
            "/orders/batch_init/{n}/{n_items}/{n_users}/{item_price}",
            Operator,
            orders::batch_init::<Course>,
        ),
        route(GET, "/orders/find/{order_id}", Operator, orders::find::<Course>),
        route(POST, "/orders/addItem/{order_id}/{item_id}/{quantity}", Operator, orders::add_item::<Course>),
        route(POST, "/orders/checkout/{order_id}", Operator, orders::checkout),
        route(POST, "/payment/create_user", Operator, payment::create_user::<Course>),
        route(POST, "/payment/batch_init/{n}/{starting_money}", Operator, payment::batch_init::<Course>),
        route(GET, "/payment/find_user/{user_id}", Operator, payment::find_user::<Course>),
        route(POST, "/payment/add_funds/{user_id}/{amount}", Operator, payment::add_funds::<Course>),
        route(POST, "/payment/pay/{user_id}/{amount}", Operator, payment::pay::<Course>),
        route(POST, "/stock/item/create/{price}", Operator, stock::create::<Course>),
        route(
            POST,
            "/stock/batch_init/{n}/{starting_stock}/{item_price}",
            Operator,
            stock::batch_init::<Course>,
        ),
        route(GET, "/stock/find/{item_id}", Operator, stock::find::<Course>),
        route(POST, "/stock/add/{item_id}/{amount}", Operator, stock::add::<Course>),
        route(POST, "/stock/subtract/{item_id}/{amount}", Operator, stock::subtract::<Course>),
        route(POST, "/shop/orders/create/{user_id}", Operator, orders::create::<Proper>),
        route(
            POST,
            "/shop/orders/batch_init/{n}/{n_items}/{n_users}/{item_price}",
            Operator,
            orders::batch_init::<Proper>,
        ),
        route(GET, "/shop/orders/find/{order_id}", Operator, orders::find::<Proper>),
        route(
            POST,
            "/shop/orders/addItem/{order_id}/{item_id}/{quantity}",
            Operator,
            orders::add_item::<Proper>,
        ),
        route(POST, "/shop/orders/checkout/{order_id}", Operator, orders::checkout_properly),
        route(POST, "/shop/payment/create_user", Operator, payment::create_user::<Proper>),
        route(POST, "/shop/payment/batch_init/{n}/{starting_money}", Operator, payment::batch_init::<Proper>),
        route(GET, "/shop/payment/find_user/{user_id}", Operator, payment::find_user::<Proper>),
        route(POST, "/shop/payment/add_funds/{user_id}/{amount}", Operator, payment::add_funds::<Proper>),
        route(POST, "/shop/payment/pay/{user_id}/{amount}", Operator, payment::pay::<Proper>),
        route(POST, "/shop/stock/item/create/{price}", Operator, stock::create::<Proper>),
        route(
            POST,
            "/shop/stock/batch_init/{n}/{starting_stock}/{item_price}",
            Operator,
            stock::batch_init::<Proper>,
        ),
        route(GET, "/shop/stock/find/{item_id}", Operator, stock::find::<Proper>),
        route(POST, "/shop/stock/add/{item_id}/{amount}", Operator, stock::add::<Proper>),
        route(POST, "/shop/stock/subtract/{item_id}/{amount}", Operator, stock::subtract::<Proper>),
        // The hub's own paths.
        route(POST, "/hub/batch", Batch, batch::batch),
        route(GET, "/hub/transfers", Operator, views::transfers::transfers),
        route(GET, "/hub/transfers/{id}", Operator, views::transfer::transfer),
        route(GET, "/hub/holds", Operator, views::holds::holds),
        route(GET, "/hub/stats", Operator, views::stats::stats),
        route(GET, "/hub/checkouts", Operator, checkouts::list),
        route(GET, "/hub/checkouts/{order}", Operator, checkouts::show),
        route(POST, "/hub/checkouts/{order}/cancel", Operator, checkouts::cancel),
        route(POST, "/hub/checkouts/{order}/retry", Operator, checkouts::retry),
        route(POST, "/hub/checkouts/{order}/{tr}/pay", Operator, checkouts::pay_answers),
        route(POST, "/hub/checkouts/{order}/{tr}/stock", Operator, checkouts::stock_answers),
        route(GET, "/hub/dead-letters", Operator, dead_letters::list),
        route(POST, "/hub/dead-letters/retry", Operator, dead_letters::retry_all),
        route(POST, "/hub/dead-letters/{number}/retry", Operator, dead_letters::retry),
        route(GET, "/hub/backup", Operator, backup::show),
        route(POST, "/hub/backup", Operator, backup::begin),
        route(POST, "/hub/clock/confirm", Operator, health::confirm_clock),
        route(GET, "/health", Open, health::health),
        route(GET, "/metrics", Metrics, health::metrics),
        route(GET, "/openapi.json", Open, openapi::document_as_json),
        route(GET, "/docs", Open, openapi::page),
    ]
}

/// All paths, each behind its rule, and all of them behind the gate.
pub fn router(edge: Edge) -> Router {
    let mut router = Router::new();
    for Route { path, access, handler, .. } in table() {
        let rule = from_fn_with_state(access.at(&edge.gate), gate::admit);
        router = router.route(path, handler.route_layer(rule));
    }
    router
        .fallback(error::unknown_path)
        .method_not_allowed_fallback(error::wrong_verb)
        .layer(from_fn_with_state(edge.clone(), gate::enter))
        .with_state(edge)
}
