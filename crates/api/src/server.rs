//! Accepting connections: so many at once, each with bounds on its time, and an end in good order.

use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::limits::{CONNECTIONS_MAX, HEAD_READ_MAX, OWN_FILES, SHUTDOWN_WAIT_MAX, WRITE_STALL_MAX};
use crate::stream::PatientStream;

/// Serves until `end` is ready, then lets open requests finish.
pub async fn serve(listener: TcpListener, router: Router, connections: usize, end: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(connections));
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
        let service = TowerToHyperService::new(router.clone());
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_READ_MAX)
            .max_buf_size(READ_BUFFER_MAX)
            .half_close(true);
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
}

/// How many connections this process can hold: raises its limit of open files as far as it may, and leaves enough
/// of them to the hub, which must be able to open its next segment whatever clients do.
pub fn connections_possible() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = CONNECTIONS_MAX as u64 + OWN_FILES;
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(limit.maximum.unwrap_or(wanted).min(wanted));
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum }) {
            tracing::warn!(%error, "the limit of open files cannot be raised");
        }
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(wanted).min(wanted);
    usize::try_from(files.saturating_sub(OWN_FILES)).unwrap_or(CONNECTIONS_MAX)
}

/// After a failed accept: when the process is out of file descriptors, trying again at once only burns the CPU.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// How much of a body hyper reads at once: large bodies cost less in large pieces.
const READ_BUFFER_MAX: usize = 512 * 1024;
