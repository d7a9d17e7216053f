//! `PUT /transfers/{id}`: a payee shows the fulfilment.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use holdfast_domain::command::{Command, Fulfil, FulfilAction};
use holdfast_domain::ids::Millis;
use serde::Deserialize;

use super::answer::complete;
use super::body::{self, ExtensionList, Object, Text};
use super::fields::{self, Must};
use super::ilp;
use super::media_type::Version;
use super::receive::{Verb, receive, sender};
use super::{PathId, id_in_path};
use crate::Edge;
use crate::error::ApiError;
use crate::gate::Caller;
use crate::limits::{COMPLETED_AHEAD_MAX, COMPLETED_BEHIND_MAX};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FulfilBody<'a> {
    #[serde(borrow, default)]
    fulfilment: Text<'a>,
    #[serde(borrow, default)]
    completed_timestamp: Text<'a>,
    #[serde(borrow, default)]
    transfer_state: Text<'a>,
    #[serde(borrow, default)]
    extension_list: Object<ExtensionList<'a>>,
}

/// What a payee may say. The other two states are for callbacks; the peer hub takes them with 200 and drops them,
/// so that the transfer runs out.
fn action(text: &str) -> Result<FulfilAction, Must> {
    match text {
        "COMMITTED" => Ok(FulfilAction::Commit),
        "RESERVED" => Ok(FulfilAction::Reserve),
        "ABORTED" => Err("cannot be ABORTED here: to refuse, send PUT /transfers/{ID}/error"),
        "RECEIVED" => Err("cannot be RECEIVED from a payee; it is COMMITTED or RESERVED"),
        _ => Err("must be COMMITTED or RESERVED"),
    }
}

impl FulfilBody<'_> {
    fn read(&self, version: Version, now: Millis) -> Result<(FulfilAction, [u8; 32]), ApiError> {
        let action = self.transfer_state.read("transferState", action)?;
        if action == FulfilAction::Reserve && version == Version::V1_0 {
            // There is no PATCH in 1.0, so nobody could be told the outcome.
            let detail = "transferState RESERVED needs Content-Type version=1.1";
            return Err(ApiError::malformed(detail));
        }
        let fulfilment = self.fulfilment.read("fulfilment", ilp::preimage)?;
        let completed = self.completed_timestamp.read_optional("completedTimestamp", fields::date_time)?;
        body::extensions(&self.extension_list, "extensionList")?;
        if let Some(completed) = completed {
            in_range(completed, now)?;
        }
        Ok((action, fulfilment))
    }
}

/// A completion that lies ahead, or long ago, shows that one of the two clocks is wrong.
fn in_range(completed: Millis, now: Millis) -> Result<(), ApiError> {
    let wrong =
        |text: &str| Err(ApiError::invalid(format!("completedTimestamp lies {text} of this hub's time")));
    if completed > now + COMPLETED_AHEAD_MAX {
        return wrong("ahead");
    }
    if completed < now - COMPLETED_BEHIND_MAX {
        return wrong("too far behind");
    }
    Ok(())
}

/// Takes a fulfilment; the payer gets it, or the payee gets told why not.
pub(crate) async fn put(
    State(edge): State<Edge>,
    Extension(caller): Extension<Caller>,
    path: PathId,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let received = receive(&edge, Verb::Put, headers, body).await?;
    let (id, id_text) = id_in_path(&path)?;
    let parsed: FulfilBody<'_> = body::parse(&received.body)?;
    let (action, fulfilment) = parsed.read(received.version, received.at)?;
    let source = sender(&edge, &received.source_name).await?;
    let fulfil = Fulfil::new(source, id, action, fulfilment).with_tail(received.tail()?);
    received.parsed(&edge);
    complete(&edge, caller, Command::Fulfil(fulfil), received.wait, id_text, Some(fulfilment)).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: Millis = 1_763_195_076_120;

    fn read(body: &Value, version: Version) -> Result<FulfilAction, u16> {
        let text = body.to_string();
        let parsed: FulfilBody<'_> = body::parse(text.as_bytes()).map_err(|error| error.code)?;
        parsed.read(version, NOW).map(|(action, _)| action).map_err(|error| error.code)
    }

    fn sample() -> Value {
        json!({"fulfilment": "mhPUT9ZAwd-BXLfeSd7-YPh46rBWRNBiTCSWjpku90s", "transferState": "COMMITTED"})
    }

    #[test]
    fn a_payee_commits_or_reserves() {
        use FulfilAction::{Commit, Reserve};
        for (state, in_1_0, in_1_1) in [
            ("COMMITTED", Ok(Commit), Ok(Commit)),
            ("RESERVED", Err(3101), Ok(Reserve)),
            ("ABORTED", Err(3101), Err(3101)),
            ("RECEIVED", Err(3101), Err(3101)),
            ("committed", Err(3101), Err(3101)),
            ("", Err(3101), Err(3101)),
        ] {
            let mut body = sample();
            body["transferState"] = json!(state);
            assert_eq!((read(&body, Version::V1_0), read(&body, Version::V1_1)), (in_1_0, in_1_1), "{state}");
        }
        for name in ["transferState", "fulfilment"] {
            let mut body = sample();
            body.as_object_mut().unwrap().remove(name);
            assert_eq!(read(&body, Version::V1_1), Err(3102), "without {name}");
            body[name] = json!(7);
            assert_eq!(read(&body, Version::V1_1), Err(3101), "{name} as a number");
        }
    }

    #[test]
    fn a_completion_lies_close_to_now() {
        let at = |millis: Millis| {
            let mut body = sample();
            body["completedTimestamp"] = json!(crate::times::format(millis));
            read(&body, Version::V1_1)
        };
        for good in [NOW, NOW + 200, NOW - 300_000] {
            assert_eq!(at(good), Ok(FulfilAction::Commit), "{good}");
        }
        assert_eq!((at(NOW + 201), at(NOW - 300_001)), (Err(3100), Err(3100)));
        let mut body = sample();
        body["completedTimestamp"] = json!("2025-11-15T08:24:36Z");
        assert_eq!(read(&body, Version::V1_1), Err(3101));
    }
}
