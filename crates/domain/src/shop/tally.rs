//! What checkouts came to, counted by the messages that say it. Every profile counts in this way.

use super::{AskedStep, Body, Verdict};

/// How often what was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Tries that were decided as paid.
    pub paid: u64,
    /// Tries that were decided as failed.
    pub failed: u64,
    /// Requests to a side to give back, repeated ones included.
    pub compensations: u64,
}

impl Tally {
    /// Counts a message that is sent.
    pub const fn add(&mut self, body: &Body) {
        let count = match body {
            Body::Decided(Verdict::Succeeded) => &mut self.paid,
            Body::Decided(Verdict::Failed) => &mut self.failed,
            Body::Pay(AskedStep::Rollback(_)) | Body::Stock(AskedStep::Rollback(_)) => {
                &mut self.compensations
            }
            Body::Pay(AskedStep::Forward(_))
            | Body::Stock(AskedStep::Forward(_))
            | Body::Paid(_)
            | Body::Stocked(_) => return,
        };
        *count = count.saturating_add(1);
    }

    /// Both together.
    #[must_use]
    pub const fn with(self, other: Tally) -> Tally {
        Tally {
            paid: self.paid.saturating_add(other.paid),
            failed: self.failed.saturating_add(other.failed),
            compensations: self.compensations.saturating_add(other.compensations),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Items, Payment, Whole};
    use super::*;

    #[test]
    fn decisions_and_requests_to_give_back_are_counted() {
        let payment = Payment { user_id: "u".parse().unwrap(), amnt: Whole::new(1).unwrap() };
        let mut tally = Tally::default();
        for body in [
            Body::Pay(AskedStep::Forward(payment.clone())),
            Body::Stock(AskedStep::Forward(Items::default())),
            Body::Paid(Answer::Taken(payment.clone())),
            Body::Stocked(Answer::Undone(Items::default())),
            Body::Decided(Verdict::Succeeded),
            Body::Decided(Verdict::Failed),
            Body::Pay(AskedStep::Rollback(payment)),
            Body::Stock(AskedStep::Rollback(Items::default())),
        ] {
            tally.add(&body);
        }
        assert_eq!(tally, Tally { paid: 1, failed: 1, compensations: 2 });
        assert_eq!(tally.with(tally), Tally { paid: 2, failed: 2, compensations: 4 });
    }
}
