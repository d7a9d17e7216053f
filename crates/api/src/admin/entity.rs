//! A participant as the admin paths show it, in two steps: what is known of it is copied between two frames, and
//! put into words afterwards, so that a long list does not hold up payments.

use holdfast_domain::ids::{Currency, Millis};
use holdfast_domain::participants::{Account, Participant};
use holdfast_domain::registry::Registry;
use serde::Serialize;

use super::extract::Origin;
use super::{Whom, flag, hub_accounts};
use crate::times;

/// What is known of a participant, copied.
pub(super) struct Portrait {
    name: String,
    created_at: Millis,
    active: bool,
    accounts: Vec<PortraitAccount>,
}

struct PortraitAccount {
    id: u32,
    kind: &'static str,
    currency: Currency,
    active: bool,
    created_at: Millis,
}

impl Portrait {
    /// Copies what is known; the Hub's portrait also has its accounts in `also`.
    pub(super) fn take(store: &dyn Registry, whom: Whom<'_>, also: Option<Currency>) -> Portrait {
        let (created_at, active, accounts) = match whom {
            Whom::Hub => {
                let accounts = hub_accounts::list(store, also);
                (hub_accounts::SINCE, true, accounts.iter().map(hub_account).collect())
            }
            Whom::Participant(row) => (row.created_at, row.active, rows(store, row).map(account).collect()),
        };
        Portrait { name: whom.name().to_owned(), created_at, active, accounts }
    }

    /// The entity as callers from that origin see it.
    pub(super) fn entity(self, origin: &Origin) -> Entity {
        let id = origin.of_participant(&self.name);
        Entity {
            name: self.name,
            id: id.clone(),
            created: times::format(self.created_at),
            is_active: flag(self.active),
            links: Links { this: id },
            accounts: self.accounts.iter().map(EntityAccount::of).collect(),
            is_proxy: 0,
        }
    }
}

/// The accounts of a participant: position and settlement per currency, in order of creation.
pub(super) fn rows<'a>(store: &'a dyn Registry, row: &'a Participant) -> impl Iterator<Item = &'a Account> {
    let pair = move |position| {
        let position = store.account(position).expect("a participant names accounts that exist");
        [position, store.account(position.settlement()).expect("both accounts are made together")]
    };
    row.accounts.iter().flat_map(move |(_, position)| pair(*position))
}

fn account(row: &Account) -> PortraitAccount {
    PortraitAccount {
        id: row.id.0,
        kind: row.kind.name(),
        currency: row.currency,
        active: row.active,
        created_at: row.created_at,
    }
}

fn hub_account(row: &hub_accounts::HubAccount) -> PortraitAccount {
    PortraitAccount {
        id: row.id,
        kind: row.kind.name(),
        currency: row.currency,
        active: true,
        created_at: hub_accounts::SINCE,
    }
}

/// The entity of the admin API.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entity {
    name: String,
    id: String,
    created: String,
    is_active: u8,
    links: Links,
    accounts: Vec<EntityAccount>,
    is_proxy: u8,
}

#[derive(Serialize)]
struct Links {
    #[serde(rename = "self")]
    this: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntityAccount {
    id: u32,
    ledger_account_type: &'static str,
    currency: String,
    is_active: u8,
    created_date: String,
    created_by: &'static str,
}

/// The log does not keep who created an account.
const CREATED_BY: &str = "unknown";

impl EntityAccount {
    fn of(account: &PortraitAccount) -> EntityAccount {
        EntityAccount {
            id: account.id,
            ledger_account_type: account.kind,
            currency: account.currency.to_string(),
            is_active: flag(account.active),
            created_date: times::format(account.created_at),
            created_by: CREATED_BY,
        }
    }
}
