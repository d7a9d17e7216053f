//! Checkouts in batches: what a caller says.

use holdfast_domain::command::Command;
use holdfast_domain::records::CHECKOUT_ORDER_BYTES_MAX;
use holdfast_domain::shop::limits::{DEADLINE_MS_DEFAULT, DEADLINE_MS_MAX};
use holdfast_domain::shop::{CheckoutOrder, OrderId, ShopCommand};

use crate::ClientError;

pub use holdfast_domain::records::CheckoutReply;

/// The longest id of an order that a batch record holds. Longer ones are checked out over HTTP.
pub const ORDER_BYTES_MAX: usize = CHECKOUT_ORDER_BYTES_MAX;

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
        Command::Shop(Box::new(ShopCommand::Checkout(CheckoutOrder {
            order,
            deadline_ms,
            key: None,
            chosen: None,
        })))
    }
}

/// Of the shop only a plain checkout goes into a batch.
pub(crate) fn check(command: &ShopCommand) -> Result<(), ClientError> {
    let ShopCommand::Checkout(CheckoutOrder { order, deadline_ms, key, chosen }) = command else {
        return Err(ClientError::NotARecord("of the shop only checkouts go into a batch; use HTTP"));
    };
    if order.as_str().len() > ORDER_BYTES_MAX {
        return Err(ClientError::NotARecord("an order's id is too long for a batch record; use HTTP"));
    }
    if key.is_some() {
        return Err(ClientError::NotARecord("a batch record carries no idempotency key; use HTTP"));
    }
    if chosen.is_some() {
        return Err(ClientError::NotARecord(
            "the hub chooses the tokens that pay for a checkout; leave them out",
        ));
    }
    if !(1..=DEADLINE_MS_MAX).contains(deadline_ms) {
        return Err(ClientError::NotARecord("the deadline of a checkout is 1 ms to a day"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use holdfast_domain::records::{self, UNIT};
    use holdfast_domain::shop::{IdempotencyKey, Whole};
    use holdfast_domain::tokens::Fingerprint;

    use super::*;

    fn order(bytes: usize) -> OrderId {
        "o".repeat(bytes).parse().unwrap()
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
            check(&ShopCommand::Checkout(CheckoutOrder {
                order: order(1),
                deadline_ms: 1,
                key,
                chosen: None
            }))
            .is_err()
        );
        let amount = Whole::ZERO;
        assert!(check(&ShopCommand::AddFunds { user: "u".parse().unwrap(), amount }).is_err());
    }
}
