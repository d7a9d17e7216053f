//! What a decision may read: the rows as they stood before the frame, from live memory or from a database.
//!
//! One trait for each table. A decision is bounded by exactly the tables that it reads, so what a profile cannot answer does
//! not compile there: the transactions of the database profile load some tables and have no others. The groups at the end
//! name what is read together.

use std::sync::Arc;

use crate::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use crate::participants::{Account, FundsMovement, Name, Participant};
use crate::shop::{
    Charging, CheckoutRow, ItemId, ItemRow, KeyRow, OrderId, OrderRow, ShopCounts, Sides, UserId, UserRow,
};
use crate::tokens::{LockRow, SpendRow, TokenId, TokenView};
use crate::transfers::Transfer;

/// Transfers. Ended ones are known as far as the frame's commands name them.
pub trait Transfers {
    /// The transfer of that id.
    fn transfer(&self, id: TransferId) -> Option<&Transfer>;
    /// The transfer of that number.
    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer>;
}

/// The numbers of transfers.
pub trait TransferNumbers {
    /// The number that the next new transfer gets.
    fn next_transfer(&self) -> TransferNo;
}

/// Open holds by their expiration.
pub trait Holds {
    /// Up to `max` open holds with `expiration < now`, ordered by expiration, then number.
    fn due(&self, now: Millis, max: usize) -> Vec<TransferNo>;
}

/// Participants.
pub trait Participants {
    /// The participant of that number.
    fn participant(&self, id: ParticipantId) -> Option<&Participant>;
    /// The participant of that name, without regard to case.
    fn participant_named(&self, name: Name) -> Option<&Participant>;
}

/// The numbers of participants and accounts.
pub trait ParticipantNumbers {
    /// The number that the next new participant gets.
    fn next_participant(&self) -> ParticipantId;
    /// The number that the next new account gets.
    fn next_account(&self) -> AccountId;
}

/// Accounts.
pub trait Accounts {
    /// The account of that number.
    fn account(&self, id: AccountId) -> Option<&Account>;
}

/// Movements of funds.
pub trait Funds {
    /// The movement of funds of that id.
    fn funds(&self, id: TransferId) -> Option<&FundsMovement>;
}

/// Live tokens.
pub trait Tokens {
    /// The live token of that id.
    fn token(&self, id: &TokenId) -> Option<TokenView<'_>>;
}

/// Spenders: what they have locked, and whether their names are used up.
pub trait Spenders {
    /// What a spender has locked; the lease may have run out.
    fn lock(&self, spender: &str) -> Option<&Arc<LockRow>>;
    /// Whether a spender has spent. Known of spenders that the frame's commands name.
    fn has_spent(&self, spender: &str) -> bool;
}

/// What has ended in the vault.
pub trait Spends {
    /// What a spender has spent. Known of spenders that the frame's commands name.
    fn spend(&self, spender: &str) -> Option<&Arc<SpendRow>>;
    /// Whether that id is gone for good. Known of ids that the frame's commands name.
    fn is_consumed(&self, id: &TokenId) -> bool;
}

/// Locks by the end of their leases.
pub trait Leases {
    /// Up to `max` locks with `expires_at <= now`, ordered by that, then fence.
    fn due_leases(&self, now: Millis, max: usize) -> Vec<Arc<LockRow>>;
}

/// Users of the shop.
pub trait Users {
    /// The user of that id.
    fn user(&self, id: &UserId) -> Option<&UserRow>;
}

/// Items of the shop.
pub trait Items {
    /// The item of that id.
    fn item(&self, id: &ItemId) -> Option<&ItemRow>;
}

/// Orders.
pub trait Orders {
    /// The order of that id. Paid ones are known as far as the frame's commands name them.
    fn order(&self, id: &OrderId) -> Option<&OrderRow>;
}

/// Open checkouts.
pub trait Checkouts {
    /// The open checkout of that order.
    fn checkout(&self, order: &OrderId) -> Option<&Arc<CheckoutRow>>;
    /// Up to `max` undecided checkouts with `deadline < now`, ordered by deadline, then start.
    fn due_checkouts(&self, now: Millis, max: usize) -> Vec<Arc<CheckoutRow>>;
}

/// Idempotency keys.
pub trait Keys {
    /// What is stored under an idempotency key; its time may have run out.
    fn request_key(&self, key: &str) -> Option<&Arc<KeyRow>>;
}

/// Idempotency keys by the end of their time.
pub trait KeyEnds {
    /// Up to `max` keys with `ends_at <= now`, ordered by that, then by key.
    fn due_keys(&self, now: Millis, max: usize) -> Vec<Arc<KeyRow>>;
}

/// How much there is of the shop.
pub trait ShopSize {
    /// How many rows of each kind are in memory.
    fn shop_counts(&self) -> ShopCounts;
}

/// How checkouts go that begin.
pub trait ShopSettings {
    /// Which sides are outside.
    fn outside(&self) -> Sides;
    /// What the payment side charges, while it is inside.
    fn charging(&self) -> Charging;
}

/// What moves transfers, by positions or by tokens.
pub trait Payments: Transfers + TransferNumbers + Participants + Accounts + Tokens + Spenders {}

impl<V: Transfers + TransferNumbers + Participants + Accounts + Tokens + Spenders> Payments for V {}

/// What the operator's commands about limits and funds read.
pub trait Books: Participants + Accounts + Funds {}

impl<V: Participants + Accounts + Funds> Books for V {}

/// Tokens with all that has become of them.
pub trait Vault: Tokens + Spenders + Spends {}

impl<V: Tokens + Spenders + Spends> Vault for V {}

/// The shop, but for how its checkouts are paid.
pub trait Shop: Users + Items + Orders + Checkouts + Keys + ShopSize {}

impl<V: Users + Items + Orders + Checkouts + Keys + ShopSize> Shop for V {}

/// The whole state before a frame.
pub trait View:
    Payments + Holds + Books + ParticipantNumbers + Vault + Leases + Shop + KeyEnds + ShopSettings
{
}

impl<V: Payments + Holds + Books + ParticipantNumbers + Vault + Leases + Shop + KeyEnds + ShopSettings> View
    for V
{
}
