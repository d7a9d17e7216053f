//! What a wallet's program does: issue, select, spend, redeem, release, renew, consolidate.

use holdfast_wire::tokens::{self, Issued, Lease, NewToken, Released, Selection, Transaction};
use holdfast_wire::{Attributes, List, Name, Nullable, Object, Quantity, Whole};

use super::super::bad_input;
use super::super::tables::print;
use super::views::{Row, in_a_table};
use super::{Output, delete, pair, post, quantity_of, query, show, whole_number};
use crate::remote::{Remote, escaped, new_transfer_id};

fn attributes(pairs: Vec<(String, String)>) -> Option<Attributes> {
    Attributes::some(&pairs.into_iter().collect())
}

// What may be said of a new token.
#[derive(Debug, clap::Args)]
pub(super) struct KindArgs {
    /// The owner's account elsewhere
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
    /// The key that can sign for it
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
    /// Its type [default: token]
    #[arg(long = "type", value_name = "TYPE")]
    token_type: Option<String>,
    /// Who stands behind it
    #[arg(long)]
    issuer: Option<String>,
    /// Who notarises its spends
    #[arg(long)]
    notary: Option<String>,
    /// Whatever else is known about it; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    attribute: Vec<(String, String)>,
}

impl KindArgs {
    /// A token of this kind.
    pub(super) fn token(&self, id: Option<String>, wallet: &str, currency: &str, quantity: u64) -> NewToken {
        NewToken {
            id: id.map(Name::from),
            wallet: wallet.into(),
            external_id: self.external_id.clone().map(Name::from),
            public_key: self.public_key.clone().map(Into::into),
            token_type: self.token_type.clone().map(Name::from),
            currency: currency.into(),
            quantity: quantity.into(),
            issuer: self.issuer.clone().map(Name::from),
            notary: self.notary.clone().map(Name::from),
            attributes: attributes(self.attribute.clone()),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Issue {
    /// To which wallet
    #[arg(long)]
    wallet: String,
    /// In which currency
    #[arg(long)]
    currency: String,
    /// How much each new token is worth; may be repeated
    #[arg(long, value_name = "QUANTITY", required = true, value_delimiter = ',', value_parser = whole_number)]
    quantity: Vec<u64>,
    /// Its id, for a single token [default: the hub makes one]
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    kind: KindArgs,
}

impl Issue {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        if self.id.is_some() && self.quantity.len() > 1 {
            return Err(bad_input("--id names a single token: say one --quantity with it"));
        }
        let token =
            |quantity: &u64| self.kind.token(self.id.clone(), &self.wallet, &self.currency, *quantity);
        let tokens = List(self.quantity.iter().map(token).map(Object).collect());
        let answer = post(remote, "/tokens/issue", &tokens::Issue { tokens }).await?;
        show(&answer, output, |Issued { tokens }| print(&in_a_table(tokens.iter().map(Row::from))))
    }
}

#[derive(Debug, clap::Args)]
#[group(id = "owner", multiple = false)]
pub(super) struct OwnerArgs {
    /// From this wallet
    #[arg(long)]
    wallet: Option<String>,
    /// From what this external id has, in whatever wallets
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
    /// From what this public key has, in whatever wallets
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Policy {
    /// One token of the amount, else an exact sum if a short search finds one, else the fewest inputs
    FewestInputs,
    /// An exact sum or nothing
    NoChange,
    /// Many small inputs
    Consolidate,
    /// Any tokens that cover the amount
    Random,
}

impl Policy {
    const fn on_the_wire(self) -> tokens::Policy {
        match self {
            Policy::FewestInputs => tokens::Policy::FewestInputs,
            Policy::NoChange => tokens::Policy::NoChange,
            Policy::Consolidate => tokens::Policy::Consolidate,
            Policy::Random => tokens::Policy::Random,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Select {
    /// For whom they are locked: a name that stands for this one request [default: a new one]
    #[arg(long)]
    spender: Option<String>,
    #[command(flatten)]
    owner: OwnerArgs,
    /// In which currency
    #[arg(long)]
    currency: String,
    /// Worth how much at least
    #[arg(long, value_parser = whole_number)]
    amount: u64,
    /// Of which type [default: token]
    #[arg(long = "type", value_name = "TYPE")]
    token_type: Option<String>,
    /// Only this issuer's
    #[arg(long)]
    issuer: Option<String>,
    /// Only under this notary
    #[arg(long)]
    notary: Option<String>,
    /// Only those with this attribute; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    attribute: Vec<(String, String)>,
    /// How they are chosen [default: fewest-inputs]
    #[arg(long, value_enum)]
    policy: Option<Policy>,
    /// At most so many
    #[arg(long, value_name = "N")]
    max_inputs: Option<u64>,
    /// Take less than the amount, if there is not more
    #[arg(long)]
    allow_shortfall: bool,
    /// For how long they are locked [default: 60000]
    #[arg(long, value_name = "MS")]
    lease_ms: Option<u64>,
    /// How long to wait for funds that others hold [default: 0]
    #[arg(long, value_name = "MS")]
    wait_ms: Option<u64>,
}

impl Select {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let spender = self.spender.unwrap_or_else(|| new_transfer_id().to_string());
        let body = tokens::Select {
            spender: spender.into(),
            wallet: self.owner.wallet.map(Name::from),
            external_id: self.owner.external_id.map(Name::from),
            public_key: self.owner.public_key.map(Into::into),
            currency: self.currency.into(),
            token_type: self.token_type.map(Name::from),
            amount: Quantity(self.amount),
            issuer: self.issuer.map(Name::from),
            notary: self.notary.map(Name::from),
            attributes: attributes(self.attribute),
            policy: self.policy.map(Policy::on_the_wire),
            max_inputs: self.max_inputs.map(Into::into),
            allow_shortfall: self.allow_shortfall.then_some(true),
            lease_ms: self.lease_ms.map(Into::into),
            wait_ms: self.wait_ms.map(Into::into),
            sweep: None,
        };
        let answer = post(remote, "/tokens/select", &body).await?;
        show(&answer, output, |Selection { spender, tokens, sum, change, expires_at, fence }| {
            print(&in_a_table(tokens.iter().map(Row::from)))?;
            print(&format!(
                "{spender} holds {sum}, of which {change} is change, until {expires_at}; fence {fence}"
            ))?;
            print(&format!(
                "spend it: holdfast tokens spend {spender} --fence {fence} --to WALLET=QUANTITY"
            ))?;
            print(&format!("or not:   holdfast tokens release {spender}"))
        })
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Held {
    /// Who selected
    spender: String,
    /// The selection's fence: refused if the lock is another one by now
    #[arg(long, value_parser = whole_number)]
    fence: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Spend {
    #[command(flatten)]
    held: Held,
    /// Who gets how much; may be repeated
    #[arg(long, value_name = "WALLET=QUANTITY", required = true, value_parser = output_to)]
    to: Vec<(String, u64)>,
}

fn output_to(text: &str) -> Result<(String, u64), String> {
    quantity_of(text, "WALLET=QUANTITY")
}

fn show_transaction(answer: &[u8], output: Output) -> anyhow::Result<()> {
    show(answer, output, |Transaction { transaction: Nullable(id), consumed, produced }| {
        let Some(id) = id else { return print("nothing was done: it would not leave fewer tokens") };
        let consumed: Vec<&str> = consumed.iter().map(Name::as_str).collect();
        print(&format!("transaction {id}: consumed {}", consumed.join(", ")))?;
        if produced.is_empty() {
            return print("produced nothing: all of it left the vault");
        }
        print("produced:")?;
        print(&in_a_table(produced.iter().map(Row::from)))
    })
}

impl Spend {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let output_of = |(wallet, quantity): (String, u64)| {
            Object(tokens::Output {
                wallet: wallet.into(),
                quantity: quantity.into(),
                ..tokens::Output::default()
            })
        };
        let body = tokens::Spend {
            spender: self.held.spender.into(),
            fence: self.held.fence.map(Whole),
            outputs: List(self.to.into_iter().map(output_of).collect()),
        };
        show_transaction(&post(remote, "/tokens/spend", &body).await?, output)
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Redeem {
    #[command(flatten)]
    held: Held,
    /// How much leaves the vault for good
    #[arg(long, value_parser = whole_number)]
    quantity: u64,
}

impl Redeem {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let body = tokens::Redeem {
            spender: self.held.spender.into(),
            fence: self.held.fence.map(Whole),
            quantity: self.quantity.into(),
        };
        show_transaction(&post(remote, "/tokens/redeem", &body).await?, output)
    }
}

impl Held {
    pub(super) async fn release(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let fence = self.fence.map(|fence| fence.to_string());
        let path =
            format!("/tokens/locks/{}{}", escaped(&self.spender), query(&[("fence", fence.as_deref())]));
        let answer = delete(remote, &path).await?;
        show(&answer, output, |answer: Released| match answer.released {
            0 => print(&format!("{} held nothing", self.spender)),
            count => print(&format!("{} gave back {count} tokens", self.spender)),
        })
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Renew {
    #[command(flatten)]
    held: Held,
    /// From now on for how long
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    lease_ms: u64,
}

impl Renew {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let path = format!("/tokens/locks/{}/renew", escaped(&self.held.spender));
        let body = tokens::Renew { lease_ms: self.lease_ms.into(), fence: self.held.fence.map(Whole) };
        let answer = post(remote, &path, &body).await?;
        show(&answer, output, |Lease { expires_at, fence, .. }| {
            print(&format!("{} holds its tokens until {expires_at}; fence {fence}", self.held.spender))
        })
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Consolidate {
    /// Of which wallet
    #[arg(long)]
    wallet: String,
    /// In which currency
    #[arg(long)]
    currency: String,
    /// Of which type [default: token]
    #[arg(long = "type", value_name = "TYPE")]
    token_type: Option<String>,
    /// Into how many tokens: each can be locked by one spender at a time
    #[arg(long, value_name = "N")]
    outputs: u64,
    /// At most so many of the smallest [default: 64]
    #[arg(long, value_name = "N")]
    max_inputs: Option<u64>,
}

impl Consolidate {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let body = tokens::Consolidate {
            wallet: self.wallet.into(),
            currency: self.currency.into(),
            token_type: self.token_type.map(Name::from),
            outputs: self.outputs.into(),
            max_inputs: self.max_inputs.map(Into::into),
            ..tokens::Consolidate::default()
        };
        show_transaction(&post(remote, "/tokens/consolidate", &body).await?, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_a_wallet_and_a_quantity() {
        assert_eq!(output_to("bob=100"), Ok(("bob".to_owned(), 100)));
        assert_eq!(output_to("a=b=7"), Ok(("a=b".to_owned(), 7)));
        for bad in ["", "bob", "=1", "bob=", "bob=1.5", "bob=-1", "bob=18446744073709551616"] {
            assert!(output_to(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_body_has_only_what_was_given() {
        let attributes = attributes(vec![("grade".to_owned(), "a".to_owned())]);
        let body = tokens::Select {
            wallet: Some("w".into()),
            amount: Quantity(u64::MAX),
            attributes,
            ..tokens::Select::default()
        };
        let expected = serde_json::json!({
            "spender": "", "wallet": "w", "currency": "", "amount": "18446744073709551615", "attributes": {"grade": "a"},
        });
        assert_eq!(serde_json::to_value(body).unwrap(), expected);
    }
}
