//! `holdfast transfers`: what is known of transfers.
//!
//! `list` and `show` ask a running hub. `why` needs none: it reads the data directory's log and decides everything
//! again, so what it tells is what the hub did, and it may run beside a serving hub.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::TransferState;
use holdfast_hub::{Core, replay_with};
use holdfast_store::MemoryStore;
use holdfast_wire::Nullable;
use holdfast_wire::views::{PositionChange, TransferRow, TransferStep, TransferStory};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tables::{print, table};
use super::{BadInput, DATA_DEFAULT, Output, beginning_removed, read_log};
use crate::remote::{Remote, RemoteArgs, block_on, escaped};
use crate::why::Witness;

/// Show transfers, and why they ended as they did.
#[derive(Debug, clap::Args)]
pub(super) struct Transfers {
    #[command(subcommand)]
    what: What,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t, global = true)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Transfers of a running hub: open ones in order of arrival, then ended ones in the order of their end
    List {
        /// Only those in this state, such as RESERVED
        #[arg(long, value_parser = state)]
        state: Option<TransferState>,
        /// Only those that this participant pays or is paid in
        #[arg(long, value_name = "NAME")]
        participant: Option<String>,
        /// The cursor that an earlier page ended with
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
        /// At most so many [default: 1000]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// One transfer of a running hub, with its history and what it did to positions
    Show {
        /// Its id
        id: TransferId,
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// Its story from the log: what was tested with which numbers, who was told what, what ended it
    Why {
        /// Its id
        id: TransferId,
        /// The data directory
        #[arg(long, value_name = "DIR", default_value = DATA_DEFAULT, env = "HOLDFAST_DATA")]
        data: PathBuf,
    },
}

fn state(text: &str) -> Result<TransferState, String> {
    TransferState::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = TransferState::ALL.map(TransferState::name).to_vec();
        format!("is none of {}", names.join(", "))
    })
}

impl Transfers {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let output = self.output;
        match self.what {
            What::List { state, participant, after, limit, remote } => {
                let remote = remote.open().map_err(BadInput::from)?;
                let state = state.map(|state| state.name().to_owned());
                let filter: String = [("state", state), ("participant", participant)]
                    .into_iter()
                    .filter_map(|(name, value)| Some(format!("&{name}={}", escaped(&value?))))
                    .collect();
                block_on(list(&remote, &filter, after, limit, output))
            }
            What::Show { id, remote } => {
                let remote = remote.open().map_err(BadInput::from)?;
                block_on(show(&remote, id, output))
            }
            What::Why { id, data } => why(id, &data, output),
        }
    }
}

/// Rows of one page, and of a list where no limit is given.
const PAGE_ROWS: u64 = 1_000;
/// Pages that one list asks for. With a filter a page can be empty, and each has cost the hub a look at 10,000.
const PAGES_MAX: usize = 1_000;

#[derive(Default, Deserialize, Serialize)]
struct Page {
    transfers: Vec<Value>,
    next: Option<String>,
}

/// Pages until there are `limit` rows, or no more.
async fn pages(
    remote: &Remote,
    filter: &str,
    after: Option<String>,
    limit: Option<u64>,
) -> anyhow::Result<Page> {
    let mut all = Page { next: after, ..Page::default() };
    let mut missing = limit.unwrap_or(PAGE_ROWS);
    for _ in 0..PAGES_MAX {
        let after = all.next.take().map_or_else(String::new, |next| format!("&after={}", escaped(&next)));
        let path = format!("/hub/transfers?limit={}{filter}{after}", missing.min(PAGE_ROWS));
        let page: Page = remote.get(&path).await?;
        missing = missing.saturating_sub(page.transfers.len() as u64);
        all.transfers.extend(page.transfers);
        all.next = page.next;
        if missing == 0 || all.next.is_none() {
            break;
        }
    }
    Ok(all)
}

async fn list(
    remote: &Remote,
    filter: &str,
    after: Option<String>,
    limit: Option<u64>,
    output: Output,
) -> anyhow::Result<()> {
    let page = pages(remote, filter, after, limit).await?;
    if output == Output::Json {
        return print(&serde_json::to_string(&page)?);
    }
    let header = ["transfer", "state", "payer", "payee", "amount", "currency", "expiration"];
    let mut table = table(&header, &["amount"]);
    for row in page.transfers {
        let row: TransferRow =
            serde_json::from_value(row).context("the hub's answer is no page of transfers")?;
        table.add_row(vec![
            row.transfer_id,
            row.state.to_string(),
            row.payer_fsp.0.unwrap_or_default(),
            row.payee_fsp.0.unwrap_or_default(),
            row.amount,
            row.currency.to_string(),
            row.expiration.to_string(),
        ]);
    }
    print(&table.to_string())?;
    match page.next {
        Some(next) => print(&format!("more: --after {next}")),
        None => Ok(()),
    }
}

async fn show(remote: &Remote, id: TransferId, output: Output) -> anyhow::Result<()> {
    let text = remote.get_text(&format!("/hub/transfers/{id}")).await?;
    if output == Output::Json {
        return print(std::str::from_utf8(&text).context("the hub's answer is not text")?.trim_end());
    }
    let TransferStory { row, history, position_changes, error_information, archived } =
        serde_json::from_slice(&text).context("the hub's answer is no transfer")?;
    let name = |Nullable(name): &Nullable<String>| {
        name.clone().unwrap_or_else(|| "an unknown participant".to_owned())
    };
    print(&format!(
        "{}: {} {} from {} to {}, {}; expiration {}",
        row.transfer_id,
        row.amount,
        row.currency,
        name(&row.payer_fsp),
        name(&row.payee_fsp),
        row.state,
        row.expiration
    ))?;
    if let Some(error) = error_information {
        print(&format!("error {}: {}", error.error_code, error.error_description))?;
    }
    if archived == Some(true) {
        print("archived: retention has removed its records from the log")?;
    }
    let mut states = table(&["state", "at"], &[]);
    for TransferStep { state, at } in history {
        states.add_row(vec![state.to_string(), at.to_string()]);
    }
    print(&states.to_string())?;
    if position_changes.is_empty() {
        return Ok(());
    }
    let mut changes = table(&["position of", "change", "value"], &["change", "value"]);
    for PositionChange { participant, change, value } in position_changes {
        changes.add_row(vec![name(&participant), change, value]);
    }
    print(&changes.to_string())
}

fn why(id: TransferId, data: &Path, output: Output) -> anyhow::Result<()> {
    let reader = read_log(data).map_err(|error| match error.downcast::<BadInput>() {
        Ok(missing) => {
            let what = format!(
                "{missing}. The database profile has no such log: use `holdfast transfers show {id}`"
            );
            BadInput::from(anyhow::anyhow!(what)).into()
        }
        Err(other) => other,
    })?;
    let mut core = Core::new(MemoryStore::new(0));
    let mut witness = Witness::of(id);
    let frames = reader.frames(0).map_err(|error| {
        beginning_removed(
            error,
            &format!("the story of {id} cannot be told; its outcome: holdfast transfers show {id}"),
        )
    })?;
    replay_with(frames, &mut core, |frame, commands, effects, core| {
        witness.frame(&frame.header, commands, effects, core);
    })
    .context("the log does not lead to a state")?;
    let story = witness.tell(&core);
    if story.events.is_empty() {
        bail!("the log in {} says nothing of {id}, up to offset {}", data.display(), story.log_end);
    }
    match output {
        Output::Json => print(&serde_json::to_string_pretty(&story)?),
        Output::Text => print(story.to_string().trim_end()),
    }
}
