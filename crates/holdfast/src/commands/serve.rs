//! `holdfast serve`: the hub on the embedded profile.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use holdfast_hub::clock::SystemClock;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{Hub, Opened, Status};
use holdfast_log::{LogId, RealFs, SegmentOptions};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::PositionOrder;

/// Run the hub: one process with its own log files, nothing else to install. It is not replicated.
#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    /// Where to listen; a loopback address, since there are no API keys yet
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4000", env = "HOLDFAST_LISTEN", value_parser = address)]
    listen: SocketAddr,
    /// Where the log lies; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "./holdfast-data", env = "HOLDFAST_DATA")]
    data: PathBuf,
    /// In which order the prepares of one account in one batch are tried
    #[arg(long, value_name = "ORDER", default_value = "arrival", env = "HOLDFAST_POSITION_ORDER")]
    position_order: PositionOrder,
}

impl Serve {
    pub(super) fn run(self) -> anyhow::Result<()> {
        ensure!(
            self.listen.ip().is_loopback(),
            "{} is not a loopback address: this version has no API keys, so it serves this machine only",
            self.listen
        );
        tracing_subscriber::fmt()
            .with_env_filter(
                tracing_subscriber::EnvFilter::try_from_env("HOLDFAST_TRACE")
                    .unwrap_or_else(|_| "info".into()),
            )
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            // A log that cannot be written (its disk is full, its reader gone) must not take the hub down with it.
            .log_internal_errors(false)
            .init();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start the HTTP threads")?.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<()> {
        let connections = holdfast_api::connections_possible();
        ensure!(connections > 0, "this process may open too few files; raise the limit (ulimit -n)");
        let metrics = holdfast_api::install_metrics().context("cannot install the metrics recorder")?;
        // The address is taken before the log is read, so that a second server fails at once.
        let listener = TcpListener::bind(self.listen)
            .await
            .with_context(|| format!("cannot listen on {}: is another hub running there?", self.listen))?;
        let opened =
            Opened::open(Arc::new(RealFs), &self.data, SegmentOptions::default(), LogId(rand::random()))
                .with_context(|| format!("cannot open the data in {}", self.data.display()))?;
        let (report, took) = (opened.report.clone(), opened.took);
        if let Some(torn) = &report.torn_tail {
            tracing::warn!(
                file = %torn.file.display(), bytes = torn.bytes, offset = torn.offset, reason = %torn.reason,
                "the last write in the log was unfinished or rotten and was cut; unless the disk rots, nobody had \
                 been told that it was done"
            );
        }
        let options = HubOptions { position_order: self.position_order.into(), ..HubOptions::default() };
        let hub = Hub::start(opened, Arc::new(SystemClock::new()), options)?;
        let data = std::path::absolute(&self.data).unwrap_or(self.data);
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "holdfast {}, embedded profile: one process, no replication",
            env!("CARGO_PKG_VERSION")
        )?;
        writeln!(
            out,
            "data in {} ({} records in {} frames, read in {} ms)",
            data.display(),
            report.end,
            report.frames,
            took.as_millis()
        )?;
        writeln!(out, "listening on http://{}", listener.local_addr()?)?;
        out.flush()?;
        drop(out);
        let handle = hub.handle();
        let router = holdfast_api::router(holdfast_api::Edge::new(handle.clone(), metrics));
        holdfast_api::serve(listener, router, connections, asked_to_end()?).await;
        tokio::task::spawn_blocking(move || hub.stop()).await.context("the hub did not end cleanly")?;
        if let Status::Stopped(reason) = handle.status() {
            bail!("ended, but the hub had stopped before: {reason}");
        }
        tracing::info!("ended");
        Ok(())
    }
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "an address and a port are needed, such as 127.0.0.1:4000")
}

/// Ready when the process gets SIGTERM or SIGINT.
fn asked_to_end() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to end: taking no more requests");
    })
}
