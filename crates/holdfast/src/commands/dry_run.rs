//! `holdfast dry-run KIND FILE`: what would the rules do with this case? Nothing is read but the file, and
//! nothing is written but the answer.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::tables::print;
use super::{BadInput, Output};
use crate::dry_run;

/// Run the decisions on a case from a JSON file and print what they do, as JSON.
///
/// The same code decides in a running hub. Of a scenario (`{"why", "case", "expect"}`) the case is run. A bad file exits with 2 and prints nothing but its reason.
#[derive(Debug, clap::Args)]
pub(super) struct DryRun {
    /// Which decisions
    kind: Kind,
    /// The case; - reads it from standard input
    file: PathBuf,
    /// For people or for programs: the same JSON for both
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// One batch of the position step
    Position,
    /// One selection of tokens
    Tokens,
    /// Messages of the checkout saga
    Checkout,
}

impl DryRun {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let answer = self.answer().map_err(BadInput::from)?;
        match self.output {
            Output::Text | Output::Json => print(&format!("{answer:#}")),
        }
    }

    fn answer(&self) -> anyhow::Result<Value> {
        let name = match is_standard_input(&self.file) {
            true => "standard input".to_owned(),
            false => self.file.display().to_string(),
        };
        let text = read(&self.file).with_context(|| format!("cannot read {name}"))?;
        let case = unwrapped(&text);
        let answer = match self.kind {
            Kind::Position => dry_run::position(case),
            Kind::Tokens => dry_run::tokens(case),
            Kind::Checkout => dry_run::checkout(case),
        };
        answer.with_context(|| format!("{name} is not a case to run"))
    }
}

/// The case of a scenario, which no case has a field for; else the text as it is.
fn unwrapped(text: &str) -> &str {
    #[derive(Deserialize)]
    struct Scenario<'a> {
        #[serde(borrow)]
        case: &'a RawValue,
    }
    // What is derived for a struct would take a list too.
    let scenario = text.trim_start().starts_with('{').then(|| serde_json::from_str::<Scenario<'_>>(text));
    scenario.and_then(Result::ok).map_or(text, |scenario| scenario.case.get())
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn read(file: &Path) -> std::io::Result<String> {
    if !is_standard_input(file) {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::unwrapped;

    #[test]
    fn a_scenario_is_unwrapped_and_a_case_is_not() {
        assert_eq!(
            unwrapped(r#" {"why": "x", "case": {"a": 1, "a": 2}, "expect": {}}"#),
            r#"{"a": 1, "a": 2}"#
        );
        for other in
            [r#"{"participant": "pay"}"#, r#"[{"a": 1}]"#, "", "no JSON", r#"{"case": 1, "case": 2}"#]
        {
            assert_eq!(unwrapped(other), other);
        }
    }
}
