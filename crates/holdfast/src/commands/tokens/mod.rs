//! `holdfast tokens`: what wallets have, who holds what of it, and everything that a wallet's program can do, by hand.
//! Everything goes over HTTP to a running hub.
//!
//! `--output json` prints the hub's answer as it came. Quantities are strings there and never pass through a float.

mod actions;
mod advice;
mod updates;
mod views;

use anyhow::{Context, bail};
use bytes::Bytes;
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::pages::STRANGE;
use super::tables::print_json;
use super::{BadInput, Output};
use crate::remote::{Answer, Remote, RemoteArgs, block_on, escaped};

/// Show and move the tokens of a running hub.
#[derive(Debug, clap::Args)]
pub(super) struct Tokens {
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
    /// What a wallet has, and in how small pieces
    Balance(views::OfWallet),
    /// The tokens of a wallet, page by page
    List(views::List),
    /// Who holds what, since when and until when
    Locks(views::Locks),
    /// Make new tokens
    Issue(actions::Issue),
    /// Choose tokens worth an amount and lock them for a spender
    Select(actions::Select),
    /// Spend what a spender has selected; what is left over returns to the sender
    Spend(actions::Spend),
    /// Take what a spender has selected out of the vault; what is left over returns to the sender
    Redeem(actions::Redeem),
    /// Give back what a spender has selected
    Release(actions::Held),
    /// Move the end of a spender's lease
    Renew(actions::Renew),
    /// Take over what another ledger consumed and produced, in any order
    Updates(updates::Updates),
    /// Bring the small tokens of a wallet together
    Consolidate(actions::Consolidate),
}

impl Tokens {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let output = self.output;
        let remote = self.remote.open().map_err(BadInput::from)?;
        block_on(async move {
            match self.what {
                What::Balance(flags) => flags.balance(&remote, output).await,
                What::List(flags) => flags.run(&remote, output).await,
                What::Locks(flags) => flags.run(&remote, output).await,
                What::Issue(flags) => flags.run(&remote, output).await,
                What::Select(flags) => flags.run(&remote, output).await,
                What::Spend(flags) => flags.run(&remote, output).await,
                What::Redeem(flags) => flags.run(&remote, output).await,
                What::Release(flags) => flags.release(&remote, output).await,
                What::Renew(flags) => flags.run(&remote, output).await,
                What::Updates(flags) => flags.run(&remote, output).await,
                What::Consolidate(flags) => flags.run(&remote, output).await,
            }
        })
    }
}

/// A GET that must be answered well.
async fn get(remote: &Remote, path: &str) -> anyhow::Result<Bytes> {
    taken("GET", path, remote.try_ask(Method::GET, path).await?)
}

/// A POST that must be taken.
async fn post(remote: &Remote, path: &str, body: &impl Serialize) -> anyhow::Result<Bytes> {
    taken("POST", path, remote.try_post(path, body).await?)
}

/// A DELETE that must be taken.
async fn delete(remote: &Remote, path: &str) -> anyhow::Result<Bytes> {
    taken("DELETE", path, remote.try_ask(Method::DELETE, path).await?)
}

fn taken(method: &str, path: &str, answer: Answer) -> anyhow::Result<Bytes> {
    if answer.status.is_success() {
        return Ok(answer.body);
    }
    bail!("the hub refuses {method} {path}: {}", advice::in_words(path, &answer))
}

/// `?name=value&…` of what is there.
fn query(filters: &[(&str, Option<&str>)]) -> String {
    let pairs = filters.iter().filter_map(|(name, value)| Some(format!("{name}={}", escaped((*value)?))));
    let pairs = pairs.collect::<Vec<_>>().join("&");
    if pairs.is_empty() { pairs } else { format!("?{pairs}") }
}

/// Prints the hub's answer: as it came for programs, and what `tell` says of it for people.
fn show<T: DeserializeOwned>(
    answer: &[u8],
    output: Output,
    tell: impl FnOnce(T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    match output {
        Output::Json => print_json(answer),
        Output::Text => tell(serde_json::from_slice(answer).context(STRANGE)?),
    }
}

/// `NAME=QUANTITY`. A name may have any character, a quantity has digits.
fn quantity_of(text: &str, form: &str) -> Result<(String, u64), String> {
    let (name, quantity) =
        text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| format!("is not {form}"))?;
    Ok((name.to_owned(), whole_number(quantity).map_err(|reason| format!("'{quantity}' {reason}"))?))
}

fn whole_number(text: &str) -> Result<u64, String> {
    let plain = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let number = plain.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| format!("is no whole number up to {}", u64::MAX))
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("is not NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_digits_only() {
        assert_eq!(whole_number("18446744073709551615"), Ok(u64::MAX));
        for bad in ["", "-1", "+1", "1.0", "1e3", " 1", "18446744073709551616"] {
            assert!(whole_number(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_query_has_what_is_there_and_is_escaped() {
        assert_eq!(
            query(&[("wallet", Some("a&b")), ("state", None), ("currency", Some("EUR"))]),
            "?wallet=a%26b&currency=EUR"
        );
        assert_eq!(query(&[("wallet", None)]), "");
    }
}
