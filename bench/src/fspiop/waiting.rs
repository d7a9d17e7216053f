//! Payments with `Prefer: wait`: on each connection one after another, POST and PUT.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use super::Driven;
use super::material::Material;
use holdfast_load::LoadError;
use holdfast_load::wire::Wire;

pub(super) async fn drive(
    hub: &str,
    connections: usize,
    material: Material,
    payments: u64,
) -> Result<Driven, LoadError> {
    let mut wires = Vec::with_capacity(connections);
    for _ in 0..connections {
        wires.push(Wire::open(hub).await?);
    }
    let (material, next) = (Arc::new(material), Arc::new(AtomicU64::new(0)));
    let started = Instant::now();
    let mut workers = JoinSet::new();
    for wire in wires {
        workers.spawn(work(wire, Arc::clone(&material), Arc::clone(&next), payments));
    }
    let mut all = Driven::default();
    while let Some(ended) = workers.join_next().await {
        let one = ended.map_err(|error| LoadError::Refused(format!("a worker ended early: {error}")))??;
        all.post.add(&one.post);
        all.put.add(&one.put);
        all.payment.add(&one.payment);
    }
    all.took = started.elapsed();
    Ok(all)
}

async fn work(
    mut wire: Wire,
    material: Arc<Material>,
    next: Arc<AtomicU64>,
    payments: u64,
) -> Result<Driven, LoadError> {
    let mut request = Vec::with_capacity(2_048);
    let mut driven = Driven::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= payments {
            return Ok(driven);
        }
        let started = Instant::now();
        material.post(number, true, &mut request);
        wire.exchange(&request, "200", Some("\"state\":\"RESERVED\"")).await?;
        driven.post.record(started.elapsed());
        let fulfilling = Instant::now();
        material.put(number, true, &mut request);
        wire.exchange(&request, "200", Some("\"state\":\"COMMITTED\"")).await?;
        driven.put.record(fulfilling.elapsed());
        driven.payment.record(started.elapsed());
    }
}
