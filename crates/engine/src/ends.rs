//! Who waits at an engine for the end of which checkout.
//!
//! Whoever waits is noted before the checkout is asked for, so that an end which comes at once is not missed.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_domain::shop::{CheckoutAnswer, OrderId, TrNum};
use tokio::sync::watch;

use crate::{Monitor, Refusal};

/// One order that is waited for.
struct Awaited {
    callers: usize,
    end: watch::Sender<Option<CheckoutAnswer>>,
}

#[derive(Default)]
struct EndsState {
    orders: HashMap<OrderId, Awaited>,
    callers: usize,
    closed: bool,
}

/// Those who wait.
pub struct Ends {
    callers_max: usize,
    state: Monitor<EndsState>,
}

/// A caller that waits; forgotten when dropped.
pub struct EndWaiter {
    ends: Arc<Ends>,
    order: OrderId,
    end: watch::Receiver<Option<CheckoutAnswer>>,
}

impl Ends {
    /// Of so many callers at most.
    #[must_use]
    pub fn new(callers_max: usize) -> Ends {
        Ends { callers_max, state: Monitor::default() }
    }

    /// From now on the ends of that order are heard.
    ///
    /// # Errors
    /// If too many wait, or the engine ends.
    pub fn wait_for(self: &Arc<Ends>, order: &OrderId) -> Result<EndWaiter, Refusal> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Refusal::Closed("the node is shutting down".to_owned()));
        }
        if state.callers >= self.callers_max {
            return Err(Refusal::Busy);
        }
        state.callers += 1;
        let awaited = state
            .orders
            .entry(order.clone())
            .or_insert_with(|| Awaited { callers: 0, end: watch::Sender::new(None) });
        awaited.callers += 1;
        Ok(EndWaiter { ends: Arc::clone(self), order: order.clone(), end: awaited.end.subscribe() })
    }

    /// A checkout of that order has come to its end.
    pub fn tell(&self, order: &OrderId, answer: CheckoutAnswer) {
        if let Some(awaited) = self.state.lock().orders.get(order) {
            awaited.end.send_replace(Some(answer));
        }
    }

    /// Whether nobody waits: then nothing needs to be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.lock().callers == 0
    }

    /// The engine ends: whoever waits is told where the checkout stands, and nobody waits any more.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.orders.clear();
    }
}

impl EndWaiter {
    /// Waits for the end of that try, or of a later one. `None`: the engine is ending.
    pub async fn end_of(&mut self, tr: TrNum) -> Option<CheckoutAnswer> {
        let is_it = |end: &Option<CheckoutAnswer>| end.is_some_and(|end| end.tr() >= tr);
        self.end.wait_for(is_it).await.ok().and_then(|end| *end)
    }

    /// The same, if it has come by now.
    #[must_use]
    pub fn ended(&self, tr: TrNum) -> Option<CheckoutAnswer> {
        self.end.borrow().filter(|end| end.tr() >= tr)
    }
}

impl Drop for EndWaiter {
    fn drop(&mut self) {
        let mut state = self.ends.state.lock();
        state.callers -= 1;
        if let Some(awaited) = state.orders.get_mut(&self.order) {
            awaited.callers -= 1;
            if awaited.callers == 0 {
                state.orders.remove(&self.order);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tr(number: u64) -> TrNum {
        TrNum::try_from(number).unwrap()
    }

    #[test]
    fn ends_find_those_who_wait_and_nobody_is_forgotten_or_kept() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let ends = Arc::new(Ends::new(2));
        let order: OrderId = "o1".parse().unwrap();
        assert!(ends.is_empty());
        let mut one = ends.wait_for(&order).unwrap();
        let mut two = ends.wait_for(&order).unwrap();
        assert!(matches!(ends.wait_for(&order), Err(Refusal::Busy)));
        // An earlier try, another order, then the one.
        ends.tell(&order, CheckoutAnswer::Paid { tr: tr(1) });
        ends.tell(&"o2".parse().unwrap(), CheckoutAnswer::Paid { tr: tr(2) });
        let soon = std::time::Duration::from_millis(10);
        let waited = runtime.block_on(async { tokio::time::timeout(soon, one.end_of(tr(2))).await });
        assert!(waited.is_err(), "the end of an earlier try is not this one's");
        ends.tell(&order, CheckoutAnswer::Paid { tr: tr(2) });
        let told = runtime.block_on(async { (one.end_of(tr(2)).await, two.end_of(tr(2)).await) });
        assert_eq!(
            told,
            (Some(CheckoutAnswer::Paid { tr: tr(2) }), Some(CheckoutAnswer::Paid { tr: tr(2) }))
        );
        drop(one);
        assert!(!ends.is_empty());
        drop(two);
        assert!(ends.is_empty() && ends.state.lock().orders.is_empty());
        let mut last = ends.wait_for(&order).unwrap();
        ends.close();
        assert_eq!(runtime.block_on(last.end_of(tr(3))), None);
        assert!(matches!(ends.wait_for(&order), Err(Refusal::Closed(_))));
    }
}
