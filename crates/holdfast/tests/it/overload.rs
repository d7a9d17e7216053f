//! Far more than it may take: clear refusals, flat memory, and recovery by itself.

use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_domain::money::Amount;

use crate::support::fspiop::{Payment, stored};
use crate::support::server::{Server, any_port, folder};
use crate::support::world::participants;

const CALLERS: u32 = 48;
const REQUESTS_EACH: u32 = 60;
/// A queue so short that nearly all of them come in vain.
const QUEUE: &str = "1";
const GROWTH_KIB_MAX: u64 = 64 * 1024;

fn memory_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn overload_is_refused_clearly_and_passes() {
    let folder = folder();
    let mut command = Server::command(folder.path(), any_port());
    command.env("HOLDFAST_INTAKE_ITEMS_MAX", QUEUE);
    let server = Server::launch(&mut command);
    participants(&server, 2, Amount(1 << 40), Amount(1 << 40));
    let before = memory_kib(&server);
    let (taken, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (server, taken, refused) = (&server, &taken, &refused);
            scope.spawn(move || {
                for request in 0..REQUESTS_EACH {
                    let answer = Payment::new(1 + caller * REQUESTS_EACH + request, "1").post().send(server);
                    match answer.status {
                        202 => taken.fetch_add(1, Ordering::Relaxed),
                        429 => {
                            assert_eq!(answer.refusal().1, "2005");
                            assert!(answer.head_has("retry-after: 1"), "{}", answer.head);
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        other => panic!("{other}: {answer:?}"),
                    };
                }
            });
        }
    });
    let (taken, refused) = (taken.into_inner(), refused.into_inner());
    assert!(refused > 0, "{taken} were taken and none refused: this test shows nothing");
    assert_eq!(stored(&server).1, taken, "what was refused left nothing behind");
    let grown = memory_kib(&server).saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "memory grew by {grown} KiB");
    // It is over: the next one is taken at once.
    assert_eq!(Payment::new(1_000_000, "1").post().send(&server).status, 202);
    server.stop_and_verify(folder.path());
}
