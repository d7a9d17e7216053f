//! `holdfast restore`: a backup becomes a data directory again.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};
use holdfast_hub::backup::{MANIFEST, MANIFEST_VERSION};
use holdfast_hub::keys_mark::KEYS_MARK;
use holdfast_load::bar::Bar;
use holdfast_store::FOLDERS;
use serde::Deserialize;
use serde_json::json;

use super::backup::checked;
use super::{Output, bad_input};

/// Bytes that are copied together.
const PIECE: usize = 1024 * 1024;

/// Copy a backup into an empty directory, every file held against the backup's list, and verify it.
///
/// The backup stays as it is. API keys are not in it: put keys.toml back by hand, or make new keys. A hub that needed keys does
/// not start without them.
#[derive(Debug, clap::Args)]
pub(super) struct Restore {
    /// What `holdfast backup` made
    backup: PathBuf,
    /// The data directory to be: empty, or not there yet
    data: PathBuf,
    /// Where `verify` has room for a second store
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    version: u32,
    offset: u64,
    log_end: u64,
    files: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    path: PathBuf,
    bytes: u64,
    blake3: String,
}

fn manifest(backup: &Path) -> anyhow::Result<Manifest> {
    let path = backup.join(MANIFEST);
    let text = fs::read(&path).with_context(|| {
        format!("{} cannot be read: this is no backup, or one that was not finished", path.display())
    })?;
    let manifest: Manifest = serde_json::from_slice(&text)
        .with_context(|| format!("{} is damaged; use another backup", path.display()))?;
    ensure!(
        manifest.version <= MANIFEST_VERSION,
        "{} has version {}, this release knows {MANIFEST_VERSION}. Start the newer release",
        path.display(),
        manifest.version
    );
    for entry in &manifest.files {
        let plain = entry.path.components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(plain, "{} names {}, which is no path in a backup", path.display(), entry.path.display());
    }
    Ok(manifest)
}

/// Copies one file and holds it against the list.
fn copy(entry: &Entry, backup: &Path, data: &Path, shown: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    let (from, to) = (backup.join(&entry.path), data.join(&entry.path));
    let cannot = |what: &str, path: &Path| format!("cannot {what} {}", path.display());
    let mut source = File::open(&from).with_context(|| cannot("open", &from))?;
    let mut target = File::create_new(&to).with_context(|| cannot("create", &to))?;
    let (mut hasher, mut copied, mut buffer) = (blake3::Hasher::new(), 0, vec![0; PIECE]);
    loop {
        let read = source.read(&mut buffer).with_context(|| cannot("read", &from))?;
        if read == 0 {
            break;
        }
        target.write_all(&buffer[..read]).with_context(|| cannot("write", &to))?;
        hasher.update(&buffer[..read]);
        copied += read as u64;
        shown(read as u64);
    }
    target.sync_all().with_context(|| cannot("sync", &to))?;
    if copied != entry.bytes || hasher.finalize().to_hex().as_str() != entry.blake3 {
        bail!("{} is not what was backed up: its contents have changed. Use another backup", from.display());
    }
    Ok(())
}

fn is_empty(dir: &Path) -> anyhow::Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("cannot list {}", dir.display())),
    }
}

impl Restore {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let Restore { backup, data, scratch, output } = self;
        let manifest = manifest(&backup)?;
        if !is_empty(&data)? {
            return Err(bad_input(format!("{} is not empty; name another directory", data.display())));
        }
        let store = data.join("store");
        let mut folders = vec![data.join("log")];
        folders.extend(FOLDERS.iter().map(|folder| store.join(folder)));
        for folder in &folders {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let total = manifest.files.iter().map(|entry| entry.bytes).sum();
        let (bar, mut done) = (Bar::new("copying"), 0);
        // The mark comes first: what is left of a restore that was cut off must not run open.
        let (mark, others): (Vec<_>, Vec<_>) =
            manifest.files.iter().partition(|entry| entry.path == Path::new(KEYS_MARK));
        let keys_required = !mark.is_empty();
        for entry in mark.into_iter().chain(others) {
            copy(entry, &backup, &data, &mut |bytes| {
                done += bytes;
                bar.show(done, total);
            })?;
        }
        drop(bar);
        folders.extend([store, data.clone()]);
        for folder in &folders {
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.with_context(|| format!("cannot sync {}", folder.display()))?;
        }
        let verified = checked(&data, scratch).context("what was restored does not verify")?;
        let (offset, records) = (manifest.offset, verified.progress.end);
        ensure!(
            records == manifest.log_end,
            "the log in the backup ends at {records}, its list says {}. Use another backup",
            manifest.log_end
        );
        match output {
            Output::Json => {
                println!(
                    "{:#}",
                    json!({"data": data, "checkpoint": offset, "records": records, "verified": true, "keysRequired": keys_required})
                );
            }
            Output::Text => {
                println!("restored {records} records in {}, verified", data.display());
                if keys_required {
                    println!(
                        "callers of this hub need keys, which are in no backup: put its keys.toml into {data}, or make a key with: \
                         holdfast keys create --operator --data {data}",
                        data = data.display()
                    );
                }
                println!("start it with: holdfast serve --data {}", data.display());
            }
        }
        Ok(())
    }
}
