//! What a side has owed for too long: counted, and said once for each try.

use std::collections::HashSet;
use std::time::Duration;

use holdfast_database::shop::OwedByCall;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{OrderId, TrNum};

use holdfast_engine::{Refusal, ShopError};

use super::shop::Shop;
use crate::options::HUB_BUSY_PAUSE;

/// A side that owes something for so long is cause for an alarm. It is asked on and on all the same.
pub(super) const ALARM_AFTER_MS: Millis = 60_000;
/// How often it is looked for.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The tries for which a side owes for too long, as last seen. What is open is the truth: nothing is missed, whoever was asked
/// about it how often, and what is over is forgotten with the next look.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    said: HashSet<(OrderId, TrNum)>,
}

impl Overdue {
    /// All there are by now. Gives those that are new.
    pub(super) fn take_in<'a>(&mut self, all: &'a [OwedByCall]) -> Vec<&'a OwedByCall> {
        let said = all.iter().map(|owed| (owed.order.clone(), owed.tr)).collect();
        let before = std::mem::replace(&mut self.said, said);
        all.iter().filter(|owed| !before.contains(&(owed.order.clone(), owed.tr))).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.said.len()
    }
}

/// What a side owes for too long, however long the hub cannot say.
pub(super) async fn look<D: Shop>(shop: D) -> Vec<OwedByCall> {
    until_told("what is owed by an outside side", || shop.owed(ALARM_AFTER_MS)).await
}

/// Asks until there is an answer. A hub that is busy for a moment is not worth a word; one that cannot tell is, once for each reason.
pub(super) async fn until_told<T, F>(what: &str, ask: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, ShopError>>,
{
    let mut said = None;
    loop {
        let error = match ask().await {
            Ok(told) => return told,
            Err(error) => error,
        };
        if error != ShopError::Hub(Refusal::Busy) && said.as_ref() != Some(&error) {
            tracing::warn!(%error, what, "an outside side's courier cannot look; it tries again");
            said = Some(error);
        }
        tokio::time::sleep(HUB_BUSY_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_said_once_and_counted_until_it_is_over() {
        let owed = |order: &str, tr: u64| {
            let (order, tr) = (order.parse().unwrap(), TrNum::try_from(tr).unwrap());
            OwedByCall { order, tr, age_ms: 60_000 }
        };
        let first = [owed("a", 1), owed("b", 1)];
        let mut overdue = Overdue::default();
        assert_eq!(overdue.take_in(&first), [&first[0], &first[1]]);
        assert_eq!(overdue.take_in(&first), [] as [&OwedByCall; 0], "a retry makes no new alarm");
        assert_eq!(overdue.len(), 2);
        let then = [owed("a", 2), owed("b", 1)];
        assert_eq!(overdue.take_in(&then), [&then[0]], "another try is another debt");
        overdue.take_in(&[]);
        assert_eq!(overdue.len(), 0);
    }
}
