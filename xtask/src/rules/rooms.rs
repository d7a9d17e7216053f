//! Which crate may know which. `crates/rooms.toml` says it; a crate that is missing there, or that depends on more than it may,
//! is a breach. What only tests of a crate use stands apart, since it reaches no user.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use toml::Table;

use super::rules;
use crate::root;
use crate::tools::read;

/// The file with the rules.
const RULES: &str = "crates/rooms.toml";
/// The folder of the one crate beside the others.
const BENCH: &str = "bench";
/// How the names of our own crates begin.
const OWN: &str = "holdfast-";

/// What a crate may know, by the short names of rooms.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Room {
    /// Other crates of ours that it may use.
    knows: BTreeSet<String>,
    /// Those that its tests may use beside them.
    #[serde(default)]
    tests: BTreeSet<String>,
}

/// Every breach, one sentence each.
pub(super) fn breaches() -> Result<Vec<String>, String> {
    let rooms: BTreeMap<String, Room> = rules(RULES)?;
    let mut breaches = Vec::new();
    let mut seen = BTreeSet::new();
    let crates = fs::read_dir(root()?.join("crates"));
    let crates = crates.map_err(|error| format!("xtask: cannot list crates: {error}"))?;
    let folders = crates.filter_map(Result::ok).map(|folder| folder.path());
    for folder in folders.chain([root()?.join(BENCH)]) {
        let manifest = folder.join("Cargo.toml");
        if let Some(name) = folder.file_name().filter(|_| manifest.is_file()) {
            let name = name.to_string_lossy().into_owned();
            breaches.extend(of_room(&name, &manifest, rooms.get(&name))?);
            seen.insert(name);
        }
    }
    let gone = rooms.keys().filter(|name| !seen.contains(*name));
    breaches.extend(gone.map(|name| format!("{RULES} names {name}, which is no crate")));
    breaches.sort();
    Ok(breaches)
}

fn of_room(name: &str, manifest: &Path, room: Option<&Room>) -> Result<Vec<String>, String> {
    let Some(room) = room else {
        return Ok(vec![format!("{RULES} does not say what {name} may know")]);
    };
    let manifest: Table =
        toml::from_str(&read(manifest)?).map_err(|error| format!("xtask: {name}: {error}"))?;
    let used = own(&manifest, "dependencies");
    let tested = own(&manifest, "dev-dependencies");
    let more = used.difference(&room.knows);
    let mut breaches: Vec<_> = more.map(|other| format!("{name} may not know {other} ({RULES})")).collect();
    let more = tested.iter().filter(|other| !room.knows.contains(*other) && !room.tests.contains(*other));
    breaches.extend(more.map(|other| format!("tests of {name} may not know {other} ({RULES})")));
    let unused = room.knows.difference(&used);
    breaches.extend(unused.map(|other| format!("{RULES} lets {name} know {other}, which it does not use")));
    Ok(breaches)
}

/// The rooms that a table of dependencies names.
fn own(manifest: &Table, kind: &str) -> BTreeSet<String> {
    let table = manifest.get(kind).and_then(|table| table.as_table());
    let names = table.into_iter().flat_map(Table::keys);
    names.filter_map(|name| name.strip_prefix(OWN)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_knows_more_than_it_may_is_named() -> Result<(), String> {
        let manifest = root()?.join("crates/hub/Cargo.toml");
        let little = Room { knows: BTreeSet::from(["domain".to_owned()]), tests: BTreeSet::new() };
        let breaches = of_room("hub", &manifest, Some(&little))?;
        assert!(breaches.iter().any(|breach| breach.starts_with("hub may not know log")), "{breaches:?}");
        assert!(!breaches.iter().any(|breach| breach.contains("hub may not know domain")), "{breaches:?}");
        Ok(())
    }
}
