//! Refusals of the token paths: problems as RFC 9457 has them, also where the hub itself says no.

use axum::http::StatusCode;
use holdfast_engine::{Refusal as HubRefusal, TokenError};
use holdfast_tokens::Refusal;
use holdfast_wire::tokens;
use serde_json::json;

pub(super) use crate::problem::Problem;

impl Problem {
    fn new(status: StatusCode, name: &str, detail: &str) -> Problem {
        Problem { status, body: json!(tokens::Problem::new(name, status.as_u16(), detail)) }
    }

    /// 400: not what the path takes. The detail names the field.
    pub(super) fn invalid(detail: impl AsRef<str>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid", detail.as_ref())
    }

    /// 408: the client was too slow.
    pub(super) fn slow_body() -> Problem {
        Problem::new(StatusCode::REQUEST_TIMEOUT, "slow-body", "the body did not arrive in time")
    }

    /// 413: more bytes than are read.
    pub(super) fn too_large(detail: &str) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }

    /// 504: unknown.
    pub(super) fn no_answer() -> Problem {
        let detail = "no answer came in time; the outcome is unknown: repeat with the same spender and ids";
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "no-answer", detail)
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Problem {
        let problem = tokens::Problem::from(refusal);
        let status = StatusCode::from_u16(problem.head.status).expect("the table has common numbers only");
        Problem { status, body: json!(problem) }
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Problem {
        let refusal = match error {
            TokenError::Refused(refusal) => return Problem::from(&refusal),
            TokenError::Hub(refusal) => refusal,
        };
        let (status, name) = match refusal {
            HubRefusal::Busy => (StatusCode::TOO_MANY_REQUESTS, "busy"),
            HubRefusal::TooMany(_) | HubRefusal::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too-large"),
            HubRefusal::Clock(_) | HubRefusal::Closed(_) | HubRefusal::Unknown(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "store-unavailable")
            }
        };
        Problem::new(status, name, &refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
    use axum::response::IntoResponse;
    use holdfast_engine::clock::ClockFault;

    use super::*;
    use crate::problem::PROBLEM_JSON;

    #[test]
    fn what_the_hub_refuses_is_a_problem_too() {
        let hub = |refusal| Problem::from(TokenError::Hub(refusal));
        let vault = |refusal| Problem::from(TokenError::Refused(refusal));
        let clock = HubRefusal::Clock(ClockFault::Jumped { moved_ms: 20_000 });
        for (problem, status, kind, later) in [
            (hub(HubRefusal::Busy), 429, "/problems/busy", true),
            (hub(HubRefusal::TooLarge(9)), 413, "/problems/too-large", false),
            (hub(HubRefusal::TooMany(9)), 413, "/problems/too-large", false),
            (hub(HubRefusal::Closed("the end".into())), 503, "/problems/store-unavailable", true),
            (hub(HubRefusal::Unknown("the log".into())), 503, "/problems/store-unavailable", true),
            (hub(clock), 503, "/problems/store-unavailable", true),
            (Problem::no_answer(), 504, "/problems/no-answer", false),
            (Problem::slow_body(), 408, "/problems/slow-body", false),
            (Problem::invalid("amount: is missing"), 400, "/problems/invalid", false),
            (vault(Refusal::Contention { attempts: 3 }), 503, "/problems/contention", true),
            (vault(Refusal::UnknownToken("t1".into())), 409, "/problems/unknown-token", false),
        ] {
            assert_eq!(problem.body["type"], kind);
            assert_eq!(problem.body["status"], status, "{kind}");
            let response = problem.into_response();
            assert_eq!(response.status().as_u16(), status, "{kind}");
            assert_eq!(response.headers()[CONTENT_TYPE], PROBLEM_JSON);
            assert_eq!(response.headers().contains_key(RETRY_AFTER), later, "{kind}");
        }
    }
}
