//! Rules that a machine keeps: what the program may be made of (`deny`, held against `deny.toml`) and which room may know
//! which (`rooms`, held against `crates/rooms.toml`).

mod deny;
mod rooms;

use serde::de::DeserializeOwned;

use crate::root;
use crate::tools::read;

/// Fails with every breach of either rule.
pub(crate) fn check() -> Result<(), String> {
    let breaches = [deny::breaches()?, rooms::breaches()?].concat();
    if breaches.is_empty() {
        return Ok(());
    }
    Err(format!("xtask: house rules are broken:\n  {}", breaches.join("\n  ")))
}

/// A file of rules, by its path from the root.
fn rules<T: DeserializeOwned>(path: &str) -> Result<T, String> {
    toml::from_str(&read(&root()?.join(path))?).map_err(|error| format!("xtask: {path}: {error}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_house_rules_are_kept() {
        assert_eq!(super::check(), Ok(()));
    }
}
