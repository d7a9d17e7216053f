//! `holdfast verify`: is everything in this data directory as it should be?

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use holdfast_domain::view::View;
use holdfast_hub::audit::Auditor;
use holdfast_hub::{Core, ReplayError, replay_with};
use holdfast_log::OpenReport;
use holdfast_store::{MemoryStore, Store};
use serde_json::json;

use super::{BadInput, Output, read_log};

/// What is known of a torn tail.
const TORN: &str =
    "an unfinished or rotten last write; unless the disk rots, nobody had been told that it was done";

/// Check a data directory: every frame, the audit chain, and every account recomputed from its rows.
///
/// Nothing is changed. It may run beside a hub that is serving from the same directory.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = "./holdfast-data", env = "HOLDFAST_DATA")]
    data: PathBuf,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// A log that could be read to its end.
struct Read {
    report: OpenReport,
    core: Core<MemoryStore>,
    /// Position changes that the accounts were recomputed from.
    rows: u64,
    /// What does not add up.
    findings: Vec<String>,
}

fn read(data: &Path) -> anyhow::Result<Read> {
    let reader = read_log(data)?;
    let report = reader.check().context("the log is damaged")?;
    let mut core = Core::new(MemoryStore::new(0));
    let mut auditor = Auditor::default();
    reader
        .frames(core.end())
        .map_err(ReplayError::from)
        .and_then(|frames| {
            replay_with(frames, &mut core, |frame, commands, effects, core| {
                auditor.frame(frame.header.base_offset, commands, effects, core.store());
            })
        })
        .context("the log does not lead to a state")?;
    let rows = auditor.rows;
    let findings = auditor.finish(core.store()).iter().map(ToString::to_string).collect();
    Ok(Read { report, core, rows, findings })
}

impl Verify {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let Read { report, core, rows, findings } = read(&self.data).inspect_err(|error| {
            if self.output == Output::Json && !error.is::<BadInput>() {
                println!("{:#}", json!({"good": false, "findings": [format!("{error:#}")]}));
            }
        })?;
        let (store, torn) = (core.store(), report.torn_tail.as_ref());
        let chain: String = core.chain().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut out = std::io::stdout().lock();
        match self.output {
            Output::Json => {
                let answer = json!({
                    "good": findings.is_empty(),
                    "segments": report.segments,
                    "frames": core.counts().frames,
                    "records": core.end(),
                    "tornTail": torn.map(|torn| json!({
                        "file": torn.file, "position": torn.position, "offset": torn.offset, "bytes": torn.bytes,
                        "reason": torn.reason, "meaning": TORN,
                    })),
                    "chain": chain,
                    "accounts": store.accounts().len(),
                    "positionChanges": rows,
                    "transfers": store.next_transfer().0,
                    "openHolds": store.open_holds(),
                    "findings": findings,
                });
                writeln!(out, "{answer:#}")?;
            }
            Output::Text => {
                writeln!(
                    out,
                    "log        {} frames, {} records in {} segments",
                    core.counts().frames,
                    core.end(),
                    report.segments
                )?;
                if let Some(torn) = torn {
                    writeln!(
                        out,
                        "tail       {} bytes at {} of {} ({}): {TORN}; the next start cuts them",
                        torn.bytes,
                        torn.position,
                        torn.file.display(),
                        torn.reason
                    )?;
                }
                writeln!(out, "chain      {chain}")?;
                writeln!(
                    out,
                    "accounts   {}, recomputed from {rows} position changes",
                    store.accounts().len()
                )?;
                writeln!(out, "transfers  {}, of them {} open", store.next_transfer().0, store.open_holds())?;
                findings.iter().try_for_each(|finding| writeln!(out, "WRONG      {finding}"))?;
                if findings.is_empty() {
                    writeln!(out, "good       everything adds up")?;
                }
            }
        }
        drop(out);
        if !findings.is_empty() {
            bail!(
                "the books do not add up; keep this directory as it is and restore from a backup that verifies"
            );
        }
        Ok(())
    }
}
