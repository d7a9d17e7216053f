//! What a side that is called over HTTP is to be asked about by this node: the orders of the partitions that it has claimed. It is
//! an event in memory and no more. What is lost, or does not fit, is found in the store when it is looked for.

use std::collections::BTreeSet;

use holdfast_domain::shop::OrderId;
use holdfast_engine::Monitor;
use tokio::sync::Notify;

use super::limits::ASKS_MAX;

/// What happened since the last time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct News {
    /// Something is to be asked about these orders.
    pub orders: Vec<OrderId>,
    /// Partitions were taken over, or there was no room for some orders: what is open tells what is to be asked.
    pub look: bool,
    /// Partitions are other nodes' from now on.
    pub lost: bool,
}

#[derive(Default)]
struct AsksState {
    partitions: BTreeSet<u32>,
    news: News,
    closed: bool,
}

/// The events of one side. One courier listens.
#[derive(Default)]
pub(crate) struct Asks {
    state: Monitor<AsksState>,
    changed: Notify,
}

impl Asks {
    /// That partition is this node's from now on.
    pub(crate) fn take(&self, partition: u32) {
        let mut state = self.state.lock();
        state.partitions.insert(partition);
        state.news.look = true;
        drop(state);
        self.changed.notify_one();
    }

    /// It is another node's, or nobody's.
    pub(crate) fn lose(&self, partition: u32) {
        let mut state = self.state.lock();
        if state.partitions.remove(&partition) {
            state.news.lost = true;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Something is to be asked about these orders, of a partition that this node has.
    pub(crate) fn note(&self, orders: impl IntoIterator<Item = OrderId>) {
        let mut state = self.state.lock();
        let news = &mut state.news;
        for order in orders {
            if news.orders.len() < ASKS_MAX {
                news.orders.push(order);
            } else {
                news.look = true;
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Whether this node asks about orders of that partition.
    pub(crate) fn has(&self, partition: u32) -> bool {
        self.state.lock().partitions.contains(&partition)
    }

    /// The node ends.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }

    /// Waits for news; `None`: the node ends. May be dropped before it is done.
    pub(crate) async fn next(&self) -> Option<News> {
        loop {
            {
                let mut state = self.state.lock();
                if state.closed {
                    return None;
                }
                let news = std::mem::take(&mut state.news);
                if news != News::default() {
                    return Some(news);
                }
            }
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(number: usize) -> OrderId {
        number.to_string().parse().unwrap()
    }

    #[tokio::test]
    async fn news_is_heard_once_and_what_does_not_fit_is_looked_for() {
        let asks = Asks::default();
        asks.take(3);
        asks.note([order(1), order(2)]);
        let heard = asks.next().await.unwrap();
        assert_eq!(heard, News { orders: vec![order(1), order(2)], look: true, lost: false });
        asks.note((0..=ASKS_MAX).map(order));
        let heard = asks.next().await.unwrap();
        assert_eq!((heard.orders.len(), heard.look), (ASKS_MAX, true));
        assert!(asks.has(3) && !asks.has(4));
        asks.lose(4);
        asks.lose(3);
        assert_eq!(asks.next().await.unwrap(), News { lost: true, ..News::default() });
        assert!(!asks.has(3));
        asks.close();
        assert_eq!(asks.next().await, None);
    }
}
