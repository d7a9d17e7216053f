//! The embedded profile: one process with its own log.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, bail};
use holdfast_api::Edge;
use holdfast_delivery::{CallbackMemory, Callbacks, ShopAddresses, ShopCalls};
use holdfast_domain::shop::callers::PAGE_MAX;
use holdfast_domain::shop::{ByTokens, ByTransfers, Charging, Secret, Side};
use holdfast_engine::Shop as _;
use holdfast_engine::clock::SystemClock;
use holdfast_hub::shop::HubShop;
use holdfast_hub::tokens::ConsolidationOptions;
use holdfast_hub::{EmbeddedEngine, Hub, HubHandle, Opened, Status};
use holdfast_log::{LogId, RealFs, SegmentOptions};

use super::keys::Keys;
use super::{Front, asked_to_end, tell_calls};
use crate::config::{Settings, ShopCharging, ShopPayee};

pub(super) async fn serve(settings: Settings, keys: Keys) -> anyhow::Result<()> {
    let front = Front::open(&settings, &keys)?;
    let cannot_open = || format!("cannot open the data in {}", settings.data.display());
    let memory = CallbackMemory::open(&settings.data).with_context(cannot_open)?;
    let (segments, new_log_id) = (SegmentOptions::default(), LogId(rand::random()));
    let opened = Opened::open(Arc::new(RealFs), &settings.data, segments, new_log_id);
    let opened = opened.with_context(cannot_open)?;
    let following = keys.follow(&front.gate).await?;
    let (report, took, checkpoint) = (opened.report.clone(), opened.took, opened.checkpoint);
    if let Some(torn) = &report.torn_tail {
        tracing::warn!(
            file = %torn.file.display(), bytes = torn.bytes, offset = torn.offset, reason = %torn.reason,
            "the last write in the log was unfinished or rotten and was cut; unless the disk rots, nobody had \
             been told that it was done"
        );
    }
    let hub = Hub::start(opened, Arc::new(SystemClock::new()), settings.hub)?;
    let (delivery, outgoing) = front.delivery(&settings);
    set_sides(hub.handle().shop(), &settings.shop).await?;
    set_charging(hub.handle().shop(), settings.charging.as_ref()).await?;
    let shop = ShopCalls::start(
        hub.handle().shop(),
        settings.shop.clone(),
        delivery,
        outgoing.as_ref(),
        &settings.data,
    );
    let mut shop = shop.with_context(cannot_open)?;
    let callbacks = Callbacks::start(hub.handle(), memory, delivery, outgoing)?;
    let data = std::path::absolute(&settings.data).unwrap_or_else(|_| settings.data.clone());
    let place = front.place()?;
    // Whoever reads that it listens may end it at once.
    let asked = asked_to_end()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "holdfast {}, embedded profile: one process, no replication", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "data in {} ({})", data.display(), found(report.end, checkpoint, took.as_millis()))?;
    front.tell_keys(&mut out, &settings)?;
    tell_calls(&mut out, &settings)?;
    if let Some(charging) = &settings.charging {
        writeln!(out, "checkouts charge {charging}")?;
    }
    Front::tell_place(&mut out, &place)?;
    drop(out);
    let Front { metrics, listener, gate, options, .. } = front;
    let edge = Edge::new(Arc::new(EmbeddedEngine::new(hub.handle())), metrics);
    let router = holdfast_api::router(edge.behind(gate).with_callbacks(Arc::new(callbacks.dead_letters())));
    let consolidating =
        settings.consolidation.map(|options| tokio::spawn(consolidate(hub.handle(), options)));
    let handle = hub.handle();
    let vault = hub.handle();
    let ending = async move {
        asked.await;
        // Whoever waits for tokens, or for a checkout, would hold up the end.
        vault.tokens().end_waiting();
        vault.shop().end_waiting();
    };
    holdfast_api::serve(listener, router, options, ending).await;
    following.abort();
    consolidating.iter().for_each(tokio::task::JoinHandle::abort);
    shop.end().await;
    callbacks.end().await;
    let ending = move || {
        hub.stop();
        callbacks.finish();
    };
    tokio::task::spawn_blocking(ending).await.context("the hub did not end cleanly")?;
    shop.finish().await;
    if let Status::Stopped(reason) = handle.status() {
        bail!("ended, but the hub had stopped before: {reason}");
    }
    tracing::info!("ended");
    Ok(())
}

/// What the start found in its data: so many records, read again from the checkpoint on.
fn found(end: u64, checkpoint: u64, took: u128) -> String {
    match (end, checkpoint) {
        (0, _) => "new".to_owned(),
        (_, 0) => format!("{end} records, all replayed in {took} ms"),
        _ => format!(
            "{end} records: a checkpoint at {checkpoint}, {} replayed, in {took} ms",
            end - checkpoint
        ),
    }
}

/// Has the log say which sides of checkouts are outside, if it says something else.
async fn set_sides(shop: &HubShop, addresses: &ShopAddresses) -> anyhow::Result<()> {
    let outside = addresses.outside();
    for (side, setting) in [(Side::Pay, "shop.payment"), (Side::Stock, "shop.stock")] {
        if outside.has(side) {
            continue;
        }
        // Tries that are open go on with the sides that they began with, and nobody would ask this one.
        if let Some((order, count)) = waiting_for(shop, side).await? {
            bail!(
                "{setting} is inside, but {count} open checkouts wait for an answer from outside, the oldest of order \
                 {order}; start with the URL of the outside side until `holdfast checkouts list` shows none, or answer \
                 for it at /hub/checkouts/ORDER/TRY/{}",
                side.name()
            );
        }
    }
    let how = "cannot log which sides of checkouts are outside; start with the shop settings of the last start, mend \
               what is wrong, and start anew";
    shop.set_outside(outside).await.context(how)
}

/// Has the log say what checkouts charge, if it says something else. The payment side may be outside; then it matters to nobody.
async fn set_charging(shop: &HubShop, wanted: Option<&ShopCharging>) -> anyhow::Result<()> {
    let Some(wanted) = wanted else {
        let how = "cannot log that checkouts charge credit (shop.payment)";
        return shop.set_charging(Charging::Credit).await.context(how);
    };
    let (currency, secret) = (wanted.currency, Secret(rand::random()));
    match &wanted.payee {
        ShopPayee::Wallet { name, unit } => {
            let by = ByTokens { wallet: name.as_str().into(), currency, unit: *unit, secret };
            let how = format!("cannot log that checkouts charge {wanted} (shop.payment)");
            shop.set_charging(Charging::Tokens(by)).await.context(how)
        }
        ShopPayee::Participant { name, unit } => {
            let make = format!(
                "start without shop.payment, shop.payee and shop.currency, run `holdfast participants create {name} --currency \
                 {currency} --cap 0`, and start anew with them"
            );
            let found = shop.participant(*name).await.context("cannot read participants")?;
            let payee =
                found.with_context(|| format!("shop.payee: there is no participant {name}; {make}"))?;
            let by = ByTransfers { payee, currency, unit: *unit, secret };
            let how = format!(
                "cannot log that checkouts charge {wanted}. If {name} has no position account in {currency}: {make}"
            );
            shop.set_charging(Charging::Transfers(by)).await.context(how)
        }
    }
}

/// The oldest open checkout that may still ask that side outside for something, and how many do. One that has taken already
/// counts: it may have to give back.
async fn waiting_for(shop: &HubShop, side: Side) -> anyhow::Result<Option<(String, u64)>> {
    let (mut oldest, mut count, mut after) = (None, 0, None);
    loop {
        let page = shop.open_checkouts(None, after, PAGE_MAX).await.context("cannot read open checkouts")?;
        let waits = |row: &holdfast_domain::shop::CheckoutRow| row.outside.has(side) && row.may_ask(side);
        for open in page.checkouts.iter().filter(|open| waits(&open.row)) {
            oldest.get_or_insert_with(|| open.row.order.to_string());
            count += 1;
        }
        after = page.next;
        if after.is_none() {
            return Ok(oldest.map(|order| (order, count)));
        }
    }
}

/// Brings shattered wallets together, now and then.
async fn consolidate(hub: HubHandle, options: ConsolidationOptions) {
    let mut looks = tokio::time::interval(options.every);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut from = 0;
    loop {
        looks.tick().await;
        let (next, done) = hub.tokens().consolidate_some(from, &options).await;
        from = next;
        if done > 0 {
            tracing::info!(wallets = done, "brought small tokens together");
        }
    }
}
