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
use hyper::Method;

use super::pages::{PageArgs, Pages, after, print_more};
use super::tables::{print, print_as, table};
use super::{BadInput, DATA_DEFAULT, Output, bad_input, beginning_removed, read_log};
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
        #[command(flatten)]
        page: PageArgs,
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
            What::List { state, participant, page, remote } => {
                let remote = remote.open().map_err(BadInput::from)?;
                let state = state.map(|state| state.name().to_owned());
                let filter: String = [("state", state), ("participant", participant)]
                    .into_iter()
                    .filter_map(|(name, value)| Some(format!("&{name}={}", escaped(&value?))))
                    .collect();
                block_on(list(&remote, &filter, page, output))
            }
            What::Show { id, remote } => {
                let remote = remote.open().map_err(BadInput::from)?;
                block_on(show(&remote, id, output))
            }
            What::Why { id, data } => why(id, &data, output),
        }
    }
}

/// The list, and the pages that one command asks for. With a filter a page can be empty, and each has cost the hub a look at
/// 10,000.
const LISTED: (&str, usize) = ("transfers", 1_000);

async fn list(remote: &Remote, filter: &str, page: PageArgs, output: Output) -> anyhow::Result<()> {
    let ask = async |cursor: Option<&str>, rows: u64| {
        remote.get(&format!("/hub/transfers?limit={rows}{filter}{}", after(cursor))).await
    };
    let pages = Pages::read(LISTED, page, ask).await?;
    if output == Output::Json {
        return pages.print_json();
    }
    let header = ["transfer", "state", "payer", "payee", "amount", "currency", "expiration"];
    let mut table = table(&header, &["amount"]);
    for row in pages.rows {
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
    print_more(pages.next)
}

async fn show(remote: &Remote, id: TransferId, output: Output) -> anyhow::Result<()> {
    let text = remote.ask(Method::GET, &format!("/hub/transfers/{id}")).await?;
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
        Ok(missing) => bad_input(format!(
            "{missing}. The database profile has no such log: use `holdfast transfers show {id}`"
        )),
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
    print_as(output, &story, || story.to_string().trim_end().to_owned())
}
