//! Payments with `Prefer: wait`: on each connection one after another, POST and PUT.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use super::material::Material;
use super::wire::Wire;
use super::{Driven, micros, new_histogram};
use crate::BenchError;

pub(super) async fn drive(
    hub: &str,
    connections: usize,
    material: Material,
    payments: u64,
) -> Result<Driven, BenchError> {
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
    let mut all = Driven {
        took: started.elapsed(),
        post_us: new_histogram(),
        put_us: new_histogram(),
        payment_us: new_histogram(),
    };
    while let Some(ended) = workers.join_next().await {
        let one = ended.map_err(|error| BenchError::Refused(format!("a worker ended early: {error}")))??;
        for (sum, part) in [
            (&mut all.post_us, &one.post_us),
            (&mut all.put_us, &one.put_us),
            (&mut all.payment_us, &one.payment_us),
        ] {
            sum.add(part).expect("all histograms have the same bounds");
        }
    }
    all.took = started.elapsed();
    Ok(all)
}

async fn work(
    mut wire: Wire,
    material: Arc<Material>,
    next: Arc<AtomicU64>,
    payments: u64,
) -> Result<Driven, BenchError> {
    let mut request = Vec::with_capacity(2_048);
    let (mut post_us, mut put_us, mut payment_us) = (new_histogram(), new_histogram(), new_histogram());
    let began = Instant::now();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= payments {
            return Ok(Driven { took: began.elapsed(), post_us, put_us, payment_us });
        }
        let started = Instant::now();
        material.post(number, true, &mut request);
        wire.exchange(&request, "200", Some("\"state\":\"RESERVED\"")).await?;
        post_us.saturating_record(micros(started));
        let fulfilling = Instant::now();
        material.put(number, true, &mut request);
        wire.exchange(&request, "200", Some("\"state\":\"COMMITTED\"")).await?;
        put_us.saturating_record(micros(fulfilling));
        payment_us.saturating_record(micros(started));
    }
}
