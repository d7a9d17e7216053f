//! Files that the program itself can write. They are committed, so that a change of the API or of the settings shows
//! in review; CI fails where a file and the program differ.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{env, fs};

use crate::{cargo, root, run_program, tools};

/// A file, and what it should hold.
struct Generated {
    path: PathBuf,
    text: String,
}

/// Writes what is old.
pub(crate) fn write() -> Result<(), String> {
    cargo(&["build", "--package", "holdfast", "--locked", "--quiet"], &[])?;
    for Generated { path, text } in all()? {
        if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            tools::write(&path, &text)?;
            eprintln!("xtask: wrote {}", path.display());
        }
    }
    Ok(())
}

/// Fails if anything is old, by the program that was built last: that of the tests, since one apart from them would be
/// minutes of compiling.
pub(crate) fn check() -> Result<(), String> {
    for Generated { path, text } in all()? {
        if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            let path = path.display();
            return Err(format!("xtask: {path} is not what the program says: run cargo xtask generate"));
        }
    }
    Ok(())
}

fn all() -> Result<[Generated; 2], String> {
    let docs = root()?.join("docs");
    let openapi = Generated { path: docs.join("openapi.json"), text: holdfast(&["openapi"])? };
    let path = docs.join("configuration.md");
    let text = replace_block(&tools::read(&path)?, &holdfast(&["config", "--defaults"])?)
        .ok_or_else(|| format!("xtask: {} has no ```toml block", path.display()))?;
    Ok([openapi, Generated { path, text }])
}

fn holdfast(arguments: &[&str]) -> Result<String, String> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root()?.join("target"), PathBuf::from);
    let program: &Path = &target.join("debug/holdfast");
    let printed = run_program(program, "holdfast", arguments, &[], Stdio::piped())?;
    String::from_utf8(printed).map_err(|_| format!("xtask: holdfast {} prints no text", arguments.join(" ")))
}

/// The page with another first block of TOML.
fn replace_block(page: &str, toml: &str) -> Option<String> {
    const OPEN: &str = "```toml\n";
    let from = page.find(OPEN)? + OPEN.len();
    let to = from + page[from..].find("```")?;
    Some([&page[..from], toml, &page[to..]].concat())
}

#[cfg(test)]
mod tests {
    use super::replace_block;

    #[test]
    fn only_the_block_changes() {
        let page = "before\n```toml\nold = 1\n```\nafter\n```toml\nkept\n```\n";
        let changed = replace_block(page, "new = 2\n").unwrap();
        assert_eq!(changed, "before\n```toml\nnew = 2\n```\nafter\n```toml\nkept\n```\n");
        assert_eq!(replace_block("no block", ""), None);
    }
}
