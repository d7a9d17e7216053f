//! Every row of a store, to be compared with those of another.

use std::fmt::Debug;
use std::sync::Arc;

use holdfast_domain::ids::{Millis, ParticipantId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Participant};
use holdfast_domain::registry::Registry;
use holdfast_domain::shop::{Charging, CheckoutRow, ItemRow, KeyRow, OrderRow, ShopCounts, Sides, UserRow};
use holdfast_domain::tokens::{LockRow, TokenRow};
use holdfast_domain::transfers::Transfer;
use holdfast_store::{LocalStore, MemoryStore, Store, StoreError, Tables};

use crate::diary::Named;

/// A copy of all rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    participants: Vec<Participant>,
    accounts: Vec<Account>,
    funds: Vec<FundsMovement>,
    endpoints: Vec<(ParticipantId, String, String)>,
    transfers: Vec<Transfer>,
    holds: Vec<TransferNo>,
    tokens: Vec<TokenRow>,
    locks: Vec<Arc<LockRow>>,
    shop: Shop,
    keys: Vec<Arc<KeyRow>>,
}

/// The shop as far as it is in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shop {
    users: Vec<UserRow>,
    items: Vec<ItemRow>,
    unpaid: Vec<OrderRow>,
    open: Vec<Arc<CheckoutRow>>,
    /// What will be due, by the indexes.
    due: Vec<Arc<CheckoutRow>>,
    keys: Vec<Arc<KeyRow>>,
    rest: [(Sides, Charging, ShopCounts); 1],
}

impl Rows {
    /// The rows of the plain store, its movements of funds and keys among those `named`.
    pub fn of_witness(store: &MemoryStore, named: &Named) -> Rows {
        Rows::with(store, store.transfers_from(TransferNo(0)).cloned().collect(), named)
    }

    /// The rows of the hub's store: what is open from memory, what has ended from the disk.
    ///
    /// # Errors
    /// If the disk does not give what was written to it.
    pub fn of_hub(store: &LocalStore, named: &Named) -> Result<Rows, StoreError> {
        let history = store.history();
        let ended = history.scan(0, history.end()).map(|row| row.map(|(_, row)| row));
        let mut transfers = ended.collect::<Result<Vec<Transfer>, StoreError>>()?;
        transfers.extend(store.open_transfers(TransferNo(0), usize::MAX).into_iter().cloned());
        transfers.sort_unstable_by_key(|row| row.no);
        Ok(Rows::with(store, transfers, named))
    }

    fn with<S: Store>(store: &S, transfers: Vec<Transfer>, named: &Named) -> Rows {
        let endpoints_of = |row: &Participant| {
            let id = row.id;
            let endpoints = store.books().endpoints(id).into_iter();
            endpoints.map(move |(kind, value)| (id, kind.to_owned(), value.to_owned())).collect::<Vec<_>>()
        };
        let (tokens, locks) = vault_of(store);
        Rows {
            participants: store.books().participants().to_vec(),
            accounts: store.books().accounts().to_vec(),
            funds: named.funds.iter().filter_map(|id| store.funds(*id)).copied().collect(),
            endpoints: store.books().participants().iter().flat_map(endpoints_of).collect(),
            transfers,
            holds: store.holds(Millis::MAX, None, usize::MAX).into_iter().map(|row| row.no).collect(),
            tokens,
            locks,
            shop: Shop::of(store),
            keys: named.keys.iter().filter_map(|key| store.request_key(key)).cloned().collect(),
        }
    }

    /// The first row in which two stores differ, in words; `None` if they are the same.
    pub fn difference(&self, other: &Rows) -> Option<String> {
        first_difference("participants", &self.participants, &other.participants)
            .or_else(|| first_difference("accounts", &self.accounts, &other.accounts))
            .or_else(|| first_difference("movements of funds", &self.funds, &other.funds))
            .or_else(|| first_difference("endpoints", &self.endpoints, &other.endpoints))
            .or_else(|| first_difference("transfers", &self.transfers, &other.transfers))
            .or_else(|| first_difference("open holds", &self.holds, &other.holds))
            .or_else(|| first_difference("tokens", &self.tokens, &other.tokens))
            .or_else(|| first_difference("locks", &self.locks, &other.locks))
            .or_else(|| self.shop.difference(&other.shop))
            .or_else(|| first_difference("keys by name", &self.keys, &other.keys))
    }
}

/// What differs in the rows that are in memory; cheap enough for every turn.
pub fn difference_in_memory(hub: &LocalStore, witness: &MemoryStore) -> Option<String> {
    let (all, first) = (usize::MAX, TransferNo(0));
    first_difference("participants", hub.books().participants(), witness.books().participants())
        .or_else(|| first_difference("accounts", hub.books().accounts(), witness.books().accounts()))
        .or_else(|| {
            let (ours, theirs) = (hub.open_transfers(first, all), witness.open_transfers(first, all));
            first_difference("open transfers", &ours, &theirs)
        })
        .or_else(|| {
            let (ours, theirs) = (hub.holds(Millis::MAX, None, all), witness.holds(Millis::MAX, None, all));
            first_difference("open holds", &ours, &theirs)
        })
        .or_else(|| {
            let (ours, theirs) = (vault_of(hub), vault_of(witness));
            first_difference("tokens", &ours.0, &theirs.0)
                .or_else(|| first_difference("locks", &ours.1, &theirs.1))
        })
        .or_else(|| Shop::of(hub).difference(&Shop::of(witness)))
}

impl Shop {
    fn of(store: &impl Store) -> Shop {
        let (mut users, mut items, mut unpaid) = (Vec::new(), Vec::new(), Vec::new());
        store.users(&mut |row| users.push(row.clone()));
        store.items(&mut |row| items.push(row.clone()));
        store.unpaid_orders(&mut |row| unpaid.push(row.clone()));
        users.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        items.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        unpaid.sort_unstable_by(|one, other| one.order.order_id.cmp(&other.order.order_id));
        Shop {
            users,
            items,
            unpaid,
            open: store.open_checkouts(None, usize::MAX),
            due: store.due_checkouts(Millis::MAX, usize::MAX),
            keys: store.due_keys(Millis::MAX, usize::MAX),
            rest: [(store.outside(), store.charging(), store.shop_counts())],
        }
    }

    fn difference(&self, other: &Shop) -> Option<String> {
        first_difference("users", &self.users, &other.users)
            .or_else(|| first_difference("items", &self.items, &other.items))
            .or_else(|| first_difference("unpaid orders", &self.unpaid, &other.unpaid))
            .or_else(|| first_difference("open checkouts", &self.open, &other.open))
            .or_else(|| first_difference("undecided checkouts", &self.due, &other.due))
            .or_else(|| first_difference("keys", &self.keys, &other.keys))
            .or_else(|| {
                first_difference("sides outside, what is charged and counts", &self.rest, &other.rest)
            })
    }
}

/// Every live token by its id, and every lock by its spender.
fn vault_of(store: &impl Store) -> (Vec<TokenRow>, Vec<Arc<LockRow>>) {
    let (mut tokens, mut locks) = (Vec::new(), Vec::new());
    store.tokens(&mut |row| tokens.push(row.clone()));
    store.locks(&mut |row| locks.push(Arc::clone(row)));
    tokens.sort_unstable_by(|one, other| one.token.id.cmp(&other.token.id));
    locks.sort_unstable_by(|one, other| one.spender.cmp(&other.spender));
    (tokens, locks)
}

fn first_difference<T: Debug + PartialEq>(what: &str, left: &[T], right: &[T]) -> Option<String> {
    if left.len() != right.len() {
        return Some(format!("{} {what} against {}", left.len(), right.len()));
    }
    let (left, right) = left.iter().zip(right).find(|(left, right)| left != right)?;
    Some(format!("{what}: {left:?} against {right:?}"))
}
