//! Checkouts that tokens pay for: `pay` locks tokens of the user's wallet, `can` frees them, and with two successes they are
//! spent before the order is paid, the amount to the shop's wallet and the rest back.
//!
//! No transfer is made of it. A transfer has two participants, a condition and an expiration of its own, and the shop's users
//! have none of these; what guards the tokens is the lock of the vault in either case. The lock has no lease: only its try ends
//! it, and every try is ended, at the latest by its deadline. So it cannot lapse before the decision, and nobody but the try can
//! spend, renew or free it.
//!
//! Whoever asks for a checkout has chosen the tokens before, in an index in memory. Here it is judged whether they may be
//! locked. If not, nothing is tried and others may be chosen; if there were none to be had, the payment side refuses.

use holdfast_tokens::Refusal;
use sha2::{Digest, Sha256};

use super::charge::uuid_of;
use super::run::At;
use super::{ByTokens, OrderId, Payment, ShopRefusal, TryKey, UserId, Whole};
use crate::effects::Step;
use crate::ids::TransferId;
use crate::tokens::{Fingerprint, LockRow, NO_END, Name, TokenId, TokenRefusal, hold};
use crate::transfers::covers;
use crate::view::Payments;

/// Tokens that were chosen to pay for one try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenTokens {
    /// The try's own number, [`ByTokens::spender`].
    pub id: TransferId,
    /// In whose name they are to be locked: that number as text. It follows and is not written.
    pub spender: Name,
    /// The tokens; none if there were none to be had.
    pub ids: Vec<TokenId>,
}

impl ChosenTokens {
    /// These, for the try of that number.
    #[must_use]
    pub fn new(id: TransferId, ids: Vec<TokenId>) -> ChosenTokens {
        ChosenTokens { id, spender: id.to_string().into(), ids }
    }
}

impl ByTokens {
    /// In whose name the tokens of a try are locked. It follows from the try and the secret, so that whoever asks twice asks for
    /// the same, and nobody else can take the name beforehand. Tries of one id are counted over all its orders.
    #[must_use]
    pub fn spender(&self, key: &TryKey) -> TransferId {
        let digest: [u8; 32] = Sha256::new()
            .chain_update(self.secret.0)
            .chain_update(b"tokens")
            .chain_update(key.tr_num.get().to_le_bytes())
            .chain_update(key.order_id.as_str())
            .finalize()
            .into();
        uuid_of(&digest)
    }

    /// How many tokens' worth an order is; `None` if it is more than can be counted.
    #[must_use]
    pub const fn quantity(&self, amount: Whole) -> Option<u64> {
        amount.get().checked_mul(self.unit)
    }

    /// Whether the user's wallet is the one that is paid: it would get goods for nothing.
    #[must_use]
    pub fn is_paid_by_itself(&self, user: &UserId) -> bool {
        user.as_str() == &*self.wallet
    }
}

/// The lock that pays for the order's try; `None` if it cannot be paid for, or costs nothing.
pub(super) fn judge(
    view: &dyn Payments,
    at: At,
    by: &ByTokens,
    payment: &Payment,
    key: &TryKey,
    chosen: Option<&ChosenTokens>,
) -> Result<Option<LockRow>, ShopRefusal> {
    let Some(amount) = by.quantity(payment.amnt) else { return Ok(None) };
    if amount == 0 {
        return Ok(None);
    }
    let anew = |why, taken| Err(choose(&key.order_id, why, taken));
    let Some(chosen) = chosen else { return anew("none were chosen", None) };
    if chosen.id != by.spender(key) {
        return anew("those that were chosen are for another try", None);
    }
    if chosen.ids.is_empty() {
        return Ok(None);
    }
    if !covers(view, &chosen.ids, payment.user_id.as_str(), by.currency, amount) {
        return anew("those that were chosen are not enough, or not the user's", None);
    }
    let row = LockRow {
        spender: chosen.spender.clone(),
        fence: at.1 + 1,
        since: at.0,
        expires_at: NO_END,
        amount,
        body: Fingerprint(chosen.id.0),
        tokens: chosen.ids.as_slice().into(),
        funding: Some(by.wallet.clone()),
    };
    match hold(view, at.0, row.clone(), &mut Step::default()) {
        Ok(_) => Ok(Some(row)),
        Err(TokenRefusal::Taken(id)) => anew("another has locked some of those that were chosen", Some(id)),
        Err(_) => anew("those that were chosen cannot be locked", None),
    }
}

/// What a refusal of the vault means for a checkout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// The wallet cannot pay, whoever lets go of what: the payment side refuses.
    Want,
    /// The try was asked for twice at once, and the other has the tokens.
    SameTry,
    /// Others hold too much, or wait before this one.
    Others,
    /// The vault cannot answer. That is no reason to fail an order.
    Trouble,
}

impl Met {
    /// What it means.
    #[must_use]
    pub fn of(refusal: &Refusal) -> Met {
        match refusal {
            Refusal::TooManyWaiters { .. } => Met::Others,
            refusal if refusal.may_pass() => Met::Others,
            Refusal::InsufficientFunds(_) | Refusal::TooManyInputs { .. } => Met::Want,
            Refusal::SpenderInUse { .. } => Met::SameTry,
            _ => Met::Trouble,
        }
    }
}

fn choose(order: &OrderId, why: &'static str, taken: Option<TokenId>) -> ShopRefusal {
    ShopRefusal::ChooseTokens { order: order.clone(), why, taken }
}

#[cfg(test)]
mod tests {
    use holdfast_tokens::Funds;

    use super::*;

    #[test]
    fn only_a_wallet_that_can_never_pay_is_in_want() {
        let funds = |locked| Box::new(Funds { locked, ..Funds::default() });
        let too_many = |locked| Refusal::TooManyInputs { funds: funds(locked), max_inputs: 1, best_sum: 1 };
        let in_use = Refusal::SpenderInUse { spender: "s".into(), reason: "x" };
        for (refusal, meant) in [
            (Refusal::InsufficientFunds(funds(1)), Met::Want),
            (too_many(0), Met::Want),
            (too_many(1), Met::Others),
            (Refusal::FundsLocked(funds(1)), Met::Others),
            (Refusal::Contention { attempts: 1 }, Met::Others),
            (Refusal::TooManyWaiters { waiting: 1 }, Met::Others),
            (in_use, Met::SameTry),
            (Refusal::Invalid("x".into()), Met::Trouble),
            (Refusal::StoreUnavailable("x".into()), Met::Trouble),
            (Refusal::Loading { tokens: 1 }, Met::Trouble),
        ] {
            assert_eq!(Met::of(&refusal), meant, "{refusal}");
        }
    }
}
