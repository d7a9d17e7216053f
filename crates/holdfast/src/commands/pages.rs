//! Lists of a hub, page by page.

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::tables::print;
use crate::remote::escaped;

/// Rows of one page, and of a list where no limit is given.
const PAGE_ROWS: u64 = 1_000;

/// Of an answer that cannot be read.
pub(super) const STRANGE: &str = "the hub answers something else than expected";

/// Which rows of a list.
#[derive(Debug, clap::Args)]
pub(super) struct PageArgs {
    /// The cursor that an earlier page ended with
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// At most so many [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// What one or more pages of a list had.
pub(super) struct Pages {
    /// Under which name a page has its rows.
    name: &'static str,
    pub(super) rows: Vec<Value>,
    pub(super) next: Option<String>,
}

impl Pages {
    /// Asks for page after page, but not for more than so many, until there are as many rows as wanted, or no more. `ask` gets
    /// the cursor and how many rows the page may have.
    pub(super) async fn read(
        (name, pages_max): (&'static str, usize),
        args: PageArgs,
        ask: impl AsyncFn(Option<&str>, u64) -> anyhow::Result<Map<String, Value>>,
    ) -> anyhow::Result<Pages> {
        let mut all = Pages { name, rows: Vec::new(), next: args.after };
        let mut missing = args.limit.unwrap_or(PAGE_ROWS);
        for _ in 0..pages_max {
            let mut page = ask(all.next.as_deref(), missing.min(PAGE_ROWS)).await?;
            let rows: Vec<Value> = read_value(page.remove(name).unwrap_or_default())?;
            all.next = read_value(page.remove("next").unwrap_or_default())?;
            missing = missing.saturating_sub(rows.len() as u64);
            all.rows.extend(rows);
            if missing == 0 || all.next.is_none() {
                break;
            }
        }
        Ok(all)
    }

    /// As one page, for programs.
    pub(super) fn print_json(self) -> anyhow::Result<()> {
        let page =
            Map::from_iter([(self.name.to_owned(), self.rows.into()), ("next".to_owned(), self.next.into())]);
        print(&Value::from(page).to_string())
    }
}

/// How to go on, if there is more.
pub(super) fn print_more(next: Option<String>) -> anyhow::Result<()> {
    next.map_or(Ok(()), |next| print(&format!("more: --after {next}")))
}

/// `&after=…`, where a page came before.
pub(super) fn after(cursor: Option<&str>) -> String {
    cursor.map_or_else(String::new, |cursor| format!("&after={}", escaped(cursor)))
}

/// A part of an answer.
pub(super) fn read_value<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    serde_json::from_value(value).context(STRANGE)
}
