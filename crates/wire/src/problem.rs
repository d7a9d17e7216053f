//! Problems as RFC 9457 has them: what the paths of tokens and shop answer when they refuse.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What every problem says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemHead {
    /// `/problems/NAME`
    #[serde(rename = "type")]
    #[schemars(example = "/problems/funds-locked")]
    pub kind: String,
    /// The same for each problem of the type
    pub title: String,
    /// The HTTP status
    pub status: u16,
    /// What happened and what to do
    pub detail: String,
}

impl ProblemHead {
    /// A problem of that name.
    #[must_use]
    pub fn new(name: &str, title: &str, status: u16, detail: &str) -> ProblemHead {
        ProblemHead {
            kind: format!("/problems/{name}"),
            title: title.to_owned(),
            status,
            detail: detail.to_owned(),
        }
    }
}
