//! The cluster profile: a node before an Apache Kafka and a PostgreSQL.

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use holdfast_api::keys::{Keyring, KeysFile};
use holdfast_api::{ClusterEngine, Edge};
use holdfast_cluster::{Node, NodeSettings};

use super::{Front, asked_to_end};
use crate::config::Settings;

pub(super) async fn serve(
    settings: Settings,
    node: NodeSettings,
    keys: KeysFile,
    ring: Option<Keyring>,
) -> anyhow::Result<()> {
    let front = Front::open(&settings, keys, ring).await?;
    let (roles, brokers, number) = (node.roles.to_string(), node.brokers.to_string(), node.node_id);
    let started = tokio::task::spawn_blocking(move || Node::start(node)).await;
    let node = started.context("the node did not start")?.context("cannot start as a node of a cluster")?;
    let place = front.place()?;
    // Whoever reads that it listens may end it at once.
    let asked = asked_to_end()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "holdfast {}, cluster profile: node {number:016x}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "does {roles}; the log is Kafka at {brokers}, the store PostgreSQL")?;
    front.tell_keys(&mut out, &settings)?;
    writeln!(out, "the API is described at {place}/docs")?;
    writeln!(out, "listening on {place}")?;
    out.flush()?;
    drop(out);
    let engine = Arc::new(ClusterEngine::new(node.handle()));
    let Front { metrics, listener, gate, following, options, .. } = front;
    let router = holdfast_api::router(Edge::before(engine, metrics).behind(gate));
    holdfast_api::serve(listener, router, options, asked).await;
    following.abort();
    tokio::task::spawn_blocking(move || node.stop()).await.context("the node did not end cleanly")?;
    tracing::info!("ended");
    Ok(())
}
