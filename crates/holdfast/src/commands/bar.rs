//! How far long work is, for who watches.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const WIDTH: usize = 30;

/// A line on the terminal that fills. Silent where nobody watches.
pub(super) struct Bar {
    what: &'static str,
    shown: Option<Instant>,
    watched: bool,
}

impl Bar {
    pub(super) fn new(what: &'static str) -> Bar {
        Bar { what, shown: None, watched: std::io::stderr().is_terminal() }
    }

    pub(super) fn show(&mut self, done: u64, total: u64) {
        if !self.watched || self.shown.is_some_and(|shown| shown.elapsed() < LOOK_EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let percent = u128::from(done) * 100 / u128::from(total.max(1));
        let filled = usize::try_from(percent).unwrap_or(100).min(100) * WIDTH / 100;
        let bar = format!("{:<WIDTH$}", "#".repeat(filled));
        // A terminal that has gone is no reason to stop.
        let _: std::io::Result<()> = write!(std::io::stderr(), "\r{} [{bar}] {percent} %", self.what);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _: std::io::Result<()> =
                write!(std::io::stderr(), "\r{:WIDTH$}                         \r", "");
        }
    }
}
