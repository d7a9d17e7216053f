//! `holdfast backup`: a copy of the data directory that is consistent at one frame.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use holdfast_hub::backup::{BackupError, backup_stopped};
use holdfast_hub::verify::Verified;
use holdfast_load::bar::Bar;
use holdfast_log::RealFs;
use holdfast_wire::views::{self, BackupState};
use serde_json::json;

use super::{BadInput, Output, read_log, verify};
use crate::remote::{Remote, RemoteArgs, block_on};

/// Between two questions how far the hub is.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Copy a hub's data to DIR, while it runs, and verify the copy.
///
/// A running hub is asked over HTTP and writes the copy itself: DIR is a path on its machine. With --data the
/// directory of a stopped hub is copied. Start a hub on the copy, or put it elsewhere with `holdfast restore`.
#[derive(Debug, clap::Args)]
pub(super) struct Backup {
    /// Where the copy goes: empty, or not there yet
    dir: PathBuf,
    /// The data directory of a stopped hub; without it a running hub is asked
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Do not verify the copy (needed where DIR cannot be seen from here)
    #[arg(long)]
    no_verify: bool,
    /// Where `verify` has room for a second store
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    remote: RemoteArgs,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Backup {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let dir = std::path::absolute(&self.dir).context("DIR is no path")?;
        let (offset, bytes, files) = match &self.data {
            Some(data) => stopped(data, &dir)?,
            None => {
                let remote = self.remote.open().map_err(BadInput::from)?;
                block_on(running(&remote, &dir))?
            }
        };
        let verified = match self.no_verify {
            true => None,
            false => Some(checked(&dir, self.scratch).context("the copy does not verify")?),
        };
        match self.output {
            Output::Json => {
                let answer = json!({
                    "dir": dir, "offset": offset, "bytes": bytes, "files": files, "verified": verified.is_some(),
                });
                println!("{answer:#}");
            }
            Output::Text => {
                let how = if verified.is_some() { ", verified" } else { "; not verified" };
                println!(
                    "backup in {}: the state at offset {offset}, {bytes} bytes in {files} files{how}",
                    dir.display()
                );
            }
        }
        Ok(())
    }
}

/// Verifies a copy.
pub(super) fn checked(dir: &Path, scratch: Option<PathBuf>) -> anyhow::Result<Verified> {
    let verified = verify::check(dir, scratch)?;
    if let Some(first) = verified.problems.first() {
        bail!("{first} ({} findings; see holdfast verify --data {})", verified.problems.len(), dir.display());
    }
    Ok(verified)
}

fn stopped(data: &Path, dir: &Path) -> anyhow::Result<(u64, u64, u64)> {
    read_log(data)?;
    let bar = Bar::new("copying");
    let made = backup_stopped(Arc::new(RealFs), data, dir, &mut |done, total| bar.show(done, total));
    let made = made.map_err(|error| match error {
        BackupError::Open(holdfast_hub::OpenError::InUse { .. }) => anyhow::anyhow!(
            "a hub is at work on {}: leave out --data and it is asked for a backup, or stop it",
            data.display()
        ),
        other => anyhow::Error::from(other),
    })?;
    Ok((made.offset, made.bytes(), made.files.len() as u64))
}

async fn running(remote: &Remote, dir: &Path) -> anyhow::Result<(u64, u64, u64)> {
    remote.post("/hub/backup", &json!({"dir": dir})).await?;
    let bar = Bar::new("copying");
    loop {
        let status: views::Backup = remote.get("/hub/backup").await?;
        let total_bytes = status.total_bytes.unwrap_or_default();
        match status.state {
            BackupState::Running => bar.show(status.done_bytes.unwrap_or_default(), total_bytes),
            BackupState::Done => {
                let known = status.offset.zip(status.files);
                let (offset, files) = known.context("the hub says too little of its backup")?;
                return Ok((offset, total_bytes, files as u64));
            }
            BackupState::Failed => bail!(
                "the backup failed: {}. What is in {} is of no use",
                status.reason.unwrap_or_else(|| "the hub does not say why".to_owned()),
                dir.display()
            ),
            none @ BackupState::None => {
                bail!("the hub says that its backup is {none}; it may have been restarted")
            }
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
