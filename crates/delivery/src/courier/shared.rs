//! One side of the database profile's shop. This node asks about the orders of the partitions that it has claimed; the side's answers go by the
//! topic `outcomes`, and what becomes of them is heard on the side's own topic.

use std::sync::Arc;
use std::time::Duration;

use holdfast_database::shop::{CalledSide, News, OwedByCall, PageStart};
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{OrderId, Said, TrNum};
use holdfast_engine::{NotedTroubles, OrderView, ShopError};

use super::shop::{Listens, Shop, Standing, Taken};

/// A side that a node calls.
#[derive(Clone)]
pub(crate) struct SharedSide {
    pub(crate) called: CalledSide,
    pub(crate) troubles: NotedTroubles,
}

impl Listens for CalledSide {
    async fn next(&mut self) -> Option<News> {
        CalledSide::next(self).await
    }
}

impl Shop for SharedSide {
    type Listener = CalledSide;
    type PageStart = PageStart;

    fn listen(&self) -> CalledSide {
        self.called.clone()
    }

    fn is_ours(&self, order: &OrderId) -> bool {
        self.called.is_ours(order)
    }

    async fn order(&self, order: &OrderId) -> Result<Option<Standing>, ShopError> {
        let Some((row, open, now)) = self.called.order(order.clone()).await? else {
            return Ok(None);
        };
        let left = |deadline: Millis| u64::try_from(deadline.saturating_sub(now)).unwrap_or(0);
        let time_left = open.as_ref().map(|open| Duration::from_millis(left(open.deadline)));
        Ok(Some(Standing { view: OrderView { row, open: open.map(Arc::new) }, time_left }))
    }

    async fn waiting(
        &self,
        after: Option<PageStart>,
    ) -> Result<(Vec<OrderId>, Option<PageStart>), ShopError> {
        self.called.waiting(after).await
    }

    async fn owed(&self, age_ms: Millis) -> Result<Vec<OwedByCall>, ShopError> {
        self.called.owed(u64::try_from(age_ms).unwrap_or(0)).await
    }

    /// When Kafka has it, it is recorded. If the try goes on with something else for the side, that comes by its topic.
    async fn answer(&self, view: &OrderView, tr: TrNum, said: Said, _: bool) -> Result<Taken, ShopError> {
        self.called.answer(&view.row.order, tr, said).await?;
        Ok(Taken::Over)
    }

    fn note_trouble(&self, why: Option<&str>) -> bool {
        self.troubles.note(self.called.side(), why)
    }
}
