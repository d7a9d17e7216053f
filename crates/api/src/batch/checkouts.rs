//! What a batch answers about checkouts: error code and number of the reply, as `docs/batch.md` has them. The Rust client
//! reads them back.

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::effects::Outcome;
use holdfast_domain::shop::{CheckoutAnswer, ShopOutcome, ShopRefusal, Why};

/// How a checkout stands: the upper half of the reply's number. The lower half is the try.
mod standing {
    pub(super) const PAID: u64 = 1;
    pub(super) const PAID_BEFORE: u64 = 2;
    pub(super) const PENDING: u64 = 3;
    pub(super) const CANCELLING: u64 = 4;
    /// And the number of why it failed.
    pub(super) const FAILED: u64 = 16;
}

/// Fills in code and number of every outcome that is about a checkout.
pub(super) fn tell(outcomes: &mut [Outcome]) {
    for outcome in outcomes {
        let Some(shop) = outcome.shop.as_deref() else { continue };
        match shop {
            ShopOutcome::Checkout(answer) => {
                let (standing, code) = of_answer(*answer);
                outcome.subject = standing << 32 | u64::from(answer.tr().get());
                outcome.code = code.map(Into::into);
            }
            ShopOutcome::Refused(refusal) => outcome.code = Some(of_refusal(refusal).into()),
            // A batch holds no other command of the shop.
            _ => {}
        }
    }
}

const fn of_answer(answer: CheckoutAnswer) -> (u64, Option<ErrorCode>) {
    match answer {
        CheckoutAnswer::Paid { .. } => (standing::PAID, None),
        CheckoutAnswer::AlreadyPaid { .. } => (standing::PAID_BEFORE, None),
        CheckoutAnswer::Open { waits, .. } if waits.cancelling => (standing::CANCELLING, None),
        CheckoutAnswer::Open { .. } => (standing::PENDING, None),
        CheckoutAnswer::Failed { why, .. } => {
            let code = match why {
                Why::Pay | Why::Both => ErrorCode::PayerInsufficientLiquidity,
                Why::Stock => ErrorCode::ValidationError,
                Why::Cancelled => ErrorCode::ClientError,
                Why::Deadline => ErrorCode::TransferExpired,
            };
            (standing::FAILED + why as u64, Some(code))
        }
    }
}

const fn of_refusal(refusal: &ShopRefusal) -> ErrorCode {
    match refusal {
        ShopRefusal::UnknownOrder(_) => ErrorCode::IdNotFound,
        ShopRefusal::NotNow { .. } => ErrorCode::InternalServerError,
        _ => ErrorCode::ValidationError,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_domain::money::Balance;
    use holdfast_domain::records::batch::{Reply, read_replies, write_replies};
    use holdfast_domain::shop::{Sides, TrNum, Waits};

    use super::*;

    fn outcome(shop: Option<ShopOutcome>) -> Outcome {
        let shop = shop.map(Arc::new);
        let (subject, value) = (0, Balance::ZERO);
        Outcome { state: None, code: None, reason: None, subject, value, token: None, shop }
    }

    fn told(answer: CheckoutAnswer) -> (u16, u64, u64) {
        let mut outcomes = [outcome(Some(ShopOutcome::Checkout(answer)))];
        tell(&mut outcomes);
        let Reply { code, subject, .. } = read_replies(&write_replies(&outcomes)).unwrap()[0];
        (code, subject >> 32, subject & 0xffff_ffff)
    }

    #[test]
    fn every_answer_has_the_numbers_of_the_docs() {
        let tr = TrNum::FIRST.next().unwrap();
        let open = |cancelling| CheckoutAnswer::Open {
            tr,
            waits: Waits { sides: Sides::BOTH, cancelling, since: 1, deadline: 2 },
        };
        assert_eq!(told(CheckoutAnswer::Paid { tr }), (0, 1, 2));
        assert_eq!(told(CheckoutAnswer::AlreadyPaid { tr }), (0, 2, 2));
        assert_eq!(told(open(false)), (0, 3, 2));
        assert_eq!(told(open(true)), (0, 4, 2));
        let failed = [4001, 3100, 4001, 3000, 3303];
        for (place, (why, code)) in (17..).zip(Why::ALL.into_iter().zip(failed)) {
            assert_eq!(told(CheckoutAnswer::Failed { tr, why }), (code, place, 2), "{why:?}");
        }
    }

    #[test]
    fn refusals_have_a_code_and_no_number_and_others_are_left_alone() {
        let order: holdfast_domain::shop::OrderId = "o1".parse().unwrap();
        let unknown = ShopOutcome::Refused(ShopRefusal::UnknownOrder(order.clone()));
        let used_up = ShopOutcome::Refused(ShopRefusal::TriesUsedUp(order));
        let mut outcomes = [outcome(Some(unknown)), outcome(Some(used_up)), outcome(None)];
        outcomes[2].subject = 7;
        tell(&mut outcomes);
        let told = outcomes.each_ref().map(|outcome| (Reply::from(outcome).code, outcome.subject));
        assert_eq!(told, [(3200, 0), (3100, 0), (0, 7)]);
    }
}
