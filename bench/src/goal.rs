//! A figure that has to be reached, held against what was found.

use std::fmt;

use comfy_table::CellAlignment;
use serde::Serialize;

use crate::table::{new_table, thousands};

/// What has to be reached, and perhaps what is aimed at beyond it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Goal {
    pub what: &'static str,
    pub must: String,
    pub aim: Option<String>,
    pub found: String,
    pub holds: bool,
    /// Whether what is aimed at was reached.
    pub reached: Option<bool>,
}

impl Goal {
    /// At least so many in a second.
    pub(crate) fn per_second(what: &'static str, found: f64, (must, aim): (f64, f64)) -> Goal {
        Goal {
            what,
            must: format!("{}/s", thousands(must)),
            aim: Some(format!("{}/s", thousands(aim))),
            found: format!("{}/s", thousands(found)),
            holds: found >= must,
            reached: Some(found >= aim),
        }
    }

    /// A p99 below so many milliseconds. Nothing measured is nothing reached.
    pub(crate) fn p99_under(what: &'static str, max_ms: u64, found_us: u64) -> Goal {
        Goal {
            what,
            must: format!("under {max_ms} ms"),
            aim: None,
            found: format!("{}.{} ms", found_us / 1_000, found_us % 1_000 / 100),
            holds: found_us > 0 && found_us < max_ms * 1_000,
            reached: None,
        }
    }

    /// How it went, in one word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match (self.holds, self.reached) {
            (false, _) => "MISSED",
            (true, Some(true)) => "aim reached",
            (true, _) => "holds",
        }
    }
}

/// All goals, for people.
pub(crate) fn write_goals(f: &mut fmt::Formatter<'_>, goals: &[Goal]) -> fmt::Result {
    let mut table = new_table(&["goal", "must", "aim", "found", ""]);
    table.column_iter_mut().for_each(|column| {
        column.set_cell_alignment(CellAlignment::Left);
    });
    for goal in goals {
        let aim = goal.aim.as_deref().unwrap_or("");
        table.add_row([goal.what, &goal.must, aim, &goal.found, goal.word()]);
    }
    writeln!(f, "\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn musts_and_aims_are_told_apart() {
        let words = |found| Goal::per_second("x", found, (4_000.0, 7_000.0)).word();
        assert_eq!((words(3_999.0), words(4_000.0), words(7_000.0)), ("MISSED", "holds", "aim reached"));
    }

    #[test]
    fn a_latency_that_was_not_measured_holds_nothing() {
        let words = |micros| Goal::p99_under("x", 250, micros).word();
        assert_eq!((words(0), words(249_999), words(250_000)), ("MISSED", "holds", "MISSED"));
        assert_eq!(Goal::p99_under("x", 250, 123_456).found, "123.4 ms");
    }
}
