//! The router: every row of the table in `openapi`, each behind its rule, and all of them behind the gate.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::MethodRouter;

use crate::gate;
use crate::openapi::Operation;
use crate::shop::Shop;
use crate::tokens::Wallets;
use crate::{Edge, error, openapi};
use holdfast_engine::{self as engine, Profile};

/// Before which engines a path exists. A handler that reaches for a part of an engine cannot stand where it is missing: its
/// type says so.
pub(crate) enum Handled {
    Everywhere(MethodRouter<Edge>),
    /// Where the engine keeps its data itself.
    Upkeep(MethodRouter<Arc<dyn engine::Upkeep>>),
    /// Everywhere, before whatever vault there is.
    Wallets(MethodRouter<Wallets>),
    /// Everywhere, before whatever shop there is.
    Shop(MethodRouter<Shop>),
}

impl Handled {
    /// Whether that profile has this path.
    pub(crate) const fn is_in(&self, profile: Profile) -> bool {
        match (self, profile) {
            (Handled::Everywhere(_) | Handled::Wallets(_) | Handled::Shop(_), _)
            | (Handled::Upkeep(_), Profile::Embedded) => true,
            (Handled::Upkeep(_), Profile::Database) => false,
        }
    }
}

/// All paths that the engine behind this edge has, each behind its rule, and all of them behind the gate.
pub fn router(edge: Edge) -> Router {
    let mut router = Router::new();
    let (upkeep, of_vault, of_shop) = (edge.engine.upkeep(), Wallets::of(&edge), edge.shop.clone());
    for Operation { path, access, handler, .. } in openapi::operations() {
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
