//! The `holdfast` binary: everything it can do is a command in [`commands`].

mod commands;
mod dry_run;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run()
}
