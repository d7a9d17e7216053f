//! Requests to participants over HTTP/1.1, on connections that are kept and bounded for each participant.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use holdfast_domain::ids::ParticipantId;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::http::Uri;
use hyper::http::header::HOST;
use hyper::http::uri::{Authority, Scheme};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::options::{
    ANSWER_BYTES_MAX, ANSWER_TIME_MAX, BYTES_OUT_MAX, CONNECTION_IDLE_MAX, LANE_IN_FLIGHT_MAX,
    PLACE_WAIT_MAX, SMALL_BODY_BYTES,
};
use crate::request::{Envelope, Failure};
use crate::tls::OutgoingTls;

/// Where a connection leads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    tls: bool,
    authority: Authority,
}

struct Idle {
    address: Address,
    sender: SendRequest<Full<Bytes>>,
    since: Instant,
}

/// Sends requests. For a receiver, told by its key, as many connections are kept as there may be requests under way at
/// once.
pub(crate) struct Post<K = ParticipantId> {
    tls: Option<OutgoingTls>,
    /// One for each connection, idle ones included, until it has ended.
    connections: Arc<Semaphore>,
    /// In units of [`SMALL_BODY_BYTES`].
    large_bodies: Semaphore,
    idle: Mutex<HashMap<K, Vec<Idle>>>,
}

impl<K: Copy + Eq + Hash> Post<K> {
    /// Without TLS, https addresses cannot be called.
    pub(crate) fn new(tls: Option<OutgoingTls>, connections_max: usize) -> Post<K> {
        let connections = Arc::new(Semaphore::new(connections_max));
        let large_bodies = Semaphore::new(BYTES_OUT_MAX / SMALL_BODY_BYTES);
        Post { tls, connections, large_bodies, idle: Mutex::default() }
    }

    /// A place for another connection; the oldest idle one makes way for it.
    async fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(place) = Arc::clone(&self.connections).try_acquire_owned() {
            return Ok(place);
        }
        self.close_oldest();
        // A connection gives its place back when its task has seen the end.
        let place = timeout(PLACE_WAIT_MAX, Arc::clone(&self.connections).acquire_owned()).await;
        place
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| Failure::ours("too many connections to participants are open"))
    }

    fn close_oldest(&self) {
        let mut idle = self.idle();
        let oldest = |connections: &Vec<Idle>| connections.first().map(|idle| idle.since);
        let lane = idle.values_mut().filter(|lane| !lane.is_empty()).min_by_key(|lane| oldest(lane));
        if let Some(lane) = lane {
            lane.remove(0);
        }
    }

    /// Room for a body among all that are on their way.
    fn room(&self, bytes: usize) -> Result<Option<SemaphorePermit<'_>>, Failure> {
        if bytes <= SMALL_BODY_BYTES {
            return Ok(None);
        }
        let units = u32::try_from(bytes.div_ceil(SMALL_BODY_BYTES)).unwrap_or(u32::MAX);
        let room = self.large_bodies.try_acquire_many(units);
        room.map(Some).map_err(|_| Failure::ours("too many large callbacks are on their way"))
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<K, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one request. Any 2xx acknowledges it; a redirection is not followed.
    pub(crate) async fn send(&self, to: K, envelope: Envelope) -> Result<(), Failure> {
        self.exchange(to, envelope).await.map(drop)
    }

    /// Sends one request and gives what was answered to it with a 2xx; `None`: that was too long, too slow, or broke off.
    pub(crate) async fn exchange(&self, to: K, envelope: Envelope) -> Result<Option<Bytes>, Failure> {
        let _room = self.room(envelope.message.body.len())?;
        let address = address_of(&envelope.uri)?;
        let request = request_of(&address, envelope)?;
        if let Some(mut sender) = self.take_idle(to, &address) {
            let sending = async {
                sender.ready().await?;
                sender.send_request(request.clone()).await
            };
            match sending.await {
                Ok(response) => return self.acknowledged(to, address, sender, response).await,
                // The other side may have closed the idle connection just now; that is no failed attempt.
                Err(error) => tracing::debug!(%error, to = %address.authority, "a kept connection was gone"),
            }
        }
        let mut sender = self.connect(&address).await?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| Failure::passing(describe("no answer", &error)))?;
        self.acknowledged(to, address, sender, response).await
    }

    async fn acknowledged(
        &self,
        to: K,
        address: Address,
        sender: SendRequest<Full<Bytes>>,
        response: Response<Incoming>,
    ) -> Result<Option<Bytes>, Failure> {
        let status = response.status();
        // What a status says stands, however slowly the rest of the answer comes.
        let answer = timeout(ANSWER_TIME_MAX, read(response.into_body())).await.ok().flatten();
        if answer.is_some() && !sender.is_closed() {
            self.keep(to, Idle { address, sender, since: Instant::now() });
        }
        if status.is_success() {
            Ok(answer)
        } else if status.is_redirection() {
            Err(Failure::passing(format!("answered {status}; redirections are not followed")))
        } else {
            Err(Failure::passing(format!("answered {status}")))
        }
    }

    fn take_idle(&self, to: K, address: &Address) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle();
        let connections = idle.get_mut(&to)?;
        retain_fresh(connections);
        let found = connections.iter().rposition(|idle| idle.address == *address)?;
        Some(connections.remove(found).sender)
    }

    fn keep(&self, to: K, connection: Idle) {
        let mut idle = self.idle();
        let connections = idle.entry(to).or_default();
        if connections.len() >= LANE_IN_FLIGHT_MAX {
            connections.remove(0);
        }
        connections.push(connection);
    }

    /// Closes connections that nobody has used for long.
    pub(crate) fn close_idle(&self) {
        for connections in self.idle().values_mut() {
            retain_fresh(connections);
        }
    }

    async fn connect(&self, address: &Address) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let host = address.authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = address.authority.port_u16().unwrap_or(if address.tls { 443 } else { 80 });
        let failed = |what: &str, error: &dyn std::error::Error| Failure::passing(describe(what, error));
        let permit = self.place().await?;
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(|error| failed("cannot connect", &error))?;
        stream.set_nodelay(true).map_err(|error| failed("cannot connect", &error))?;
        if !address.tls {
            return handshake(stream, permit).await;
        }
        let Some(tls) = &self.tls else {
            return Err(Failure::for_good(
                "this hub has no root certificates and cannot call https addresses",
            ));
        };
        let stream = tls.open(&host, stream).await;
        handshake(stream.map_err(|error| failed("no TLS connection", &error))?, permit).await
    }
}

fn retain_fresh(connections: &mut Vec<Idle>) {
    let now = Instant::now();
    connections
        .retain(|idle| !idle.sender.is_closed() && now.duration_since(idle.since) < CONNECTION_IDLE_MAX);
}

async fn handshake<T>(stream: T, permit: OwnedSemaphorePermit) -> Result<SendRequest<Full<Bytes>>, Failure>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let opened = Builder::new().max_buf_size(ANSWER_BYTES_MAX).handshake(TokioIo::new(stream)).await;
    let (sender, connection) =
        opened.map_err(|error| Failure::passing(describe("cannot connect", &error)))?;
    // It ends when its sender is dropped, or when the other side ends it.
    tokio::spawn(async move {
        let _permit = permit;
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a participant ended early");
        }
    });
    Ok(sender)
}

fn address_of(uri: &Uri) -> Result<Address, Failure> {
    let authority = uri.authority().cloned().ok_or_else(|| Failure::for_good("the address has no host"))?;
    if uri.scheme() == Some(&Scheme::HTTP) {
        Ok(Address { tls: false, authority })
    } else if uri.scheme() == Some(&Scheme::HTTPS) {
        Ok(Address { tls: true, authority })
    } else {
        Err(Failure::for_good("the address is neither http nor https"))
    }
}

fn request_of(address: &Address, envelope: Envelope) -> Result<Request<Full<Bytes>>, Failure> {
    let Envelope { uri, message } = envelope;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let host = match address.authority.as_str().rsplit_once('@') {
        Some((_, host)) => host,
        None => address.authority.as_str(),
    };
    let request = Request::builder().method(message.method).uri(path).header(HOST, host);
    let request = request.body(Full::new(message.body));
    let mut request = request.map_err(|error| Failure::for_good(error.to_string()))?;
    request.headers_mut().extend(message.headers);
    Ok(request)
}

/// Reads the answer to its end, so that the connection can be used again. `None` if it is too long or breaks off.
async fn read(mut body: Incoming) -> Option<Bytes> {
    let mut answer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.ok()?;
        let Some(data) = frame.data_ref() else { continue };
        if answer.len() + data.len() > ANSWER_BYTES_MAX {
            return None;
        }
        answer.extend_from_slice(data);
    }
    Some(answer.freeze())
}

/// An error with its causes.
fn describe(what: &str, error: &dyn std::error::Error) -> String {
    let mut text = format!("{what}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Blame;

    #[tokio::test(start_paused = true)]
    async fn a_shortage_of_ours_is_not_the_receivers() {
        let post = Post::<ParticipantId>::new(None, 1);
        let held = post.place().await.unwrap();
        assert_eq!(post.place().await.unwrap_err().blame, Blame::Ours);
        drop(held);
        drop(post.place().await.expect("there is a place again"));
        let room = post.room(BYTES_OUT_MAX).unwrap();
        assert_eq!(post.room(SMALL_BODY_BYTES + 1).unwrap_err().blame, Blame::Ours);
        assert!(post.room(SMALL_BODY_BYTES).unwrap().is_none(), "small ones always go");
        drop(room);
        assert!(post.room(SMALL_BODY_BYTES + 1).unwrap().is_some());
    }
}
