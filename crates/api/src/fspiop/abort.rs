//! `PUT /transfers/{id}/error`: a payee refuses a transfer.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Abort, Command};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::answer::complete;
use super::body::{self, ExtensionList, Fields, Object, Text};
use super::fields;
use super::receive::{Verb, receive, sender};
use super::{PathId, id_in_path};
use crate::Edge;
use crate::error::ApiError;
use crate::gate::Caller;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AbortBody<'a> {
    #[serde(borrow, default)]
    error_information: Object<ErrorInformation<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorInformation<'a> {
    #[serde(borrow, default)]
    error_code: Text<'a>,
    #[serde(borrow, default)]
    error_description: Text<'a>,
    #[serde(borrow, default)]
    extension_list: Object<ExtensionList<'a>>,
}

impl AbortBody<'_> {
    /// The code under which the transfer ends: the payee's, or 3100 where it belongs to no group of the standard.
    fn code(&self) -> Result<u16, ApiError> {
        let Fields(error) = self.error_information.required("errorInformation", "an object")?;
        let code = error.error_code.read("errorInformation.errorCode", fields::error_code)?;
        error.error_description.read("errorInformation.errorDescription", fields::error_description)?;
        body::extensions(&error.extension_list, "errorInformation.extensionList")?;
        let known = fields::is_of_a_known_group(code);
        Ok(if known { code } else { ErrorCode::ValidationError.number() })
    }
}

/// Takes a refusal; the payer gets it, or the payee gets told why not.
pub(crate) async fn put_error(
    State(edge): State<Edge>,
    Extension(caller): Extension<Caller>,
    path: PathId,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let received = receive(&edge, Verb::Put, headers, body).await?;
    let (id, id_text) = id_in_path(&path)?;
    let parsed: AbortBody<'_> = body::parse(&received.body)?;
    let code = parsed.code()?;
    let source = sender(&edge, &received.source_name).await?;
    // The same refusal again may come with another Date: its body tells whether it is the same.
    let digest = Sha256::new().chain_update(code.to_le_bytes()).chain_update(&received.body).finalize();
    let abort = Abort::new(source, id, code, received.tail()?).same_as(digest.into());
    received.parsed(&edge);
    complete(&edge, caller, Command::Abort(abort), received.wait, id_text, None).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn code(body: &Value) -> Result<u16, u16> {
        let text = body.to_string();
        let parsed: AbortBody<'_> = body::parse(text.as_bytes()).map_err(|error| error.code)?;
        parsed.code().map_err(|error| error.code)
    }

    #[test]
    fn a_refusal_carries_a_code_of_four_digits() {
        let of = |code: Value| json!({"errorInformation": {"errorCode": code, "errorDescription": "no"}});
        assert_eq!(code(&of(json!("5104"))), Ok(5104));
        assert_eq!(code(&of(json!("5155"))), Ok(5155), "a scheme's own code of a known group");
        assert_eq!(code(&of(json!("9999"))), Ok(3100), "of no group");
        for bad in [json!(5104), json!("510"), json!("0510"), json!("51x4"), json!("")] {
            assert_eq!(code(&of(bad.clone())), Err(3101), "{bad}");
        }
        for (body, refused) in [
            (json!({}), 3102),
            (json!({"errorInformation": "no"}), 3101),
            (json!({"errorInformation": {}}), 3102),
            (json!({"errorInformation": {"errorCode": "5104"}}), 3102),
            (json!({"errorInformation": {"errorCode": "5104", "errorDescription": "x".repeat(129)}}), 3101),
            (
                json!({"errorInformation": {"errorCode": "5104", "errorDescription": "no", "extensionList": {}}}),
                3102,
            ),
        ] {
            assert_eq!(code(&body), Err(refused), "{body}");
        }
    }
}
