//! How far long work is, for who watches.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::figures::lock;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const WIDTH: usize = 30;

/// A line on the terminal that fills. Silent where nobody watches.
pub struct Bar {
    line: Mutex<Line>,
    watched: bool,
}

struct Line {
    what: String,
    done: u64,
    total: u64,
    shown: Option<Instant>,
}

impl Bar {
    /// A bar about that, which fills when it is shown how far the work is.
    pub fn new(what: &str) -> Bar {
        Bar::with(what, 0, true)
    }

    /// A bar of so many steps, which draws only between them: it takes nothing from what is measured.
    pub fn of(steps: u64) -> Bar {
        Bar::with("", steps, true)
    }

    /// A bar that nobody sees.
    pub fn hidden() -> Bar {
        Bar::with("", 0, false)
    }

    fn with(what: &str, total: u64, may_be_seen: bool) -> Bar {
        let line = Line { what: what.to_owned(), done: 0, total, shown: None };
        Bar { line: Mutex::new(line), watched: may_be_seen && std::io::stderr().is_terminal() }
    }

    /// Shows how far it is, not more often than it can be read.
    pub fn show(&self, done: u64, total: u64) {
        self.change(|line| (line.done, line.total) = (done, total), false);
    }

    /// Begins the next step: the one before is done.
    pub fn next(&self, what: impl Into<String>) {
        let begin = |line: &mut Line| {
            line.done += u64::from(line.shown.is_some());
            line.what = what.into();
        };
        self.change(begin, true);
    }

    /// Says how far the step is.
    pub fn say(&self, what: String) {
        self.change(|line| line.what = what, false);
    }

    fn change(&self, change: impl FnOnce(&mut Line), at_once: bool) {
        let mut line = lock(&self.line);
        change(&mut line);
        if self.watched && (at_once || line.shown.is_none_or(|shown| shown.elapsed() >= LOOK_EVERY)) {
            line.shown = Some(Instant::now());
            let percent = u128::from(line.done) * 100 / u128::from(line.total.max(1));
            let filled = usize::try_from(percent).unwrap_or(100).min(100) * WIDTH / 100;
            let bar = format!("{:<WIDTH$}", "#".repeat(filled));
            // A terminal that has gone is no reason to stop.
            let _: std::io::Result<()> =
                write!(std::io::stderr(), "\r{} [{bar}] {percent} % \x1b[K", line.what);
        }
    }

    /// Takes the line away, so that something else can be said.
    pub fn clear(&self) {
        let mut line = lock(&self.line);
        if line.shown.take().is_some() {
            let _: std::io::Result<()> = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}
