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
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::limits::{
    BACKLOG, CONNECTIONS_MAX, HANDSHAKE_WAIT_MAX, HEAD_READ_MAX, OWN_FILES, SHUTDOWN_WAIT_MAX,
    WRITE_STALL_MAX,
};
use crate::stream::PatientStream;

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

/// Listens on an address, inside a Tokio runtime. A crowd that connects at once waits in the kernel's queue until the server accepts.
///
/// # Errors
/// If the address is taken, or is none of this machine.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As every server has it: a restarted hub gets its address back while old connections fade.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `end` is ready, then lets open requests finish.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ServeOptions,
    end: impl Future<Output = ()>,
) {
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
            Err(error) => {
                // One client's trouble, or too few file descriptors for a moment: neither is a reason to end.
                tracing::warn!(%error, "a connection was lost while it was accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection is gone already");
            continue;
        }
        let stream = PatientStream::new(stream, WRITE_STALL_MAX);
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
}

/// How the open files of this process are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileBudget {
    /// Connections of clients.
    pub connections: usize,
    /// Connections to participants.
    pub connections_out: usize,
}

impl FileBudget {
    /// Raises the limit of open files as far as is wanted and allowed, and shares out what there is. Enough is left
    /// to the hub, which must be able to open its next segment whatever clients and participants do. `out_max`: the most
    /// connections that are wanted to participants.
    #[must_use]
    pub fn take(out_max: usize) -> FileBudget {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let wanted = (CONNECTIONS_MAX + out_max) as u64 + OWN_FILES;
        let limit = getrlimit(Resource::Nofile);
        if limit.current.is_some_and(|current| current < wanted) {
            let current = Some(limit.maximum.unwrap_or(wanted).min(wanted));
            if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum }) {
                tracing::warn!(%error, "the limit of open files cannot be raised");
            }
        }
        let files = getrlimit(Resource::Nofile).current.unwrap_or(wanted).min(wanted);
        FileBudget::of(usize::try_from(files.saturating_sub(OWN_FILES)).unwrap_or(0), out_max)
    }

    /// Half for each side, but no more for clients than they may have.
    fn of(files: usize, out_max: usize) -> FileBudget {
        let connections = CONNECTIONS_MAX.min(files / 2);
        FileBudget { connections, connections_out: out_max.min(files - connections) }
    }
}

/// One connection from its first request to its last.
async fn converse<S>(stream: S, service: WithPeer, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_READ_MAX)
        .max_buf_size(READ_BUFFER_MAX)
        // Who closes its side, even its sending side alone, has hung up: what it waits for is called off, and its place
        // is free. A client that is gone for good looks just the same from here.
        .half_close(false);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Beyond the queue the kernel drops a first packet, and its client tries again a second later.
    #[tokio::test]
    async fn hundreds_connect_at_once_and_none_stalls() {
        const CROWD: usize = 400;
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let mut crowd = Vec::with_capacity(CROWD);
        for client in 0..CROWD {
            let connecting = tokio::net::TcpStream::connect(address);
            let connected = timeout(Duration::from_secs(30), connecting).await;
            crowd.push(connected.unwrap_or_else(|_| panic!("client {client} stalls")).unwrap());
        }
    }

    #[test]
    fn files_are_shared_out_and_never_more_than_there_are() {
        let plenty = FileBudget::of(100_000, 4_096);
        assert_eq!((plenty.connections, plenty.connections_out), (CONNECTIONS_MAX, 4_096));
        for files in [0, 1, 2, 100, 960, 1_500, 5_000] {
            let FileBudget { connections, connections_out } = FileBudget::of(files, 4_096);
            assert!(connections + connections_out <= files, "{files}");
            assert!(files < 2 || (connections > 0 && connections_out > 0), "{files}");
        }
    }
}
