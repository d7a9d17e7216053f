//! What changes nothing: balances, lists, locks.

use holdfast_tokens::DEFAULT_TYPE;
use holdfast_wire::tokens::{self, Balance, ListedToken, Lock, Token};
use holdfast_wire::{Name, Nullable};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::tables::{print, table};
use super::actions::read;
use super::{Output, get, print_json, query};
use crate::remote::Remote;

/// Rows of one page, and of a list where no limit is given.
const PAGE_ROWS: u64 = 1_000;
/// Pages that one list asks for.
const PAGES_MAX: usize = 10_000;

/// A token of a table; only a list knows its state.
pub(super) struct Row<'a>(&'a Token, Option<tokens::State>);

impl<'a> From<&'a Token> for Row<'a> {
    fn from(token: &'a Token) -> Row<'a> {
        Row(token, None)
    }
}

/// Tokens for people; columns that would be empty are left out.
pub(super) fn in_a_table<'a>(tokens: impl Iterator<Item = Row<'a>>) -> String {
    type Cell = fn(&Row<'_>) -> Option<String>;
    let columns: [(&str, Cell); 8] = [
        ("token", |Row(token, _)| Some(token.id.to_string())),
        ("wallet", |Row(token, _)| Some(token.wallet.to_string())),
        ("type", |Row(token, _)| Some(token.token_type.to_string()).filter(|name| name != DEFAULT_TYPE)),
        ("currency", |Row(token, _)| Some(token.currency.to_string())),
        ("quantity", |Row(token, _)| Some(token.quantity.to_string())),
        ("issuer", |Row(token, _)| token.issuer.as_ref().map(Name::to_string)),
        ("notary", |Row(token, _)| token.notary.as_ref().map(Name::to_string)),
        ("state", |Row(_, state)| state.map(|state| state.to_string())),
    ];
    let tokens: Vec<Row<'_>> = tokens.collect();
    let always = ["token", "wallet", "currency", "quantity"];
    let shown: Vec<(&str, Cell)> = columns
        .into_iter()
        .filter(|(name, cell)| always.contains(name) || tokens.iter().any(|token| cell(token).is_some()))
        .collect();
    let header: Vec<&str> = shown.iter().map(|(name, _)| *name).collect();
    let mut table = table(&header, &["quantity"]);
    for token in &tokens {
        table.add_row(shown.iter().map(|(_, cell)| cell(token).unwrap_or_default()).collect::<Vec<_>>());
    }
    table.to_string()
}

#[derive(Debug, clap::Args)]
pub(super) struct OfWallet {
    /// Which wallet
    #[arg(long)]
    wallet: String,
    /// In which currency
    #[arg(long)]
    currency: String,
    /// Of which type [default: token]
    #[arg(long = "type", value_name = "TYPE")]
    token_type: Option<String>,
}

/// The quantities that have so many digits.
fn range(digits: usize) -> String {
    let power = |exponent: usize| {
        u32::try_from(exponent).ok().and_then(|exponent| 10_u128.checked_pow(exponent)).unwrap_or(u128::MAX)
    };
    let first = if digits <= 1 { 1 } else { power(digits - 1) };
    format!("{first} to {}", power(digits).saturating_sub(1).min(u64::MAX.into()))
}

impl OfWallet {
    pub(super) async fn balance(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let filters = [
            ("wallet", Some(self.wallet.as_str())),
            ("currency", Some(self.currency.as_str())),
            ("type", self.token_type.as_deref()),
        ];
        let answer = get(remote, &format!("/tokens/balance{}", query(filters))).await?;
        if output == Output::Json {
            return print_json(&answer);
        }
        let balance: Balance = read(&answer)?;
        print(&format!(
            "{} has {} {} in {} tokens: {} free, {} locked in {} tokens",
            self.wallet,
            balance.total,
            self.currency,
            balance.tokens,
            balance.free,
            balance.locked,
            balance.locked_tokens
        ))?;
        if let (Nullable(Some(smallest)), Nullable(Some(largest))) =
            (balance.smallest_free, balance.largest_free)
        {
            print(&format!("the smallest free token is {smallest}, the largest {largest}"))?;
        }
        if balance.fragmentation.is_empty() {
            return Ok(());
        }
        let mut table = table(&["free tokens of", "tokens", "together"], &["tokens", "together"]);
        for pieces in balance.fragmentation {
            table.add_row(vec![
                range(pieces.digits.size()),
                pieces.tokens.to_string(),
                pieces.sum.to_string(),
            ]);
        }
        print(&table.to_string())
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum State {
    /// Those that can be selected
    Free,
    /// Those that somebody holds
    Locked,
}

#[derive(Debug, clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    of: OfWallet,
    /// Only those in this state
    #[arg(long, value_enum)]
    state: Option<State>,
    /// The cursor that an earlier page ended with
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// At most so many [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// What one or more pages of a list had.
#[derive(Default)]
struct Pages {
    rows: Vec<Value>,
    next: Option<String>,
}

impl Pages {
    /// Asks for pages of `path`, whose rows stand under `name`, until there are `limit` rows, or no more.
    async fn read(
        remote: &Remote,
        (path, name): (&str, &str),
        filters: [(&str, Option<&str>); 4],
        after: Option<String>,
        limit: Option<u64>,
    ) -> anyhow::Result<Pages> {
        let mut all = Pages { next: after, ..Pages::default() };
        let mut missing = limit.unwrap_or(PAGE_ROWS);
        for _ in 0..PAGES_MAX {
            let (after, rows) = (all.next.take(), missing.min(PAGE_ROWS).to_string());
            let [a, b, c, d] = filters;
            let asked = query([a, b, c, d, ("after", after.as_deref()), ("limit", Some(&rows))]);
            let mut page: serde_json::Map<String, Value> =
                read(&get(remote, &format!("{path}{asked}")).await?)?;
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

    fn print_json(self, name: &str) -> anyhow::Result<()> {
        #[derive(Serialize)]
        struct Page {
            #[serde(flatten)]
            rows: std::collections::BTreeMap<String, Vec<Value>>,
            next: Option<String>,
        }
        let rows = [(name.to_owned(), self.rows)].into();
        print(&serde_json::to_string(&Page { rows, next: self.next })?)
    }
}

fn read_value<T: for<'de> Deserialize<'de>>(value: Value) -> anyhow::Result<T> {
    use anyhow::Context;
    serde_json::from_value(value).context("the hub answers something else than expected")
}

fn print_more(next: Option<String>) -> anyhow::Result<()> {
    next.map_or(Ok(()), |next| print(&format!("more: --after {next}")))
}

impl List {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let state = self.state.map(|state| match state {
            State::Free => "free",
            State::Locked => "locked",
        });
        let filters = [
            ("wallet", Some(self.of.wallet.as_str())),
            ("currency", Some(self.of.currency.as_str())),
            ("type", self.of.token_type.as_deref()),
            ("state", state),
        ];
        let pages = Pages::read(remote, ("/tokens", "tokens"), filters, self.after, self.limit).await?;
        if output == Output::Json {
            return pages.print_json("tokens");
        }
        let tokens: Result<Vec<ListedToken>, _> = pages.rows.into_iter().map(read_value).collect();
        print(&in_a_table(tokens?.iter().map(|listed| Row(&listed.token, Some(listed.state)))))?;
        print_more(pages.next)
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Locks {
    /// Only locks on tokens of this wallet
    #[arg(long)]
    wallet: Option<String>,
    /// Only locks on tokens of this currency
    #[arg(long)]
    currency: Option<String>,
    /// Only the lock of this spender
    #[arg(long)]
    spender: Option<String>,
    /// The cursor that an earlier page ended with
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// At most so many [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

fn worth(lock: &Lock) -> u128 {
    lock.tokens.iter().map(|token| u128::from(token.quantity.0)).sum()
}

/// How long until its end, by the hub's clock: it began at `since` and is `age_ms` old.
fn ends_in(lock: &Lock) -> String {
    let Nullable(Some(end)) = lock.expires_at else { return "with its transfer or checkout".to_owned() };
    let lasts = u64::try_from(end.0.saturating_sub(lock.since.0)).unwrap_or(0);
    in_time(lasts.saturating_sub(lock.age_ms))
}

fn wallets(lock: &Lock) -> String {
    let mut names: Vec<&str> = lock.tokens.iter().map(|token| token.wallet.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [first, _, _, _, ..] => format!("{first} and {} more", names.len() - 1),
        few => few.join(", "),
    }
}

/// A length of time in the two units that tell most.
fn in_time(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0..60 => format!("{seconds}.{} s", millis % 1_000 / 100),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

impl Locks {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let filters = [
            ("wallet", self.wallet.as_deref()),
            ("spender", self.spender.as_deref()),
            ("", None),
            ("", None),
        ];
        let pages = Pages::read(remote, ("/tokens/locks", "locks"), filters, self.after, self.limit).await?;
        if output == Output::Json {
            return pages.print_json("locks");
        }
        let header = ["spender", "wallet", "tokens", "worth", "age", "ends in", "fence"];
        let mut table = table(&header, &["tokens", "worth", "age", "ends in", "fence"]);
        for lock in pages.rows {
            let lock: Lock = read_value(lock)?;
            table.add_row(vec![
                lock.holder.to_string(),
                wallets(&lock),
                lock.tokens.len().to_string(),
                worth(&lock).to_string(),
                in_time(lock.age_ms),
                ends_in(&lock),
                lock.fence.to_string(),
            ]);
        }
        print(&table.to_string())?;
        print_more(pages.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_told_by_their_quantities() {
        assert_eq!(range(1), "1 to 9");
        assert_eq!(range(3), "100 to 999");
        assert_eq!(range(20), "10000000000000000000 to 18446744073709551615");
    }

    #[test]
    fn times_are_short() {
        for (millis, text) in [
            (0, "0.0 s"),
            (59_999, "59.9 s"),
            (61_000, "1 min 1 s"),
            (3_600_000, "1 h 0 min"),
            (86_399_999, "23 h 59 min"),
        ] {
            assert_eq!(in_time(millis), text);
        }
    }

    #[test]
    fn a_lock_tells_when_it_ends() {
        let mut lock: Lock = serde_json::from_value(serde_json::json!({
            "holder": "p1", "fence": "7", "since": "2026-11-15T08:00:00.000Z", "ageMs": 10_000,
            "expiresAt": "2026-11-15T08:01:00.000Z",
            "tokens": [{"id": "t1", "wallet": "w", "type": "token", "currency": "EUR", "quantity": "18446744073709551615"},
                       {"id": "t2", "wallet": "w", "type": "token", "currency": "EUR", "quantity": "1"}],
        }))
        .unwrap();
        assert_eq!(
            (ends_in(&lock), worth(&lock), wallets(&lock)),
            ("50.0 s".to_owned(), 1 << 64, "w".to_owned())
        );
        lock.expires_at = Nullable(None);
        assert_eq!(ends_in(&lock), "with its transfer or checkout");
    }
}
