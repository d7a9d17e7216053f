//! Every path, once: verb, path, who may call it, and the handler.
//!
//! The router is made from this table and so is the list that the OpenAPI document is held against: a path that is
//! served and not described, or described and not served, fails a test. Who may call a path stands beside it, so a
//! new path cannot be left without a rule. So does in which profiles it exists.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::admin::{accounts, endpoints, funds, limits, participants};
use crate::gate::{self, Access};
use crate::shop::{Course, Proper, Shop, checkouts, orders, payment, stock};
use crate::tokens::{Wallets, commands, holdings, locks};
use crate::{Edge, backup, batch, error, fspiop, health, openapi, views};
use holdfast_engine::{self as engine, Profile};

/// One verb on one path.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    handler: Handled,
}

/// Before which engines a path exists. A handler that reaches for a part of an engine cannot stand where it is missing: its
/// type says so.
enum Handled {
    Everywhere(MethodRouter<Edge>),
    /// Where the engine keeps its data itself.
    Upkeep(MethodRouter<Arc<dyn engine::Upkeep>>),
    /// Everywhere, before whatever vault there is.
    Wallets(MethodRouter<Wallets>),
    /// Everywhere, before whatever shop there is.
    Shop(MethodRouter<Shop>),
}

impl Route {
    /// Whether that profile has this path.
    pub(crate) const fn is_in(&self, profile: Profile) -> bool {
        match (&self.handler, profile) {
            (Handled::Everywhere(_) | Handled::Wallets(_) | Handled::Shop(_), _)
            | (Handled::Upkeep(_), Profile::Embedded) => true,
            (Handled::Upkeep(_), Profile::Database) => false,
        }
    }
}

fn filter(method: &Method) -> MethodFilter {
    MethodFilter::try_from(method.clone()).expect("the table has common verbs only")
}

/// One line of the table. `served`: in which profiles, and so before what.
fn route<H, T, S>(
    served: fn(MethodRouter<S>) -> Handled,
    method: &Method,
    path: &'static str,
    access: Access,
    handler: H,
) -> Route
where
    H: Handler<T, S>,
    T: 'static,
    S: Clone + Send + Sync + 'static,
{
    let handler = served(on(filter(method), handler));
    Route { method: method.clone(), path, access, handler }
}

const GET: &Method = &Method::GET;
const POST: &Method = &Method::POST;
const PUT: &Method = &Method::PUT;
const PATCH: &Method = &Method::PATCH;
const DELETE: &Method = &Method::DELETE;

/// The table, group by group.
pub(crate) fn table() -> Vec<Route> {
    use Access::{Batch, Metrics, Open, Operator, Participant};
    use Handled::{Everywhere, Shop, Upkeep, Wallets};
    vec![
        // The operator's paths, as central-ledger has them.
        route(Everywhere, GET, "/participants", Operator, participants::list),
        route(Everywhere, POST, "/participants", Operator, participants::create),
        route(Everywhere, GET, "/participants/limits", Operator, limits::list_all),
        route(Everywhere, GET, "/participants/{name}", Operator, participants::show),
        route(Everywhere, PUT, "/participants/{name}", Operator, participants::set_active),
        route(
            Everywhere,
            POST,
            "/participants/{name}/initialPositionAndLimits",
            Operator,
            limits::initialize,
        ),
        route(Everywhere, GET, "/participants/{name}/limits", Operator, limits::list),
        route(Everywhere, PUT, "/participants/{name}/limits", Operator, limits::set),
        route(Everywhere, GET, "/participants/{name}/positions", Operator, accounts::positions),
        route(Everywhere, GET, "/participants/{name}/accounts", Operator, accounts::list),
        route(Everywhere, POST, "/participants/{name}/accounts", Operator, accounts::create),
        route(Everywhere, POST, "/participants/{name}/accounts/{id}", Operator, funds::record),
        route(Everywhere, PUT, "/participants/{name}/accounts/{id}", Operator, accounts::set_active),
        route(
            Everywhere,
            PUT,
            "/participants/{name}/accounts/{id}/transfers/{transferId}",
            Operator,
            funds::end,
        ),
        route(Everywhere, GET, "/participants/{name}/endpoints", Operator, endpoints::list),
        route(Everywhere, POST, "/participants/{name}/endpoints", Operator, endpoints::set),
        // The participants' paths, FSPIOP 1.1.
        route(Everywhere, POST, "/transfers", Participant, fspiop::post),
        route(Everywhere, GET, "/transfers/{id}", Participant, fspiop::get),
        route(Everywhere, PUT, "/transfers/{id}", Participant, fspiop::put),
        route(Everywhere, PATCH, "/transfers/{id}", Participant, fspiop::patch),
        route(Everywhere, PUT, "/transfers/{id}/error", Participant, fspiop::put_error),
        // The wallets' paths. Whoever may call them can issue, and spend from any wallet: their backends hold an
        // operator's key.
        route(Wallets, POST, "/tokens/issue", Operator, commands::issue),
        route(Wallets, POST, "/tokens/select", Operator, commands::select),
        route(Wallets, POST, "/tokens/spend", Operator, commands::spend),
        route(Wallets, POST, "/tokens/redeem", Operator, commands::redeem),
        route(Wallets, POST, "/tokens/updates", Operator, commands::updates),
        route(Wallets, POST, "/tokens/consolidate", Operator, commands::consolidate),
        route(Wallets, GET, "/tokens", Operator, holdings::list),
        route(Wallets, GET, "/tokens/balance", Operator, holdings::balance),
        route(Wallets, GET, "/tokens/locks", Operator, locks::list),
        route(Wallets, POST, "/tokens/locks/{spender}/renew", Operator, locks::renew),
        route(Wallets, DELETE, "/tokens/locks/{spender}", Operator, locks::release),
        // The shop's paths as the course has them, and the same with proper codes. Whoever may call them can give credit:
        // a shop's backend holds an operator's key.
        route(Shop, POST, "/orders/create/{user_id}", Operator, orders::create::<Course>),
        route(
            Shop,
            POST,
            "/orders/batch_init/{n}/{n_items}/{n_users}/{item_price}",
            Operator,
            orders::batch_init::<Course>,
        ),
        route(Shop, GET, "/orders/find/{order_id}", Operator, orders::find::<Course>),
        route(
            Shop,
            POST,
            "/orders/addItem/{order_id}/{item_id}/{quantity}",
            Operator,
            orders::add_item::<Course>,
        ),
        route(Shop, POST, "/orders/checkout/{order_id}", Operator, orders::checkout),
        route(Shop, POST, "/payment/create_user", Operator, payment::create_user::<Course>),
        route(
            Shop,
            POST,
            "/payment/batch_init/{n}/{starting_money}",
            Operator,
            payment::batch_init::<Course>,
        ),
        route(Shop, GET, "/payment/find_user/{user_id}", Operator, payment::find_user::<Course>),
        route(Shop, POST, "/payment/add_funds/{user_id}/{amount}", Operator, payment::add_funds::<Course>),
        route(Shop, POST, "/payment/pay/{user_id}/{amount}", Operator, payment::pay::<Course>),
        route(Shop, POST, "/stock/item/create/{price}", Operator, stock::create::<Course>),
        route(
            Shop,
            POST,
            "/stock/batch_init/{n}/{starting_stock}/{item_price}",
            Operator,
            stock::batch_init::<Course>,
        ),
        route(Shop, GET, "/stock/find/{item_id}", Operator, stock::find::<Course>),
        route(Shop, POST, "/stock/add/{item_id}/{amount}", Operator, stock::add::<Course>),
        route(Shop, POST, "/stock/subtract/{item_id}/{amount}", Operator, stock::subtract::<Course>),
        route(Shop, POST, "/shop/orders/create/{user_id}", Operator, orders::create::<Proper>),
        route(
            Shop,
            POST,
            "/shop/orders/batch_init/{n}/{n_items}/{n_users}/{item_price}",
            Operator,
            orders::batch_init::<Proper>,
        ),
        route(Shop, GET, "/shop/orders/find/{order_id}", Operator, orders::find::<Proper>),
        route(
            Shop,
            POST,
            "/shop/orders/addItem/{order_id}/{item_id}/{quantity}",
            Operator,
            orders::add_item::<Proper>,
        ),
        route(Shop, POST, "/shop/orders/checkout/{order_id}", Operator, orders::checkout_properly),
        route(Shop, POST, "/shop/payment/create_user", Operator, payment::create_user::<Proper>),
        route(
            Shop,
            POST,
            "/shop/payment/batch_init/{n}/{starting_money}",
            Operator,
            payment::batch_init::<Proper>,
        ),
        route(Shop, GET, "/shop/payment/find_user/{user_id}", Operator, payment::find_user::<Proper>),
        route(
            Shop,
            POST,
            "/shop/payment/add_funds/{user_id}/{amount}",
            Operator,
            payment::add_funds::<Proper>,
        ),
        route(Shop, POST, "/shop/payment/pay/{user_id}/{amount}", Operator, payment::pay::<Proper>),
        route(Shop, POST, "/shop/stock/item/create/{price}", Operator, stock::create::<Proper>),
        route(
            Shop,
            POST,
            "/shop/stock/batch_init/{n}/{starting_stock}/{item_price}",
            Operator,
            stock::batch_init::<Proper>,
        ),
        route(Shop, GET, "/shop/stock/find/{item_id}", Operator, stock::find::<Proper>),
        route(Shop, POST, "/shop/stock/add/{item_id}/{amount}", Operator, stock::add::<Proper>),
        route(Shop, POST, "/shop/stock/subtract/{item_id}/{amount}", Operator, stock::subtract::<Proper>),
        // The hub's own paths.
        route(Everywhere, POST, "/hub/batch", Batch, batch::batch),
        route(Everywhere, GET, "/hub/transfers", Operator, views::transfers::transfers),
        route(Everywhere, GET, "/hub/transfers/{id}", Operator, views::transfers::transfer),
        route(Everywhere, GET, "/hub/holds", Operator, views::holds::holds),
        route(Everywhere, GET, "/hub/stats", Operator, views::stats::stats),
        route(Shop, GET, "/hub/checkouts", Operator, checkouts::list),
        route(Shop, GET, "/hub/checkouts/{order}", Operator, checkouts::show),
        route(Shop, POST, "/hub/checkouts/{order}/cancel", Operator, checkouts::cancel),
        route(Shop, POST, "/hub/checkouts/{order}/retry", Operator, checkouts::retry),
        route(Shop, POST, "/hub/checkouts/{order}/{tr}/pay", Operator, checkouts::pay_answers),
        route(Shop, POST, "/hub/checkouts/{order}/{tr}/stock", Operator, checkouts::stock_answers),
        route(Everywhere, GET, "/hub/dead-letters", Operator, views::dead_letters::list),
        route(Everywhere, POST, "/hub/dead-letters/retry", Operator, views::dead_letters::retry_all),
        route(Everywhere, POST, "/hub/dead-letters/{number}/retry", Operator, views::dead_letters::retry),
        route(Upkeep, GET, "/hub/backup", Operator, backup::show),
        route(Upkeep, POST, "/hub/backup", Operator, backup::begin),
        route(Upkeep, POST, "/hub/clock/confirm", Operator, health::confirm_clock),
        route(Everywhere, GET, "/health", Open, health::health),
        route(Everywhere, GET, "/metrics", Metrics, health::metrics),
        route(Everywhere, GET, "/openapi.json", Open, openapi::document_as_json),
        route(Everywhere, GET, "/docs", Open, openapi::page),
    ]
}

/// All paths that the engine behind this edge has, each behind its rule, and all of them behind the gate.
pub fn router(edge: Edge) -> Router {
    let mut router = Router::new();
    let (upkeep, of_vault, of_shop) = (edge.engine.upkeep(), Wallets::of(&edge), edge.shop.clone());
    for Route { path, access, handler, .. } in table() {
        let rule = from_fn_with_state(access.at(&edge.gate), gate::admit);
        router = match handler {
            Handled::Everywhere(handler) => routed(router, path, handler.route_layer(rule), Some(&edge)),
            Handled::Upkeep(handler) => routed(router, path, handler.route_layer(rule), upkeep.as_ref()),
            Handled::Wallets(handler) => routed(router, path, handler.route_layer(rule), of_vault.as_ref()),
            Handled::Shop(handler) => routed(router, path, handler.route_layer(rule), of_shop.as_ref()),
        };
    }
    router
        .fallback(error::unknown_path)
        .method_not_allowed_fallback(error::wrong_verb)
        .layer(from_fn_with_state(edge, gate::enter))
}

/// The same with one more path, if there is what its handler reaches for.
fn routed<S: Clone + Send + Sync + 'static>(
    router: Router,
    path: &str,
    handler: MethodRouter<S>,
    state: Option<&S>,
) -> Router {
    match state {
        Some(state) => router.route(path, handler.with_state(state.clone())),
        None => router,
    }
}
