//! Looks all the time, on a connection of its own, whether a checkout is pending past its deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use holdfast_database::StoreSettings;
use holdfast_database::limits::{LEASE, SCAN_EVERY};
use postgres::{Client, NoTls};

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A look of the scan and the statements in it, on a machine with far too much to do.
const BUSY: Duration = Duration::from_secs(3);

/// How long after its deadline a checkout may be pending while PostgreSQL is there: the node that had its shard is gone, and
/// another looks after the lease; a node that hangs has its row or its shard locked, until the server ends that transaction.
fn late_max() -> Duration {
    LEASE + StoreSettings::default().idle_timeout + 2 * SCAN_EVERY + BUSY
}

pub struct Watch {
    over: Arc<AtomicBool>,
    watcher: JoinHandle<Seen>,
}

#[derive(Default)]
struct Seen {
    looks: usize,
    late: Vec<String>,
}

impl Watch {
    pub fn start(url: &str) -> Watch {
        let (url, over) = (url.to_owned(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&over);
        let watcher = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !ends.load(Ordering::Relaxed) {
                // Without the server nobody can end anything: the time counts from when it takes connections again.
                if let Ok(mut client) = Client::connect(&url, NoTls) {
                    let _: Result<(), postgres::Error> = look(&mut client, &ends, &mut seen);
                }
                std::thread::park_timeout(LOOK_EVERY);
            }
            seen
        });
        Watch { over, watcher }
    }

    pub fn judge(self) {
        self.over.store(true, Ordering::Relaxed);
        let Seen { looks, late } = self.watcher.join().expect("it only looks");
        assert!(looks > 50, "only {looks} looks");
        assert!(late.is_empty(), "pending for more than {:?} past their deadlines: {late:#?}", late_max());
    }
}

/// Looks until the server is gone.
fn look(client: &mut Client, over: &AtomicBool, seen: &mut Seen) -> Result<(), postgres::Error> {
    let since: f64 = client.query_one("SELECT extract(epoch FROM hub_clock())::float8", &[])?.get(0);
    let statement = client.prepare(
        "SELECT concat_ws(' ', order_id, 'try', tr_num, 'until', deadline, 'at', hub_clock()) FROM orders
         WHERE state = 'pending' AND extract(epoch FROM hub_clock() - deadline)::float8 > $1
             AND extract(epoch FROM hub_clock())::float8 - $2 > $1",
    )?;
    while !over.load(Ordering::Relaxed) {
        let late = client.query(&statement, &[&late_max().as_secs_f64(), &since])?;
        seen.late.extend(late.iter().map(|row| row.get::<_, String>(0)));
        seen.looks += 1;
        std::thread::park_timeout(LOOK_EVERY);
    }
    Ok(())
}
