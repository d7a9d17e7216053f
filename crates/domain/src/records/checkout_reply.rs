//! How a checkout stands, as a batch tells it: in the error code and the number of its reply. The number has the try in its
//! lower half and the standing in its upper half. Hub and client both work with this, and `docs/batch.md` says the same.

use super::batch::Reply;
use crate::codes::ErrorCode;
use crate::money::Balance;
use crate::shop::{CheckoutAnswer, ShopOutcome, ShopRefusal, TrNum, Why};

const PAID: u64 = 1;
const PAID_BEFORE: u64 = 2;
const PENDING: u64 = 3;
const CANCELLING: u64 = 4;
const UNKNOWN: u64 = 5;
/// And the number of why it failed.
const FAILED: u64 = 16;
/// The code of an answer that did not come in time, as elsewhere at the edge.
const NO_ANSWER: u16 = 2004;

/// How a checkout stands, as its reply tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum CheckoutReply {
    /// It is paid, by this try.
    Paid { tr: TrNum },
    /// It was paid before, by this try; nothing was charged.
    AlreadyPaid { tr: TrNum },
    /// It failed, and everything is given back.
    Failed { tr: TrNum, why: Why },
    /// It waits for a side that is outside. The same call later tells how it stands then. If it is `cancelling`, it has failed
    /// already, and what was taken is being given back.
    Open { tr: TrNum, cancelling: bool },
    /// Nothing was tried, and the code says why: 3200 if there is no such order.
    Refused { code: u16 },
    /// It may have been tried or not: the hub did not answer in time, or stopped. The same call later tells how it stands then;
    /// if it was paid, nothing is charged again.
    Unknown,
}

impl CheckoutReply {
    /// What is told of an outcome of the shop; `None` if it is not one of a checkout.
    pub(super) fn of(outcome: &ShopOutcome) -> Option<CheckoutReply> {
        match outcome {
            ShopOutcome::Checkout(answer) => Some(match *answer {
                CheckoutAnswer::Paid { tr } => CheckoutReply::Paid { tr },
                CheckoutAnswer::AlreadyPaid { tr } => CheckoutReply::AlreadyPaid { tr },
                CheckoutAnswer::Failed { tr, why } => CheckoutReply::Failed { tr, why },
                CheckoutAnswer::Open { tr, waits } => {
                    CheckoutReply::Open { tr, cancelling: waits.cancelling }
                }
            }),
            ShopOutcome::Refused(refusal) => Some(CheckoutReply::Refused { code: code_of(refusal).number() }),
            _ => None,
        }
    }

    /// The reply that tells it.
    #[must_use]
    pub fn to_reply(self) -> Reply {
        let (code, standing, tr) = match self {
            CheckoutReply::Paid { tr } => (0, PAID, Some(tr)),
            CheckoutReply::AlreadyPaid { tr } => (0, PAID_BEFORE, Some(tr)),
            CheckoutReply::Open { tr, cancelling: false } => (0, PENDING, Some(tr)),
            CheckoutReply::Open { tr, cancelling: true } => (0, CANCELLING, Some(tr)),
            CheckoutReply::Failed { tr, why } => {
                (code_of_failure(why).number(), FAILED + why as u64, Some(tr))
            }
            CheckoutReply::Refused { code } => (code, 0, None),
            CheckoutReply::Unknown => (NO_ANSWER, UNKNOWN, None),
        };
        let subject = standing << 32 | tr.map_or(0, |tr| u64::from(tr.get()));
        Reply { state: None, code, reason: 0, subject, value: Balance::ZERO }
    }

    /// Reads the reply to a checkout; `None` if it is the reply to something else.
    #[must_use]
    pub fn from_reply(reply: &Reply) -> Option<CheckoutReply> {
        let (standing, tr) = (reply.subject >> 32, reply.subject & u64::from(u32::MAX));
        if reply.state.is_some() {
            return None;
        }
        if (standing, tr) == (0, 0) && reply.code != 0 {
            return Some(CheckoutReply::Refused { code: reply.code });
        }
        if (standing, tr) == (UNKNOWN, 0) {
            return Some(CheckoutReply::Unknown);
        }
        let tr = TrNum::try_from(tr).ok()?;
        Some(match standing {
            PAID => CheckoutReply::Paid { tr },
            PAID_BEFORE => CheckoutReply::AlreadyPaid { tr },
            PENDING => CheckoutReply::Open { tr, cancelling: false },
            CANCELLING => CheckoutReply::Open { tr, cancelling: true },
            other => {
                let why = Why::ALL.into_iter().find(|why| other.checked_sub(FAILED) == Some(*why as u64))?;
                CheckoutReply::Failed { tr, why }
            }
        })
    }

    /// Whether the order is paid, by this call or before.
    #[must_use]
    pub const fn is_paid(&self) -> bool {
        matches!(self, CheckoutReply::Paid { .. } | CheckoutReply::AlreadyPaid { .. })
    }
}

const fn code_of_failure(why: Why) -> ErrorCode {
    match why {
        Why::Pay | Why::Both => ErrorCode::PayerInsufficientLiquidity,
        Why::Stock => ErrorCode::ValidationError,
        Why::Cancelled => ErrorCode::ClientError,
        Why::Deadline => ErrorCode::TransferExpired,
    }
}

const fn code_of(refusal: &ShopRefusal) -> ErrorCode {
    match refusal {
        ShopRefusal::UnknownOrder(_) => ErrorCode::IdNotFound,
        // Nothing was tried, and the same call may succeed.
        ShopRefusal::ChooseTokens { .. } => ErrorCode::InternalServerError,
        _ => ErrorCode::ValidationError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop::{Sides, Waits};

    fn told(answer: CheckoutAnswer) -> (u16, u64, u64) {
        let reply = CheckoutReply::of(&ShopOutcome::Checkout(answer)).unwrap().to_reply();
        (reply.code, reply.subject >> 32, reply.subject & 0xffff_ffff)
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
    fn refusals_have_a_code_and_no_number_and_others_are_no_checkouts() {
        let order: crate::shop::OrderId = "o1".parse().unwrap();
        let refused = |refusal| CheckoutReply::of(&ShopOutcome::Refused(refusal)).unwrap().to_reply();
        let unknown = refused(ShopRefusal::UnknownOrder(order.clone()));
        assert_eq!((unknown.code, unknown.subject), (3200, 0));
        assert_eq!(refused(ShopRefusal::TriesUsedUp(order)).code, 3100);
        assert_eq!(CheckoutReply::of(&ShopOutcome::Initialised(1)), None);
        let unknown = CheckoutReply::Unknown.to_reply();
        assert_eq!((unknown.code, unknown.subject >> 32, unknown.subject & 0xffff_ffff), (2004, 5, 0));
    }

    #[test]
    fn what_is_told_is_read_back() {
        let tr = TrNum::FIRST;
        let failed = Why::ALL.map(|why| CheckoutReply::Failed { tr, why });
        let others = [
            CheckoutReply::Paid { tr },
            CheckoutReply::AlreadyPaid { tr },
            CheckoutReply::Open { tr, cancelling: false },
            CheckoutReply::Open { tr, cancelling: true },
            CheckoutReply::Refused { code: 3200 },
            CheckoutReply::Unknown,
        ];
        for reply in failed.into_iter().chain(others) {
            assert_eq!(CheckoutReply::from_reply(&reply.to_reply()), Some(reply));
        }
        let odd = |standing: u64, tr| Reply { subject: standing << 32 | tr, ..others[0].to_reply() };
        for (standing, tr) in [(0, 1), (5, 1), (16, 1), (22, 1), (1, 0)] {
            assert_eq!(CheckoutReply::from_reply(&odd(standing, tr)), None, "{standing} {tr}");
        }
    }
}
