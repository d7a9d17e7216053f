//! What the courier of a side that is called over HTTP needs of its node: whom to ask about, what stands in the order's row, and
//! where the answer goes.

use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::callers::{CheckoutState, OpenCheckout, PAGE_MAX};
use holdfast_domain::shop::{Order, OrderId, Said, Side, TrNum, TryKey};
use holdfast_engine::ShopError;
use holdfast_postgres::shop::OrderNow;

use super::asks::{Asks, News};
use super::limits::OWED_LOOKED_AT_MAX;
use super::shared::{asked, publish};
use super::topic_of;
use crate::handle::NodeHandle;

/// Where a page of open checkouts begins: behind the one of that order, which began then.
pub type PageStart = (Millis, OrderId);

/// A try for which the side is to give back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwedByCall {
    /// Of this order.
    pub order: OrderId,
    /// The try.
    pub tr: TrNum,
    /// For how long it is owed, in milliseconds.
    pub age_ms: u64,
}

/// A side that is called over HTTP, as one node asks it. Cheap to clone.
#[derive(Clone)]
pub struct CalledSide {
    pub(crate) node: NodeHandle,
    pub(crate) side: Side,
    pub(crate) asks: Arc<Asks>,
}

impl CalledSide {
    /// Which one.
    #[must_use]
    pub const fn side(&self) -> Side {
        self.side
    }

    /// Waits for news; `None`: the node ends. One at a time may listen.
    pub async fn next(&self) -> Option<News> {
        self.asks.next().await
    }

    /// Whether this node asks about that order: it has the order's partition of the side's topic.
    #[must_use]
    pub fn is_ours(&self, order: &OrderId) -> bool {
        let topic = topic_of(self.side);
        self.asks.has(self.node.settings.topics.partition(topic, order.as_str().as_bytes()))
    }

    /// An order, its open checkout and the database's time.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn order(&self, id: OrderId) -> Result<Option<OrderNow>, ShopError> {
        asked(&self.node, move |store| store.find_order_now(&id)).await
    }

    /// Orders of this node's partitions whose open checkouts wait for the side, from a page of all that are open; and where the
    /// next page begins.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn waiting(
        &self,
        after: Option<PageStart>,
    ) -> Result<(Vec<OrderId>, Option<PageStart>), ShopError> {
        let page =
            asked(&self.node, move |store| store.open_checkouts(None, after.as_ref(), PAGE_MAX)).await?;
        let waits =
            |open: &OpenCheckout| open.row.waits_for().has(self.side) && self.is_ours(&open.row.order);
        let waiting = page.checkouts.iter().filter(|open| waits(open)).map(|open| open.row.order.clone());
        Ok((waiting.collect(), page.next))
    }

    /// What the side is to give back for that long or longer, in this node's partitions, the oldest checkout first. Of the oldest
    /// [`OWED_LOOKED_AT_MAX`] that are being given back, at whichever node: a side may be gone for days.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn owed(&self, age_ms: u64) -> Result<Vec<OwedByCall>, ShopError> {
        let (mut all, mut after, mut looked_at) = (Vec::new(), None, 0);
        loop {
            let cancelling = Some(CheckoutState::Cancelling);
            let page =
                asked(&self.node, move |store| store.open_checkouts(cancelling, after.as_ref(), PAGE_MAX))
                    .await?;
            let age = |since: Millis| u64::try_from(page.now.saturating_sub(since)).unwrap_or(0);
            // They stand in the order in which they began, and none owes before it began.
            let old = page.checkouts.iter().take_while(|open| age(open.row.started_at) >= age_ms);
            let mut seen = 0;
            for OpenCheckout { row, .. } in old {
                seen += 1;
                let owes = row.waits_for().has(self.side) && age(row.waits_since) >= age_ms;
                if owes && self.is_ours(&row.order) {
                    all.push(OwedByCall {
                        order: row.order.clone(),
                        tr: row.tr,
                        age_ms: age(row.waits_since),
                    });
                }
            }
            looked_at += seen;
            let no_more = page.next.is_none() || looked_at >= OWED_LOOKED_AT_MAX;
            if no_more || seen < page.checkouts.len() {
                return Ok(all);
            }
            after = page.next;
        }
    }

    /// Has the log know what the side said about a try of that order; returns when Kafka has it. Twice is harmless: what was
    /// recorded first counts.
    ///
    /// # Errors
    /// If Kafka does not take it: nobody knows whether it has it.
    pub async fn answer(&self, order: &Order, tr: TrNum, said: Said) -> Result<(), ShopError> {
        let key = TryKey { order_id: order.order_id.clone(), tr_num: tr };
        publish(&self.node, order, key, self.side, said).await
    }
}
