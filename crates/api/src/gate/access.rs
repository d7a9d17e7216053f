//! Who may call a path. The rule of each path stands beside it in `openapi`.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{Caller, Gate};
use crate::error::ApiError;

/// The header in which a participant says who it is.
const FSPIOP_SOURCE: &str = "fspiop-source";

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody: says nothing that is not public.
    Open,
    /// As [`Access::Operator`], unless the hub is set to show its metrics to everybody.
    Metrics,
    /// With an operator's key.
    Operator,
    /// With the key of the participant in FSPIOP-Source, or an operator's.
    Participant,
    /// With any key; the handler looks at the source of every record.
    Batch,
}

impl Access {
    /// The rule as it is on a hub with this gate.
    pub(crate) const fn at(self, gate: &Gate) -> Access {
        match self {
            Access::Metrics if gate.metrics_open => Access::Open,
            Access::Metrics => Access::Operator,
            other => other,
        }
    }

    /// The rule in words, for the document.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Access::Open => "No key is needed.",
            Access::Metrics => "An operator's key, unless `metrics.open` is set.",
            Access::Operator => "An operator's key.",
            Access::Participant => "The key of the participant in FSPIOP-Source, or an operator's.",
            Access::Batch => {
                "An operator's key, or that of the participant that is the source of every record."
            }
        }
    }
}

/// Lets a request through to its handler, or not.
pub(crate) async fn admit(State(access): State<Access>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().copied().unwrap_or(Caller::Stranger);
    match judge(access, caller, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

fn judge(access: Access, caller: Caller, request: &Request) -> Result<(), ApiError> {
    match (caller, access) {
        (Caller::Operator | Caller::Anyone, _) | (_, Access::Open) => Ok(()),
        (Caller::Stranger, _) => Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            3000,
            "this hub needs an API key: send 'Authorization: Bearer hf_…'",
        )),
        (Caller::Participant(_), Access::Batch) => Ok(()),
        (Caller::Participant(name), Access::Participant) => {
            // Every one of them: which of two a handler would read is not for the gate to guess. A request without
            // one is refused by its handler.
            let own = |value: &axum::http::HeaderValue| {
                value.as_bytes().eq_ignore_ascii_case(name.as_str().as_bytes())
            };
            if request.headers().get_all(FSPIOP_SOURCE).iter().all(own) {
                return Ok(());
            }
            Err(ApiError::forbidden(format!("this key is for {name}")))
        }
        (Caller::Participant(name), Access::Operator | Access::Metrics) => {
            Err(ApiError::forbidden(format!("this key is for {name}; this path needs an operator's")))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use holdfast_domain::participants::Name;

    use super::*;

    fn status(access: Access, caller: Caller, sources: &[&str]) -> u16 {
        let mut request = Request::builder();
        for source in sources {
            request = request.header("FSPIOP-Source", *source);
        }
        let request = request.body(Body::empty()).unwrap();
        judge(access, caller, &request).map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn each_rule_admits_its_own() {
        let fsp1 = Caller::Participant(Name::new("fsp1").unwrap());
        for (access, stranger, participant) in [
            (Access::Open, 200, 200),
            (Access::Metrics, 401, 403),
            (Access::Operator, 401, 403),
            (Access::Participant, 401, 403),
            (Access::Batch, 401, 200),
        ] {
            assert_eq!(status(access, Caller::Stranger, &["fsp1"]), stranger, "{access:?}");
            assert_eq!(status(access, fsp1, &["fsp2"]), participant, "{access:?}");
            assert_eq!(status(access, Caller::Operator, &["fsp2"]), 200, "{access:?}");
            assert_eq!(status(access, Caller::Anyone, &["fsp2"]), 200, "{access:?}");
        }
        assert_eq!(status(Access::Participant, fsp1, &["fsp1"]), 200);
        assert_eq!(status(Access::Participant, fsp1, &["FSP1"]), 200, "names are compared without case");
        assert_eq!(status(Access::Participant, fsp1, &["fsp1", "fsp2"]), 403, "two sources");
        assert_eq!(status(Access::Participant, fsp1, &[]), 200, "the handler asks for it");
        assert_eq!(Access::Metrics.at(&Gate::default().with_open_metrics(true)), Access::Open);
        assert_eq!(Access::Metrics.at(&Gate::default()), Access::Operator);
    }
}
