//! Whether callers need keys. Once they do it stays so: a mark in the data says it, and a start without keys is refused.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use holdfast_api::Gate;
use holdfast_api::keys::{Keyring, KeysFile};
use holdfast_database::NodeSettings;
use holdfast_hub::keys_mark::{self, KEYS_MARK};
use holdfast_log::RealFs;
use holdfast_postgres::{Store, keys_are_required};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::config::Settings;

/// How often a running hub sees to it that the mark is there.
const MARK_EVERY: Duration = Duration::from_secs(60);

/// The keys of a start.
pub(super) struct Keys {
    file: KeysFile,
    /// What callers must have; `None`: everybody on this machine may do everything.
    pub(super) ring: Option<Keyring>,
    mark: Arc<Mark>,
    /// The operator wants a hub without keys where they were needed before.
    waived: bool,
}

impl Keys {
    /// Reads them, or says why there cannot be a hub with these or without any.
    pub(super) fn read(settings: &Settings, without_keys: bool) -> anyhow::Result<Keys> {
        let file = KeysFile::at(&settings.keys_file);
        let (ring, mark) = (needed(settings, &file)?, Mark::of(settings));
        let place = file.path().display();
        if ring.is_some() {
            ensure!(
                !without_keys,
                "callers need a key of {place}: take --without-keys out, or that file away"
            );
        }
        let waived = ring.is_none() && mark.is_set()?;
        ensure!(
            !waived || without_keys,
            "callers of this hub needed keys, as {mark} says, and there is no {place}. Bring that file back, or make a key with: \
             holdfast keys create --operator --keys {place}. To run open from now on, start once with --without-keys",
        );
        Ok(Keys { file, ring, mark: Arc::new(mark), waived })
    }

    /// Has the data say what is so, and the gate follow the keys file.
    pub(super) async fn follow(self, gate: &Arc<Gate>) -> anyhow::Result<JoinHandle<()>> {
        let Keys { file, ring, mark, waived } = self;
        let (written, required) = (Arc::clone(&mark), ring.is_some());
        spawn_blocking(move || match (required, waived) {
            (true, _) => written.set(),
            (false, true) => written.take_away(),
            (false, false) => Ok(()),
        })
        .await??;
        let first = Arc::clone(&mark);
        let following = Arc::clone(gate).follow_keys(file, move || first.renew());
        let gate = Arc::clone(gate);
        Ok(tokio::spawn(async move {
            tokio::join!(following, keep_marked(gate, mark));
        }))
    }
}

/// Puts the mark back as long as callers need keys: it may not have been written when it should, and another node of the same
/// database may have taken it away.
async fn keep_marked(gate: Arc<Gate>, mark: Arc<Mark>) {
    let mut clock = tokio::time::interval(MARK_EVERY);
    // The first look comes at once, and the mark has just been seen to.
    clock.tick().await;
    loop {
        clock.tick().await;
        if gate.asks_for_keys() {
            let mark = Arc::clone(&mark);
            // It tells of its own failure.
            drop(spawn_blocking(move || mark.renew()).await);
        }
    }
}

/// The keys that callers must have, if there are any.
fn needed(settings: &Settings, file: &KeysFile) -> anyhow::Result<Option<Keyring>> {
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

/// Where it is written down that callers need keys: beside the data that they guard, so that a copy of it has the mark too.
enum Mark {
    Folder(PathBuf),
    Database(Box<NodeSettings>),
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mark::Folder(data) => write!(f, "{}", data.join(KEYS_MARK).display()),
            Mark::Database(_) => f.write_str("the database"),
        }
    }
}

impl Mark {
    fn of(settings: &Settings) -> Mark {
        match &settings.node {
            None => Mark::Folder(settings.data.clone()),
            Some(node) => Mark::Database(Box::new(node.clone())),
        }
    }

    fn is_set(&self) -> anyhow::Result<bool> {
        let is_set = match self {
            Mark::Folder(data) => keys_mark::is_set(&RealFs, data).map_err(anyhow::Error::from),
            Mark::Database(node) => {
                keys_are_required(&node.store_url, node.store.connect_timeout).map_err(anyhow::Error::from)
            }
        };
        is_set.with_context(|| format!("cannot read {self}, which says whether callers need keys"))
    }

    fn set(&self) -> anyhow::Result<()> {
        let set = match self {
            Mark::Folder(data) => keys_mark::set(&RealFs, data).map_err(anyhow::Error::from),
            Mark::Database(node) => in_database(node, Store::require_keys),
        };
        set.with_context(|| format!("cannot write into {self} that callers need keys"))
    }

    /// Sets it, and tells if that fails.
    fn renew(&self) {
        if let Err(error) = self.set() {
            tracing::error!("a start without the keys file would run open: {error:#}");
        }
    }

    fn take_away(&self) -> anyhow::Result<()> {
        let taken = match self {
            Mark::Folder(data) => keys_mark::take_away(&RealFs, data).map_err(anyhow::Error::from),
            Mark::Database(node) => in_database(node, Store::waive_keys),
        };
        taken.with_context(|| format!("cannot take away in {self} that callers need keys"))?;
        tracing::warn!(mark = %self, "--without-keys: callers need no keys from now on, everybody on this machine may do everything");
        Ok(())
    }
}

fn in_database<R>(
    node: &NodeSettings,
    ask: impl FnOnce(&mut Store) -> Result<R, holdfast_postgres::Error>,
) -> anyhow::Result<R> {
    let mut store = Store::open(&node.store_url, node.store.clone())?;
    Ok(ask(&mut store)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of this test is no real one: the clock goes on whenever nothing else does.
    #[tokio::test(start_paused = true)]
    async fn a_mark_that_another_took_away_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mark = Arc::new(Mark::Folder(folder.path().to_owned()));
        let (open, keyed) = (Arc::new(Gate::default()), Arc::new(Gate::new(Some(Keyring::default()))));
        let minutes = |gate| tokio::time::timeout(MARK_EVERY * 3, keep_marked(gate, Arc::clone(&mark)));
        assert!(minutes(open).await.is_err() && !mark.is_set().unwrap(), "nothing where no keys are needed");
        assert!(minutes(keyed).await.is_err() && mark.is_set().unwrap());
    }
}
