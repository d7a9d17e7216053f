//! What outside sides are to give back and have not: read from what is open, so that none is missed, whether it was asked for
//! already or not.

use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::callers::PAGE_MAX;
use holdfast_domain::shop::{CheckoutRow, OrderId, Side, TrNum};
use holdfast_engine::ShopError;
use holdfast_store::Store;

use super::hub_shop::HubShop;

/// A try for which an outside side is to give back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// Of this order.
    pub order: OrderId,
    /// The try.
    pub tr: TrNum,
    /// Since when.
    pub since: Millis,
}

impl HubShop {
    /// What a side that is outside owes since that time or longer, the oldest checkout first.
    ///
    /// # Errors
    /// If the hub takes no questions.
    pub async fn owed(&self, side: Side, since: Millis) -> Result<Vec<Owed>, ShopError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (owed, next) = self.ask(move |core| page(core.store(), side, since, after)).await?;
            all.extend(owed);
            let Some(next) = next else { return Ok(all) };
            after = Some(next);
        }
    }
}

/// Some of them, and where to go on. Checkouts stand in the order in which they began, and none owes before it began: those that
/// are younger are not looked at.
fn page(store: &impl Store, side: Side, since: Millis, after: Option<u64>) -> (Vec<Owed>, Option<u64>) {
    let seen = store.open_checkouts(after, PAGE_MAX);
    let is_old = |row: &&Arc<CheckoutRow>| row.started_at <= since;
    let next = seen.last().filter(|last| seen.len() == PAGE_MAX && is_old(last)).map(|last| last.start);
    let owes = |row: &&Arc<CheckoutRow>| {
        row.undo.is_some() && row.outside.has(side) && row.waits_for().has(side) && row.waits_since <= since
    };
    let owed = seen.iter().take_while(is_old).filter(owes);
    (owed.map(|row| Owed { order: row.order.clone(), tr: row.tr, since: row.waits_since }).collect(), next)
}
