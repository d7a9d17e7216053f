//! `holdfast verify`: is everything in this data directory as it should be?

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use holdfast_domain::view::View;
use holdfast_hub::audit::Auditor;
use holdfast_hub::{Core, log_folder, replay_with};
use holdfast_log::{RealFs, SegmentReader};
use holdfast_store::{MemoryStore, Store};
use serde_json::json;

use super::Output;

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

impl Verify {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let reader = SegmentReader::open(Arc::new(RealFs), &log_folder(&self.data))
            .with_context(|| format!("cannot read the log in {}", self.data.display()))?;
        let report = reader.check().context("the log is damaged")?;
        let mut core = Core::new(MemoryStore::new(0));
        let mut auditor = Auditor::default();
        replay_with(reader.frames(0)?, &mut core, |frame, commands, effects, core| {
            auditor.frame(frame.header.base_offset, commands, effects, core.store());
        })
        .context("the log does not lead to a state")?;
        let rows = auditor.rows;
        let findings: Vec<String> = auditor.finish(core.store()).iter().map(ToString::to_string).collect();
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
                        "reason": torn.reason,
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
                        "tail       {} bytes at {} of {} are an unfinished write ({}); the next start cuts them",
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
