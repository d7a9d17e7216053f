//! `holdfast checkouts`: what is open in the shop and what it waits for; ended, or tried again. Everything goes over HTTP to
//! a running hub.
//!
//! `--output json` prints the hub's answer as it came.

use anyhow::Context;
use hyper::Method;
use serde::Deserialize;

use super::pages::{PageArgs, Pages, after, print_more};
use super::tables::{print, print_json, table};
use super::{BadInput, Output, name_of};
use crate::remote::{Remote, RemoteArgs, block_on, escaped};

/// Show the checkouts of a running hub, end them, try them again.
#[derive(Debug, clap::Args)]
pub(super) struct Checkouts {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    remote: RemoteArgs,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t, global = true)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Open checkouts, the oldest first, with what each waits for
    List {
        /// Only those in this state
        #[arg(long, value_enum)]
        state: Option<State>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// One order: where it stands, why its last try failed, what an open one waits for
    Show {
        /// Its id
        #[arg(value_parser = order)]
        order: String,
    },
    /// End a checkout that is not decided; what it took is given back
    Cancel {
        /// The order's id
        #[arg(value_parser = order)]
        order: String,
    },
    /// Send again what was not answered, or check an order out anew that failed
    Retry {
        /// The order's id
        #[arg(value_parser = order)]
        order: String,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum State {
    /// Not decided
    Pending,
    /// Failed, and being given back
    Cancelling,
}

/// What an order may be called.
fn order(text: &str) -> Result<String, String> {
    let id: Result<holdfast_domain::shop::OrderId, _> = text.parse();
    id.map(|id| id.as_str().to_owned()).map_err(|error| error.to_string())
}

impl Checkouts {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let output = self.output;
        let remote = self.remote.open().map_err(BadInput::from)?;
        block_on(async move {
            match self.what {
                What::List { state, page } => list(&remote, state, page, output).await,
                What::Show { order } => tell(&remote, Method::GET, &order, "", output).await,
                What::Cancel { order } => tell(&remote, Method::POST, &order, "/cancel", output).await,
                What::Retry { order } => tell(&remote, Method::POST, &order, "/retry", output).await,
            }
        })
    }
}

fn path_of(order: &str) -> String {
    format!("/hub/checkouts/{}", escaped(order))
}

/// The list, and the pages that one command asks for: as many as a shop full of open checkouts has.
const LISTED: (&str, usize) = ("checkouts", 1_000);

/// An order as the hub shows it, with its open checkout if there is one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    order: String,
    tr: Option<u32>,
    state: String,
    user: Option<String>,
    amount: Option<String>,
    why: Option<String>,
    charged: Option<bool>,
    started_at: Option<String>,
    since: Option<String>,
    deadline: Option<String>,
    waits_for: Option<Vec<String>>,
    /// The transfer that pays.
    transfer: Option<String>,
    /// In whose name tokens are locked.
    spender: Option<String>,
    /// The hub's own sentence, such as `waits for stock since 12 s, cancels in 18 s`.
    detail: Option<String>,
}

async fn list(remote: &Remote, state: Option<State>, page: PageArgs, output: Output) -> anyhow::Result<()> {
    let filter = state.map_or_else(String::new, |state| format!("&state={}", name_of(state)));
    let ask = async |cursor: Option<&str>, rows: u64| {
        remote.get(&format!("/hub/checkouts?limit={rows}{filter}{}", after(cursor))).await
    };
    let pages = Pages::read(LISTED, page, ask).await?;
    if output == Output::Json {
        return pages.print_json();
    }
    if pages.rows.is_empty() {
        return print("no checkout is open");
    }
    let rows = pages.rows.into_iter().map(serde_json::from_value);
    let rows: Vec<Row> =
        rows.collect::<Result<_, _>>().context("the hub's answer is no page of checkouts")?;
    // Credit has no name of its own.
    let charged = rows.iter().any(|row| row.charge().is_some());
    let mut header = vec!["order", "try", "state", "user", "amount", "started", "deadline", "it"];
    header.extend(charged.then_some("paid by"));
    let mut table = table(&header, &["try", "amount"]);
    for row in rows {
        let (charge, deadline) = (row.charge(), row.deadline().cloned());
        let text = Option::unwrap_or_default;
        let mut cells = vec![
            row.order,
            row.tr.map_or_else(String::new, |tr| tr.to_string()),
            row.state,
            text(row.user),
            text(row.amount),
            text(row.started_at),
            text(deadline),
            text(row.detail),
        ];
        cells.extend(charged.then(|| text(charge)));
        table.add_row(cells);
    }
    print(&table.to_string())?;
    print_more(pages.next)
}

/// Asks about one order, or has something done to it, and prints how it stands.
async fn tell(
    remote: &Remote,
    method: Method,
    order: &str,
    what: &str,
    output: Output,
) -> anyhow::Result<()> {
    let body = remote.ask(method, &format!("{}{what}", path_of(order))).await?;
    if output == Output::Json {
        return print_json(&body);
    }
    let row: Row = serde_json::from_slice(&body).context("the hub's answer is no checkout")?;
    row.lines().iter().try_for_each(|line| print(line))
}

impl Row {
    /// What pays, if it is not credit.
    fn charge(&self) -> Option<String> {
        let transfer = self.transfer.as_ref().map(|id| format!("transfer {id}"));
        transfer.or_else(|| self.spender.as_ref().map(|name| format!("tokens locked by {name}")))
    }

    /// When it is cancelled. One that is being given back already has that behind it.
    fn deadline(&self) -> Option<&String> {
        self.deadline.as_ref().filter(|_| self.state != "cancelling")
    }

    /// The order in a few lines for people.
    fn lines(&self) -> Vec<String> {
        let mut first = format!("order {} is {}", self.order, self.state);
        match (self.tr, &self.why) {
            (None, _) => first += "; it was never tried",
            (Some(tr), None) => first += &format!(" (try {tr})"),
            (Some(tr), Some(why)) => first += &format!("; try {tr} failed: {}", in_words(why)),
        }
        if self.charged == Some(false) {
            first += "; it was paid before, nothing was charged";
        }
        let mut lines = vec![first];
        if let (Some(user), Some(amount)) = (&self.user, &self.amount) {
            lines.push(format!("user {user} pays {amount}"));
        }
        if let Some(charge) = self.charge() {
            lines.push(format!("paid by {charge}"));
        }
        if let Some(detail) = &self.detail {
            lines.push(format!("it {detail}"));
        }
        let times = [
            ("started", self.started_at.as_ref()),
            ("waits since", self.since.as_ref()),
            ("deadline", self.deadline()),
        ];
        let times = times.into_iter().filter_map(|(name, at)| Some(format!("{name} {}", at?)));
        let times: Vec<String> = times.collect();
        if !times.is_empty() {
            lines.push(times.join(", "));
        }
        if self.waits_for.as_ref().is_some_and(|sides| !sides.is_empty()) {
            let order = &self.order;
            lines.push(match self.state.as_str() {
                "pending" => format!(
                    "ask again: holdfast checkouts retry {order}\ngive up: holdfast checkouts cancel {order}"
                ),
                _ => format!("ask again: holdfast checkouts retry {order}"),
            });
        } else if self.why.is_some() {
            lines.push(format!("try again: holdfast checkouts retry {}", self.order));
        }
        lines
    }
}

fn in_words(why: &str) -> &str {
    match why {
        "pay" => "the payment was refused",
        "stock" => "the stock was refused",
        "both" => "payment and stock were refused",
        "cancelled" => "an operator cancelled it",
        "deadline" => "its deadline passed",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn tells(json: &str, lines: &[&str]) {
        assert_eq!(serde_json::from_str::<Row>(json).unwrap().lines(), lines);
    }

    #[test]
    fn an_order_that_was_never_tried() {
        tells(
            r#"{"order":"o1","tr":null,"state":"not_paid","user":"u1","amount":"20"}"#,
            &["order o1 is not_paid; it was never tried", "user u1 pays 20"],
        );
    }

    #[test]
    fn one_that_failed_says_why_and_what_to_do() {
        tells(
            r#"{"order":"o1","tr":2,"state":"not_paid","why":"stock"}"#,
            &[
                "order o1 is not_paid; try 2 failed: the stock was refused",
                "try again: holdfast checkouts retry o1",
            ],
        );
    }

    #[test]
    fn one_that_waits_says_for_whom() {
        tells(
            r#"{"order":"o1","tr":1,"state":"pending","startedAt":"A","since":"B","deadline":"C",
                "waitsFor":["stock"],"detail":"waits for stock since 12 s, cancels in 18 s"}"#,
            &[
                "order o1 is pending (try 1)",
                "it waits for stock since 12 s, cancels in 18 s",
                "started A, waits since B, deadline C",
                "ask again: holdfast checkouts retry o1\ngive up: holdfast checkouts cancel o1",
            ],
        );
    }

    #[test]
    fn what_pays_is_named_and_what_is_given_back_has_no_deadline() {
        tells(
            r#"{"order":"o1","tr":1,"state":"pending","transfer":"7d0f","startedAt":"A","since":"B","deadline":"C"}"#,
            &["order o1 is pending (try 1)", "paid by transfer 7d0f", "started A, waits since B, deadline C"],
        );
        tells(
            r#"{"order":"o1","tr":1,"state":"cancelling","spender":"7d0f","startedAt":"A","since":"B","deadline":"C"}"#,
            &["order o1 is cancelling (try 1)", "paid by tokens locked by 7d0f", "started A, waits since B"],
        );
    }

    #[test]
    fn ids_are_bounded_before_anything_is_sent() {
        assert!(order("o/1 é").is_ok());
        assert!(order("").is_err() && order(&"x".repeat(129)).is_err());
        assert_eq!(path_of("o/1"), "/hub/checkouts/o%2F1");
    }
}
