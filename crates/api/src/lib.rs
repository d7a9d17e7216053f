//! The HTTP edge: shape, then hub, then answer. Nothing is decided here.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `limits` | sizes, waits and connections, each with its name |
//! | `server`, `stream` | accepting connections, bounding them, ending them in good order |
//! | `same_site` | who may speak to a hub without keys |
//! | `batch` | `POST /hub/batch` |
//! | `views` | `GET /hub/…`: transfers, holds, stats |
//! | `health` | `/health`, `/metrics`, confirming the clock |
//! | `error` | refusals as the standard's `errorInformation` |
//! | `times` | instants as text |

mod batch;
mod error;
mod health;
pub mod limits;
mod same_site;
mod server;
mod stream;
mod times;
mod views;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use holdfast_hub::HubHandle;
use metrics_exporter_prometheus::PrometheusHandle;

pub use server::{connections_possible, serve};

/// What every handler can reach.
#[derive(Clone)]
pub struct Edge {
    hub: HubHandle,
    metrics: PrometheusHandle,
    started: Arc<health::Started>,
    parse: metrics::Counter,
    bodies: Arc<tokio::sync::Semaphore>,
}

impl Edge {
    /// The edge of a hub, whose metrics go to the recorder behind `metrics`.
    #[must_use]
    pub fn new(hub: HubHandle, metrics: PrometheusHandle) -> Edge {
        let parse = metrics::counter!("holdfast_stage_nanoseconds_total", "stage" => "parse");
        let bodies =
            Arc::new(tokio::sync::Semaphore::new(limits::BODY_BYTES_MAX / limits::BODY_PERMIT_BYTES));
        Edge { hub, metrics, started: Arc::new(health::Started::now()), parse, bodies }
    }
}

/// Installs the recorder that `/metrics` shows. Once per process, before anything counts.
///
/// # Errors
/// If a recorder is there already.
pub fn install_metrics() -> Result<PrometheusHandle, metrics_exporter_prometheus::BuildError> {
    metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder()
}

/// All paths.
pub fn router(edge: Edge) -> Router {
    Router::new()
        .route("/hub/batch", post(batch::batch))
        .route("/hub/transfers/{id}", get(views::transfer::transfer))
        .route("/hub/holds", get(views::holds::holds))
        .route("/hub/stats", get(views::stats::stats))
        .route("/hub/clock/confirm", post(health::confirm_clock))
        .route("/health", get(health::health))
        .route("/metrics", get(health::metrics))
        .fallback(error::unknown_path)
        .method_not_allowed_fallback(error::wrong_verb)
        .layer(axum::middleware::from_fn(same_site::same_site_only))
        .with_state(edge)
}
