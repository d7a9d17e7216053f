//! Checkouts that charge accounts: `pay` prepares a transfer from the user's participant to the shop's, `can` aborts it, and
//! with two successes it is fulfilled before the order is paid. The transfer goes through the steps of any other. With tokens
//! it is a lock in the transfer's place; `hold` says how that is chosen.
//!
//! Its id and its fulfilment follow from the try and from a secret that was drawn once by whoever set this way of paying. So
//! nothing is drawn here, nobody can take the id beforehand, and not even the payee can fulfil what the shop has not decided.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::hold::{ChosenTokens, judge};
use super::run::At;
use super::{Payment, ShopRefusal, TryKey, Whole};
use crate::command::{Abort, Command, Fulfil, FulfilAction, Prepare};
use crate::decide::decide_inner;
use crate::effects::{NotificationKind, Step};
use crate::ids::{Currency, Millis, ParticipantId, TransferId};
use crate::money::Amount;
use crate::overlay::Overlay;
use crate::participants::Name;
use crate::tokens::{LockRow, Name as TokenName, end_hold, hold, transaction_of};
use crate::transfers::TransferState;
use crate::view::{Payments, Spenders, Transfers};

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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Charging {
    /// The credit of the shop's own users.
    #[default]
    Credit,
    /// Positions of participants.
    Transfers(ByTransfers),
    /// Tokens in wallets.
    Tokens(ByTokens),
}

impl Charging {
    /// Whether it is the credit of users.
    #[must_use]
    pub const fn is_credit(&self) -> bool {
        matches!(self, Charging::Credit)
    }

    /// What it is, in a word.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Charging::Credit => "credit",
            Charging::Transfers(_) => "positions",
            Charging::Tokens(_) => "tokens",
        }
    }

    /// Whether the wallet that pays is the one that is paid: it would get goods for nothing.
    #[must_use]
    pub fn is_paid_by_itself(&self, payment: &Payment) -> bool {
        matches!(self, Charging::Tokens(by) if by.is_paid_by_itself(&payment.user_id))
    }

    /// Whether both charge the same, whatever their secrets are.
    #[must_use]
    pub fn is_like(&self, other: &Charging) -> bool {
        match (self, other) {
            (Charging::Transfers(one), Charging::Transfers(other)) => {
                (one.payee, one.currency, one.unit) == (other.payee, other.currency, other.unit)
            }
            (Charging::Tokens(one), Charging::Tokens(other)) => {
                (&one.wallet, one.currency, one.unit) == (&other.wallet, other.currency, other.unit)
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

/// Orders are paid for with tokens. An order's user is the name of the wallet that pays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByTokens {
    /// Whose wallet is paid into.
    pub wallet: TokenName,
    /// In which currency.
    pub currency: Currency,
    /// How many units of a token one of the shop's whole numbers is worth.
    pub unit: u64,
    /// The names in which tokens are locked follow from this. Drawn by the edge.
    pub secret: Secret,
}

/// What pays for one try, if it is not credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each says what its fields are")]
pub enum Charge {
    /// A transfer of that id, and what fulfils it.
    Transfer { transfer: TransferId, fulfilment: Secret },
    /// Tokens, and in whose name they are locked; as text, that of a UUID.
    Tokens { spender: TransferId },
}

impl Charge {
    /// The id of the transfer, or in whose name tokens are locked.
    #[must_use]
    pub const fn id(&self) -> TransferId {
        match self {
            Charge::Transfer { transfer, .. } => *transfer,
            Charge::Tokens { spender } => *spender,
        }
    }

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
        let transfer = uuid_of(&digest(b"transfer"));
        Charge::Transfer { transfer, fulfilment: Secret(digest(b"fulfilment")) }
    }
}

/// A UUID by its look of version 5, made of a digest: participants are told of it, and FSPIOP knows none above 5.
pub(super) fn uuid_of(digest: &[u8; 32]) -> TransferId {
    let id: [u8; 16] = *digest.first_chunk().expect("a digest has 32 bytes");
    TransferId(uuid::Builder::from_sha1_bytes(id).into_uuid().as_u128())
}

/// How a try that begins is to be charged.
pub(super) enum Means {
    Transfer(ByTransfers),
    /// With the lock to be put on; without one the payment side refuses.
    Tokens(Option<LockRow>),
}

impl Means {
    /// How the try is to be charged, if not by credit, and by what. Refused if tokens are to be chosen anew.
    pub(super) fn of(
        charging: &Charging,
        view: &dyn Payments,
        at: At,
        payment: &Payment,
        key: &TryKey,
        chosen: Option<&ChosenTokens>,
    ) -> Result<Option<(Means, Charge)>, ShopRefusal> {
        Ok(match charging {
            Charging::Credit => None,
            Charging::Transfers(by) => Some((Means::Transfer(*by), Charge::of(by, key, at.1))),
            Charging::Tokens(by) => {
                let lock = judge(view, at, by, payment, key, chosen)?;
                Some((Means::Tokens(lock), Charge::Tokens { spender: by.spender(key) }))
            }
        })
    }
}

/// What an order's amount is worth; `None` if it is too large for a transfer.
fn amount_of(by: &ByTransfers, amount: Whole) -> Option<Amount> {
    i64::try_from(amount.get()).ok()?.checked_mul(by.unit.0).map(Amount)
}

/// Moves the transfer or the tokens of one try. What it does sees what the try has done before.
pub(super) struct Charger<'r> {
    pub(super) view: &'r dyn Payments,
    pub(super) at: At,
    pub(super) charge: Charge,
}

impl<'r> Charger<'r> {
    /// Reserves the order's amount; `false` if that was refused. Nothing costs nothing.
    pub(super) fn prepare(
        &self,
        means: &Means,
        payment: &Payment,
        deadline: Millis,
        effects: &mut Step,
    ) -> bool {
        if payment.amnt == Whole::ZERO {
            return true;
        }
        match (means, self.charge) {
            (Means::Transfer(by), Charge::Transfer { transfer, fulfilment }) => {
                self.prepare_transfer(by, payment, deadline, (transfer, fulfilment), effects)
            }
            (Means::Tokens(Some(lock)), Charge::Tokens { .. }) => {
                hold(&self.seen(effects), self.at.0, lock.clone(), effects).is_ok()
            }
            _ => false,
        }
    }

    fn prepare_transfer(
        &self,
        by: &ByTransfers,
        payment: &Payment,
        deadline: Millis,
        (transfer, fulfilment): (TransferId, Secret),
        effects: &mut Step,
    ) -> bool {
        let payer = Name::new(payment.user_id.as_str()).and_then(|name| self.view.participant_named(name));
        let (Some(payer), Some(amount)) = (payer, amount_of(by, payment.amnt)) else { return false };
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
    pub(super) fn fulfil(&self, amount: Whole, effects: &mut Step) -> bool {
        if amount == Whole::ZERO {
            return true;
        }
        let (transfer, fulfilment) = match self.charge {
            Charge::Transfer { transfer, fulfilment } => (transfer, fulfilment),
            Charge::Tokens { spender } => return self.spend(spender, effects),
        };
        let Some(payee) = self.payee(transfer, effects) else { return false };
        // The payee has asked for nothing, so it is told as one that waits to hear of it.
        let fulfil = Fulfil::new(payee, transfer, FulfilAction::Reserve, fulfilment.0);
        self.decide(Command::Fulfil(fulfil), effects) == Some(TransferState::Committed)
    }

    /// Gives back what is reserved. What has ended by itself, or runs out now, is given back without this.
    pub(super) fn abort(&self, amount: Whole, effects: &mut Step) {
        if amount == Whole::ZERO {
            // Nothing was reserved; whatever has this name is somebody else's.
            return;
        }
        match self.charge {
            Charge::Transfer { transfer, .. } => {
                if let Some(payee) = self.payee(transfer, effects) {
                    let abort = Abort::new(payee, transfer, CHARGE_ABORTED, Vec::new());
                    self.decide(Command::Abort(abort), effects);
                }
            }
            Charge::Tokens { spender } => {
                if let Some(lock) = self.lock(spender, effects) {
                    end_hold(&lock, effects);
                }
            }
        }
    }

    /// Pays the tokens out; `false` if none are held.
    fn spend(&self, spender: TransferId, effects: &mut Step) -> bool {
        let Some(lock) = self.lock(spender, effects) else { return false };
        let seen = self.seen(effects);
        let wallet = lock.funding.as_ref().expect("the hold of a checkout names the shop's wallet");
        transaction_of(&seen, &lock, wallet, effects)
            .expect("what was held covers the amount, and its outputs are new");
        true
    }

    /// The tokens that are held for the try.
    fn lock(&self, spender: TransferId, effects: &Step) -> Option<Arc<LockRow>> {
        self.seen(effects).lock(&spender.to_string()).cloned()
    }

    /// Who is paid by the transfer, while that is reserved. One that has ended may have left memory.
    fn payee(&self, transfer: TransferId, effects: &Step) -> Option<ParticipantId> {
        let seen = self.seen(effects);
        let known = seen.transfer(transfer);
        known.filter(|known| known.state == TransferState::Reserved).map(|known| known.payee)
    }

    fn seen(&self, effects: &Step) -> Overlay<'r, dyn Payments + 'r> {
        let mut seen = Overlay::over(self.view);
        effects.apply_payments(self.at.0, &mut seen);
        effects.apply_tokens(&mut seen);
        seen
    }

    fn decide(&self, command: Command, effects: &mut Step) -> Option<TransferState> {
        let seen = self.seen(effects);
        let before = effects.notifications.len();
        let state = decide_inner(&seen, self.at, &command, effects).state;
        for told in &mut effects.notifications[before..] {
            // Nobody is asked: the shop itself settles it or gives it up.
            told.silent = told.kind == NotificationKind::Prepared;
            if told.kind == NotificationKind::Aborted {
                // The payee has sent no error that could be handed on.
                told.completion = None;
            }
        }
        state
    }
}
