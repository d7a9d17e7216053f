//! Checkouts that tokens pay for: they are set aside in the index before the record is written, and chosen anew while the log
//! says that another has them.

use std::sync::atomic::Ordering;

use holdfast_domain::records::RECORD_BYTES_MAX;
use holdfast_domain::shop::{
    Charging, CheckoutAnswer, CheckoutOrder, ChosenTokens, OrderId, OrderState, ShopCommand, ShopOutcome,
    ShopRefusal, ShopView, TrNum,
};
use holdfast_domain::tokens::TokenRefusal;
use holdfast_tokens::{Name, Refusal};

use super::desk::{ShopDesk, ShopError, unexpected};
use crate::core::Core;
use crate::intake;
use crate::tokens::{FundingClaim, TokenError};
use holdfast_store::LocalStore;

/// What the next try of an order takes from a wallet.
struct Bill {
    number: holdfast_domain::ids::TransferId,
    wallet: Name,
    currency: String,
    amount: u64,
}

impl ShopDesk {
    /// Has a checkout decided, with tokens to pay for it where tokens do.
    pub(super) async fn decide_paid(&self, command: CheckoutOrder) -> Result<CheckoutAnswer, ShopError> {
        if !self.by_tokens.load(Ordering::Relaxed) {
            match self.decide_checkout(ShopCommand::Checkout(command.clone())).await {
                // The log has it so, and from now on it is known here too.
                Err(ShopError::Refused(ShopRefusal::ChooseTokens { .. })) => {}
                other => return other,
            }
        }
        self.decide_with_tokens(command).await
    }

    /// The same where it is known that tokens pay. At most as many attempts as a selection has.
    pub(super) async fn decide_with_tokens(
        &self,
        command: CheckoutOrder,
    ) -> Result<CheckoutAnswer, ShopError> {
        let mut refusal = None;
        for _ in 0..self.tokens.claim_attempts() {
            let (chosen, claim) = self.choose(&command.order).await?;
            let command = ShopCommand::Checkout(CheckoutOrder { chosen, ..command.clone() });
            let bytes = command.record_bytes_max();
            if bytes > RECORD_BYTES_MAX {
                return Err(intake::Refusal::TooLarge(bytes).into());
            }
            match self.decide_keeping(command, claim).await? {
                ShopOutcome::Checkout(answer) => return Ok(answer),
                ShopOutcome::Refused(ShopRefusal::ChooseTokens { order, why, taken }) => {
                    if let Some(id) = &taken {
                        self.tokens.learn_from(&TokenRefusal::Taken(id.clone())).await;
                    }
                    refusal = Some(ShopRefusal::ChooseTokens { order, why, taken });
                }
                other => return Err(unexpected(&other)),
            }
        }
        let (order, why) = (command.order, "there was no attempt to choose some");
        Err(refusal.unwrap_or(ShopRefusal::ChooseTokens { order, why, taken: None }).into())
    }

    /// Tokens for the next try of an order, and what keeps them from others until it is decided; neither if it takes none.
    async fn choose(
        &self,
        order: &OrderId,
    ) -> Result<(Option<Box<ChosenTokens>>, Option<FundingClaim>), ShopError> {
        let order = order.clone();
        let (by_tokens, bill) = self.ask(move |core| bill(core, &order)).await?;
        self.by_tokens.store(by_tokens, Ordering::Relaxed);
        let Some(Bill { number, wallet, currency, amount }) = bill else { return Ok((None, None)) };
        let claim = match self.tokens.fund(&number.to_string(), wallet, &currency, amount).await {
            Ok(claim) => Some(claim),
            Err(TokenError::Hub(refusal)) => return Err(refusal.into()),
            Err(TokenError::Refused(refusal)) if is_want(&refusal) => None,
            Err(TokenError::Refused(refusal)) => return Err(ShopError::Vault(refusal)),
        };
        let ids = claim.as_ref().map_or_else(Vec::new, FundingClaim::ids);
        Ok((Some(Box::new(ChosenTokens::new(number, ids))), claim))
    }
}

/// Whether tokens pay, and what the next try of the order takes, if it is one that can be tried and costs something.
fn bill(core: &Core<LocalStore>, order: &OrderId) -> (bool, Option<Bill>) {
    let store = core.store();
    let Charging::Tokens(by) = store.charging() else { return (false, None) };
    if store.outside().pay {
        return (false, None);
    }
    let next = || {
        let order = &store.order(order)?.order;
        let tr = match order.state {
            OrderState::NotPaid(last) => last.map_or(Some(TrNum::FIRST), TrNum::next)?,
            OrderState::Pending(_) | OrderState::Cancelling(_) | OrderState::Paid(_) => return None,
        };
        let amount = by.quantity(order.amount).filter(|amount| *amount > 0)?;
        let (number, wallet) = (by.spender(&order.key(tr)), Name::from(order.user_id.as_str()));
        Some(Bill { number, wallet, currency: by.currency.to_string(), amount })
    };
    (true, next())
}

/// Who wants for funds gets none, and the payment side refuses. So does who asks twice at once: the try that holds some already
/// is joined. What keeps the vault from answering at all is no reason to fail an order.
const fn is_want(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::InsufficientFunds(_)
            | Refusal::FundsLocked(_)
            | Refusal::NoExactMatch(_)
            | Refusal::TooManyInputs { .. }
            | Refusal::SpenderInUse { .. }
            | Refusal::Contention { .. }
            | Refusal::Invalid(_)
    )
}
