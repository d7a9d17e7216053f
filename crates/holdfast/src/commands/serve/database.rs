//! The database profile: a node before an Apache Kafka and a PostgreSQL.

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use holdfast_api::Edge;
use holdfast_database::{DatabaseEngine, Node, NodeHandle, NodeSettings};
use holdfast_delivery::callbacks::database::{DatabaseCallbackSettings, DatabaseCallbacks};
use holdfast_delivery::options::CallbackOptions;
use holdfast_delivery::{ShopCalls, tls};

use super::keys::Keys;
use super::{Front, asked_to_end, tell_calls};
use crate::config::Settings;

pub(super) async fn serve(settings: Settings, node: NodeSettings, keys: Keys) -> anyhow::Result<()> {
    let front = Front::open(&settings, &keys)?;
    let (roles, brokers, number) = (node.roles.to_string(), node.brokers.to_string(), node.node_id);
    let started = tokio::task::spawn_blocking(move || Node::start(node)).await;
    let node = started
        .context("the node did not start")?
        .context("cannot start as a node of the database profile")?;
    let following = keys.follow(&front.gate).await?;
    let outgoing = tls::OutgoingTls::new();
    let outgoing =
        outgoing.inspect_err(|error| tracing::warn!(%error, "https callbacks cannot be sent")).ok();
    let mut delivery = settings.callbacks.options();
    let for_callbacks = front.files.connections_out.saturating_sub(settings.shop.connections_max()).max(1);
    delivery.connections_max = delivery.connections_max.min(for_callbacks);
    let (addresses, tls) = (settings.shop.clone(), outgoing.as_ref());
    let shop = ShopCalls::start_shared(&node.handle(), addresses, delivery, tls);
    let callbacks = callbacks(&node.handle(), delivery, outgoing)?;
    let place = front.place()?;
    // Whoever reads that it listens may end it at once.
    let asked = asked_to_end()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "holdfast {}, database profile: node {number:016x}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "does {roles}; the log is Kafka at {brokers}, the store PostgreSQL")?;
    if let Some(charging) = &settings.charging {
        writeln!(out, "checkouts charge {charging}")?;
    }
    front.tell_keys(&mut out, &settings)?;
    tell_calls(&mut out, &settings)?;
    writeln!(out, "the API is described at {place}/docs")?;
    writeln!(out, "listening on {place}")?;
    out.flush()?;
    drop(out);
    let engine = Arc::new(DatabaseEngine::new(node.handle()));
    let Front { metrics, listener, gate, options, .. } = front;
    let router = holdfast_api::router(Edge::new(engine, metrics).behind(gate));
    let end_waiting = node.handle().end_waiting();
    let ending = async move {
        asked.await;
        // Whoever waits would hold up the end, and be cut without a word.
        drop(tokio::spawn(end_waiting));
    };
    holdfast_api::serve(listener, router, options, ending).await;
    following.abort();
    // Sides that are being asked may still answer, and the node sends what they say.
    shop.finish().await;
    let stop = move || {
        // It still writes down what its requests came to.
        if let Some(callbacks) = callbacks {
            callbacks.finish();
        }
        node.stop();
    };
    tokio::task::spawn_blocking(stop).await.context("the node did not end cleanly")?;
    tracing::info!("ended");
    Ok(())
}

/// The delivery of callbacks, if this node does that.
fn callbacks(
    node: &NodeHandle,
    delivery: CallbackOptions,
    outgoing: Option<tls::OutgoingTls>,
) -> anyhow::Result<Option<DatabaseCallbacks>> {
    let Some(part) = node.delivery() else { return Ok(None) };
    Ok(Some(DatabaseCallbacks::start(DatabaseCallbackSettings::of(
        node.settings(),
        part,
        delivery,
        outgoing,
    ))?))
}
