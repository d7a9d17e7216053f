//! One line for each message, as it happens.

use std::io::Write;

use serde_json::{Value, json};

use crate::log_view::time;

/// Writes to standard output. Lines of JSON, or lines for people.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Diary {
    json: bool,
}

/// Which way a message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the hub.
    In,
    /// To the hub.
    Out,
}

impl Diary {
    pub(crate) const fn new(json: bool) -> Diary {
        Diary { json }
    }

    /// A message, what it says in a few words, and its members for programs.
    pub(crate) fn message(self, way: Way, call: &str, words: &str, members: Value) {
        let at = time(super::messages::now());
        if self.json {
            let way = if way == Way::In { "in" } else { "out" };
            let mut line = json!({"at": at, "way": way, "call": call});
            if let (Value::Object(line), Value::Object(members)) = (&mut line, members) {
                line.extend(members);
            }
            return write_line(&line.to_string());
        }
        let arrow = if way == Way::In { "<-" } else { "->" };
        // The day is known to whoever watches.
        let clock = at.get(11..23).unwrap_or(&at);
        write_line(&format!("{clock} {arrow} {call}  {words}"));
    }

    /// Something worth knowing that is no message.
    pub(crate) fn note(self, words: &str) {
        if self.json {
            return write_line(&json!({"at": time(super::messages::now()), "note": words}).to_string());
        }
        write_line(words);
    }
}

/// A reader that has gone away does not stop the participant.
fn write_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _: std::io::Result<()> = writeln!(out, "{line}").and_then(|()| out.flush());
}
