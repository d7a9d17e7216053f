//! What changes nothing: balances, lists, locks.

use anyhow::Context;
use holdfast_tokens::DEFAULT_TYPE;
use holdfast_wire::tokens::{self, Balance, ListedToken, Lock, Token};
use holdfast_wire::{Name, Nullable};

use super::super::name_of;
use super::super::pages::{PageArgs, Pages, STRANGE, print_more, read_value};
use super::super::tables::{print, table};
use super::{Output, get, query, show};
use crate::remote::Remote;

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
    fn filters(&self) -> [(&str, Option<&str>); 3] {
        let (wallet, currency) = (self.wallet.as_str(), self.currency.as_str());
        [("wallet", Some(wallet)), ("currency", Some(currency)), ("type", self.token_type.as_deref())]
    }

    pub(super) async fn balance(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let answer = get(remote, &format!("/tokens/balance{}", query(&self.filters()))).await?;
        show(&answer, output, |balance| self.tell(balance))
    }

    fn tell(&self, balance: Balance) -> anyhow::Result<()> {
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
    #[command(flatten)]
    page: PageArgs,
}

/// The pages of a list, whose rows stand under its name.
async fn pages(
    remote: &Remote,
    (path, name): (&str, &'static str),
    filters: &[(&str, Option<&str>)],
    page: PageArgs,
) -> anyhow::Result<Pages> {
    let ask = async |after: Option<&str>, rows: u64| {
        let rows = rows.to_string();
        let asked = query(&[filters, &[("after", after), ("limit", Some(&rows))]].concat());
        serde_json::from_slice(&get(remote, &format!("{path}{asked}")).await?).context(STRANGE)
    };
    Pages::read((name, PAGES_MAX), page, ask).await
}

impl List {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let state = self.state.map(name_of);
        let filters = [&self.of.filters()[..], &[("state", state.as_deref())]].concat();
        let pages = pages(remote, ("/tokens", "tokens"), &filters, self.page).await?;
        if output == Output::Json {
            return pages.print_json();
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
    #[command(flatten)]
    page: PageArgs,
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
            ("currency", self.currency.as_deref()),
            ("spender", self.spender.as_deref()),
        ];
        let pages = pages(remote, ("/tokens/locks", "locks"), &filters, self.page).await?;
        if output == Output::Json {
            return pages.print_json();
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
