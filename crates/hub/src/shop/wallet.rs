//! Checkouts that tokens pay for: they are set aside in the index before the record is written, and chosen anew while the log
//! says that another has them.
//!
//! What others hold is waited for: mostly it is the claim of another checkout of the same wallet, which lives for one frame. Only
//! a wallet that can never pay makes the payment side refuse. Whoever has waited in vain is told so, and nothing was tried.

use std::sync::atomic::Ordering;

use holdfast_domain::ids::{Millis, TransferId};
use holdfast_domain::records::RECORD_BYTES_MAX;
use holdfast_domain::shop::callers::TOKENS_WAIT_MS;
use holdfast_domain::shop::{
    Charging, CheckoutAnswer, CheckoutOrder, ChosenTokens, Met, OrderId, OrderState, ShopCommand,
    ShopOutcome, ShopRefusal, TrNum,
};
use holdfast_domain::tokens::TokenRefusal;
use holdfast_domain::view::{Orders, ShopSettings};
use holdfast_engine::{Refusal, Shop as _, ShopError, TokenError};
use holdfast_tokens::Name;

use super::hub_shop::{HubShop, unexpected};
use crate::core::Core;
use crate::tokens::FundingClaim;
use holdfast_store::LocalStore;

/// What the next try of an order takes from a wallet.
struct Bill {
    number: TransferId,
    /// `None` if it is the shop's own: from that nothing is taken, so the payment side refuses.
    wallet: Option<Name>,
    currency: String,
    amount: u64,
}

impl HubShop {
    /// Has a checkout decided, with tokens to pay for it where tokens do.
    pub(super) async fn decide_paid(
        &self,
        command: CheckoutOrder,
        wait_ms: u32,
    ) -> Result<CheckoutAnswer, ShopError> {
        if !self.by_tokens.load(Ordering::Relaxed) {
            match self.decide_checkout(ShopCommand::Checkout(command.clone())).await {
                // The log has it so, and from now on it is known here too.
                Err(ShopError::Refused(ShopRefusal::ChooseTokens { .. })) => {}
                other => return other,
            }
        }
        self.decide_with_tokens(command, wait_ms).await
    }

    /// The same where it is known that tokens pay. At most as many attempts as a selection has, and no longer than the wait, the
    /// deadline and [`TOKENS_WAIT_MS`] for all of them.
    pub(super) async fn decide_with_tokens(
        &self,
        command: CheckoutOrder,
        wait_ms: u32,
    ) -> Result<CheckoutAnswer, ShopError> {
        let wait_ms = wait_ms.min(command.deadline_ms).min(TOKENS_WAIT_MS);
        let until = self.now().saturating_add(Millis::from(wait_ms));
        let mut refusal = None;
        for _ in 0..self.tokens.claim_attempts {
            let (chosen, claim) = self.choose(&command.order, until).await?;
            let command = CheckoutOrder { chosen, ..command.clone() };
            let bytes = command.record_bytes_max();
            if bytes > RECORD_BYTES_MAX {
                return Err(Refusal::TooLarge(bytes).into());
            }
            match self.decide_keeping(ShopCommand::Checkout(command), claim).await? {
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
        until: Millis,
    ) -> Result<(Option<Box<ChosenTokens>>, Option<FundingClaim>), ShopError> {
        let billed = order.clone();
        let (by_tokens, bill) = self.ask(move |core| bill(core, &billed)).await?;
        self.by_tokens.store(by_tokens, Ordering::Relaxed);
        let Some(Bill { number, wallet, currency, amount }) = bill else { return Ok((None, None)) };
        let none = || Some(Box::new(ChosenTokens::new(number, Vec::new())));
        let Some(wallet) = wallet else { return Ok((none(), None)) };
        let wait_ms = until.saturating_sub(self.now()).max(0);
        let claim = match self.tokens.fund(&number.to_string(), wallet, &currency, amount, wait_ms).await {
            Ok(claim) => claim,
            Err(TokenError::Hub(refusal)) => return Err(refusal.into()),
            Err(TokenError::Refused(refusal)) => match Met::of(&refusal) {
                Met::Want => return Ok((none(), None)),
                // The try that holds them is joined. If it is over meanwhile, tokens are chosen for the next.
                Met::SameTry => return Ok((None, None)),
                Met::Others => {
                    let (order, why) = (order.clone(), "others hold so many of them that too few are free");
                    return Err(ShopRefusal::ChooseTokens { order, why, taken: None }.into());
                }
                Met::Trouble => return Err(ShopError::Vault(refusal)),
            },
        };
        Ok((Some(Box::new(ChosenTokens::new(number, claim.ids()))), Some(claim)))
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
        let (number, user) = (by.spender(&order.key(tr)), &order.user_id);
        let wallet = (!by.is_paid_by_itself(user)).then(|| Name::from(user.as_str()));
        Some(Bill { number, wallet, currency: by.currency.to_string(), amount })
    };
    (true, next())
}
