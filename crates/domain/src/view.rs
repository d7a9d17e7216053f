//! What a decision may read: the rows as they stood before the frame, from live memory or from a database.

use std::sync::Arc;

use crate::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use crate::participants::{Account, FundsMovement, Name, Participant};
use crate::shop::ShopView;
use crate::tokens::{LockRow, SpendRow, TokenId, TokenView};
use crate::transfers::Transfer;

/// The state before a frame.
pub trait View: ShopView {
    /// The transfer of that id.
    fn transfer(&self, id: TransferId) -> Option<&Transfer>;
    /// The transfer of that number.
    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer>;
    /// The number that the next new transfer gets.
    fn next_transfer(&self) -> TransferNo;
    /// The participant of that number.
    fn participant(&self, id: ParticipantId) -> Option<&Participant>;
    /// The participant of that name, without regard to case.
    fn participant_named(&self, name: Name) -> Option<&Participant>;
    /// The number that the next new participant gets.
    fn next_participant(&self) -> ParticipantId;
    /// The account of that number.
    fn account(&self, id: AccountId) -> Option<&Account>;
    /// The number that the next new account gets.
    fn next_account(&self) -> AccountId;
    /// The movement of funds of that id.
    fn funds(&self, id: TransferId) -> Option<&FundsMovement>;
    /// Up to `max` open holds with `expiration < now`, ordered by expiration, then number.
    fn due(&self, now: Millis, max: usize) -> Vec<TransferNo>;
    /// The live token of that id.
    fn token(&self, id: &TokenId) -> Option<TokenView<'_>>;
    /// Whether that id is gone for good. Known of ids that the frame's commands name.
    fn is_consumed(&self, id: &TokenId) -> bool;
    /// What a spender has locked; the lease may have run out.
    fn lock(&self, spender: &str) -> Option<&Arc<LockRow>>;
    /// What a spender has spent. Known of spenders that the frame's commands name.
    fn spend(&self, spender: &str) -> Option<&Arc<SpendRow>>;
    /// Up to `max` locks with `expires_at <= now`, ordered by that, then fence.
    fn due_leases(&self, now: Millis, max: usize) -> Vec<Arc<LockRow>>;
}
