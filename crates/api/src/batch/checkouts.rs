//! Checkouts of a batch: in a hub they are records like others, but for tokens that must be chosen first; at a node of the database profile
//! each goes over the topics by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::records::CheckoutReply;
use holdfast_domain::records::batch::Reply;
use holdfast_domain::shop::callers::TOKENS_WAIT_MS;
use holdfast_domain::shop::{CheckoutAnswer, OrderId, ShopCommand, ShopOutcome, ShopRefusal};
use holdfast_engine::{CheckoutRequest, Refusal, ShopError};
use tokio::task::JoinSet;

use crate::limits::{BATCH_CHECKOUTS_TOGETHER, NODE_CHECKOUTS_TOGETHER};
use crate::shop::{Failure, Shop, answered};

/// A checkout of a batch: its place, its order and its deadline in milliseconds.
pub(super) type Wanted = (usize, OrderId, u32);

/// Which of a batch are checkouts.
pub(super) fn checkouts_of(commands: &[Command]) -> Vec<Wanted> {
    let checkout = |(at, command): (usize, &Command)| match command {
        Command::Shop(command) => match &**command {
            ShopCommand::Checkout(checkout) => Some((at, checkout.order.clone(), checkout.deadline_ms)),
            _ => None,
        },
        _ => None,
    };
    commands.iter().enumerate().filter_map(checkout).collect()
}

/// What is known of a checkout that was asked for anew.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    Told(ShopOutcome),
    NothingTried,
    /// It may have been tried or not.
    Nothing,
}

fn known(answer: Result<CheckoutAnswer, Failure>) -> Known {
    match answer {
        Ok(answer) => Known::Told(ShopOutcome::Checkout(answer)),
        Err(Failure::Shop(ShopError::Refused(refusal))) => Known::Told(ShopOutcome::Refused(refusal)),
        Err(
            Failure::NoAnswer | Failure::Shop(ShopError::Hub(Refusal::Unknown(_)) | ShopError::Unreadable(_)),
        ) => Known::Nothing,
        Err(_) => Known::NothingTried,
    }
}

/// Where tokens pay, a record of a batch names none: the log has refused it, and it is asked for anew with tokens that the hub
/// chooses. One that cannot be asked for keeps its refusal, and nothing was tried of it. Gives the places of those of which that
/// is not known.
pub(super) async fn pay_with_tokens(
    shop: &Shop,
    checkouts: Vec<Wanted>,
    outcomes: &mut [Outcome],
) -> BTreeSet<usize> {
    let wants = |outcome: &Outcome| {
        let shop = outcome.shop.as_deref();
        matches!(shop, Some(ShopOutcome::Refused(ShopRefusal::ChooseTokens { .. })))
    };
    let refused = checkouts.into_iter().filter(|(at, ..)| outcomes.get(*at).is_some_and(wants));
    let refused: Vec<_> = refused.collect();
    // Also what breaks off is not known.
    let mut unknown: BTreeSet<usize> = refused.iter().map(|(at, ..)| *at).collect();
    let (mut waiting, mut together) = (refused.into_iter(), JoinSet::new());
    let mut tokens_wait_ms = Some(TOKENS_WAIT_MS);
    loop {
        while together.len() < BATCH_CHECKOUTS_TOGETHER
            && let Some((at, order, deadline_ms)) = waiting.next()
        {
            let shop = shop.clone();
            let (deadline_ms, wait_ms) = (Some(deadline_ms), Some(0));
            let request =
                CheckoutRequest { deadline_ms, wait_ms, tokens_wait_ms, ..CheckoutRequest::new(order) };
            together.spawn(async move { (at, answered(shop.checkout(request)).await) });
        }
        let Some(joined) = together.join_next().await else { return unknown };
        let Ok((at, answer)) = joined else { continue };
        match known(answer) {
            Known::Nothing => continue,
            Known::NothingTried => {}
            Known::Told(told) => {
                if matches!(told, ShopOutcome::Refused(ShopRefusal::ChooseTokens { .. })) {
                    // One has waited in vain. If each did so, a batch would wait for minutes.
                    tokens_wait_ms = Some(0);
                }
                outcomes[at].shop = Some(Arc::new(told));
            }
        }
        unknown.remove(&at);
    }
}

/// Checks out at a node of the database profile: each order as if it had been asked for alone, since each goes its own way over the topics. A
/// caller waits for all of them together as long as for one alone. What is told of each, by its place.
pub(super) async fn check_out_each(shop: &Shop, checkouts: Vec<Wanted>) -> BTreeMap<usize, Reply> {
    let (mut waiting, mut together) = (checkouts.into_iter(), JoinSet::new());
    let until = Instant::now() + Duration::from_millis(shop.times().wait_ms.into());
    let mut told = BTreeMap::new();
    loop {
        while together.len() < NODE_CHECKOUTS_TOGETHER
            && let Some((at, order, deadline_ms)) = waiting.next()
        {
            // If it breaks off, nothing is known of it.
            told.insert(at, CheckoutReply::Unknown.to_reply());
            let shop = shop.clone();
            let left = until.saturating_duration_since(Instant::now()).as_millis();
            let (deadline_ms, wait_ms) = (Some(deadline_ms), Some(u32::try_from(left).unwrap_or(u32::MAX)));
            let request = CheckoutRequest { deadline_ms, wait_ms, ..CheckoutRequest::new(order) };
            together.spawn(async move { (at, answered(shop.checkout(request)).await) });
        }
        let Some(joined) = together.join_next().await else { return told };
        if let Ok((at, answer)) = joined
            && let Known::Told(outcome) = known(answer)
        {
            told.insert(at, Reply::from(&Outcome::of_shop(outcome)));
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_domain::shop::TrNum;

    use super::*;

    #[test]
    fn what_may_have_been_tried_is_not_said_to_be_untried() {
        let shop = |error| known(Err(Failure::Shop(error)));
        let hub = |refusal| shop(ShopError::Hub(refusal));
        assert_eq!(known(Err(Failure::NoAnswer)), Known::Nothing);
        assert_eq!(hub(Refusal::Unknown("x".into())), Known::Nothing);
        assert_eq!(shop(ShopError::Unreadable("x".into())), Known::Nothing);
        assert_eq!(hub(Refusal::Busy), Known::NothingTried);
        assert_eq!(hub(Refusal::Closed("x".into())), Known::NothingTried);
        let vault = holdfast_tokens::Refusal::StoreUnavailable("x".into());
        assert_eq!(shop(ShopError::Vault(vault)), Known::NothingTried);
        let refusal = ShopRefusal::TriesUsedUp("o".parse().unwrap());
        assert_eq!(shop(ShopError::Refused(refusal.clone())), Known::Told(ShopOutcome::Refused(refusal)));
        let paid = CheckoutAnswer::Paid { tr: TrNum::FIRST };
        assert_eq!(known(Ok(paid)), Known::Told(ShopOutcome::Checkout(paid)));
    }
}
