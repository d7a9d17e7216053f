//! Accepting connections: so many at once, each with bounds on its time, and an end in good order.

use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::limits::{CONNECTIONS_MAX, HEAD_READ_MAX, SHUTDOWN_WAIT_MAX};

/// Why the server ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No more connections can be accepted.
    #[error("cannot accept connections")]
    Accept(#[source] std::io::Error),
}

/// Serves until `end` is ready, then lets open requests finish.
///
/// # Errors
/// If the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    end: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
        let stream = match accepted {
            Ok((stream, _)) => stream,
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
        let service = TowerToHyperService::new(router.clone());
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_READ_MAX).max_buf_size(READ_BUFFER_MAX);
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(SHUTDOWN_WAIT_MAX, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and are cut");
    }
    Ok(())
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
