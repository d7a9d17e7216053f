//! Checkouts in batches: what a caller says and what it is told.

use holdfast_domain::command::Command;
use holdfast_domain::records::batch::Reply;
use holdfast_domain::shop::limits::{DEADLINE_MS_DEFAULT, DEADLINE_MS_MAX};
use holdfast_domain::shop::{CheckoutOrder, OrderId, ShopCommand, TrNum, Why};

use crate::ClientError;

/// The longest id of an order that a batch record holds. Longer ones are checked out over HTTP.
pub const ORDER_BYTES_MAX: usize = 47;

/// Check an order out: its money and its stock are both taken, or neither is.
///
/// A repeat of a checkout that was paid charges nothing. A repeat of one that failed is another try, which may succeed by
/// then; so may the client's own repeat after an answer was lost. Where that matters, check out over HTTP with an
/// `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// Which order: an id of at most [`ORDER_BYTES_MAX`] bytes.
    pub order: OrderId,
    /// How long it may stay undecided, where a side is outside: 1 to [`DEADLINE_MS_MAX`].
    pub deadline_ms: u32,
}

impl Checkout {
    /// That order, with the usual deadline.
    #[must_use]
    pub const fn of(order: OrderId) -> Checkout {
        Checkout { order, deadline_ms: DEADLINE_MS_DEFAULT }
    }
}

impl From<Checkout> for Command {
    fn from(Checkout { order, deadline_ms }: Checkout) -> Command {
        Command::Shop(Box::new(ShopCommand::Checkout(CheckoutOrder { order, deadline_ms, key: None })))
    }
}

/// How a checkout stands, as its reply tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckoutReply {
    /// It is paid, by this try.
    Paid {
        /// The try.
        tr: TrNum,
    },
    /// It was paid before; nothing was charged.
    AlreadyPaid {
        /// The try that paid it.
        tr: TrNum,
    },
    /// It failed, and everything is given back.
    Failed {
        /// The try.
        tr: TrNum,
        /// Why.
        why: Why,
    },
    /// It waits for a side that is outside. The same call later tells how it stands then.
    Open {
        /// The try.
        tr: TrNum,
        /// It has failed already, and what was taken is being given back.
        cancelling: bool,
    },
    /// Nothing was tried: 3200 if there is no such order.
    Refused {
        /// Why.
        code: u16,
    },
}

impl CheckoutReply {
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
        let tr = TrNum::try_from(tr).ok()?;
        Some(match standing {
            1 => CheckoutReply::Paid { tr },
            2 => CheckoutReply::AlreadyPaid { tr },
            3 => CheckoutReply::Open { tr, cancelling: false },
            4 => CheckoutReply::Open { tr, cancelling: true },
            other => {
                let why = Why::ALL.into_iter().find(|why| other.checked_sub(16) == Some(*why as u64))?;
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

/// Of the shop only a plain checkout goes into a batch.
pub(crate) fn check(command: &ShopCommand) -> Result<(), ClientError> {
    let ShopCommand::Checkout(CheckoutOrder { order, deadline_ms, key }) = command else {
        return Err(ClientError::NotARecord("of the shop only checkouts go into a batch; use HTTP"));
    };
    if order.as_str().len() > ORDER_BYTES_MAX {
        return Err(ClientError::NotARecord("an order's id is too long for a batch record; use HTTP"));
    }
    if key.is_some() {
        return Err(ClientError::NotARecord("a batch record carries no idempotency key; use HTTP"));
    }
    if !(1..=DEADLINE_MS_MAX).contains(deadline_ms) {
        return Err(ClientError::NotARecord("the deadline of a checkout is 1 ms to a day"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use holdfast_domain::money::Balance;
    use holdfast_domain::records::{self, UNIT};
    use holdfast_domain::shop::{IdempotencyKey, Whole};
    use holdfast_domain::tokens::Fingerprint;

    use super::*;

    fn order(bytes: usize) -> OrderId {
        "o".repeat(bytes).parse().unwrap()
    }

    fn reply(code: u16, standing: u64, tr: u64) -> Reply {
        Reply { state: None, code, reason: 0, subject: standing << 32 | tr, value: Balance::ZERO }
    }

    #[test]
    fn what_is_checked_is_what_the_hub_takes() {
        for bytes in [1, ORDER_BYTES_MAX, ORDER_BYTES_MAX + 1, 128] {
            let command = Command::from(Checkout::of(order(bytes)));
            let mut record = Vec::new();
            records::write(&command, &mut record);
            let taken = records::seal(&mut record).ok();
            assert_eq!(taken, (bytes <= ORDER_BYTES_MAX).then_some((command.clone(), UNIT)), "{bytes}");
            assert_eq!(crate::requests::check(&command).is_ok(), bytes <= ORDER_BYTES_MAX, "{bytes}");
        }
    }

    #[test]
    fn what_no_record_can_say_is_refused() {
        for deadline_ms in [0, DEADLINE_MS_MAX + 1] {
            assert!(crate::requests::check(&Checkout { order: order(1), deadline_ms }.into()).is_err());
        }
        let key = Some(IdempotencyKey { key: "k".into(), body: Fingerprint(1) });
        assert!(
            check(&ShopCommand::Checkout(CheckoutOrder { order: order(1), deadline_ms: 1, key })).is_err()
        );
        let amount = Whole::ZERO;
        assert!(check(&ShopCommand::AddFunds { user: "u".parse().unwrap(), amount }).is_err());
    }

    #[test]
    fn replies_have_the_numbers_of_the_docs() {
        let tr = TrNum::FIRST;
        let read = |code, standing| CheckoutReply::from_reply(&reply(code, standing, 1));
        assert_eq!(read(0, 1), Some(CheckoutReply::Paid { tr }));
        assert_eq!(read(0, 2), Some(CheckoutReply::AlreadyPaid { tr }));
        assert_eq!(read(0, 3), Some(CheckoutReply::Open { tr, cancelling: false }));
        assert_eq!(read(0, 4), Some(CheckoutReply::Open { tr, cancelling: true }));
        for (standing, why) in (17..).zip(Why::ALL) {
            assert_eq!(read(3100, standing), Some(CheckoutReply::Failed { tr, why }));
        }
        assert_eq!((read(0, 0), read(0, 5), read(0, 16), read(0, 22)), (None, None, None, None));
        let refused = Some(CheckoutReply::Refused { code: 3200 });
        assert_eq!(CheckoutReply::from_reply(&reply(3200, 0, 0)), refused);
        assert_eq!(CheckoutReply::from_reply(&reply(0, 1, 0)), None, "there is no try 0");
    }
}
