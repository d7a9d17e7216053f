//! A way to PostgreSQL on which the answer to one commit is lost.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a binary COPY begins: only a transaction that writes effects has one.
const COPY: &[u8] = b"PGCOPY";
const COMMIT: &[u8] = b"COMMIT\0";

/// Passes everything on, except the answer to the first commit of effects: the server has done it, and the connection is cut.
pub struct Losing {
    pub url: String,
    lost: Arc<AtomicBool>,
}

impl Losing {
    /// Before the server of that address.
    pub fn before(url: &str) -> Losing {
        let (scheme_and_user, place) = url.split_once('@').expect("an address names its user");
        let (server, database) = place.split_once('/').expect("and its database");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme_and_user}@{}/{database}", listener.local_addr().unwrap());
        let (server, lost) = (server.to_owned(), Arc::new(AtomicBool::new(false)));
        let losing = Losing { url, lost: Arc::clone(&lost) };
        // It ends with the test's process.
        std::thread::spawn(move || {
            for node in listener.incoming() {
                let (node, server) = (node.unwrap(), TcpStream::connect(&server).unwrap());
                pass_on(&node, &server, &lost);
            }
        });
        losing
    }

    pub fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

fn pass_on(node: &TcpStream, server: &TcpStream, lost: &Arc<AtomicBool>) {
    let commits_effects = Arc::new(AtomicBool::new(false));
    let mut copied = false;
    let asked = Arc::clone(&commits_effects);
    passing(node, server, move |bytes| {
        copied |= contains(bytes, COPY);
        if contains(bytes, COMMIT) && std::mem::take(&mut copied) {
            asked.store(true, Ordering::Release);
        }
        true
    });
    let lost = Arc::clone(lost);
    passing(server, node, move |_| {
        !commits_effects.swap(false, Ordering::AcqRel) || lost.swap(true, Ordering::AcqRel)
    });
}

/// Passes on what comes, on a thread, as long as `may_pass` says so; then both sides are cut.
fn passing(from: &TcpStream, to: &TcpStream, mut may_pass: impl FnMut(&[u8]) -> bool + Send + 'static) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if !may_pass(&bytes[..length]) || to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        // Whichever side has gone already does not mind.
        let _: [Result<(), _>; 2] = [from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)];
    });
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
