//! Requests to a hub, over connections that are kept; a hub that is just being started is waited for.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use bytes::Bytes;
use holdfast_delivery::tls::OutgoingTls;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tokio::sync::OnceCell;

use super::{Answer, HubUrl};

/// How long a hub that refuses connections is waited for: it may have been started in the same breath.
const REFUSED_WAIT: Duration = Duration::from_secs(3);
/// Between two attempts.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// The longest answer that is read: a full page of a list.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What speaks to one hub. TLS is set up with the first request.
pub(super) struct Client {
    url: HubUrl,
    pool: OnceCell<Pool>,
}

enum Pool {
    Plain(legacy::Client<HttpConnector, Full<Bytes>>),
    Tls(legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl Pool {
    fn new(tls: bool) -> anyhow::Result<Pool> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let pool = legacy::Client::builder(TokioExecutor::new());
        if !tls {
            return Ok(Pool::Plain(pool.build(tcp)));
        }
        let connector = HttpsConnectorBuilder::new().with_tls_config(OutgoingTls::new()?.config());
        Ok(Pool::Tls(pool.build(connector.https_only().enable_http1().wrap_connector(tcp))))
    }

    fn request(&self, request: Request<Full<Bytes>>) -> legacy::ResponseFuture {
        match self {
            Pool::Plain(pool) => pool.request(request),
            Pool::Tls(pool) => pool.request(request),
        }
    }
}

impl Client {
    pub(super) fn of(url: HubUrl) -> Client {
        Client { url, pool: OnceCell::new() }
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let nobody = || {
            format!(
                "no hub answers at {}; start one with `holdfast serve`, or say with --url where it is",
                self.url
            )
        };
        let broke = || format!("the connection to {} broke; what was asked for may have been done", self.url);
        let pool = self.pool.get_or_try_init(async || Pool::new(self.url.tls)).await.with_context(nobody)?;
        let deadline = Instant::now() + REFUSED_WAIT;
        let response = loop {
            match pool.request(request.clone()).await {
                Err(error) if is_refused(&error) && Instant::now() < deadline => {
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
                Err(error) => {
                    let said = causes(&error).last().map_or_else(String::new, ToString::to_string);
                    return Err(anyhow!(said).context(if error.is_connect() { nobody() } else { broke() }));
                }
                Ok(response) => break response,
            }
        };
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow!(error)).context("the answer cannot be read");
        Ok(Answer { status, body: body.with_context(broke)?.to_bytes() })
    }
}

/// The error, what caused it, and so on.
fn causes(error: &legacy::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |error| (*error).source())
}

fn is_refused(error: &legacy::Error) -> bool {
    let refused = |error: &io::Error| error.kind() == ErrorKind::ConnectionRefused;
    causes(error).any(|error| error.downcast_ref::<io::Error>().is_some_and(refused))
}
