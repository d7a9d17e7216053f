//! Helper programs and files, with errors that name them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Runs a helper program to its end; what it printed is shown only if it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let done =
        command.output().map_err(|error| format!("xtask: cannot start {}: {error}", shown(command)))?;
    if done.status.success() {
        return Ok(());
    }
    let printed = [done.stdout, done.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    Err(format!("xtask: {} failed ({}):\n{}", shown(command), done.status, printed.trim_end()))
}

/// What a command is called.
pub(crate) fn shown(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// A program in PATH.
pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Has Maven fetch what a POM names.
pub(crate) fn copy_dependencies(pom: &Path, to: &Path, more: &[&str]) -> Result<(), String> {
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--quiet", "--file"]).arg(pom).arg("dependency:copy-dependencies");
    run(maven.args(more).arg(format!("-DoutputDirectory={}", to.display())))
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("xtask: cannot read {}: {error}", path.display()))
}

/// Replaces the text of a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("xtask: cannot write {}: {error}", path.display()))
}

/// What is complete gets its name.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to).map_err(|error| format!("xtask: cannot rename {}: {error}", from.display()))
}

/// Removes a folder that may not be there.
pub(crate) fn remove(dir: &Path) -> Result<(), String> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("xtask: cannot remove {}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}
