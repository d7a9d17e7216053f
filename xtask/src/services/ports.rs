//! Ports that nobody listens on.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

/// Below the range from which Linux takes the ports of outgoing connections: a service that is stopped for a moment
/// must find its port free when it comes back.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Free ports. Each work tree starts its search elsewhere, so that two of them seldom meet.
pub(super) fn free(count: usize, tree: &Path) -> Result<Vec<u16>, String> {
    let mut hasher = DefaultHasher::new();
    tree.hash(&mut hasher);
    let start = u16::try_from(hasher.finish() % u64::from(COUNT)).expect("the remainder is below COUNT");
    let candidates = (0..COUNT).map(|step| FIRST + (start + step) % COUNT);
    let ports: Vec<u16> = candidates.filter(|port| is_free(*port)).take(count).collect();
    if ports.len() == count {
        Ok(ports)
    } else {
        Err(format!("xtask: no {count} free ports from {FIRST} to {}", FIRST + COUNT - 1))
    }
}

/// Whether a service could listen there now.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::path::Path;

    use super::{free, is_free};

    #[test]
    fn a_taken_port_is_not_handed_out() {
        let tree = Path::new("/some/tree");
        // Another test may look at the same port at the same moment, which takes it for as long.
        let taken = (0..100).find_map(|_| {
            let first = free(1, tree).ok()?[0];
            Some((first, TcpListener::bind((Ipv4Addr::LOCALHOST, first)).ok()?))
        });
        let (first, listener) = taken.expect("a port that stays free");
        assert!(!is_free(first));
        let ports = free(2, tree).unwrap();
        assert!(!ports.contains(&first) && ports[0] != ports[1]);
        drop(listener);
    }
}
