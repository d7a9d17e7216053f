//! Why something was not done, or cannot be told, as a node knows it.

use holdfast_engine::{Refusal, ShopError};
use holdfast_postgres::Error;

use crate::reads::ReadError;

impl From<ReadError> for ShopError {
    fn from(error: ReadError) -> ShopError {
        match error {
            ReadError::Busy | ReadError::Store(Error::Busy { .. }) => Refusal::Busy.into(),
            ReadError::Store(error) => {
                ShopError::Unreadable(format!("the database cannot be read now: {error}; ask again"))
            }
        }
    }
}

/// Whether it was done is not known: why.
pub(super) fn unknown(why: impl Into<String>) -> ShopError {
    Refusal::Unknown(why.into()).into()
}

/// The same error, of a look at what became of something that was sent before.
pub(super) fn after_sending(error: ShopError) -> ShopError {
    match error {
        ShopError::Hub(Refusal::Busy) => unknown("the node is too busy to look"),
        ShopError::Hub(Refusal::Closed(why)) | ShopError::Unreadable(why) => unknown(why),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_domain::shop::ShopRefusal;

    use super::*;

    #[test]
    fn what_may_have_been_done_is_not_said_to_be_undone() {
        for error in [
            Refusal::Busy.into(),
            Refusal::Closed("ending".to_owned()).into(),
            ShopError::Unreadable("gone".to_owned()),
            unknown("no answer"),
        ] {
            let after = after_sending(ShopError::clone(&error));
            assert!(matches!(after, ShopError::Hub(Refusal::Unknown(_))), "{error:?}");
        }
        let refused = ShopError::from(ShopRefusal::KeyReused);
        assert_eq!(after_sending(refused.clone()), refused);
    }
}
