//! Accepting connections: so many at once, each with bounds on its time, and an end in good order.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::limits::{CONNECTIONS_MAX, HANDSHAKE_WAIT_MAX, HEAD_READ_MAX, SHUTDOWN_WAIT_MAX};

/// Why the server ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No more connections can be accepted.
    #[error("cannot accept connections")]
    Accept(#[source] std::io::Error),
}

/// How connections are taken.
#[derive(Clone)]
pub struct ServeOptions {
    /// Connections served at once, those in their TLS handshake included.
    pub connections_max: usize,
    /// Certificate and key; `None`: plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions { connections_max: CONNECTIONS_MAX, tls: None }
    }
}

/// Serves until `end` is ready, then lets open requests finish.
///
/// # Errors
/// If the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ServeOptions,
    end: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let places = Arc::new(Semaphore::new(options.connections_max));
    let acceptor = options.tls.map(TlsAcceptor::from);
    let graceful = GracefulShutdown::new();
    let mut end = std::pin::pin!(end);
    loop {
        let place = Arc::clone(&places).acquire_owned();
        let place = tokio::select! {
            place = place => place.expect("nobody closes the semaphore"),
            () = &mut end => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut end => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_passing(&error) => {
                tracing::warn!(%error, "a connection was lost while it was accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
            Err(error) => return Err(ServeError::Accept(error)),
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection is gone already");
            continue;
        }
        let service = WithPeer {
            inner: TowerToHyperService::new(router.clone()),
            peer: Peer(peer),
            encrypted: acceptor.is_some(),
        };
        let (acceptor, watcher) = (acceptor.clone(), graceful.watcher());
        tokio::spawn(async move {
            let _place = place;
            let Some(acceptor) = acceptor else { return converse(stream, service, watcher).await };
            match timeout(HANDSHAKE_WAIT_MAX, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => converse(stream, service, watcher).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            }
        });
    }
    drop(listener);
    if timeout(SHUTDOWN_WAIT_MAX, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and are cut");
    }
    Ok(())
}

/// One connection from its first request to its last.
async fn converse<S>(stream: S, service: WithPeer, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_READ_MAX).max_buf_size(READ_BUFFER_MAX);
    let connection = watcher.watch(builder.serve_connection(TokioIo::new(stream), service));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Who is at the other end of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// On requests that came through TLS.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encrypted;

/// The router, told with each request where it came from and how.
struct WithPeer {
    inner: TowerToHyperService<Router>,
    peer: Peer,
    encrypted: bool,
}

impl Service<hyper::Request<Incoming>> for WithPeer {
    type Response = axum::response::Response;
    type Error = std::convert::Infallible;
    type Future = <TowerToHyperService<Router> as Service<hyper::Request<Incoming>>>::Future;

    fn call(&self, mut request: hyper::Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        if self.encrypted {
            request.extensions_mut().insert(Encrypted);
        }
        self.inner.call(request)
    }
}

/// After a failed accept: when the process is out of file descriptors, trying again at once only burns the CPU.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// How much of a body hyper reads at once: large bodies cost less in large pieces.
const READ_BUFFER_MAX: usize = 512 * 1024;

/// One client's trouble is not the server's.
fn is_passing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, WouldBlock,
    };
    const OUT_OF_FILES: [i32; 2] = [23, 24];
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted | WouldBlock)
        || error.raw_os_error().is_some_and(|code| OUT_OF_FILES.contains(&code))
}
