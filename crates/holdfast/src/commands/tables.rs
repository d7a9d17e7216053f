//! Tables for people, all alike, and how they get out.

use std::io::{ErrorKind, Write};

use anyhow::Context;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::Output;

/// A table whose columns named in `numbers` are aligned to the right.
pub(super) fn table(header: &[&str], numbers: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header.to_vec());
    for (column, name) in table.column_iter_mut().zip(header) {
        if numbers.contains(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Writes text and a line's end to standard output. A reader that has seen enough (`| head`) is no failure.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// The hub's answer for programs, as it came.
pub(super) fn print_json(body: &[u8]) -> anyhow::Result<()> {
    print(String::from_utf8_lossy(body).trim_end())
}

/// A value as JSON for programs, or what is told of it to people.
pub(super) fn print_as(
    output: Output,
    value: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match output {
        Output::Json => print(&serde_json::to_string_pretty(value)?),
        Output::Text => print(&text()),
    }
}
