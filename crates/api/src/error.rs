//! Refusals at the edge, in the standard's form: a status and `{"errorInformation":{…}}`.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use holdfast_hub::Refusal;
use holdfast_hub::limits::RETRY_AFTER_SECONDS;
use serde_json::json;

/// Why a request got no good answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Forbidden(&'static str),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the body did not arrive in time")]
    SlowBody,
    #[error("no answer came in time; the outcome is unknown: repeat with the same ids")]
    NoAnswer,
    #[error("the hub has stopped; see /health")]
    HubStopped,
}

impl ApiError {
    const fn status(&self) -> StatusCode {
        match self {
            ApiError::Malformed(_)
            | ApiError::TooLarge(_)
            | ApiError::Refused(Refusal::TooMany(_) | Refusal::TooLarge(_)) => StatusCode::BAD_REQUEST,
            ApiError::NotFound(_) => StatusCode::NOT_FOUND,
            ApiError::Forbidden(_) => StatusCode::FORBIDDEN,
            ApiError::Refused(Refusal::Busy) => StatusCode::TOO_MANY_REQUESTS,
            ApiError::Refused(Refusal::Clock(_) | Refusal::Closed(_) | Refusal::Unknown(_))
            | ApiError::HubStopped => StatusCode::SERVICE_UNAVAILABLE,
            ApiError::SlowBody => StatusCode::REQUEST_TIMEOUT,
            ApiError::NoAnswer => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The standard's code and its name.
    const fn code(&self) -> (&'static str, &'static str) {
        match self {
            ApiError::Malformed(_) => ("3101", "Malformed syntax"),
            ApiError::TooLarge(_) | ApiError::Refused(Refusal::TooLarge(_)) => ("3104", "Too large payload"),
            ApiError::NotFound(_) => ("3208", "Transfer ID not found"),
            ApiError::Forbidden(_) => ("3000", "Generic client error"),
            ApiError::Refused(Refusal::TooMany(_)) => ("3103", "Too many elements"),
            ApiError::Refused(Refusal::Busy) => ("2005", "Server busy"),
            ApiError::Refused(_) | ApiError::HubStopped => ("2003", "Service currently unavailable"),
            ApiError::SlowBody | ApiError::NoAnswer => ("2004", "Server timed out"),
        }
    }
}

fn body(code: &str, name: &str, detail: &str) -> Json<serde_json::Value> {
    let description: String = format!("{name} - {detail}").chars().take(DESCRIPTION_CHARS_MAX).collect();
    Json(json!({"errorInformation": {"errorCode": code, "errorDescription": description}}))
}

/// Longer descriptions are cut. The standard says 128; ours go to operators and may say what to do.
const DESCRIPTION_CHARS_MAX: usize = 512;

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status();
        let (code, name) = self.code();
        let mut response = (status, body(code, name, &self.to_string())).into_response();
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
        }
        response
    }
}

/// 404 for a path that is none.
pub(crate) async fn unknown_path(uri: Uri) -> Response {
    let detail = format!("there is no {}", uri.path());
    (StatusCode::NOT_FOUND, body("3002", "Unknown URI", &detail)).into_response()
}

/// 405 for a path that has other verbs. axum fills in `Allow`.
pub(crate) async fn wrong_verb(method: Method, uri: Uri) -> Response {
    let detail = format!("{method} is not possible on {}; see the Allow header", uri.path());
    (StatusCode::METHOD_NOT_ALLOWED, body("3000", "Generic client error", &detail)).into_response()
}
