//! The topics of the database profile.

/// What a topic is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Commands about transfers; key = transfer id.
    Transfers,
    /// What changes an account; key = id of the position account.
    Position,
    /// Who is to be told what; key = transfer id, or the account where there is none.
    Notifications,
    /// What could not be taken, with the reason.
    DeadLetters,
    /// What happened to tokens; key = wallet or spender.
    TokenEvents,
    /// What an outside ledger did with tokens; any key.
    TokenUpdates,
    /// What is asked of orders: check out, cancel, retry; key = order id.
    Orders,
    /// What is asked of the payment side of checkouts; key = order and try, as in the next two.
    Pay,
    /// What is asked of the stock side.
    Stock,
    /// What both sides answer, and how checkouts are decided.
    Outcomes,
    /// Where the oldest open checkout of a partition of `outcomes` begins; key = partition. Compacted.
    OutcomeOffsets,
}

impl Topic {
    /// All of them.
    pub const ALL: [Topic; 11] = [
        Topic::Transfers,
        Topic::Position,
        Topic::Notifications,
        Topic::DeadLetters,
        Topic::TokenEvents,
        Topic::TokenUpdates,
        Topic::Orders,
        Topic::Pay,
        Topic::Stock,
        Topic::Outcomes,
        Topic::OutcomeOffsets,
    ];

    /// The name without prefix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Topic::Transfers => "transfers",
            Topic::Position => "position",
            Topic::Notifications => "notifications",
            Topic::DeadLetters => "dead-letters",
            Topic::TokenEvents => "token-events",
            Topic::TokenUpdates => "token-updates",
            Topic::Orders => "orders",
            Topic::Pay => "pay",
            Topic::Stock => "stock",
            Topic::Outcomes => "outcomes",
            Topic::OutcomeOffsets => "outcome-offsets",
        }
    }

    /// Whether it is one of a shop's. A hub without a shop has none of these.
    #[must_use]
    pub const fn is_of_shop(self) -> bool {
        match self {
            Topic::Orders | Topic::Pay | Topic::Stock | Topic::Outcomes | Topic::OutcomeOffsets => true,
            Topic::Transfers
            | Topic::Position
            | Topic::Notifications
            | Topic::DeadLetters
            | Topic::TokenEvents
            | Topic::TokenUpdates => false,
        }
    }

    /// The topic of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Topic> {
        Topic::ALL.into_iter().find(|topic| topic.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        assert_eq!(Topic::ALL.map(|topic| Topic::from_name(topic.name())), Topic::ALL.map(Some));
        assert_eq!(Topic::from_name("a-transfers"), None);
    }
}
