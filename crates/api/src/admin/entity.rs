//! A participant as the admin paths show it, in two steps: what is known of it is copied between two frames, and
//! put into words afterwards, so that a long list does not hold up payments.

use holdfast_domain::ids::{Currency, Millis};
use holdfast_domain::participants::{self, Account, Participant};
use holdfast_domain::registry::Registry;
use holdfast_wire::Instant;
use holdfast_wire::admin::{self as wire, AccountKind, Bit, Links, ParticipantAccount, ShownCurrency};

use super::extract::Origin;
use super::{Whom, hub_accounts};

/// What is known of a participant, copied.
pub(super) struct Portrait {
    name: String,
    created_at: Millis,
    active: bool,
    accounts: Vec<PortraitAccount>,
}

struct PortraitAccount {
    id: u32,
    kind: AccountKind,
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
    pub(super) fn entity(self, origin: &Origin) -> wire::Participant {
        let id = origin.of_participant(&self.name);
        wire::Participant {
            name: self.name,
            id: id.clone(),
            created: Instant(self.created_at),
            is_active: Bit(self.active),
            links: Links { this: id },
            accounts: self.accounts.iter().map(PortraitAccount::shown).collect(),
            is_proxy: Bit(false),
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

/// The kind of a participant's account, as it is shown.
pub(super) const fn kind_of(kind: participants::AccountKind) -> AccountKind {
    match kind {
        participants::AccountKind::Position => AccountKind::Position,
        participants::AccountKind::Settlement => AccountKind::Settlement,
    }
}

fn account(row: &Account) -> PortraitAccount {
    PortraitAccount {
        id: row.id.0,
        kind: kind_of(row.kind),
        currency: row.currency,
        active: row.active,
        created_at: row.created_at,
    }
}

fn hub_account(row: &hub_accounts::HubAccount) -> PortraitAccount {
    PortraitAccount {
        id: row.id,
        kind: row.kind.shown(),
        currency: row.currency,
        active: true,
        created_at: hub_accounts::SINCE,
    }
}

/// The log does not keep who created an account.
const CREATED_BY: &str = "unknown";

impl PortraitAccount {
    fn shown(&self) -> ParticipantAccount {
        ParticipantAccount {
            id: self.id,
            ledger_account_type: self.kind,
            currency: ShownCurrency(self.currency),
            is_active: Bit(self.active),
            created_date: Instant(self.created_at),
            created_by: CREATED_BY.to_owned(),
        }
    }
}
