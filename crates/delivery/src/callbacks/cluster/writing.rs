//! From what PostgreSQL knows about a callback to what is sent.

use holdfast_domain::ids::Millis;
use holdfast_hub::CallbackRow;
use holdfast_postgres::CallbackFacts;

use super::super::message::{Facts, compose};
use super::super::requests::{Written, address};
use crate::request::{Envelope, Failure};
use holdfast_domain::callbacks::CallbackMessage;

/// Writes one callback.
pub(super) fn write(row: &CallbackRow, known: CallbackFacts, now: Millis) -> Written {
    let CallbackFacts { receiver, endpoint, payer, payee, transfer, origin, alarmed } = known;
    let facts = Facts { receiver: receiver.unwrap_or_default(), endpoint, payer, payee, transfer, alarmed };
    let (url, uri) = match address(row, &facts) {
        Ok((url, uri)) => (url, uri),
        Err(failure) => return (None, Err(failure)),
    };
    let hands_on = matches!(
        row.message,
        CallbackMessage::ForwardPrepare | CallbackMessage::ForwardFulfil | CallbackMessage::ForwardError
    );
    if hands_on && origin.is_none() {
        let why = format!("what it hands on is not in the store: transfer {}", row.transfer);
        return (Some(url), Err(Failure::for_good(why)));
    }
    let message = compose(row, &facts, origin.as_ref(), now);
    (Some(url), Ok(Envelope { uri, message }))
}
