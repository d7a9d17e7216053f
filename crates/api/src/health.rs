//! `/health`, `/metrics`, and the operator's word on the clock.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use holdfast_engine::clock::{Clock, SystemClock};
use serde_json::json;

use crate::{Edge, times};
use holdfast_engine::{Component, Upkeep};

/// When this process began to serve.
pub(crate) struct Started {
    wall: String,
    since: Instant,
}

impl Started {
    pub(crate) fn now() -> Started {
        Started { wall: times::format(SystemClock::new().read().wall), since: Instant::now() }
    }
}

/// 200 when commands are taken, else 503, with each part and its reason.
pub(crate) async fn health(State(edge): State<Edge>) -> Response {
    let components = edge.engine.health();
    let part = |Component { name, fault }: &Component| match fault {
        None => json!({"name": name, "status": "OK"}),
        Some(reason) => json!({"name": name, "status": "DOWN", "reason": reason}),
    };
    let ready = components.iter().all(|component| component.fault.is_none());
    let services: Vec<_> = components.iter().map(part).collect();
    let body = json!({
        "status": if ready { "OK" } else { "DOWN" },
        "uptime": edge.started.since.elapsed().as_secs(),
        "startTime": edge.started.wall,
        "versionNumber": env!("CARGO_PKG_VERSION"),
        "services": services,
    });
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(body)).into_response()
}

/// Prometheus text.
pub(crate) async fn metrics(State(edge): State<Edge>) -> Response {
    edge.engine.publish_metrics().await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], edge.metrics.render()).into_response()
}

/// An operator says that the wall clock is right as it stands.
pub(crate) async fn confirm_clock(State(upkeep): State<Arc<dyn Upkeep>>) -> StatusCode {
    upkeep.confirm_clock();
    StatusCode::ACCEPTED
}
