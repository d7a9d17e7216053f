//! The HTTP edge: shape, then engine, then answer. Nothing is decided here.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `limits` | sizes, waits and connections, each with its name |
//! | `server`, `stream` | accepting connections, bounding them, ending them in good order |
//! | `same_site` | who may speak to a hub without keys |
//! | `tls` | certificates of ours |
//! | `openapi` | every path once: verb, path, handler, who may call it, what it takes and answers; as a document and as a page |
//! | `routes` | the router that is made from it |
//! | `gate` | what every request passes: its id, its caller, its rate, its trace |
//! | `keys` | API keys: made, kept as hashes, compared |
//! | `bodies` | bodies on their way in: counted, bounded |
//! | `calls` | the way to the engine and back |
//! | `admin` | `/participants…`: the operator's paths, as central-ledger has them |
//! | `fspiop` | `/transfers…`: the paths that participants call |
//! | `backup` | `/hub/backup` |
//! | `batch` | `POST /hub/batch` |
//! | `tokens` | `/tokens…`: wallets select, lock and spend |
//! | `shop` | `/orders…`, `/payment…`, `/stock…`, the same under `/shop…`, and `/hub/checkouts…` |
//! | `views` | `GET /hub/…`: transfers, holds, stats; dead letters |
//! | `health` | `/health`, `/metrics`, confirming the clock |
//! | `error` | refusals as the standard's `errorInformation` |
//! | `problem` | refusals as problems of RFC 9457 |

mod admin;
mod backup;
mod batch;
mod bodies;
mod calls;
mod error;
mod fspiop;
mod gate;
mod health;
pub mod keys;
pub mod limits;
pub mod openapi;
mod problem;
mod routes;
mod same_site;
mod server;
mod shop;
mod stream;
pub mod tls;
mod tokens;
mod views;

use std::sync::Arc;
use std::time::Instant;

use holdfast_engine::{Callbacks, Engine, Wallets};
pub(crate) use holdfast_wire::times;
use metrics_exporter_prometheus::PrometheusHandle;

pub use gate::{Gate, KEYS_LOOK_EVERY, RateLimit};
pub use routes::router;
pub use server::{FileBudget, ServeOptions, listen, serve};

/// What every handler can reach.
#[derive(Clone)]
pub struct Edge {
    engine: Arc<dyn Engine>,
    wallets: Option<Arc<dyn Wallets>>,
    shop: Option<shop::Shop>,
    callbacks: Option<Arc<dyn Callbacks>>,
    metrics: PrometheusHandle,
    started: Arc<health::Started>,
    parse: metrics::Counter,
    gate: Arc<Gate>,
    names: Arc<fspiop::Names>,
    bodies: Arc<tokio::sync::Semaphore>,
}

impl Edge {
    /// The edge of an engine, whose metrics go to the recorder behind `metrics`. Paths of what the engine has not are not
    /// routed.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>, metrics: PrometheusHandle) -> Edge {
        let parse = metrics::counter!("holdfast_stage_nanoseconds_total", "stage" => "parse");
        let bodies =
            Arc::new(tokio::sync::Semaphore::new(limits::BODY_BYTES_MAX / limits::BODY_PERMIT_BYTES));
        Edge {
            wallets: engine.wallets(),
            shop: engine.shop().map(shop::Shop),
            callbacks: engine.callbacks(),
            engine,
            metrics,
            started: Arc::new(health::Started::now()),
            parse,
            bodies,
            gate: Arc::default(),
            names: Arc::default(),
        }
    }

    /// Notes how long a body that was all here at `started` took to be read.
    fn note_parsed(&self, started: Instant) {
        self.parse.increment(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    /// The same behind a gate; without one everybody may do everything.
    #[must_use]
    pub fn behind(self, gate: Arc<Gate>) -> Edge {
        Edge { gate, ..self }
    }

    /// The same with callbacks that are kept beside the engine: their dead letters are shown.
    #[must_use]
    pub fn with_callbacks(self, callbacks: Arc<dyn Callbacks>) -> Edge {
        Edge { callbacks: Some(callbacks), ..self }
    }
}

/// Installs the recorder that `/metrics` shows. Once per process, before anything counts.
///
/// # Errors
/// If a recorder is there already.
pub fn install_metrics() -> Result<PrometheusHandle, metrics_exporter_prometheus::BuildError> {
    metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder()
}
