//! `holdfast openapi`: the document that the hub serves at /openapi.json.

use std::io::Write;

use anyhow::Context;

/// Print the OpenAPI document of this version, as docs/openapi.json keeps it.
#[derive(Debug, clap::Args)]
pub(super) struct OpenApi {}

impl OpenApi {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let document = format!("{:#}\n", holdfast_api::openapi::document());
        std::io::stdout().write_all(document.as_bytes()).context("cannot write to standard output")
    }
}
