//! The `holdfast` binary: everything it can do is a command in [`commands`].

mod commands;
mod config;
mod dfsp;
mod dry_run;
mod log_view;
mod remote;
mod why;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run()
}
