//! The small server that takes callbacks.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::Participant;
use super::messages::source_of;

/// The largest body of the standard.
const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;

/// Takes callbacks for as long as the process lives.
pub(crate) async fn listen(listener: TcpListener, participant: Arc<Participant>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                participant.diary.note(&format!("a connection could not be taken: {error}"));
                continue;
            }
        };
        let participant = Arc::clone(&participant);
        tokio::spawn(async move {
            let service = service_fn(move |request| take(Arc::clone(&participant), request));
            // The hub sends again what it could not hand over.
            let _: hyper::Result<()> =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Takes one callback. The acknowledgement has no body, as clients of the standard insist.
async fn take(
    participant: Arc<Participant>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let source = source_of(&head.headers);
    let taken = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => place(&participant, &head.method, head.uri.path(), &source, &body.to_bytes()),
        Err(error) => Err((StatusCode::BAD_REQUEST, error.to_string())),
    };
    let status = taken.unwrap_or_else(|(status, why)| {
        participant.diary.note(&format!("{} {} is answered {status}: {why}", head.method, head.uri.path()));
        status
    });
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    Ok(response)
}

fn place(
    participant: &Arc<Participant>,
    method: &Method,
    path: &str,
    source: &str,
    body: &[u8],
) -> Result<StatusCode, (StatusCode, String)> {
    let bad = |why| (StatusCode::BAD_REQUEST, why);
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (method, parts.as_slice()) {
        (&Method::POST, ["transfers"]) => {
            participant.asked(source, body).map(|()| StatusCode::ACCEPTED).map_err(bad)
        }
        (&Method::PUT | &Method::PATCH, ["transfers", id]) => {
            participant.told(method, id, source, body).map(|()| StatusCode::OK).map_err(bad)
        }
        (&Method::PUT, ["transfers", id, "error"]) => {
            participant.told_error(id, source, body).map(|()| StatusCode::OK).map_err(bad)
        }
        _ => Err((StatusCode::NOT_FOUND, "a participant of this kind has no such path".to_owned())),
    }
}
