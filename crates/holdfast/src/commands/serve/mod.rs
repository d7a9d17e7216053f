//! `holdfast serve`: the hub on the embedded profile, or a node of the database profile.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `embedded` | one process with its own log |
//! | `database` | a node before Kafka and PostgreSQL |
//! | `keys` | whether callers need keys, and that it stays so |

mod database;
mod embedded;
mod keys;

use std::io::{IsTerminal, Write};
use std::str::FromStr as _;
use std::sync::Arc;

use anyhow::{Context, ensure};
use holdfast_api::{FileBudget, Gate, RateLimit, ServeOptions, tls};
use holdfast_delivery::options::{CONNECTIONS_OUT_MAX, CallbackOptions};
use holdfast_delivery::tls::OutgoingTls;
use holdfast_domain::shop::Sides;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::{BadInput, bad_input};
use crate::config::{ConfigOptions, Rate, Settings};
use keys::Keys;

/// Run the hub: one process with its own log files, nothing else to install. It is not replicated. With --log and --store: be
/// one of any number of nodes before an Apache Kafka and a PostgreSQL.
///
/// Settings come from flags, HOLDFAST_… in the environment, a TOML file, and defaults, in this order;
/// `holdfast config` shows them.
#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    #[command(flatten)]
    options: ConfigOptions,
    /// Run open although callers needed keys before; there must be no keys file, and later starts run open too
    #[arg(long)]
    without_keys: bool,
}

impl Serve {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let settings = self.options.settings().map_err(BadInput::from)?;
        let filter = Targets::from_str(&settings.trace)
            .map_err(|error| bad_input(format!("trace = '{}': {error}", settings.trace)))?;
        let keys = Keys::read(&settings, self.without_keys)?;
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            // A log that cannot be written (its disk is full, its reader gone) must not take the hub down with it.
            .log_internal_errors(false);
        tracing_subscriber::registry().with(lines).with(filter).init();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.context("cannot start the HTTP threads")?;
        match settings.node.clone() {
            None => runtime.block_on(embedded::serve(settings, keys)),
            Some(node) => runtime.block_on(database::serve(settings, node, keys)),
        }
    }
}

/// What every profile has in front.
struct Front {
    files: FileBudget,
    metrics: PrometheusHandle,
    listener: TcpListener,
    gate: Arc<Gate>,
    asks_for_keys: bool,
    options: ServeOptions,
}

impl Front {
    /// Takes the address, before anything is read: a second server fails at once.
    fn open(settings: &Settings, keys: &Keys) -> anyhow::Result<Front> {
        let files = FileBudget::take(CONNECTIONS_OUT_MAX);
        ensure!(files.connections > 0, "this process may open too few files; raise the limit (ulimit -n)");
        let metrics = holdfast_api::install_metrics().context("cannot install the metrics recorder")?;
        let tls = settings.tls.as_ref().map(|(certificate, key)| tls::server_config(certificate, key));
        let tls = tls.transpose().context("cannot speak TLS")?;
        let listen = settings.listen;
        let listener = holdfast_api::listen(listen)
            .with_context(|| format!("cannot listen on {listen}: is another hub running there?"))?;
        if tls.is_none() && !listen.ip().is_loopback() {
            tracing::warn!(%listen, "no TLS: keys and payments travel in the clear unless a proxy before the hub encrypts");
        }
        let asks_for_keys = keys.ring.is_some();
        let gate = Gate::new(keys.ring.clone()).with_open_metrics(settings.metrics_open);
        let rate = settings.rate.map(|Rate { per_second, burst }| RateLimit::new(per_second, burst));
        let gate = Arc::new(gate.with_rate(rate));
        let options = ServeOptions { connections_max: settings.connections_max.min(files.connections), tls };
        Ok(Front { files, metrics, listener, gate, asks_for_keys, options })
    }

    /// `http://ADDRESS:PORT`.
    fn place(&self) -> anyhow::Result<String> {
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.listener.local_addr()?))
    }

    /// How others are called: as the settings say, over as many connections as there are files for, and TLS if it can be spoken.
    fn delivery(&self, settings: &Settings) -> (CallbackOptions, Option<OutgoingTls>) {
        let outgoing = OutgoingTls::new();
        let outgoing =
            outgoing.inspect_err(|error| tracing::warn!(%error, "https callbacks cannot be sent")).ok();
        let mut delivery = settings.callbacks.options();
        let for_callbacks = self.files.connections_out.saturating_sub(settings.shop.connections_max()).max(1);
        delivery.connections_max = delivery.connections_max.min(for_callbacks);
        (delivery, outgoing)
    }

    /// The last lines of a start, which say where the API is.
    fn tell_place(out: &mut impl Write, place: &str) -> std::io::Result<()> {
        writeln!(out, "the API is described at {place}/docs")?;
        writeln!(out, "listening on {place}")?;
        out.flush()
    }

    fn tell_keys(&self, out: &mut impl Write, settings: &Settings) -> std::io::Result<()> {
        match self.asks_for_keys {
            true => writeln!(out, "callers need a key of {}", settings.keys_file.display()),
            false => writeln!(out, "no API keys: everybody on this machine may do everything"),
        }
    }
}

/// Says who is called by the shop.
fn tell_calls(out: &mut impl Write, settings: &Settings) -> std::io::Result<()> {
    for (who, uri) in [("payment", &settings.shop.payment), ("stock", &settings.shop.stock)] {
        if let Some(uri) = uri {
            writeln!(out, "{who} of checkouts is outside, at {uri}")?;
        }
    }
    let on_kafka = settings.node.as_ref().map_or(Sides::NONE, |node| node.store.on_kafka);
    for (who, outside, topic) in [("payment", on_kafka.pay, "pay"), ("stock", on_kafka.stock, "stock")] {
        if outside {
            writeln!(out, "{who} of checkouts is outside, whoever reads the topic {topic}")?;
        }
    }
    if let Some(uri) = &settings.shop.webhook {
        writeln!(out, "outcomes of checkouts are told to {uri}")?;
    }
    Ok(())
}

/// Ready when the process gets SIGTERM or SIGINT.
fn asked_to_end() -> anyhow::Result<impl Future<Output = ()>> {
    let asked = super::asked_to_end()?;
    Ok(async move {
        asked.await;
        tracing::info!("asked to end: taking no more requests");
    })
}
