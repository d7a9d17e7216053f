//! Debian's packages, for a machine that has none of the programs yet.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::process::is_root;
use crate::tools::{run, write};

/// Installs a package when root may; otherwise says what to do.
pub(super) fn install(what: &str, package: &str, variable: &str) -> Result<(), String> {
    let advice = format!(
        "xtask: {what} is not on this machine: install Debian's package {package} \
         (apt-get install {package}), or set {variable} to a server of your own"
    );
    if !is_root()? || !Path::new("/usr/bin/apt-get").is_file() {
        return Err(advice);
    }
    eprintln!("xtask: installing Debian's package {package}");
    apt_get(&["update"])
        .and_then(|()| apt_get(&["install", package]))
        .map_err(|reason| format!("{reason}\n{advice}"))
}

/// The second shell in which the pages' blocks are run. Without it they are run in bash twice, so nothing fails for want of it.
pub(super) fn install_zsh() {
    let is_here = Command::new("zsh").arg("--version").stdout(Stdio::null()).status();
    if is_here.is_ok_and(|status| status.success()) || !matches!(is_root(), Ok(true)) {
        return;
    }
    eprintln!("xtask: installing Debian's package zsh");
    // Without a look for newer lists, and without patience: a machine that reaches no mirror loses seconds.
    let soon = ["--option", "Acquire::Retries=0", "--option", "Acquire::http::Timeout=10"];
    if let Err(reason) = apt_get(&[&["install", "zsh"][..], &soon].concat()) {
        eprintln!("{reason}\nxtask: the blocks of README.md are run in bash alone");
    }
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    // A settings file that is already there stays: see `keep_debian_from_a_cluster`.
    command.args(["--yes", "--quiet", "--no-install-recommends"]);
    command.args(["--option", "Dpkg::Options::=--force-confold"]);
    run(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Debian's package makes a cluster of its own and starts it, unless its settings say no.
pub(super) fn keep_debian_from_a_cluster() -> Result<(), String> {
    let dir = Path::new("/etc/postgresql-common");
    let settings = dir.join("createcluster.conf");
    if settings.exists() || !is_root()? {
        return Ok(());
    }
    fs::create_dir_all(dir).map_err(|error| format!("xtask: cannot make {}: {error}", dir.display()))?;
    write(&settings, "create_main_cluster = false\n")
}
