//! What a decision may read: the rows as they stood before the frame, from live memory or from a database.

use crate::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use crate::participants::{Account, FundsMovement, Name, Participant};
use crate::transfers::Transfer;

/// The state before a frame.
pub trait View {
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
}
