//! One HTTP/1.1 connection, driven by whoever uses it: no task stands between a sender and its socket.

use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::http::request::Builder;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use holdfast_domain::records::batch::{HEADER_LEN, MEDIA_TYPE, REPLY_LEN, Reply, read_replies};

use crate::error::Cause;
use crate::options::{ClientOptions, REFUSAL_BYTES_MAX};

const BATCH_PATH: &str = "/hub/batch";

/// How one attempt ended.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// With as many replies as there were records.
    Answered(Vec<Reply>),
    /// The hub was too busy to take it: nothing happened.
    Busy(Option<Duration>),
    /// The hub does not take it for what it says: nothing happened.
    Refused { status: u16, detail: String },
    /// It never left: nothing happened.
    NotSent(Cause),
    /// It may or may not have happened.
    Open(Cause),
}

/// An open connection.
pub(crate) struct Link {
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<TokioIo<TcpStream>, Full<Bytes>>,
    host: String,
    authorization: Option<String>,
    ended: bool,
}

impl Link {
    pub(crate) async fn open(options: &ClientOptions) -> io::Result<Link> {
        let stream = TcpStream::connect(&options.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let authorization = options.api_key.as_ref().map(|key| format!("Bearer {key}"));
        Ok(Link { sender, connection, host: options.address.clone(), authorization, ended: false })
    }

    /// What every request says: to whom, and by whose key.
    fn with_head(&self, request: Builder) -> Builder {
        let request = request.header(HOST, &self.host);
        match &self.authorization {
            Some(key) => request.header(AUTHORIZATION, key),
            None => request,
        }
    }

    /// Whether another request can be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.ended && !self.sender.is_closed()
    }

    /// Ready when the connection has ended; to be watched while nothing is under way.
    pub(crate) async fn ended(&mut self) {
        if !self.ended {
            // Why an idle connection ended is of no interest: a new one is opened when it is needed.
            let _: hyper::Result<()> = (&mut self.connection).await;
            self.ended = true;
        }
    }

    /// Sends a batch and waits for its replies.
    pub(crate) async fn send(&mut self, body: Bytes, records: usize) -> Attempt {
        let request =
            self.with_head(Request::post(BATCH_PATH)).header(CONTENT_TYPE, MEDIA_TYPE).body(Full::new(body));
        let Ok(request) = request else { return Attempt::NotSent(Cause::ConnectionLost) };
        if self.ended {
            return Attempt::NotSent(Cause::ConnectionLost);
        }
        let sending = self.sender.try_send_request(request);
        let exchange = async {
            match sending.await {
                Ok(response) => read_answer(response, records).await,
                Err(mut error) => match error.take_message() {
                    Some(_unsent) => Attempt::NotSent(Cause::ConnectionLost),
                    None => Attempt::Open(Cause::ConnectionLost),
                },
            }
        };
        drive(&mut self.connection, &mut self.ended, exchange)
            .await
            .unwrap_or(Attempt::Open(Cause::ConnectionLost))
    }

    /// Gets a view: its status and up to `bytes_max` of its body.
    pub(crate) async fn get(&mut self, path: &str, bytes_max: usize) -> Result<(StatusCode, Vec<u8>), Cause> {
        let request = self.with_head(Request::get(path)).body(Full::new(Bytes::new()));
        let request = request.map_err(|_| Cause::ConnectionLost)?;
        let sending = self.sender.send_request(request);
        let exchange = async {
            let response = sending.await.map_err(|_| Cause::ConnectionLost)?;
            let status = response.status();
            Ok((status, read_body(response.into_body(), bytes_max, 0).await?))
        };
        drive(&mut self.connection, &mut self.ended, exchange).await.unwrap_or(Err(Cause::ConnectionLost))
    }
}

/// Polls the connection and what happens on it together. `None`: the connection ended under it.
async fn drive<T>(
    connection: &mut Connection<TokioIo<TcpStream>, Full<Bytes>>,
    ended: &mut bool,
    exchange: impl Future<Output = T>,
) -> Option<T> {
    let mut exchange = std::pin::pin!(exchange);
    std::future::poll_fn(|context| {
        if !*ended && Pin::new(&mut *connection).poll(context).is_ready() {
            *ended = true;
        }
        match exchange.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if *ended => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn read_answer(response: Response<Incoming>, records: usize) -> Attempt {
    let status = response.status();
    if status == StatusCode::OK {
        let length = HEADER_LEN + records * REPLY_LEN;
        return match read_body(response.into_body(), length, length).await {
            Err(cause) => Attempt::Open(cause),
            Ok(body) => match read_replies(&body) {
                Ok(replies) if replies.len() == records => Attempt::Answered(replies),
                _ => Attempt::Open(Cause::NotAReply),
            },
        };
    }
    let retry_after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(Duration::from_secs);
    match status {
        StatusCode::TOO_MANY_REQUESTS => {
            // Reading the rest keeps the connection usable; the status has said everything.
            let _: Result<Vec<u8>, Cause> = read_body(response.into_body(), REFUSAL_BYTES_MAX, 0).await;
            Attempt::Busy(retry_after)
        }
        status if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT => {
            let body = read_body(response.into_body(), REFUSAL_BYTES_MAX, 0).await.unwrap_or_default();
            Attempt::Refused { status: status.as_u16(), detail: String::from_utf8_lossy(&body).into_owned() }
        }
        status => Attempt::Open(Cause::Status(status.as_u16())),
    }
}

/// Reads a body of at most `bytes_max`; a longer one is not what was asked for.
async fn read_body(mut body: Incoming, bytes_max: usize, expected: usize) -> Result<Vec<u8>, Cause> {
    let mut bytes = Vec::with_capacity(expected);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Cause::ConnectionLost)?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > bytes_max {
                return Err(Cause::NotAReply);
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}
