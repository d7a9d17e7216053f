//! A running hub as commands see it: requests over HTTP, answers read whole, refusals as errors that say what the
//! hub said.

mod client;
mod url;

use client::Client;
pub(crate) use url::HubUrl;

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use holdfast_domain::ids::TransferId;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How long a hub may take to answer. It gives up by itself earlier, and says why.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(90);

/// Which hub, and as whom.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RemoteArgs {
    /// Where the hub listens
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:4000",
        env = "HOLDFAST_URL",
        global = true
    )]
    url: HubUrl,
    /// The API key, where the hub needs one
    #[arg(long, value_name = "KEY", env = "HOLDFAST_KEY", hide_env_values = true, global = true)]
    key: Option<String>,
}

impl RemoteArgs {
    pub(crate) fn open(self) -> anyhow::Result<Remote> {
        let bearer = self.key.map(|key| HeaderValue::try_from(format!("Bearer {key}")));
        let mut bearer = bearer.transpose().context("the API key has characters that no key has")?;
        if let Some(bearer) = &mut bearer {
            bearer.set_sensitive(true);
        }
        Ok(Remote { client: Client::of(self.url.clone()), url: self.url, bearer })
    }
}

/// A hub to talk to.
pub(crate) struct Remote {
    url: HubUrl,
    bearer: Option<HeaderValue>,
    client: Client,
}

/// What a hub answered.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body of a good answer; a refusal is an error in the hub's own words.
    fn taken(self, method: &str, path: &str) -> anyhow::Result<Bytes> {
        if !self.status.is_success() {
            bail!("the hub refuses {method} {path}: {}", self.in_words());
        }
        Ok(self.body)
    }

    /// Status and the hub's own words, for people.
    pub(crate) fn in_words(&self) -> String {
        let information = serde_json::from_slice::<Value>(&self.body).ok();
        let information = information.as_ref().and_then(|body| body.get("errorInformation"));
        let member = |name| information.and_then(|members| members.get(name)).and_then(Value::as_str);
        match (member("errorCode"), member("errorDescription")) {
            (Some(code), Some(description)) => format!("{} {code}: {description}", self.status.as_u16()),
            _ => self.status.to_string(),
        }
    }
}

impl Remote {
    /// One exchange, whatever the status.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let mut request = Request::new(http_body_util::Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() =
            format!("{}{path}", self.url).parse().with_context(|| format!("{path} is no path"))?;
        *request.headers_mut() = headers;
        if let Some(bearer) = &self.bearer {
            request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        }
        tokio::time::timeout(ANSWER_WAIT_MAX, self.client.send(request)).await.with_context(|| {
            format!("{} did not answer in time; what was asked for may have been done", self.url)
        })?
    }

    /// One exchange without a body, whatever the status.
    pub(crate) async fn try_ask(&self, method: Method, path: &str) -> anyhow::Result<Answer> {
        self.exchange(method, path, HeaderMap::new(), Bytes::new()).await
    }

    /// The body of a good answer to a request without a body, as it came.
    pub(crate) async fn ask(&self, method: Method, path: &str) -> anyhow::Result<Bytes> {
        let name = method.to_string();
        self.try_ask(method, path).await?.taken(&name, path)
    }

    /// A GET that must be answered well, read.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let text = self.ask(Method::GET, path).await?;
        serde_json::from_slice(&text)
            .with_context(|| format!("GET {path} is answered with something else than expected"))
    }

    /// A JSON POST, whatever the status.
    pub(crate) async fn try_post(&self, path: &str, body: &impl Serialize) -> anyhow::Result<Answer> {
        let mut headers = HeaderMap::new();
        headers.insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.exchange(Method::POST, path, headers, serde_json::to_vec(body)?.into()).await
    }

    /// A JSON POST that must be taken.
    pub(crate) async fn post(&self, path: &str, body: &impl Serialize) -> anyhow::Result<Bytes> {
        self.try_post(path, body).await?.taken("POST", path)
    }
}

/// Runs a command that talks over the network.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the network's thread")?.block_on(work)
}

/// An id for a new transfer: a random UUID of version 4.
pub(crate) fn new_transfer_id() -> TransferId {
    TransferId(uuid::Builder::from_random_bytes(rand::random()).into_uuid().as_u128())
}

/// All that RFC 3986 does not count among the unreserved letters.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A path segment or query value with everything escaped that has a meaning in a URL.
pub(crate) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_a_url_is_escaped() {
        assert_eq!(escaped("payer-1.za_x~"), "payer-1.za_x~");
        assert_eq!(escaped("a b/?&é"), "a%20b%2F%3F%26%C3%A9");
    }

    #[test]
    fn a_new_id_is_a_uuid_of_version_4() {
        for _ in 0..100 {
            let id = new_transfer_id().to_string();
            assert_eq!(&id[14..15], "4", "{id}");
            assert!("89ab".contains(&id[19..20]), "{id}");
        }
        assert_ne!(new_transfer_id(), new_transfer_id());
    }

    #[test]
    fn a_refusal_is_told_in_the_hubs_words() {
        let answer = |body: &'static str| Answer { status: StatusCode::BAD_REQUEST, body: Bytes::from(body) };
        let known = r#"{"errorInformation":{"errorCode":"3200","errorDescription":"no such participant"}}"#;
        assert_eq!(answer(known).in_words(), "400 3200: no such participant");
        assert_eq!(answer("<html>").in_words(), "400 Bad Request");
    }
}
