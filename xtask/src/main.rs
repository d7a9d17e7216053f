//! Every chore of development: `cargo xtask test`, `cargo xtask ci`, `cargo xtask generate`, `cargo xtask services`,
//! `cargo xtask soak`.
//!
//! Few and small dependencies, so that it builds in seconds on a bare machine.

mod clients;
mod generated;
mod rules;
mod services;
mod tools;

use std::env;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use services::ForTests;

/// kill -9 rounds of a soak; CI does five.
const SOAK_KILLS: &str = "200";
/// Simulator seeds of a soak; CI does ten thousand.
const SOAK_SEEDS: &str = "0..100000";

/// How long three nodes endure faults at random in a soak; CI goes through each fault once.
const SOAK_CLUSTER_SECONDS: &str = "3600";

/// Tests of one binary at a time: most wait for a disk, a lease or a process and not for a processor. Those that do not bear it
/// take turns by themselves.
const TEST_THREADS: (&str, &str) = ("RUST_TEST_THREADS", "4");

const USAGE: &str = "cargo xtask <chore>

  test      all tests, against a real PostgreSQL and Kafka, and the faults planted for the simulator
  ci        house rules, format, clippy and rustdoc with warnings denied, generated files, then all of test
  clients   only this part of test: clients made from docs/openapi.json in Go, Java, Python and TypeScript, and compiled
  generate  write docs/openapi.json and the settings in docs/configuration.md
  services  start, stop and restart that PostgreSQL and that Kafka: cargo xtask services shows how
  soak      what takes long: many kills of the real binary, many simulator seeds, an hour of faults on three nodes";

fn main() -> ExitCode {
    let chore = env::args().nth(1);
    let done = match chore.as_deref() {
        Some("test") => test(),
        Some("ci") => {
            let checks = [rules::check, format, clippy, docs, build_tests, generated::check, test];
            checks.iter().try_for_each(|check| check())
        }
        Some("clients") => clients::check(),
        Some("generate") => generated::write(),
        Some("services") => services::services(&env::args().skip(2).collect::<Vec<_>>()),
        Some("soak") => soak(),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn format() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"], &[])
}

fn clippy() -> Result<(), String> {
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"], &[])?;
    let planted = ["--package", "holdfast-sim", "--all-targets", "--features", "planted-bugs", "--locked"];
    cargo(&[&["clippy"], &planted[..], &["--", "--deny", "warnings"]].concat(), &[])
}

fn docs() -> Result<(), String> {
    cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"], &[("RUSTDOCFLAGS", "--deny warnings")])
}

/// All that is tested, compiled, the program with it.
fn build_tests() -> Result<(), String> {
    cargo(&["test", "--workspace", "--locked", "--no-run", "--quiet"], &[])
}

fn test() -> Result<(), String> {
    clients::check()?;
    let services = ForTests::up()?;
    let mut variables: Vec<_> = services.variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    if env::var_os(TEST_THREADS.0).is_none() {
        variables.push(TEST_THREADS);
    }
    cargo(&["test", "--workspace", "--locked", "--no-fail-fast"], &variables)?;
    drop(services);
    // Planted faults change what the pure crates decide, so they are built apart from everything that is shipped. For the whole
    // workspace, so that foreign crates have the features they were built with before.
    let planted = ["test", "--workspace", "--features", "holdfast-sim/planted-bugs", "--test", "sim"];
    cargo(&[&planted[..], &["--locked", "planted"]].concat(), &[])
}

fn soak() -> Result<(), String> {
    let kills = ["test", "--release", "--package", "holdfast", "--locked", "kill_nine", "--", "--nocapture"];
    cargo(&kills, &[("HOLDFAST_KILLS", SOAK_KILLS)])?;
    let seeds = ["--seeds", SOAK_SEEDS, "--coverage"];
    cargo(&[&["run", "--release", "--package", "holdfast-sim", "--locked", "--"], &seeds[..]].concat(), &[])?;
    let services = ForTests::up()?;
    let mut variables: Vec<_> = services.variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    variables.push(("HOLDFAST_TEST_CLUSTER_SECONDS", SOAK_CLUSTER_SECONDS));
    let nodes = ["test", "--release", "--package", "holdfast", "--test", "database", "--locked", "--"];
    cargo(&[&nodes[..], &["faults_at_random", "--nocapture"]].concat(), &variables)
}

/// The root of the workspace.
fn root() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask lies in the workspace")?;
    Ok(root.to_owned())
}

/// Runs cargo at the root of the workspace and says what it does and how long it took.
fn cargo(arguments: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    run(arguments, variables, Stdio::inherit()).map(|_| ())
}

/// What cargo prints.
fn cargo_output(arguments: &[&str]) -> Result<String, String> {
    let printed = run(arguments, &[], Stdio::piped())?;
    String::from_utf8(printed).map_err(|_| format!("xtask: cargo {} prints no text", arguments.join(" ")))
}

fn run(arguments: &[&str], variables: &[(&str, &str)], stdout: Stdio) -> Result<Vec<u8>, String> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run_program(Path::new(&program), "cargo", arguments, variables, stdout)
}

/// Runs a program at the root of the workspace; gives back what it prints, if that is not shown.
fn run_program(
    program: &Path,
    name: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
    stdout: Stdio,
) -> Result<Vec<u8>, String> {
    let shown = format!("{name} {}", arguments.join(" "));
    eprintln!("xtask: {shown}");
    let started = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied()).current_dir(root()?).stdout(stdout);
    let done = command.spawn().and_then(|child| child.wait_with_output());
    let done = done.map_err(|error| format!("xtask: {shown} cannot be started: {error}"))?;
    eprintln!("xtask: {shown} took {} s", started.elapsed().as_secs());
    if done.status.success() {
        return Ok(done.stdout);
    }
    // Why it failed may stand in what was not shown; if even that cannot be shown, there is nobody to tell.
    let _ = io::stderr().write_all(&done.stdout);
    Err(format!("xtask: {shown} failed"))
}
