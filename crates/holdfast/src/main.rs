//! The `holdfast` binary: everything it can do is a command in [`commands`].

mod commands;
mod dry_run;
mod log_view;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run()
}
