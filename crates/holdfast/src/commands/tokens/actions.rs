//! What a wallet's program does: issue, select, spend, redeem, release, renew, consolidate.

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::BadInput;
use super::super::tables::print;
use super::views::{Token, in_a_table};
use super::{Output, delete, pair, post, print_json, query, whole_number};
use crate::remote::{Remote, escaped, new_transfer_id};

/// A body of which only what is there is written.
#[derive(Default)]
pub(super) struct Body(Map<String, Value>);

impl Body {
    pub(super) fn with(mut self, name: &str, value: Option<impl Into<Value>>) -> Body {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
        self
    }

    pub(super) fn number(self, name: &str, value: Option<u64>) -> Body {
        self.with(name, value.map(|number| number.to_string()))
    }

    pub(super) fn attributes(self, pairs: Vec<(String, String)>) -> Body {
        let all: Map<String, Value> =
            pairs.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
        self.with("attributes", (!all.is_empty()).then_some(Value::Object(all)))
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
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
    pub(super) fn on(&self, token: Body) -> Body {
        token
            .with("externalId", self.external_id.clone())
            .with("publicKey", self.public_key.clone())
            .with("type", self.token_type.clone())
            .with("issuer", self.issuer.clone())
            .with("notary", self.notary.clone())
            .attributes(self.attribute.clone())
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

#[derive(Deserialize)]
struct Issued {
    tokens: Vec<Token>,
}

impl Issue {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        if self.id.is_some() && self.quantity.len() > 1 {
            let why = "--id names a single token: say one --quantity with it";
            return Err(BadInput::from(anyhow::anyhow!(why)).into());
        }
        let token = |quantity: &u64| {
            let token = Body::default()
                .with("id", self.id.clone())
                .with("wallet", Some(self.wallet.clone()))
                .with("currency", Some(self.currency.clone()))
                .number("quantity", Some(*quantity));
            self.kind.on(token).into_value()
        };
        let tokens: Vec<Value> = self.quantity.iter().map(token).collect();
        let answer = post(remote, "/tokens/issue", &json!({"tokens": tokens})).await?;
        if output == Output::Json {
            return print_json(&answer);
        }
        let Issued { tokens } = read(&answer)?;
        print(&in_a_table(&tokens))
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
    const fn name(self) -> &'static str {
        match self {
            Policy::FewestInputs => "fewest-inputs",
            Policy::NoChange => "no-change",
            Policy::Consolidate => "consolidate",
            Policy::Random => "random",
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Selection {
    spender: String,
    tokens: Vec<Token>,
    sum: String,
    change: String,
    expires_at: String,
    fence: String,
}

impl Select {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let spender = self.spender.unwrap_or_else(|| new_transfer_id().to_string());
        let body = Body::default()
            .with("spender", Some(spender))
            .with("wallet", self.owner.wallet)
            .with("externalId", self.owner.external_id)
            .with("publicKey", self.owner.public_key)
            .with("currency", Some(self.currency))
            .with("type", self.token_type)
            .number("amount", Some(self.amount))
            .with("issuer", self.issuer)
            .with("notary", self.notary)
            .attributes(self.attribute)
            .with("policy", self.policy.map(Policy::name))
            .with("maxInputs", self.max_inputs)
            .with("allowShortfall", self.allow_shortfall.then_some(true))
            .with("leaseMs", self.lease_ms)
            .with("waitMs", self.wait_ms);
        let answer = post(remote, "/tokens/select", &body.into_value()).await?;
        if output == Output::Json {
            return print_json(&answer);
        }
        let Selection { spender, tokens, sum, change, expires_at, fence } = read(&answer)?;
        print(&in_a_table(&tokens))?;
        print(&format!(
            "{spender} holds {sum}, of which {change} is change, until {expires_at}; fence {fence}"
        ))?;
        print(&format!("spend it: holdfast tokens spend {spender} --fence {fence} --to WALLET=QUANTITY"))?;
        print(&format!("or not:   holdfast tokens release {spender}"))
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
    // A wallet's name may have any character, a quantity has digits.
    let (wallet, quantity) =
        text.rsplit_once('=').filter(|(wallet, _)| !wallet.is_empty()).ok_or("is not WALLET=QUANTITY")?;
    Ok((wallet.to_owned(), whole_number(quantity).map_err(|reason| format!("'{quantity}' {reason}"))?))
}

#[derive(Deserialize)]
struct Transaction {
    transaction: String,
    consumed: Vec<String>,
    produced: Vec<Token>,
}

fn show_transaction(answer: &[u8], output: Output) -> anyhow::Result<()> {
    if output == Output::Json {
        return print_json(answer);
    }
    let Transaction { transaction, consumed, produced } = read(answer)?;
    print(&format!("transaction {transaction}: consumed {}", consumed.join(", ")))?;
    if produced.is_empty() {
        return print("produced nothing: all of it left the vault");
    }
    print("produced:")?;
    print(&in_a_table(&produced))
}

impl Spend {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let outputs = self.to.iter();
        let outputs =
            outputs.map(|(wallet, quantity)| json!({"wallet": wallet, "quantity": quantity.to_string()}));
        let body = Body::default()
            .with("spender", Some(self.held.spender))
            .number("fence", self.held.fence)
            .with("outputs", Some(outputs.collect::<Vec<_>>()));
        show_transaction(&post(remote, "/tokens/spend", &body.into_value()).await?, output)
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
        let body = Body::default()
            .with("spender", Some(self.held.spender))
            .number("fence", self.held.fence)
            .number("quantity", Some(self.quantity));
        show_transaction(&post(remote, "/tokens/redeem", &body.into_value()).await?, output)
    }
}

#[derive(Deserialize)]
struct Released {
    released: u64,
}

impl Held {
    pub(super) async fn release(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let fence = self.fence.map(|fence| fence.to_string());
        let path =
            format!("/tokens/locks/{}{}", escaped(&self.spender), query([("fence", fence.as_deref())]));
        let answer = delete(remote, &path).await?;
        if output == Output::Json {
            return print_json(&answer);
        }
        match read::<Released>(&answer)?.released {
            0 => print(&format!("{} held nothing", self.spender)),
            count => print(&format!("{} gave back {count} tokens", self.spender)),
        }
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lease {
    expires_at: String,
    fence: String,
}

impl Renew {
    pub(super) async fn run(self, remote: &Remote, output: Output) -> anyhow::Result<()> {
        let path = format!("/tokens/locks/{}/renew", escaped(&self.held.spender));
        let body = Body::default().number("fence", self.held.fence).with("leaseMs", Some(self.lease_ms));
        let answer = post(remote, &path, &body.into_value()).await?;
        if output == Output::Json {
            return print_json(&answer);
        }
        let Lease { expires_at, fence } = read(&answer)?;
        print(&format!("{} holds its tokens until {expires_at}; fence {fence}", self.held.spender))
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
        let body = Body::default()
            .with("wallet", Some(self.wallet))
            .with("currency", Some(self.currency))
            .with("type", self.token_type)
            .with("outputs", Some(self.outputs))
            .with("maxInputs", self.max_inputs);
        let answer = post(remote, "/tokens/consolidate", &body.into_value()).await?;
        let nothing =
            serde_json::from_slice::<Value>(&answer).is_ok_and(|body| body["transaction"].is_null());
        if output == Output::Text && nothing {
            return print("nothing was done: it would not leave fewer tokens");
        }
        show_transaction(&answer, output)
    }
}

pub(super) fn read<T: for<'de> Deserialize<'de>>(answer: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(answer).context("the hub answers something else than expected")
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
        let body = Body::default()
            .with("wallet", Some("w"))
            .with("type", None::<String>)
            .number("amount", Some(u64::MAX))
            .attributes(vec![("grade".to_owned(), "a".to_owned())]);
        let expected = json!({"wallet": "w", "amount": "18446744073709551615", "attributes": {"grade": "a"}});
        assert_eq!(body.into_value(), expected);
    }
}
