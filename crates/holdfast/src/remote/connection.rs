//! One HTTP/1.1 connection to a hub, plain or TLS.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use holdfast_delivery::tls::OutgoingTls;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::HubUrl;

/// How long a hub that refuses connections is waited for: it may have been started in the same breath.
const REFUSED_WAIT: Duration = Duration::from_secs(3);
/// Between two attempts.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

async fn reach(place: &str) -> std::io::Result<TcpStream> {
    let deadline = Instant::now() + REFUSED_WAIT;
    loop {
        match TcpStream::connect(place).await {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < deadline => {
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
            reached => return reached,
        }
    }
}

/// An open connection. Its other half runs as a task of its own until either side ends it.
pub(crate) struct Link {
    sender: SendRequest<Full<Bytes>>,
}

impl Link {
    pub(crate) async fn open(url: &HubUrl) -> anyhow::Result<Link> {
        let stream = reach(&url.authority()).await?;
        stream.set_nodelay(true)?;
        if url.tls {
            let stream = OutgoingTls::new()?.open(&url.host, stream).await?;
            return Link::over(TokioIo::new(stream)).await;
        }
        Link::over(TokioIo::new(stream)).await
    }

    async fn over(stream: impl Read + Write + Unpin + Send + 'static) -> anyhow::Result<Link> {
        let (sender, connection) = handshake(stream).await?;
        tokio::spawn(async move {
            // Whoever has a request under way learns of the end by itself.
            let _: hyper::Result<()> = connection.await;
        });
        Ok(Link { sender })
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), bytes_max).collect().await;
        let body =
            body.map_err(|error| anyhow::anyhow!(error)).context("the answer cannot be read")?.to_bytes();
        Ok((status, body))
    }
}
