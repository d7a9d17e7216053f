//! Checkouts that charge accounts: `pay` prepares a transfer from the user's participant to the shop's, `can` aborts it, and
//! with two successes it is fulfilled before the order is paid. The transfer goes through the steps of any other.
//!
//! Its id and its fulfilment follow from the try and from a secret that was drawn once by whoever set this way of paying. So
//! nothing is drawn here, nobody can take the id beforehand, and not even the payee can fulfil what the shop has not decided.

use std::fmt;

use sha2::{Digest, Sha256};

use super::run::At;
use super::{Order, TryKey, Whole};
use crate::command::{Abort, Command, Fulfil, FulfilAction, Prepare};
use crate::decide::decide_inner;
use crate::effects::{Effects, Section};
use crate::ids::{Currency, Millis, ParticipantId, TransferId};
use crate::money::Amount;
use crate::overlay::Overlay;
use crate::participants::Name;
use crate::transfers::TransferState;
use crate::view::View;

/// A transfer outlives the deadline of its checkout by this, so that the deadline ends it and not its own expiration.
pub const CHARGE_MARGIN_MS: Millis = 60_000;
/// What the payer is told of a transfer that the shop gave up: the payee rejected it.
pub const CHARGE_ABORTED: u16 = 5103;

/// Thirty-two bytes that are not shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What the payment side charges, while it is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Charging {
    /// The credit of the shop's own users.
    #[default]
    Credit,
    /// Positions of participants.
    Transfers(ByTransfers),
}

impl Charging {
    /// Whether it is the credit of users.
    #[must_use]
    pub const fn is_credit(&self) -> bool {
        matches!(self, Charging::Credit)
    }

    /// Whether both charge the same, whatever their secrets are.
    #[must_use]
    pub fn is_like(&self, other: &Charging) -> bool {
        match (self, other) {
            (Charging::Transfers(one), Charging::Transfers(other)) => {
                (one.payee, one.currency, one.unit) == (other.payee, other.currency, other.unit)
            }
            _ => self == other,
        }
    }
}

/// Orders are paid for by transfers. An order's user is the name of the participant that pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByTransfers {
    /// Who is paid.
    pub payee: ParticipantId,
    /// In which currency.
    pub currency: Currency,
    /// What one of the shop's whole numbers is worth.
    pub unit: Amount,
    /// Ids and fulfilments of the transfers follow from this. Drawn by the edge.
    pub secret: Secret,
}

/// The transfer of one try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Its id.
    pub transfer: TransferId,
    /// What fulfils it.
    pub fulfilment: Secret,
}

impl Charge {
    /// The charge of the try whose record lies at `start`: an order's id may be used anew, a place in the log never is.
    pub(super) fn of(by: &ByTransfers, key: &TryKey, start: u64) -> Charge {
        let digest = |what: &[u8]| -> [u8; 32] {
            Sha256::new()
                .chain_update(by.secret.0)
                .chain_update(what)
                .chain_update(start.to_le_bytes())
                .chain_update(key.tr_num.get().to_le_bytes())
                .chain_update(key.order_id.as_str())
                .finalize()
                .into()
        };
        let mut id: [u8; 16] = *digest(b"transfer").first_chunk().expect("a digest has 32 bytes");
        // A UUID of version 8: its bits mean what their maker says.
        id[6] = id[6] & 0x0f | 0x80;
        id[8] = id[8] & 0x3f | 0x80;
        let transfer = TransferId(u128::from_be_bytes(id));
        Charge { transfer, fulfilment: Secret(digest(b"fulfilment")) }
    }
}

/// What an order's amount is worth; `None` if it is too large for a transfer.
fn amount_of(by: &ByTransfers, amount: Whole) -> Option<Amount> {
    i64::try_from(amount.get()).ok()?.checked_mul(by.unit.0).map(Amount)
}

/// Moves the transfer of one try.
pub(super) struct Charger<'r, V> {
    pub(super) view: &'r V,
    pub(super) at: At,
    /// Where the effects of this try begin: later steps of it see the earlier ones.
    pub(super) since: Section,
    pub(super) charge: Charge,
}

impl<V: View> Charger<'_, V> {
    /// Reserves the order's amount; `false` if that was refused. Nothing costs nothing.
    pub(super) fn prepare(
        &self,
        by: &ByTransfers,
        order: &Order,
        deadline: Millis,
        effects: &mut Effects,
    ) -> bool {
        if order.amount == Whole::ZERO {
            return true;
        }
        let payer = Name::new(order.user_id.as_str()).and_then(|name| self.view.participant_named(name));
        let (Some(payer), Some(amount)) = (payer, amount_of(by, order.amount)) else { return false };
        let Charge { transfer, fulfilment } = self.charge;
        let prepare = Prepare {
            source: payer.id,
            id: transfer,
            payer: payer.id,
            payee: by.payee,
            amount,
            expiration: deadline.saturating_add(CHARGE_MARGIN_MS),
            currency: by.currency,
            condition: Sha256::digest(fulfilment.0).into(),
            hash: [0; 32],
            tail: Vec::new(),
            funding: None,
        };
        self.decide(Command::Prepare(prepare.hashed()), effects) == Some(TransferState::Reserved)
    }

    /// Settles what was reserved; `false` if it ran out or the payee has ended it.
    pub(super) fn fulfil(&self, order: &Order, effects: &mut Effects) -> bool {
        if order.amount == Whole::ZERO {
            return true;
        }
        let Some(payee) = self.payee(effects) else { return false };
        let Charge { transfer, fulfilment } = self.charge;
        // The payee has asked for nothing, so it is told as one that waits to hear of it.
        let fulfil = Fulfil::new(payee, transfer, FulfilAction::Reserve, fulfilment.0);
        self.decide(Command::Fulfil(fulfil), effects) == Some(TransferState::Committed)
    }

    /// Gives back what is reserved. What has ended by itself, or runs out now, is given back without this.
    pub(super) fn abort(&self, effects: &mut Effects) {
        if let Some(payee) = self.payee(effects) {
            let abort = Abort::new(payee, self.charge.transfer, CHARGE_ABORTED, Vec::new());
            self.decide(Command::Abort(abort), effects);
        }
    }

    /// Who is paid by the transfer, while that is reserved. One that has ended may have left memory.
    fn payee(&self, effects: &Effects) -> Option<ParticipantId> {
        let seen = self.seen(effects);
        let known = seen.transfer(self.charge.transfer);
        known.filter(|known| known.state == TransferState::Reserved).map(|known| known.payee)
    }

    fn seen(&self, effects: &Effects) -> Overlay<'_, V> {
        let mut seen = Overlay::over(self.view);
        effects.since(&self.since).apply(self.at.0, &mut seen);
        seen
    }

    fn decide(&self, command: Command, effects: &mut Effects) -> Option<TransferState> {
        let seen = self.seen(effects);
        decide_inner(&seen, self.at, &command, effects).state
    }
}
