//! What a courier needs of a shop: whom to ask about, what stands there, and where the answer goes. The hub's own shop has it, and
//! that of the database profile.

use std::time::Duration;

use holdfast_database::shop::{News, OwedByCall};
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::callers::PAGE_MAX;
use holdfast_domain::shop::{CheckoutAnswer, OrderId, Said, Side, TrNum, TryKey};
use holdfast_engine::{OrderView, Shop as _, ShopError};
use holdfast_hub::shop::{HubShop, ShopEvent, ShopEvents};

/// An order, and how much time is left to take for it if a checkout of it is open.
pub(crate) struct Standing {
    pub(super) view: OrderView,
    pub(super) time_left: Option<Duration>,
}

/// How the side's answer was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is recorded. If there is something else to ask, news will say so.
    Over,
    /// It is recorded, and the side has something else to do now.
    More,
    /// The side is still waited for with the same.
    Same,
}

/// Where a courier hears what happened.
pub(crate) trait Listens: Send + 'static {
    /// Waits for news; `None`: the shop has ended. May be dropped before it is done.
    fn next(&mut self) -> impl Future<Output = Option<News>> + Send;
}

/// A shop, as the courier of one side sees it. Cheap to clone.
pub(crate) trait Shop: Clone + Send + Sync + 'static {
    type Listener: Listens;
    /// Where a page of what is open begins.
    type PageStart: Clone + Send + Sync + 'static;

    fn listen(&self) -> Self::Listener;

    /// Whether the order is this courier's to ask about.
    fn is_ours(&self, order: &OrderId) -> bool;

    fn order(&self, order: &OrderId) -> impl Future<Output = Result<Option<Standing>, ShopError>> + Send;

    /// Orders whose open checkouts wait for the side, from a page of what is open, and where the next one begins.
    fn waiting(
        &self,
        after: Option<Self::PageStart>,
    ) -> impl Future<Output = Result<(Vec<OrderId>, Option<Self::PageStart>), ShopError>> + Send;

    /// What the side is to give back for that long or longer.
    fn owed(&self, age_ms: Millis) -> impl Future<Output = Result<Vec<OwedByCall>, ShopError>> + Send;

    /// Records what the side said about that try of an order that was just read. `undoing`: it was asked to give back.
    fn answer(
        &self,
        view: &OrderView,
        tr: TrNum,
        said: Said,
        undoing: bool,
    ) -> impl Future<Output = Result<Taken, ShopError>> + Send;

    /// Notes that the side gave no answer, and why; or, with `None`, that it did. Whether that is a change from well to not well.
    fn note_trouble(&self, why: Option<&str>) -> bool;
}

/// One side of the hub's own shop.
#[derive(Clone)]
pub(crate) struct HubSide {
    pub(crate) shop: HubShop,
    pub(crate) side: Side,
}

/// The hub's events, as far as they are about one side.
pub(crate) struct HubListener {
    events: ShopEvents,
    side: Side,
}

impl Listens for HubListener {
    async fn next(&mut self) -> Option<News> {
        let events = match self.events.next().await {
            Ok(None) => return None,
            Ok(Some(events)) => events,
            Err(_) => return Some(News { look: true, ..News::default() }),
        };
        let asked = events.iter().filter_map(|event| match event {
            ShopEvent::Asked { side, message } if *side == self.side => Some(message.key.order_id.clone()),
            ShopEvent::Asked { .. } | ShopEvent::Ended(_) => None,
        });
        Some(News { orders: asked.collect(), ..News::default() })
    }
}

impl Shop for HubSide {
    type Listener = HubListener;
    type PageStart = String;

    fn listen(&self) -> HubListener {
        HubListener { events: self.shop.listen(), side: self.side }
    }

    fn is_ours(&self, _: &OrderId) -> bool {
        true
    }

    async fn order(&self, order: &OrderId) -> Result<Option<Standing>, ShopError> {
        let view = self.shop.order(order.clone()).await?;
        Ok(view.map(|view| {
            let time_left = view.open.as_ref().map(|open| self.shop.time_left(open));
            Standing { view, time_left }
        }))
    }

    async fn waiting(&self, after: Option<String>) -> Result<(Vec<OrderId>, Option<String>), ShopError> {
        let page = self.shop.open_checkouts(None, after, PAGE_MAX).await?;
        let waits = page
            .checkouts
            .iter()
            .filter(|open| open.row.outside.has(self.side) && open.row.waits_for().has(self.side));
        Ok((waits.map(|open| open.row.order.clone()).collect(), page.next))
    }

    async fn owed(&self, age_ms: Millis) -> Result<Vec<OwedByCall>, ShopError> {
        let now = self.shop.now();
        let owed = self.shop.owed(self.side, now.saturating_sub(age_ms)).await?;
        let age_ms = |since: Millis| u64::try_from(now.saturating_sub(since)).unwrap_or(0);
        let owed = owed.into_iter();
        Ok(owed
            .map(|owed| OwedByCall { order: owed.order, tr: owed.tr, age_ms: age_ms(owed.since) })
            .collect())
    }

    async fn answer(
        &self,
        view: &OrderView,
        tr: TrNum,
        said: Said,
        undoing: bool,
    ) -> Result<Taken, ShopError> {
        let key = TryKey { order_id: view.row.order.order_id.clone(), tr_num: tr };
        match self.shop.answer(key, self.side, said).await?.1 {
            CheckoutAnswer::Open { tr: now, waits } if waits.sides.has(self.side) => {
                // Whoever took too late has to give back. Anything else that it still waits for would be asked in a circle.
                let is_new = now != tr || waits.cancelling != undoing;
                Ok(if is_new { Taken::More } else { Taken::Same })
            }
            _ => Ok(Taken::Over),
        }
    }

    fn note_trouble(&self, why: Option<&str>) -> bool {
        self.shop.note_trouble(self.side, why)
    }
}
