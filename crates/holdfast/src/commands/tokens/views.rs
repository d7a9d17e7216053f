//! What changes nothing: balances, lists, locks.

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

/// A token as the hub shows it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Token {
    id: String,
    wallet: String,
    #[serde(rename = "type")]
    token_type: String,
    currency: String,
    quantity: String,
    issuer: Option<String>,
    notary: Option<String>,
    state: Option<String>,
}

/// Tokens for people; columns that would be empty are left out.
pub(super) fn in_a_table(tokens: &[Token]) -> String {
    type Cell = fn(&Token) -> Option<&str>;
    let columns: [(&str, Cell); 8] = [
        ("token", |token| Some(&token.id)),
        ("wallet", |token| Some(&token.wallet)),
        ("type", |token| Some(token.token_type.as_str()).filter(|name| *name != "token")),
        ("currency", |token| Some(&token.currency)),
        ("quantity", |token| Some(&token.quantity)),
        ("issuer", |token| token.issuer.as_deref()),
        ("notary", |token| token.notary.as_deref()),
        ("state", |token| token.state.as_deref()),
    ];
    let always = ["token", "wallet", "currency", "quantity"];
    let shown: Vec<(&str, Cell)> = columns
        .into_iter()
        .filter(|(name, cell)| always.contains(name) || tokens.iter().any(|token| cell(token).is_some()))
        .collect();
    let header: Vec<&str> = shown.iter().map(|(name, _)| *name).collect();
    let mut table = table(&header, &["quantity"]);
    for token in tokens {
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Balance {
    total: String,
    free: String,
    locked: String,
    tokens: u64,
    locked_tokens: u64,
    smallest_free: Option<String>,
    largest_free: Option<String>,
    fragmentation: Vec<Pieces>,
}

#[derive(Deserialize)]
struct Pieces {
    digits: u32,
    tokens: u64,
    sum: String,
}

impl Pieces {
    /// The quantities that have so many digits.
    fn range(&self) -> String {
        let power = |exponent: u32| 10_u128.checked_pow(exponent).unwrap_or(u128::MAX);
        let first = if self.digits <= 1 { 1 } else { power(self.digits - 1) };
        format!("{first} to {}", power(self.digits).saturating_sub(1).min(u64::MAX.into()))
    }
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
        if let (Some(smallest), Some(largest)) = (balance.smallest_free, balance.largest_free) {
            print(&format!("the smallest free token is {smallest}, the largest {largest}"))?;
        }
        if balance.fragmentation.is_empty() {
            return Ok(());
        }
        let mut table = table(&["free tokens of", "tokens", "together"], &["tokens", "together"]);
        for pieces in balance.fragmentation {
            table.add_row(vec![pieces.range(), pieces.tokens.to_string(), pieces.sum]);
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
        let tokens: Result<Vec<Token>, _> = pages.rows.into_iter().map(read_value).collect();
        print(&in_a_table(&tokens?))?;
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lock {
    holder: String,
    fence: String,
    since: String,
    age_ms: u64,
    expires_at: Option<String>,
    tokens: Vec<Token>,
}

impl Lock {
    fn worth(&self) -> u128 {
        self.tokens.iter().filter_map(|token| token.quantity.parse::<u128>().ok()).sum()
    }

    /// How long until its end, by the hub's clock: it began at `since` and is `age_ms` old.
    fn ends_in(&self) -> String {
        let Some(end) = &self.expires_at else { return "with its transfer or checkout".to_owned() };
        let instant = |text: &str| text.parse::<jiff::Timestamp>().ok();
        let Some((end, since)) = instant(end).zip(instant(&self.since)) else { return end.clone() };
        let lasts = u64::try_from(end.as_millisecond().saturating_sub(since.as_millisecond())).unwrap_or(0);
        in_time(lasts.saturating_sub(self.age_ms))
    }

    fn wallets(&self) -> String {
        let mut names: Vec<&str> = self.tokens.iter().map(|token| token.wallet.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        match names.as_slice() {
            [first, _, _, _, ..] => format!("{first} and {} more", names.len() - 1),
            few => few.join(", "),
        }
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
                lock.holder.clone(),
                lock.wallets(),
                lock.tokens.len().to_string(),
                lock.worth().to_string(),
                in_time(lock.age_ms),
                lock.ends_in(),
                lock.fence.clone(),
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
        let range = |digits| Pieces { digits, tokens: 1, sum: "1".to_owned() }.range();
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
            (lock.ends_in(), lock.worth(), lock.wallets()),
            ("50.0 s".to_owned(), 1 << 64, "w".to_owned())
        );
        lock.expires_at = None;
        assert_eq!(lock.ends_in(), "with its transfer or checkout");
    }
}
