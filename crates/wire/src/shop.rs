//! What a shop's programs send and get.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// What the payment side may say about a try.
    PaySaid {
        /// It has taken.
        Taken = "psucc",
        /// It has not and never will.
        Refused = "pfail",
        /// It has given back, or never took and never will.
        Undone = "csucc",
    }
}

words! {
    /// What the stock side may say about a try.
    StockSaid {
        /// It has taken.
        Taken = "ssucc",
        /// It has not and never will.
        Refused = "sfail",
        /// It has given back, or never took and never will.
        Undone = "asucc",
    }
}

words! {
    /// Where an open checkout stands.
    OpenState {
        /// It is not decided.
        Pending = "pending",
        /// It has failed, and is given back.
        Cancelling = "cancelling",
    }
}

/// What the payment side says about a try.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PayOutcome {
    /// It has taken; it has not and never will; it has given back, or never took and never will
    pub outcome: PaySaid,
}

/// What the stock side says about a try.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StockOutcome {
    /// It has taken; it has not and never will; it has given back, or never took and never will
    pub outcome: StockSaid,
}
