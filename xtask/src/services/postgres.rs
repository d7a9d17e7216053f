//! PostgreSQL from Debian's package, with data of its own, on a loopback port and without a socket file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::install::{install, keep_debian_from_a_cluster};
use super::process::{Mark, ServiceFolder};
use super::{POSTGRES_VARIABLE, Service};
use crate::tools::{in_path, remove, rename, run};

/// The superuser and the database. Everyone on this machine may log in without a password.
const NAME: &str = "holdfast";
/// Where Debian puts the programs, one folder per version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Of postmaster.pid, counted from zero.
const STATUS_LINE: usize = 7;
const SETTINGS: [&str; 11] = [
    "listen_addresses=127.0.0.1",
    // The path of a socket has a length limit that a deep work tree would pass.
    "unix_socket_directories=",
    // What is acknowledged is on disk: tests kill the server and look.
    "fsync=on",
    "synchronous_commit=on",
    // After a crash: one call for the file system instead of one for each of a thousand files.
    "recovery_init_sync_method=syncfs",
    "wal_level=replica",
    "max_wal_size=2GB",
    "wal_compression=lz4",
    "max_connections=400",
    "shared_buffers=256MB",
    "log_line_prefix=%m [%p] ",
];

pub(super) static POSTGRES: Service = Service {
    name: "postgres",
    port_names: &["port"],
    address: |port| ("url", url(port)),
    variable: |port| (POSTGRES_VARIABLE, url(port)),
    client: |_| None,
    setting: "HOLDFAST_STORE",
    mark: |place| Mark { program: "postgres", argument: place.data() },
    // Fast shutdown: sessions are cut, what is committed is kept.
    stop_signal: "INT",
    prepare,
    command,
    is_ready,
    // After a kill -9 the sessions live on for a moment, and a new server refuses to join them.
    passes: |log| {
        log.contains("is still in use") || log.contains("lock file \"postmaster.pid\" already exists")
    },
};

fn url(port: u16) -> String {
    format!("postgres://{NAME}@127.0.0.1:{port}/{NAME}")
}

/// The data appears under its name only when it is complete, so that an interrupted first start is simply repeated.
fn prepare(place: &ServiceFolder) -> Result<(), String> {
    if programs().is_none() {
        keep_debian_from_a_cluster()?;
        install("PostgreSQL", "postgresql", POSTGRES_VARIABLE)?;
    }
    let programs = programs()
        .ok_or_else(|| format!("xtask: package postgresql is there, but no initdb in {DEBIAN}/*/bin"))?;
    if place.data().exists() {
        return Ok(());
    }
    let new = place.dir.join("data.new");
    remove(&new)?;
    let mut initdb = place.command(programs.join("initdb"));
    initdb.arg("--pgdata").arg(&new).args(["--username", NAME, "--auth", "trust"]);
    run(initdb.args(["--encoding", "UTF8", "--locale", "C"]))?;
    create_database(&programs, place, &new)?;
    rename(&new, &place.data())
}

fn command(place: &ServiceFolder, ports: &[u16]) -> Result<Command, String> {
    let programs = programs().ok_or("xtask: PostgreSQL's programs are gone")?;
    let mut postgres = place.command(programs.join("postgres"));
    postgres.arg("-D").arg(place.data()).args(["-p", &ports[0].to_string()]);
    for setting in SETTINGS {
        postgres.args(["-c", setting]);
    }
    Ok(postgres)
}

fn is_ready(place: &ServiceFolder, ports: &[u16]) -> bool {
    // The server's own word first: every question that comes too early is a line in its log.
    let status = fs::read_to_string(place.data().join("postmaster.pid")).unwrap_or_default();
    let says_ready = status.lines().nth(STATUS_LINE).is_some_and(|line| line.trim_end() == "ready");
    let Some(programs) = programs().filter(|_| says_ready) else { return false };
    let mut ready = place.command(programs.join("pg_isready"));
    ready.args(["-q", "-h", "127.0.0.1", "-U", NAME, "-d", NAME, "-p", &ports[0].to_string()]);
    ready.status().is_ok_and(|status| status.success())
}

/// The folder of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().filter_map(Result::ok);
    let versions = versions.map(|entry| entry.path()).filter(|dir| dir.join("bin/initdb").is_file());
    let debian = versions.max_by_key(|dir| version(dir)).map(|dir| dir.join("bin"));
    debian.or_else(|| in_path("initdb")?.canonicalize().ok()?.parent().map(Path::to_owned))
}

fn version(dir: &Path) -> u32 {
    dir.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0)
}

/// Before the first start, in the mode that needs no port.
fn create_database(programs: &Path, place: &ServiceFolder, data: &Path) -> Result<(), String> {
    let mut single = place.command(programs.join("postgres"));
    single.args(["--single", "-D"]).arg(data).arg("postgres").stdin(Stdio::piped());
    single.stdout(Stdio::null()).stderr(Stdio::piped());
    let done = single.spawn().and_then(|mut child| {
        if let Some(mut input) = child.stdin.take() {
            writeln!(input, "CREATE DATABASE {NAME} OWNER {NAME};")?;
        }
        child.wait_with_output()
    });
    let done = done.map_err(|error| format!("xtask: cannot start postgres --single: {error}"))?;
    let printed = String::from_utf8_lossy(&done.stderr);
    // Single-user mode ends well even if the statement failed.
    if done.status.success() && !printed.contains("ERROR") {
        return Ok(());
    }
    Err(format!("xtask: cannot create database {NAME}:\n{}", printed.trim_end()))
}
