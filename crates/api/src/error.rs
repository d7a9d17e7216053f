//! Refusals at the edge, in the standard's form: a status and `{"errorInformation":{…}}`.

use axum::Json;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::IdError;
use holdfast_engine::{EngineError, Refusal};
use holdfast_wire::fspiop::error_information;

use crate::problem::retry_later;

/// Why a request got no good answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// The standard's code, four digits.
    pub(crate) code: u16,
    pub(crate) detail: String,
    /// What the standard wants to have in `extensionList` (the versions that are served).
    pub(crate) extensions: Vec<(String, String)>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: u16, detail: impl Into<String>) -> ApiError {
        ApiError { status, code, detail: detail.into(), extensions: Vec::new() }
    }

    /// 400/3100: what is asked for makes no sense.
    pub(crate) fn invalid(detail: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, 3100, detail)
    }

    /// 400/3101: not what the syntax says.
    pub(crate) fn malformed(detail: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, 3101, detail)
    }

    /// 400/3102: a header or field is not there.
    pub(crate) fn missing(detail: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, 3102, detail)
    }

    /// 400/3104: more bytes than are read.
    pub(crate) fn too_large(detail: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, 3104, detail)
    }

    /// 400/3200: no such participant.
    pub(crate) fn no_participant(detail: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, ErrorCode::IdNotFound.number(), detail)
    }

    /// 404/3208: no such transfer.
    pub(crate) fn no_transfer(id: impl std::fmt::Display) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, 3208, format!("there is no transfer {id}"))
    }

    /// 403/3000: not from there, or not by this caller.
    pub(crate) fn forbidden(detail: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, 3000, detail)
    }

    /// 408: the client was too slow.
    pub(crate) fn slow_body() -> ApiError {
        ApiError::new(StatusCode::REQUEST_TIMEOUT, 2004, "the body did not arrive in time")
    }

    /// 504: unknown.
    pub(crate) fn no_answer() -> ApiError {
        let detail = "no answer came in time; the outcome is unknown: repeat with the same ids";
        ApiError::new(StatusCode::GATEWAY_TIMEOUT, 2004, detail)
    }

    /// 503: the hub's threads are gone.
    pub(crate) fn hub_stopped() -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, 2003, "the hub has stopped; see /health")
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> ApiError {
        let (status, code) = match refusal {
            Refusal::Busy => (StatusCode::TOO_MANY_REQUESTS, 2005),
            Refusal::TooMany(_) => (StatusCode::BAD_REQUEST, 3103),
            Refusal::TooLarge(_) => (StatusCode::BAD_REQUEST, 3104),
            Refusal::Clock(_) | Refusal::Closed(_) | Refusal::Unknown(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, 2003)
            }
        };
        ApiError::new(status, code, refusal.to_string())
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> ApiError {
        match error {
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::Unreadable(_) => {
                tracing::error!("{error}");
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, 2003, error.to_string())
            }
            EngineError::Broken(what) => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, 2001, what),
            EngineError::Stopped => ApiError::hub_stopped(),
            EngineError::NoSuchPage(_) => ApiError::malformed(format!("after: {error}")),
        }
    }
}

impl From<IdError> for ApiError {
    fn from(error: IdError) -> ApiError {
        ApiError::malformed(error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = error_information(self.code, &self.detail, &self.extensions);
        retry_later((self.status, Json(body)).into_response())
    }
}

/// 404 for a path that is none.
pub(crate) async fn unknown_path(uri: Uri) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, 3002, format!("there is no {}", uri.path()))
}

/// 405 for a path that has other verbs; axum fills in `Allow`.
pub(crate) async fn wrong_verb(method: Method, uri: Uri) -> ApiError {
    let detail = format!("{method} is not possible on {}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, 3000, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a caller needs: why, and what to do. Both must survive the cut.
    #[test]
    fn reasons_of_a_node_fit_into_a_description() {
        let unknown = Refusal::Unknown("Kafka is silent: Connection refused (127.0.0.1:19092)".to_owned());
        let store = EngineError::Unreadable(
            "PostgreSQL at 127.0.0.1:15432: Connection refused; is it running?".to_owned(),
        );
        for (error, end) in [
            (
                ApiError::from(unknown),
                "Connection refused (127.0.0.1:19092); outcome unknown, repeat with the same ids",
            ),
            (
                ApiError::from(store),
                "127.0.0.1:15432: Connection refused; is it running? (the store cannot be read)",
            ),
        ] {
            let body = error_information(error.code, &error.detail, &error.extensions);
            let said = body["errorInformation"]["errorDescription"].as_str().unwrap();
            assert!(said.ends_with(end), "{said}");
        }
    }
}
