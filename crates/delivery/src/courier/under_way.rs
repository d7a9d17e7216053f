//! Attempts that are being made. Each comes to an end here, whatever becomes of its task: an order whose attempt panicked would
//! otherwise be held as being asked about for ever.

use std::collections::HashMap;

use holdfast_domain::shop::OrderId;
use tokio::task::{Id, JoinSet};

use super::Asked;
use crate::callbacks::Failure;

/// The attempts, and about which orders they are.
#[derive(Default)]
pub(super) struct UnderWay {
    attempts: JoinSet<Asked>,
    orders: HashMap<Id, OrderId>,
}

impl UnderWay {
    pub(super) fn begin(&mut self, order: OrderId, attempt: impl Future<Output = Asked> + Send + 'static) {
        let id = self.attempts.spawn(attempt).id();
        self.orders.insert(id, order);
    }

    /// The next one that has ended; `None` if none is under way. May be dropped before it is done.
    pub(super) async fn next(&mut self) -> Option<(OrderId, Asked)> {
        let (id, asked) = match self.attempts.join_next_with_id().await? {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, "an attempt to ask an outside side broke off; it is made again");
                (error.id(), Asked::Failed(Failure::passing("the attempt broke off")))
            }
        };
        let order = self.orders.remove(&id).expect("an attempt was begun for an order");
        Some((order, asked))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::round::Round;
    use super::*;

    #[tokio::test]
    async fn an_order_whose_attempt_panicked_is_asked_about_again() {
        let (mut round, mut under_way, now) = (Round::new(), UnderWay::default(), Instant::now());
        let order: OrderId = "o".parse().unwrap();
        round.ask(&order, now);
        let begun = round.begin(now).unwrap();
        under_way.begin(begun, async { panic!("a planted fault") });
        let (ended, asked) = under_way.next().await.expect("it has ended, though badly");
        assert!(matches!(asked, Asked::Failed(_)), "{asked:?}");
        assert_eq!(ended, order);
        round.rest(&ended, Some(false), now, |_| Duration::ZERO);
        assert_eq!(round.begin(now), Some(order));
        assert!(under_way.next().await.is_none());
    }
}
