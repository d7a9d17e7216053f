//! Payments with `Prefer: wait`: on each connection one after another, POST and PUT.

use std::sync::Arc;
use std::time::Instant;

use holdfast_load::LoadError;
use holdfast_load::pace::{Starts, work};
use holdfast_load::wire::Wire;

use super::material::Material;
use super::{Driven, RUN_MAX};

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
    let material = Arc::new(material);
    let starts = Arc::new(Starts::new("payments", None, payments, RUN_MAX, connections));
    let workers = wires.into_iter().map(|wire| pay(wire, Arc::clone(&material), Arc::clone(&starts)));
    let mut all = Driven::default();
    let took = work(&starts, true, workers, |one: Result<Driven, LoadError>| {
        all.add(&one?);
        Ok(())
    });
    let took = took.await?;
    Ok(Driven { took, ..all })
}

async fn pay(mut wire: Wire, material: Arc<Material>, starts: Arc<Starts>) -> Result<Driven, LoadError> {
    let mut request = Vec::with_capacity(2_048);
    let mut driven = Driven::default();
    while let Some((number, started)) = starts.next().await {
        material.post(number, true, &mut request);
        wire.exchange(&request, "200", Some("\"state\":\"RESERVED\"")).await?;
        driven.post.record(started.elapsed());
        let fulfilling = Instant::now();
        material.put(number, true, &mut request);
        wire.exchange(&request, "200", Some("\"state\":\"COMMITTED\"")).await?;
        driven.put.record(fulfilling.elapsed());
        driven.payment.record(started.elapsed());
    }
    Ok(driven)
}
