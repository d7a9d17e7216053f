//! The `holdfast` binary: everything it can do is a command in [`commands`].

mod commands;
mod config;
mod dfsp;
mod dry_run;
mod log_view;
mod remote;
mod why;

use std::process::ExitCode;

/// Payments are made on one thread, decided on another and answered on a third: the system's allocator makes them wait for
/// each other's locks. What others cost stands in docs/decisions/0013.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    commands::run()
}
