//! The accounts of the participant `Hub`.
//!
//! Scripts that set up a hub expect it among the participants, with a reconciliation and a settlement account in
//! each currency. Holdfast keeps no rows for them: they are there from the start, for every currency, and what they
//! hold follows from the participants' rows. Their numbers follow from currency and kind, so they never change.

use std::collections::BTreeMap;

use holdfast_domain::ids::{Currency, Millis};
use holdfast_domain::money::Balance;
use holdfast_domain::participants;
use holdfast_domain::registry::Registry;
use holdfast_wire::admin::AccountKind;

/// The Hub was never made: it is as old as time.
pub(super) const SINCE: Millis = 0;

/// Numbers of accounts from here on are the Hub's: beyond what participants reach, within 31 bits.
const NUMBERS_FROM: u32 = 2_000_000_000;

/// The kinds of accounts that the Hub has: the other side of funds in and out, and that of settlements, of which there are
/// none here.
pub(super) const KINDS: [AccountKind; 2] =
    [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement];

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HubAccount {
    pub(super) id: u32,
    pub(super) kind: AccountKind,
    pub(super) currency: Currency,
    pub(super) value: Balance,
    pub(super) changed_at: Millis,
}

/// The Hub's accounts in every currency that somebody uses, and in `also`.
pub(super) fn list(store: &dyn Registry, also: Option<Currency>) -> Vec<HubAccount> {
    let mut currencies: BTreeMap<Currency, (Balance, Millis)> = BTreeMap::new();
    if let Some(also) = also {
        currencies.insert(also, (Balance::ZERO, SINCE));
    }
    for row in store.accounts() {
        let (held, changed_at) = currencies.entry(row.currency).or_insert((Balance::ZERO, SINCE));
        if row.kind == participants::AccountKind::Settlement {
            *held = *held + row.value.negated();
            *changed_at = (*changed_at).max(row.changed_at);
        }
    }
    let of_currency = |(currency, (held, changed_at)): (Currency, (Balance, Millis))| {
        KINDS.map(|kind| HubAccount {
            id: number(currency, kind),
            kind,
            currency,
            value: if kind == AccountKind::HubReconciliation { held } else { Balance::ZERO },
            changed_at: if kind == AccountKind::HubReconciliation { changed_at } else { SINCE },
        })
    };
    currencies.into_iter().flat_map(of_currency).collect()
}

fn number(currency: Currency, kind: AccountKind) -> u32 {
    let place = currency.letters().iter().fold(0, |place, letter| 26 * place + u32::from(letter - b'A'));
    NUMBERS_FROM + 2 * place + u32::from(kind == AccountKind::HubMultilateralSettlement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_account_has_a_number_of_its_own_that_fits_31_bits() {
        let mut seen = std::collections::BTreeSet::new();
        for letters in ["AAA", "AAB", "USD", "EUR", "TZS", "ZZY", "ZZZ"] {
            for kind in KINDS {
                let number = number(letters.parse().unwrap(), kind);
                assert!(seen.insert(number) && i32::try_from(number).is_ok(), "{letters}: {number}");
            }
        }
    }
}
