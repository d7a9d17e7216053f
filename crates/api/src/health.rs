//! `/health`, `/metrics`, and the operator's word on the clock.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use holdfast_engine::clock::{Clock, SystemClock};
use holdfast_wire as wire;
use holdfast_wire::views::{Health, HealthPart, HealthStatus};

use crate::Edge;
use holdfast_engine::{Component, Upkeep};

/// When this process began to serve.
pub(crate) struct Started {
    wall: wire::Instant,
    since: Instant,
}

impl Started {
    pub(crate) fn now() -> Started {
        Started { wall: wire::Instant(SystemClock::new().read().wall), since: Instant::now() }
    }
}

/// 200 when commands are taken, else 503, with each part and its reason.
pub(crate) async fn health(State(edge): State<Edge>) -> Response {
    let components = edge.engine.health();
    let part = |component: &Component| HealthPart {
        name: component.name.to_string(),
        status: HealthStatus::of(component.fault.is_none()),
        reason: component.fault.clone(),
    };
    let ready = components.iter().all(|component| component.fault.is_none());
    let body = Health {
        status: HealthStatus::of(ready),
        uptime: edge.started.since.elapsed().as_secs(),
        start_time: edge.started.wall,
        version_number: env!("CARGO_PKG_VERSION").to_owned(),
        services: components.iter().map(part).collect(),
    };
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
