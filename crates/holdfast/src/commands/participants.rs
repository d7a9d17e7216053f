//! `holdfast participants`: who takes part, how far each may go and where it is called; and the shortest way to set
//! one up. Everything goes over the admin API of a running hub, so it does nothing that an operator's own tools
//! could not do.
//!
//! Amounts are shown as the hub wrote them, digit by digit: they never pass through a floating-point number.

use anyhow::{Context, bail, ensure};
use holdfast_domain::ids::Currency;
use holdfast_domain::money::Amount;
use holdfast_wire::admin::{
    Account, AccountKind, Bounded, Endpoint, FirstCap, Funds, FundsAction, FundsAmount,
    InitialPositionAndLimits, Limit, LimitKind, MovementId, NamedCurrency, NewParticipant, Participant,
    ParticipantAccount, ParticipantName, Text,
};
use holdfast_wire::amount::{Decimal, Given, Percent};
use holdfast_wire::{Object, Rule};
use serde::Serialize;

use super::tables::{print_as, table};
use super::{BadInput, Output, bad_input};
use crate::remote::{Remote, RemoteArgs, block_on, escaped, new_transfer_id};

/// Show and set up participants of a running hub.
#[derive(Debug, clap::Args)]
pub(super) struct Participants {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    remote: RemoteArgs,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t, global = true)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// All of them, with positions and limits (what `participants` alone does)
    List,
    /// One of them
    Show {
        /// Its name
        name: String,
    },
    /// Make one, or give one a further currency
    Create {
        /// Its name: 2 to 30 letters, digits, '-', '.' or '_'
        name: String,
        /// In which currency
        #[arg(long)]
        currency: Currency,
        /// The net debit cap: how far its position may rise. With it the accounts become active [default: the
        /// funds, if there are any]
        #[arg(long, value_name = "AMOUNT", value_parser = amount)]
        cap: Option<Amount>,
        /// Funds that it has paid in
        #[arg(long, value_name = "AMOUNT", value_parser = amount)]
        funds: Option<Amount>,
        /// If it has the currency already, change nothing (neither cap nor funds), and show it
        #[arg(long)]
        if_absent: bool,
    },
    /// Where it is called, by type
    Endpoints {
        /// Its name
        name: String,
        /// Register an endpoint, such as FSPIOP_CALLBACK_URL_TRANSFER_POST=http://host/transfers; may be repeated
        #[arg(long, value_name = "TYPE=URL", value_parser = endpoint)]
        set: Vec<(String, String)>,
    },
}

fn amount(text: &str) -> Result<Amount, String> {
    let amount: Amount =
        text.parse().map_err(|error: holdfast_domain::money::AmountError| error.to_string())?;
    if amount < Amount::ZERO { Err("must not be below zero".to_owned()) } else { Ok(amount) }
}

fn endpoint(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((kind, value)) if !kind.is_empty() && !value.is_empty() => {
            Ok((kind.to_owned(), value.to_owned()))
        }
        _ => Err("is not TYPE=URL".to_owned()),
    }
}

/// What is shown of one participant.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    name: String,
    is_active: bool,
    currencies: Vec<ShownCurrency>,
}

/// Without an account of which the hub shows a value it has no limit yet, and is not active.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct ShownCurrency {
    currency: String,
    is_active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    position_account: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement_account: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    net_debit_cap: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alarm_percentage: Option<Percent>,
}

impl Participants {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let output = self.output;
        let remote = self.remote.open().map_err(BadInput::from)?;
        block_on(async move {
            match self.what.unwrap_or(What::List) {
                What::List => {
                    let entities: Vec<Participant> = remote.get("/participants").await?;
                    let mut shown = Vec::with_capacity(entities.len());
                    for entity in entities {
                        shown.push(look_up(&remote, entity).await?);
                    }
                    print_as(output, &shown, || in_a_table(&shown))
                }
                What::Show { name } => show_one(&remote, &name, output).await,
                What::Create { name, currency, cap, funds, if_absent } => {
                    match make(&remote, &name, currency).await? {
                        Made::New => set_up(&remote, &name, currency, cap.or(funds), funds).await?,
                        Made::Before if if_absent => {}
                        Made::Before => bail!(
                            "{name} has {currency} already, and nothing was changed. `holdfast participants show \
                             {name}` shows it; with --if-absent that is no failure"
                        ),
                    }
                    show_one(&remote, &name, output).await
                }
                What::Endpoints { name, set } => endpoints(&remote, &name, &set, output).await,
            }
        })
    }
}

async fn look_up(remote: &Remote, entity: Participant) -> anyhow::Result<Shown> {
    let path = format!("/participants/{}", escaped(&entity.name));
    let positions =
        entity.accounts.into_iter().filter(|account| account.ledger_account_type == AccountKind::Position);
    let mut currencies: Vec<ShownCurrency> = positions
        .map(|account| ShownCurrency { currency: account.currency.to_string(), ..ShownCurrency::default() })
        .collect();
    if !currencies.is_empty() {
        let accounts: Vec<Account> = remote.get(&format!("{path}/accounts")).await?;
        let limits: Vec<Limit> = remote.get(&format!("{path}/limits")).await?;
        accounts.into_iter().for_each(|account| fill_account(&mut currencies, account));
        for Limit { currency, limit, .. } in limits {
            let currency = currency.to_string();
            if let Some(row) = currencies.iter_mut().find(|row| row.currency == currency) {
                (row.net_debit_cap, row.alarm_percentage) = (Some(limit.value), Some(limit.alarm_percentage));
            }
        }
    }
    Ok(Shown { name: entity.name, is_active: entity.is_active.0, currencies })
}

fn fill_account(currencies: &mut [ShownCurrency], account: Account) {
    let currency = account.currency.to_string();
    let Some(row) = currencies.iter_mut().find(|row| row.currency == currency) else { return };
    match account.ledger_account_type {
        AccountKind::Position => {
            row.is_active = account.is_active.0;
            (row.position_account, row.position) = (Some(account.id), Some(account.value));
        }
        AccountKind::Settlement => {
            (row.settlement_account, row.settlement) = (Some(account.id), Some(account.value));
        }
        AccountKind::HubReconciliation | AccountKind::HubMultilateralSettlement => {}
    }
}

async fn show_one(remote: &Remote, name: &str, output: Output) -> anyhow::Result<()> {
    let entity: Participant = remote.get(&format!("/participants/{}", escaped(name))).await?;
    let shown = look_up(remote, entity).await?;
    print_as(output, &shown, || in_a_table(std::slice::from_ref(&shown)))
}

fn in_a_table(participants: &[Shown]) -> String {
    let header = ["participant", "active", "currency", "position", "settlement", "net debit cap", "alarm %"];
    let mut table = table(&header, &header[3..]);
    let raw = |value: &Option<Decimal>| value.as_ref().map_or_else(String::new, Decimal::to_string);
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    for one in participants {
        if one.currencies.is_empty() {
            table.add_row(vec![one.name.clone(), yes(one.is_active)]);
        }
        for row in &one.currencies {
            table.add_row(vec![
                one.name.clone(),
                yes(one.is_active && row.is_active),
                row.currency.clone(),
                raw(&row.position),
                raw(&row.settlement),
                raw(&row.net_debit_cap),
                row.alarm_percentage.map_or_else(String::new, |percent| percent.to_string()),
            ]);
        }
    }
    table.to_string()
}

/// Whether a participant was given a currency by this command.
enum Made {
    New,
    /// It had the currency, so nothing was changed.
    Before,
}

/// The hub refuses a currency that is there and one too many in the same words: its accounts tell which it was.
async fn make(remote: &Remote, name: &str, currency: Currency) -> anyhow::Result<Made> {
    let known = ParticipantName::read(name).map_err(|problem| bad_input(format!("name: {problem}")))?;
    let body = NewParticipant { name: known, currency: NamedCurrency(currency), is_proxy: false };
    let Err(refused) = remote.post("/participants", &body).await else { return Ok(Made::New) };
    let has_it = |account: &ParticipantAccount| {
        account.ledger_account_type == AccountKind::Position && account.currency.0 == currency
    };
    match remote.get::<Participant>(&format!("/participants/{}", escaped(name))).await {
        Ok(known) if known.accounts.iter().any(has_it) => Ok(Made::Before),
        _ => Err(refused),
    }
}

/// What an operator does in three requests more: the limit, the settlement account, the funds.
async fn set_up(
    remote: &Remote,
    name: &str,
    currency: Currency,
    cap: Option<Amount>,
    funds: Option<Amount>,
) -> anyhow::Result<()> {
    let path = format!("/participants/{}", escaped(name));
    if let Some(cap) = cap {
        let body = InitialPositionAndLimits {
            currency: NamedCurrency(currency),
            limit: Object(FirstCap { kind: LimitKind::NetDebitCap, value: Given(cap) }),
            initial_position: None,
        };
        remote.post(&format!("{path}/initialPositionAndLimits"), &body).await?;
    }
    let Some(funds) = funds.filter(|funds| *funds > Amount::ZERO) else { return Ok(()) };
    let accounts: Vec<Account> = remote.get(&format!("{path}/accounts")).await?;
    let settlement = accounts
        .iter()
        .find(|row| row.ledger_account_type == AccountKind::Settlement && row.currency.0 == currency)
        .with_context(|| format!("the hub shows no settlement account of {name} in {currency}"))?;
    let body = Funds {
        transfer_id: MovementId(new_transfer_id()),
        external_reference: Text("holdfast participants create".to_owned()),
        action: FundsAction::In,
        reason: Text("funds named when the participant was made".to_owned()),
        amount: Object(FundsAmount { amount: Given(funds), currency: NamedCurrency(currency) }),
        extension_list: None,
    };
    remote.post(&format!("{path}/accounts/{}", settlement.id), &body).await?;
    Ok(())
}

async fn endpoints(
    remote: &Remote,
    name: &str,
    set: &[(String, String)],
    output: Output,
) -> anyhow::Result<()> {
    let path = format!("/participants/{}/endpoints", escaped(name));
    for (kind, value) in set {
        let body = Endpoint { kind: Bounded(kind.clone()), value: Bounded(value.clone()) };
        remote.post(&path, &body).await?;
    }
    let endpoints: Vec<Endpoint> = remote.get(&path).await?;
    let missing = set.iter().find(|(kind, value)| {
        !endpoints.iter().any(|known| known.kind.0 == *kind && known.value.0 == *value)
    });
    ensure!(missing.is_none(), "the hub took {missing:?} and does not show it");
    print_as(output, &endpoints, || {
        let mut table = table(&["type", "value"], &[]);
        for Endpoint { kind, value } in &endpoints {
            table.add_row(vec![&kind.0, &value.0]);
        }
        table.to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_type_and_a_value() {
        assert_eq!(endpoint("A=http://x/?q=1"), Ok(("A".to_owned(), "http://x/?q=1".to_owned())));
        for bad in ["", "A", "A=", "=x"] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }
}
