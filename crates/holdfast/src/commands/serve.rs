//! `holdfast serve`: the hub on the embedded profile.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use holdfast_api::callbacks::{CallbackMemory, Callbacks};
use holdfast_api::keys::{Keyring, KeysFile};
use holdfast_api::{Edge, FileBudget, Gate, RateLimit, ServeOptions, ShopAddresses, ShopCalls, tls};
use holdfast_domain::shop::{ByTokens, ByTransfers, Charging, Secret, Side};
use holdfast_hub::clock::SystemClock;
use holdfast_hub::shop::ShopDesk;
use holdfast_hub::shop::limits::PAGE_MAX;
use holdfast_hub::tokens::ConsolidationOptions;
use holdfast_hub::{Hub, HubHandle, Opened, Status};
use holdfast_log::{LogId, RealFs, SegmentOptions};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::BadInput;
use crate::config::{ConfigOptions, Rate, Settings, ShopCharging, ShopPayee};

/// Run the hub: one process with its own log files, nothing else to install. It is not replicated.
///
/// Settings come from flags, HOLDFAST_… in the environment, a TOML file, and defaults, in this order;
/// `holdfast config` shows them.
#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    #[command(flatten)]
    options: ConfigOptions,
}

impl Serve {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let settings = self.options.settings().map_err(BadInput::from)?;
        let filter = EnvFilter::try_new(&settings.trace)
            .map_err(|error| BadInput::from(anyhow::anyhow!("trace = '{}': {error}", settings.trace)))?;
        let keys = KeysFile::at(&settings.keys_file);
        let ring = needed_keys(&settings, &keys)?;
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            // A log that cannot be written (its disk is full, its reader gone) must not take the hub down with it.
            .log_internal_errors(false)
            .init();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start the HTTP threads")?.block_on(serve(settings, keys, ring))
    }
}

/// The keys that callers must have; `None`: anybody on this machine may do everything.
fn needed_keys(settings: &Settings, file: &KeysFile) -> anyhow::Result<Option<Keyring>> {
    let (place, listen) = (file.path().display(), settings.listen);
    let how = format!("make one with: holdfast keys create --operator --keys {place}");
    match file.read()? {
        Some(ring) if ring.is_empty() => {
            bail!("nobody could call this hub: {place} has no keys; {how}")
        }
        Some(ring) => Ok(Some(ring)),
        None if settings.keys_named => bail!("there is no keys file {place}; {how}"),
        None if !listen.ip().is_loopback() => {
            bail!("{listen} is not a loopback address, and there are no API keys; {how}")
        }
        None => Ok(None),
    }
}

async fn serve(settings: Settings, keys: KeysFile, ring: Option<Keyring>) -> anyhow::Result<()> {
    let files = FileBudget::take();
    ensure!(files.connections > 0, "this process may open too few files; raise the limit (ulimit -n)");
    let metrics = holdfast_api::install_metrics().context("cannot install the metrics recorder")?;
    let tls = settings.tls.as_ref().map(|(certificate, key)| tls::server_config(certificate, key));
    let tls = tls.transpose().context("cannot speak TLS")?;
    // The address is taken before the log is read, so that a second server fails at once.
    let listen = settings.listen;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}: is another hub running there?"))?;
    let cannot_open = || format!("cannot open the data in {}", settings.data.display());
    let memory = CallbackMemory::open(&settings.data).with_context(cannot_open)?;
    let (segments, new_log_id) = (SegmentOptions::default(), LogId(rand::random()));
    let opened = Opened::open(Arc::new(RealFs), &settings.data, segments, new_log_id);
    let opened = opened.with_context(cannot_open)?;
    let (report, took, checkpoint) = (opened.report.clone(), opened.took, opened.checkpoint);
    if let Some(torn) = &report.torn_tail {
        tracing::warn!(
            file = %torn.file.display(), bytes = torn.bytes, offset = torn.offset, reason = %torn.reason,
            "the last write in the log was unfinished or rotten and was cut; unless the disk rots, nobody had \
             been told that it was done"
        );
    }
    if tls.is_none() && !listen.ip().is_loopback() {
        tracing::warn!(%listen, "no TLS: keys and payments travel in the clear unless a proxy before the hub encrypts");
    }
    let asks_for_keys = ring.is_some();
    let gate = Gate::new(ring).with_open_metrics(settings.metrics_open);
    let rate = settings.rate.map(|Rate { per_second, burst }| RateLimit::new(per_second, burst));
    let gate = Arc::new(gate.with_rate(rate));
    let following = tokio::spawn(Arc::clone(&gate).follow_keys(keys));
    let hub = Hub::start(opened, Arc::new(SystemClock::new()), settings.hub)?;
    let outgoing = tls::OutgoingTls::new();
    let outgoing =
        outgoing.inspect_err(|error| tracing::warn!(%error, "https callbacks cannot be sent")).ok();
    let mut delivery = settings.callbacks.options();
    set_sides(hub.handle().shop(), &settings.shop).await?;
    set_charging(hub.handle().shop(), settings.charging.as_ref()).await?;
    let for_callbacks = files.connections_out.saturating_sub(settings.shop.connections_max()).max(1);
    delivery.connections_max = delivery.connections_max.min(for_callbacks);
    let shop = ShopCalls::start(
        hub.handle().shop(),
        settings.shop.clone(),
        delivery,
        outgoing.as_ref(),
        &settings.data,
    );
    let mut shop = shop.with_context(cannot_open)?;
    let callbacks = Callbacks::start(hub.handle(), memory, delivery, outgoing)?;
    let data = std::path::absolute(&settings.data).unwrap_or(settings.data);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let place = listener.local_addr()?;
    // Whoever reads that it listens may end it at once.
    let asked = asked_to_end()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "holdfast {}, embedded profile: one process, no replication", env!("CARGO_PKG_VERSION"))?;
    let (end, took) = (report.end, took.as_millis());
    let found = match (end, checkpoint) {
        (0, _) => "new".to_owned(),
        (_, 0) => format!("{end} records, all replayed in {took} ms"),
        _ => format!(
            "{end} records: a checkpoint at {checkpoint}, {} replayed, in {took} ms",
            end - checkpoint
        ),
    };
    writeln!(out, "data in {} ({found})", data.display())?;
    match asks_for_keys {
        true => writeln!(out, "callers need a key of {}", settings.keys_file.display())?,
        false => writeln!(out, "no API keys: everybody on this machine may do everything")?,
    }
    for (who, uri) in [("payment", &settings.shop.payment), ("stock", &settings.shop.stock)] {
        if let Some(uri) = uri {
            writeln!(out, "{who} of checkouts is outside, at {uri}")?;
        }
    }
    if let Some(charging) = &settings.charging {
        writeln!(out, "checkouts charge {charging}")?;
    }
    if let Some(uri) = &settings.shop.webhook {
        writeln!(out, "outcomes of checkouts are told to {uri}")?;
    }
    writeln!(out, "the API is described at {scheme}://{place}/docs")?;
    writeln!(out, "listening on {scheme}://{place}")?;
    out.flush()?;
    drop(out);
    let router =
        holdfast_api::router(Edge::new(hub.handle(), metrics).behind(gate).with_callbacks(&callbacks));
    let consolidating =
        settings.consolidation.map(|options| tokio::spawn(consolidate(hub.handle(), options)));
    let options = ServeOptions { connections_max: settings.connections_max.min(files.connections), tls };
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

/// Has the log say which sides of checkouts are outside, if it says something else.
async fn set_sides(shop: &ShopDesk, addresses: &ShopAddresses) -> anyhow::Result<()> {
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
async fn set_charging(shop: &ShopDesk, wanted: Option<&ShopCharging>) -> anyhow::Result<()> {
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
async fn waiting_for(shop: &ShopDesk, side: Side) -> anyhow::Result<Option<(String, u64)>> {
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
