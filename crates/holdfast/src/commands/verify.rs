//! `holdfast verify`: is everything in this data directory as it should be?

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use holdfast_domain::shop::ShopCounts;
use holdfast_hub::store_folder;
use holdfast_hub::verify::{Beginning, Places, Verified, verify};
use holdfast_load::bar::Bar;
use holdfast_log::{FileSystem, RealFs};
use holdfast_postgres::Store;
use serde_json::json;

use super::generate::store_address;
use super::{BadInput, Output, data_directory, read_log, server_of_environment};

/// What is known of a torn tail.
const TORN: &str =
    "an unfinished or rotten last write; unless the disk rots, nobody had been told that it was done";

/// Check a data directory: every frame, the audit chain, every account, token and order, and every file against the log.
///
/// The log is decided again into a scratch store, and the checkpoints, outcomes, callbacks and ids in the directory
/// are compared with it. Nothing is changed. It may run beside a hub that is serving from the same directory.
///
/// With --store it looks at the database profile's PostgreSQL instead: every account computed again from its rows, every history, and the
/// audit chain of every source, in one snapshot beside the nodes that work on it. It cannot change anything there, and
/// makes no tables.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// The data directory, or else that of HOLDFAST_DATA [default: ./holdfast-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The database profile's PostgreSQL, as postgres://USER@HOST:PORT/DATABASE; without it and --data that of HOLDFAST_STORE
    #[arg(long, value_name = "URL", value_parser = store_address, conflicts_with_all = ["data", "scratch"])]
    store: Option<String>,
    /// Where there is room for a second store; the system's place for temporary files if not given
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// A directory of our own that goes away with this.
struct Scratch(PathBuf);

impl Scratch {
    fn make(parent: Option<PathBuf>) -> anyhow::Result<Scratch> {
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        let number: u64 = rand::random();
        let dir = parent.join(format!("holdfast-verify-{}-{number:016x}", std::process::id()));
        std::fs::create_dir_all(&parent)
            .and_then(|()| std::fs::create_dir(&dir))
            .with_context(|| format!("cannot make {}; name another place with --scratch", dir.display()))?;
        Ok(Scratch(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("holdfast: {} could not be removed: {error}", self.0.display());
        }
    }
}

/// Checks a directory with a scratch store below `scratch`.
pub(super) fn check(data: &Path, scratch: Option<PathBuf>) -> anyhow::Result<Verified> {
    // Its own words for a directory that holds nothing.
    read_log(data)?;
    let scratch = Scratch::make(scratch)?;
    let bar = Bar::new("verifying");
    let places = Places { fs: Arc::new(RealFs), data, scratch: &scratch.0 };
    Ok(verify(&places, &mut |done, total| bar.show(done, total))?)
}

/// Whether a hub is at work on the directory.
fn is_served(data: &Path) -> bool {
    RealFs.lock_dir(&store_folder(data)).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

impl Verify {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let names_a_directory = self.data.is_some() || self.scratch.is_some();
        let store = match self.store {
            None if !names_a_directory => server_of_environment("HOLDFAST_STORE", store_address)?,
            store => store,
        };
        if let Some(store) = store {
            return database(&store, self.output);
        }
        let data = data_directory(self.data);
        let served = is_served(&data);
        let verified = check(&data, self.scratch).inspect_err(|error| {
            if self.output == Output::Json && !error.is::<BadInput>() {
                println!("{:#}", json!({"good": false, "findings": [format!("{error:#}")]}));
            }
        })?;
        let mut out = std::io::stdout().lock();
        match self.output {
            Output::Json => writeln!(out, "{:#}", in_json(&verified, served))?,
            Output::Text => tell(&mut out, &verified, served)?,
        }
        drop(out);
        if !verified.problems.is_empty() {
            bail!("this directory is not as it should be; each finding says what to do");
        }
        Ok(())
    }
}

fn database(url: &str, output: Output) -> anyhow::Result<()> {
    let verified = Store::open_to_read(url).and_then(|mut store| store.verify());
    let verified = verified.context("cannot verify the database")?;
    let findings: Vec<String> =
        verified.findings.iter().map(|finding| format!("{}: {}", finding.table, finding.what)).collect();
    let mut out = std::io::stdout().lock();
    match output {
        Output::Json => writeln!(
            out,
            "{:#}",
            json!({
                "good": verified.faults == 0, "accounts": verified.accounts,
                "positionChanges": verified.position_changes, "stateChanges": verified.state_changes,
                "batches": verified.batches, "tokens": verified.tokens, "orders": verified.orders, "faults": verified.faults, "findings": findings,
            })
        )?,
        Output::Text => {
            let (accounts, changes) = (verified.accounts, verified.position_changes);
            writeln!(out, "chain      {} batches", verified.batches)?;
            writeln!(out, "accounts   {accounts}, recomputed from {changes} position changes")?;
            writeln!(out, "transfers  {} changes of state", verified.state_changes)?;
            writeln!(out, "tokens     {}, with their locks and spends", verified.tokens)?;
            writeln!(
                out,
                "shop       {} orders, with what their sides have taken and given back",
                verified.orders
            )?;
            findings.iter().try_for_each(|finding| writeln!(out, "WRONG      {finding}"))?;
            if verified.faults == 0 {
                writeln!(out, "good       everything adds up")?;
            }
        }
    }
    drop(out);
    if verified.faults > 0 {
        bail!(
            "this database is not as it should be: {} findings. Stop the nodes and restore a backup",
            verified.faults
        );
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn in_json(verified: &Verified, served: bool) -> serde_json::Value {
    let Verified { log, progress, store, problems, .. } = verified;
    let findings: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let details = problems.iter().map(|problem| {
        json!({
            "file": problem.file, "position": problem.position, "found": problem.found,
            "whatToDo": problem.advice.text(),
        })
    });
    json!({
        "good": problems.is_empty(),
        "served": served,
        "segments": log.segments,
        "logStart": log.start,
        "replayedFrom": verified.began_at,
        "frames": progress.counts.frames,
        "records": progress.end,
        "tornTail": log.torn_tail.as_ref().map(|torn| json!({
            "file": torn.file, "position": torn.position, "offset": torn.offset, "bytes": torn.bytes,
            "reason": torn.reason, "meaning": TORN,
        })),
        "chain": hex(&progress.chain),
        "accounts": verified.accounts,
        "positionChanges": verified.position_changes,
        "transfers": verified.transfers,
        "openHolds": verified.open_holds,
        "tokens": verified.tokens,
        "tokenLocks": verified.token_locks,
        "shop": {
            "users": verified.shop.users,
            "items": verified.shop.items,
            "unpaidOrders": verified.shop.orders,
            "openCheckouts": verified.shop.checkouts,
            "idempotencyKeys": verified.shop.keys,
        },
        "checkpoints": store.checkpoints,
        "ids": store.ids,
        "leftovers": store.leftovers,
        "findings": findings,
        "details": details.collect::<Vec<_>>(),
        "findingsLeftOut": store.left_out,
    })
}

fn tell(out: &mut impl Write, verified: &Verified, served: bool) -> std::io::Result<()> {
    let Verified { log, progress, store, problems, .. } = verified;
    let (frames, records) = (progress.counts.frames, progress.end);
    writeln!(out, "log        {frames} frames, {records} records in {} segments", log.segments)?;
    let began_at = verified.began_at;
    match verified.beginning {
        Beginning::Whole => {}
        Beginning::Removed => writeln!(
            out,
            "           begins at offset {}: what came before is not here (removed by retention, or lost). The replay began with the checkpoint at \
             {began_at}, which was checked in itself",
            log.start
        )?,
        Beginning::OtherRules(rules) => writeln!(
            out,
            "           its beginning was decided under rules {rules}, which are not those of this release. The replay began \
             with the checkpoint at {began_at}; to check what came before it, verify with the release that wrote it"
        )?,
    }
    if let Some(torn) = &log.torn_tail {
        writeln!(
            out,
            "tail       {} bytes at {} of {} ({}): {TORN}; the next start cuts them",
            torn.bytes,
            torn.position,
            torn.file.display(),
            torn.reason
        )?;
    }
    if served {
        writeln!(
            out,
            "served     a hub is at work here: files were checked as far as its newest checkpoint"
        )?;
    }
    writeln!(out, "chain      {}", hex(&progress.chain))?;
    let (accounts, changes) = (verified.accounts, verified.position_changes);
    writeln!(out, "accounts   {accounts}, recomputed from {changes} position changes")?;
    writeln!(out, "transfers  {}, of them {} open", verified.transfers, verified.open_holds)?;
    writeln!(out, "tokens     {} live, {} locks on them", verified.tokens, verified.token_locks)?;
    let ShopCounts { users, items, orders, checkouts, keys } = verified.shop;
    writeln!(
        out,
        "shop       {users} users, {items} items, {orders} orders that are not paid, {checkouts} open checkouts, {keys} \
         idempotency keys"
    )?;
    match store.checkpoints.as_slice() {
        [] => writeln!(out, "store      no checkpoint: the next start replays the whole log")?,
        offsets => {
            let offsets: Vec<String> = offsets.iter().map(ToString::to_string).collect();
            writeln!(
                out,
                "store      checkpoints at {}; {} ids, {} bytes of outcomes and callbacks compared with the log",
                offsets.join(", "),
                store.ids,
                store.block_bytes
            )?;
        }
    }
    if !served {
        for file in &store.leftovers {
            writeln!(
                out,
                "leftover   {}: no checkpoint needs it; a start removes what is Holdfast's",
                file.display()
            )?;
        }
    }
    problems.iter().try_for_each(|problem| writeln!(out, "WRONG      {problem}"))?;
    if store.left_out > 0 {
        writeln!(out, "WRONG      and {} more of the kind", store.left_out)?;
    }
    if problems.is_empty() {
        writeln!(out, "good       everything adds up")?;
    }
    Ok(())
}
