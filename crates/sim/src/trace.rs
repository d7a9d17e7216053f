//! The trace of a run: every event as a line of text, hashed as it comes. Two runs of one seed have the same hash,
//! or the simulator itself is broken.

use std::fmt::{self, Write};

/// Collects events.
#[derive(Debug)]
pub struct Trace {
    hasher: blake3::Hasher,
    line: String,
    kept: Option<Vec<String>>,
}

impl Trace {
    /// An empty trace; the lines themselves are kept only if somebody wants to read them.
    pub fn new(keep_lines: bool) -> Trace {
        Trace {
            hasher: blake3::Hasher::new(),
            line: String::with_capacity(256),
            kept: keep_lines.then(Vec::new),
        }
    }

    /// Takes an event in.
    pub fn note(&mut self, event: fmt::Arguments<'_>) {
        self.line.clear();
        self.line.write_fmt(event).expect("a string takes everything");
        self.line.push('\n');
        self.hasher.update(self.line.as_bytes());
        if let Some(kept) = &mut self.kept {
            kept.push(self.line.trim_end().to_owned());
        }
    }

    /// Takes bytes in that nobody wants to read.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// The hash over all events, and the lines if they were kept.
    pub fn finish(self) -> ([u8; 32], Vec<String>) {
        (*self.hasher.finalize().as_bytes(), self.kept.unwrap_or_default())
    }
}
