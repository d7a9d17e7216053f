//! A thread that looks at the server many times a second: whether a checkpoint runs, how many holds are open, how
//! much memory it has. Its looks are few enough to cost the server well under a hundredth of a core.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdfast_client::{Client, ClientOptions};

use holdfast_load::LoadError;
use holdfast_load::batches::Felt;
use holdfast_load::figures::{lock, per};
use holdfast_load::meter::{Counters, Usage};
use holdfast_load::options::CALL_DEADLINE;

/// The pause between two looks.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

const RUNNING: &str = "holdfast_checkpoint_running";
const TOTAL: &str = "holdfast_checkpoints_total";
const SECONDS: &str = "holdfast_checkpoint_seconds_sum";
const OPEN_HOLDS: &str = "holdfast_open_holds";

/// One look. What the server does not tell is `None`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) begun: Instant,
    pub(super) ended: Instant,
    pub(super) running: Option<bool>,
    pub(super) checkpoints: Option<f64>,
    pub(super) seconds: Option<f64>,
    pub(super) open_holds: Option<f64>,
    pub(super) rss_bytes: u64,
}

/// What looking cost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LookCost {
    pub(super) looks: u64,
    /// From the request to the answer, on a connection of its own.
    pub(super) mean_us: u64,
    /// CPU of the looking thread, per look; the server's part is of the same size.
    pub(super) cpu_us_each: f64,
}

/// The thread. Dropping it ends it.
pub(super) struct Watch {
    looks: Arc<Mutex<Vec<Look>>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<u64>>,
}

impl Watch {
    pub(super) fn start(address: &str, pid: u32) -> Result<Watch, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(LoadError::of("cannot start the runtime of the clients"))?;
        let options = ClientOptions { connections: 1, deadline: CALL_DEADLINE, ..ClientOptions::to(address) };
        let looks = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&looks);
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let Ok(client) = runtime.block_on(Client::connect(options)) else { return 0 };
            while matches!(stopped.recv_timeout(LOOK_EVERY), Err(RecvTimeoutError::Timeout)) {
                let begun = Instant::now();
                // A server that was killed answers no more; the next look tells.
                let Ok(text) = runtime.block_on(client.get("/metrics")) else { continue };
                let look = read_look(&text, begun, Usage::of(pid).rss_bytes);
                lock(&seen).push(look);
            }
            Usage::of_this_thread()
        });
        Ok(Watch { looks, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn last(&self) -> Option<Look> {
        lock(&self.looks).last().copied()
    }

    /// Ends the thread and gives all looks.
    pub(super) fn finish(mut self) -> (Vec<Look>, LookCost) {
        self.stop = None;
        let cpu_us = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(0);
        let looks = std::mem::take(&mut *lock(&self.looks));
        let count = looks.len() as u64;
        let micros: u128 = looks.iter().map(|look| (look.ended - look.begun).as_micros()).sum();
        let mean_us = u64::try_from(micros / u128::from(count.max(1))).unwrap_or(u64::MAX);
        (looks, LookCost { looks: count, mean_us, cpu_us_each: per(cpu_us, count) })
    }
}

fn read_look(text: &str, begun: Instant, rss_bytes: u64) -> Look {
    let ended = Instant::now();
    let told = Counters::parse(text);
    Look {
        begun,
        ended,
        running: told.get(RUNNING).map(|value| value > 0.0),
        checkpoints: told.get(TOTAL),
        seconds: told.get(SECONDS),
        open_holds: told.get(OPEN_HOLDS),
        rss_bytes,
    }
}

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) begin: Instant,
    pub(super) end: Instant,
}

impl Span {
    /// Whether a request was under way in it.
    pub(super) fn overlaps(&self, felt: &Felt) -> bool {
        felt.begun < self.end && felt.ended > self.begin
    }
}

/// When checkpoints ran; `None` if the server does not tell. A checkpoint between two looks, seen only by the count,
/// is taken to have lasted from the one to the other, so no request beside a checkpoint is missed.
pub(super) fn checkpoint_spans(looks: &[Look]) -> Option<Vec<Span>> {
    if !looks.iter().any(|look| look.running.is_some()) {
        return None;
    }
    let mut spans: Vec<Span> = Vec::new();
    for pair in looks.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let running = [before, after].iter().any(|look| look.running == Some(true));
        if !running && after.checkpoints <= before.checkpoints {
            continue;
        }
        match spans.last_mut() {
            Some(last) if last.end >= before.begun => last.end = after.ended,
            _ => spans.push(Span { begin: before.begun, end: after.ended }),
        }
    }
    Some(spans)
}

/// The requests that were under way while a checkpoint ran.
pub(super) fn beside<'a>(felt: &'a [Felt], spans: &'a [Span]) -> impl Iterator<Item = &'a Felt> {
    felt.iter().filter(|felt| spans.iter().any(|span| span.overlaps(felt)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_load::batches::Leg;

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    fn look(start: Instant, millis: u64, running: Option<bool>, checkpoints: f64) -> Look {
        Look {
            begun: at(start, millis),
            ended: at(start, millis + 1),
            running,
            checkpoints: running.map(|_| checkpoints),
            seconds: None,
            open_holds: None,
            rss_bytes: 0,
        }
    }

    fn felt(start: Instant, begun: u64, ended: u64) -> Felt {
        Felt { leg: Leg::Prepares, records: 1, begun: at(start, begun), ended: at(start, ended) }
    }

    /// Answers a few requests with these metrics, each on a connection of its own.
    fn serve(text: &'static str, requests: usize) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        std::thread::spawn(move || {
            // The first connection is the client's own; it never asks anything.
            let _idle = listener.accept();
            for (mut stream, _) in (0..requests).map_while(|_| listener.accept().ok()) {
                let mut buffer = [0; 4096];
                let _asked = std::io::Read::read(&mut stream, &mut buffer);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
                let _sent = std::io::Write::write_all(&mut stream, (head + text).as_bytes());
            }
        });
        address
    }

    #[test]
    fn looks_tell_what_the_server_tells() {
        let text = "holdfast_checkpoint_running 1\nholdfast_checkpoints_total 3\nholdfast_open_holds 7\n";
        let watch = Watch::start(&serve(text, 3), std::process::id()).expect("started");
        let deadline = Instant::now() + Duration::from_secs(20);
        while watch.last().is_none() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let (looks, cost) = watch.finish();
        let look = looks.first().expect("one look within the deadline");
        assert_eq!((look.running, look.checkpoints, look.seconds), (Some(true), Some(3.0), None));
        assert_eq!(look.open_holds, Some(7.0));
        assert!(look.rss_bytes > 0 && cost.looks > 0);
    }

    #[test]
    fn spans_reach_from_the_look_before_to_the_look_after() {
        let start = Instant::now();
        let (yes, no) = (Some(true), Some(false));
        let looks = [(0, no, 0.0), (50, yes, 0.0), (100, yes, 0.0), (150, no, 1.0), (200, no, 1.0)];
        let looks = looks.map(|(millis, running, total)| look(start, millis, running, total));
        let spans = checkpoint_spans(&looks).expect("told");
        assert_eq!(spans, [Span { begin: at(start, 0), end: at(start, 151) }]);
    }

    #[test]
    fn a_short_checkpoint_is_seen_by_the_count_and_two_are_kept_apart() {
        let start = Instant::now();
        let totals = [(0, 0.0), (50, 1.0), (100, 1.0), (150, 1.0), (200, 2.0)];
        let looks = totals.map(|(millis, total)| look(start, millis, Some(false), total));
        let spans = checkpoint_spans(&looks).expect("told");
        assert_eq!(
            spans,
            [
                Span { begin: at(start, 0), end: at(start, 51) },
                Span { begin: at(start, 150), end: at(start, 201) }
            ]
        );
    }

    #[test]
    fn a_server_that_does_not_tell_is_not_one_without_checkpoints() {
        let start = Instant::now();
        assert_eq!(checkpoint_spans(&[look(start, 0, None, 0.0), look(start, 50, None, 0.0)]), None);
        assert_eq!(checkpoint_spans(&[look(start, 0, Some(false), 0.0)]), Some(Vec::new()));
    }

    #[test]
    fn a_request_is_beside_a_checkpoint_if_any_moment_is_shared() {
        let start = Instant::now();
        let spans = [Span { begin: at(start, 100), end: at(start, 200) }];
        let requests = [(0, 100), (0, 101), (120, 130), (199, 300), (200, 300), (50, 250)];
        let requests = requests.map(|(begun, ended)| felt(start, begun, ended));
        let found: Vec<u128> = beside(&requests, &spans).map(|felt| felt.took().as_millis()).collect();
        assert_eq!(found, [101, 10, 101, 200]);
        assert_eq!(beside(&requests, &[]).count(), 0);
    }
}
