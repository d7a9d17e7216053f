//! The gate: what every request passes before a handler sees it, and what every answer passes on its way out.
//!
//! In order: the request gets an id; its key is taken out of the headers (so that nothing behind the gate can log it
//! or hand it on) and says who calls; the caller's rate is looked at; then the rule beside the path in `openapi`
//! admits the caller or not. The answer carries the id, and one line of trace says what became of the request. What the caller
//! may see of an outcome stands in `sight`.

mod access;
mod rate;
mod request_id;
mod sight;
mod sources;

pub(crate) use access::{Access, admit};
pub use rate::RateLimit;
pub(crate) use sight::Sight;
pub(crate) use sources::check_sources;

use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use holdfast_domain::participants::Name;
use tracing::Instrument;

use crate::Edge;
use crate::error::ApiError;
use crate::keys::{KeyId, Keyring, KeysFile, Role};
use crate::same_site;
use crate::server::Peer;
use rate::Client;

/// Where a key may stand instead of `Authorization: Bearer`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The path that says itself what is wrong.
const HEALTH: &str = "/health";
/// How often a hub looks whether its keys file has changed: so long a revoked key may still be good, and a hub without keys open.
pub const KEYS_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// With an operator's key: everything.
    Operator,
    /// With the key of this participant.
    Participant(Name),
    /// Somebody at a hub without keys, which takes everything from everyone on its own machine.
    Anyone,
    /// Somebody without a key at a hub that has keys.
    Stranger,
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Caller::Operator => f.write_str("operator"),
            Caller::Participant(name) => write!(f, "{name}"),
            Caller::Anyone => f.write_str("-"),
            Caller::Stranger => f.write_str("stranger"),
        }
    }
}

/// Keys, rates and exceptions of one hub. The default lets everybody do everything.
#[derive(Default)]
pub struct Gate {
    /// Set with the first key, and never taken back.
    keys: OnceLock<RwLock<Arc<Keyring>>>,
    rate: Option<RateLimit>,
    metrics_open: bool,
}

impl Gate {
    /// A gate that asks for these keys; `None`: for none.
    #[must_use]
    pub fn new(keys: Option<Keyring>) -> Gate {
        let gate = Gate::default();
        if let Some(keys) = keys {
            gate.ask_for(keys);
        }
        gate
    }

    /// Asks for these keys from now on.
    fn ask_for(&self, keys: Keyring) {
        let keys = Arc::new(keys);
        let now = self.keys.get_or_init(|| RwLock::new(Arc::clone(&keys)));
        *now.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// The same with a bound on how often each caller may come.
    #[must_use]
    pub fn with_rate(self, rate: Option<RateLimit>) -> Gate {
        Gate { rate, ..self }
    }

    /// The same; with `open`, `/metrics` needs no key.
    #[must_use]
    pub fn with_open_metrics(self, open: bool) -> Gate {
        Gate { metrics_open: open, ..self }
    }

    /// Whether callers need keys.
    #[must_use]
    pub fn asks_for_keys(&self) -> bool {
        self.keys.get().is_some()
    }

    fn keyring(&self) -> Option<Arc<Keyring>> {
        self.keys.get().map(|keys| Arc::clone(&keys.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Looks at the keys file from time to time and takes over what has changed in it, until the task is dropped.
    /// A hub without keys asks for them as soon as there is a first one, and then calls `on_first` on a thread that may wait.
    /// A hub that asks for keys never stops asking, even if the file goes away.
    pub async fn follow_keys(self: Arc<Gate>, file: KeysFile, on_first: impl FnOnce() + Send + 'static) {
        let mut on_first = Some(on_first);
        // Read again at the first look: the file may have changed while the log was being read.
        let mut seen = None;
        let mut told = String::new();
        let mut clock = tokio::time::interval(KEYS_LOOK_EVERY);
        loop {
            clock.tick().await;
            let now = Some(version(&file));
            if now == seen {
                continue;
            }
            let (before, ring) = (self.keyring(), file.read().map(Option::unwrap_or_default));
            // What could not be read is tried again at the next look, and told once.
            if let Err(error) = &ring {
                let text = error.to_string();
                if text == told {
                    continue;
                }
                told = text;
            } else {
                seen = now;
                told.clear();
            }
            match (before, ring) {
                (Some(before), Ok(ring)) if *before == ring => {}
                (None, Ok(ring)) if ring.is_empty() => {}
                (Some(_), Ok(ring)) => {
                    tracing::info!(keys = ring.iter().count(), "the keys have changed");
                    self.ask_for(ring);
                }
                (None, Ok(ring)) => {
                    let keys = ring.iter().count();
                    self.ask_for(ring);
                    tracing::warn!(
                        keys,
                        "the first keys are here: calls without a key are refused from now on"
                    );
                    if let Some(on_first) = on_first.take() {
                        // It tells of its own failure.
                        drop(tokio::task::spawn_blocking(on_first));
                    }
                }
                (Some(_), Err(error)) => {
                    tracing::error!(%error, "the keys file has changed; the keys from before stay");
                }
                (None, Err(error)) => {
                    tracing::error!(%error, "there is a keys file that cannot be read; calls without a key still pass");
                }
            }
        }
    }

    /// Takes the key out of the headers and says whose it is.
    fn identify(&self, headers: &mut HeaderMap) -> Result<(Caller, Option<KeyId>), ApiError> {
        let bearer = headers.remove(AUTHORIZATION);
        let api_key = headers.remove(API_KEY);
        let Some(keys) = self.keyring() else {
            same_site::check(headers)?;
            return Ok((Caller::Anyone, None));
        };
        let sent = match (&bearer, &api_key) {
            (Some(value), _) => bearer_token(value.as_bytes()),
            (None, Some(value)) => Some(value.as_bytes()),
            (None, None) => return Ok((Caller::Stranger, None)),
        };
        let key = sent.and_then(|sent| keys.identify(sent)).ok_or_else(unknown_key)?;
        let caller = match key.role {
            Role::Operator => Caller::Operator,
            Role::Participant(name) => Caller::Participant(name),
        };
        Ok((caller, Some(key.id)))
    }
}

/// Changes whenever the file does: a rewrite is a new inode, and another owner or mode is a change too.
fn version(file: &KeysFile) -> Option<(u64, i64, i64, u64)> {
    let metadata = std::fs::metadata(file.path()).ok()?;
    Some((metadata.ino(), metadata.ctime(), metadata.ctime_nsec(), metadata.len()))
}

/// What follows `Bearer`, if that is the scheme.
fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

fn unknown_key() -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, 3000, "this API key is not known here")
}

/// The middleware around everything.
pub(crate) async fn enter(State(edge): State<Edge>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id::of(request.headers());
    let method = request.method().clone();
    // The template, not the path: what callers write into paths does not belong into traces.
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map_or("-", MatchedPath::as_str);
    let identified = edge.gate.identify(request.headers_mut());
    let caller = identified.as_ref().map_or(Caller::Stranger, |(caller, _)| *caller);
    // At the level of the line per request: where nobody reads those, a span would be most of the gate's cost.
    let span = {
        let trace_id = || request_id::trace_id(request.headers()).unwrap_or_default();
        tracing::debug_span!("request", %id, %method, path, %caller, trace_id = trace_id())
    };
    let answering = async {
        let (caller, key) = identified.map_err(IntoResponse::into_response)?;
        if let Some(rate) = &edge.gate.rate {
            let peer = request.extensions().get::<Peer>().copied();
            let client = Client::of(key, peer.map(|Peer(address)| address.ip()));
            rate.admit(client, started).map_err(|wait| too_often(rate, wait))?;
        }
        request.extensions_mut().insert(caller);
        Ok(next.run(request).await)
    };
    let answered: Result<Response, Response> = answering.instrument(span.clone()).await;
    let mut response = answered.unwrap_or_else(|refusal| refusal);
    let (status, micros) = (response.status(), started.elapsed().as_micros());
    // 500 and 501 are refusals on the admin paths and for PATCH, as the peer system has them; what is beyond is trouble.
    // Whoever looks after the hub asks for its health all the time, and what is wrong was said when it began.
    if status > StatusCode::NOT_IMPLEMENTED && path != HEALTH {
        tracing::warn!(%id, %method, path, %caller, status = status.as_u16(), micros, "answered with a failure");
    } else {
        span.in_scope(|| tracing::debug!(status = status.as_u16(), micros, "answered"));
    }
    response.headers_mut().insert(request_id::X_REQUEST_ID, id.header());
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// A refusal that says how long to wait.
fn too_often(rate: &RateLimit, wait: Duration) -> Response {
    let detail = format!("more than {} requests per second", rate.per_second());
    let mut response = ApiError::new(StatusCode::TOO_MANY_REQUESTS, 2005, detail).into_response();
    let seconds = u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX).max(1);
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    response
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::keys::KeptKey;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn a_key_is_taken_from_either_header_and_out_of_both() {
        let (secret, kept) = KeptKey::make(Role::Operator, 0, [1; 4], &[7; 32]);
        let mut ring = Keyring::default();
        assert!(ring.add(kept));
        let gate = Gate::new(Some(ring));
        let bearer = format!("bearer {}", secret.reveal());
        for sent in [
            headers(&[("authorization", &bearer)]),
            headers(&[("x-api-key", secret.reveal())]),
            headers(&[("authorization", &bearer), ("x-api-key", "other")]),
        ] {
            let mut sent = sent;
            let (caller, id) = gate.identify(&mut sent).unwrap();
            assert_eq!((caller, id), (Caller::Operator, Some(KeyId([1; 4]))));
            assert!(sent.is_empty(), "nothing behind the gate sees a key");
        }
        for wrong in [
            headers(&[("authorization", "Basic abc")]),
            headers(&[("authorization", "Bearer")]),
            headers(&[("authorization", "Bearer hf_01010101_00")]),
            headers(&[("x-api-key", "")]),
        ] {
            let refused = gate.identify(&mut wrong.clone()).unwrap_err();
            assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{wrong:?}");
        }
        assert_eq!(gate.identify(&mut HeaderMap::new()).unwrap().0, Caller::Stranger);
        let mut sent = headers(&[("authorization", "Bearer anything")]);
        assert_eq!(Gate::default().identify(&mut sent).unwrap().0, Caller::Anyone);
        assert!(sent.is_empty(), "also where there are no keys");
    }

    /// Until then the hub could not read it, and it must be looked at again.
    #[test]
    fn a_file_that_becomes_readable_is_another_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        std::fs::write(&path, "").unwrap();
        let before = version(&KeysFile::at(&path));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_ne!(version(&KeysFile::at(&path)), before);
    }
}
