//! A participant as the admin paths show it, in two steps: what is known of it is copied between two frames, and
//! gets its address afterwards, so that a long list does not hold up payments.

use holdfast_domain::ids::{Currency, Millis};
use holdfast_domain::participants::{self, Account};
use holdfast_domain::registry::Registry;
use holdfast_wire::Instant;
use holdfast_wire::admin::{AccountKind, Bit, Links, Participant, ParticipantAccount, ShownCurrency};

use super::Whom;
use super::extract::Origin;
use super::hub_accounts::{self, HubAccount, SINCE};

/// Copies what is known of a participant; its address is empty. The Hub also has its accounts in `also`.
pub(super) fn copied(store: &dyn Registry, whom: Whom<'_>, also: Option<Currency>) -> Participant {
    let (created_at, active, accounts) = match whom {
        Whom::Hub => {
            let accounts = hub_accounts::list(store, also);
            let shown = |row: &HubAccount| account(row.id, row.kind, row.currency, true, SINCE);
            (SINCE, true, accounts.iter().map(shown).collect())
        }
        Whom::Participant(row) => {
            let shown = |row: &Account| {
                account(row.id.0, kind_of(row.kind), row.currency, row.active, row.created_at)
            };
            (row.created_at, row.active, rows(store, row).map(shown).collect())
        }
    };
    Participant {
        name: whom.name().to_owned(),
        id: String::new(),
        created: Instant(created_at),
        is_active: Bit(active),
        links: Links { this: String::new() },
        accounts,
        is_proxy: Bit(false),
    }
}

/// The same with the address that callers from that origin see.
pub(super) fn addressed(entity: Participant, origin: &Origin) -> Participant {
    let id = origin.of_participant(&entity.name);
    Participant { links: Links { this: id.clone() }, id, ..entity }
}

/// The accounts of a participant: position and settlement per currency, in order of creation.
pub(super) fn rows<'a>(
    store: &'a dyn Registry,
    row: &'a participants::Participant,
) -> impl Iterator<Item = &'a Account> {
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

/// The log does not keep who created an account.
const CREATED_BY: &str = "unknown";

fn account(
    id: u32,
    kind: AccountKind,
    currency: Currency,
    active: bool,
    created_at: Millis,
) -> ParticipantAccount {
    ParticipantAccount {
        id,
        ledger_account_type: kind,
        currency: ShownCurrency(currency),
        is_active: Bit(active),
        created_date: Instant(created_at),
        created_by: CREATED_BY.to_owned(),
    }
}
