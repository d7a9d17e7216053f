//! Why something was not done, or cannot be told.

use holdfast_domain::shop::ShopRefusal;
use holdfast_engine::Refusal;
use holdfast_postgres::Error;

use crate::reads::ReadError;

/// Why something was not done. Nothing was, except perhaps after [`ShopTrouble::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShopTrouble {
    /// The shop says no.
    Refused(ShopRefusal),
    /// Too much is on its way.
    Busy,
    /// The node is ending, or takes no requests.
    Closed(String),
    /// More bytes than a message may have.
    TooLarge(usize),
    /// What is stored cannot be read now.
    Unreadable(String),
    /// Whether it was done is not known: why.
    Unknown(String),
}

impl ShopTrouble {
    /// The same, of a look at what became of something that was sent before.
    pub(super) fn after_sending(self) -> ShopTrouble {
        match self {
            ShopTrouble::Busy => ShopTrouble::Unknown("the node is too busy to look".to_owned()),
            ShopTrouble::Closed(why) => ShopTrouble::Unknown(why),
            ShopTrouble::Unreadable(why) => ShopTrouble::Unknown(why),
            other => other,
        }
    }
}

impl From<ShopRefusal> for ShopTrouble {
    fn from(refusal: ShopRefusal) -> ShopTrouble {
        ShopTrouble::Refused(refusal)
    }
}

impl From<Refusal> for ShopTrouble {
    fn from(refusal: Refusal) -> ShopTrouble {
        match refusal {
            Refusal::Busy => ShopTrouble::Busy,
            Refusal::TooMany(bytes) | Refusal::TooLarge(bytes) => ShopTrouble::TooLarge(bytes),
            Refusal::Clock(fault) => ShopTrouble::Closed(fault.to_string()),
            Refusal::Closed(why) => ShopTrouble::Closed(why),
            Refusal::Unknown(why) => ShopTrouble::Unknown(why),
        }
    }
}

impl From<ReadError> for ShopTrouble {
    fn from(error: ReadError) -> ShopTrouble {
        match error {
            ReadError::Busy | ReadError::Store(Error::Busy { .. }) => ShopTrouble::Busy,
            ReadError::Store(error) => ShopTrouble::Unreadable(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_done_is_not_said_to_be_undone() {
        let after = |trouble: ShopTrouble| trouble.after_sending();
        for trouble in [
            ShopTrouble::Busy,
            ShopTrouble::Closed("ending".to_owned()),
            ShopTrouble::Unreadable("gone".to_owned()),
            ShopTrouble::from(Refusal::Unknown("no answer".to_owned())),
        ] {
            assert!(matches!(after(trouble.clone()), ShopTrouble::Unknown(_)), "{trouble:?}");
        }
        let refused = ShopTrouble::from(ShopRefusal::KeyReused);
        assert_eq!(after(refused.clone()), refused);
        assert_eq!(
            ShopTrouble::from(Refusal::Closed("ending".to_owned())),
            ShopTrouble::Closed("ending".to_owned())
        );
        assert_eq!(ShopTrouble::from(Refusal::TooLarge(9)), ShopTrouble::TooLarge(9));
    }
}
