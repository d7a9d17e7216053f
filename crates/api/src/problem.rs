//! Problems as RFC 9457 has them: what the paths of tokens and shop answer when they refuse.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::limits::RETRY_AFTER_SECONDS;

/// The media type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body.to_string();
        retry_later((self.status, [(CONTENT_TYPE, PROBLEM_JSON)], body).into_response())
    }
}

/// The same answer, with a time to wait where it asks to come again.
pub(crate) fn retry_later(mut response: Response) -> Response {
    if matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    }
    response
}
