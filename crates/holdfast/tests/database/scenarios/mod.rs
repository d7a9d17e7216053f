//! The files of `scenarios/checkout`, played on three nodes of the real binary over Kafka and PostgreSQL. `holdfast dry-run` shows
//! that the rules are as written; this shows that consumers, outbox and rows keep them, for many at once that share topics,
//! partitions and batches. Every file has ids of its own here, so that they do not meet.
//!
//! The cases of a side and those of the order consumer need other roles, so each kind has a world: `sides`, `orders`. Both
//! compare all that a file expects: rows, balances, messages in the order of each topic, and alarms. Two things are otherwise in
//! the database profile than in a dry run, and only these:
//!
//! - A message of another topic cannot be read as one of this topic: it becomes a dead letter in place of the alarm `misplaced`.
//! - What the order consumer says comes back to it by `outcomes`, whether the file has it there or not.

mod cast;
mod log;
mod orders;
mod sides;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::scenarios::Scenarios;

/// Who plays a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Side,
    Orders,
}

impl Kind {
    fn of(file: &Value) -> Option<Kind> {
        let case = &file["case"];
        match (case.get("participant"), case.get("coordinator")) {
            (Some(_), None) => Some(Kind::Side),
            (None, Some(_)) => Some(Kind::Orders),
            _ => None,
        }
    }
}

/// The files that are played by these.
fn played_by(kind: Kind) -> Vec<(String, Value)> {
    let mut files = Scenarios::of("checkout").good();
    files.retain(|(_, file)| Kind::of(file) == Some(kind));
    files
}

/// No file is passed over, and no name is left of one that is gone.
#[test]
fn every_scenario_is_played() {
    let all: BTreeSet<String> = Scenarios::of("checkout").good().into_iter().map(|(name, _)| name).collect();
    for (name, _) in orders::ALONE {
        assert!(all.contains(name), "{name} has a partition to itself and is not there");
    }
    let played = [Kind::Side, Kind::Orders].into_iter().flat_map(played_by);
    assert_eq!(played.map(|(name, _)| name).collect::<BTreeSet<String>>(), all);
}

/// What is not as it should be, all of it at once.
fn assert_none(wrong: &[String], of: usize) {
    assert!(wrong.is_empty(), "{} of {of} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    eprintln!("{of} scenarios");
}
