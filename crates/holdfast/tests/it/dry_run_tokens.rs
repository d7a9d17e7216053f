//! Every file of `scenarios/tokens` is a promise about `holdfast dry-run tokens`, kept by the real binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::server::{binary, folder};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/tokens")
}

/// The JSON files of a folder, by name.
fn files(folder: &Path) -> Vec<(String, Value)> {
    let mut files: Vec<(String, Value)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let file = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, file)
        })
        .collect();
    files.sort_by(|left, right| left.0.cmp(&right.0));
    files
}

fn dry_run(file: &str, input: &str) -> Output {
    let mut child = binary()
        .args(["dry-run", "tokens", file])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A run that does not get as far as its input closes the pipe; its exit code and output tell.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn every_scenario_comes_out_as_written() {
    let scenarios = files(&scenarios());
    assert!(scenarios.len() >= 70, "only {} scenarios were found", scenarios.len());
    let mut wrong = Vec::new();
    for (name, file) in &scenarios {
        assert!(file["why"].as_str().is_some_and(|why| !why.is_empty()), "{name} does not say why");
        let output = dry_run("-", &file["case"].to_string());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        if output.status.code() != Some(0) || answer != file["expect"] {
            let stderr = String::from_utf8_lossy(&output.stderr);
            wrong
                .push(format!("{name}: {}\n  was {answer}\n  not {}\n{stderr}", file["why"], file["expect"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), scenarios.len(), wrong.join("\n"));
}

#[test]
fn every_bad_case_is_refused_with_its_reason() {
    let cases = files(&scenarios().join("bad"));
    assert!(cases.len() >= 60, "only {} bad cases were found", cases.len());
    for (name, file) in &cases {
        let input = match file["input_text"].as_str() {
            Some(text) => text.to_owned(),
            None => file["case"].to_string(),
        };
        let (output, reason) = (dry_run("-", &input), file["stderr_contains"].as_str().unwrap());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
        assert_eq!(output.stdout, b"", "{name}");
        assert!(stderr.contains(reason), "{name}: '{reason}' is not in: {stderr}");
    }
}

/// Each refusal that a selection can get from a vault at rest, and each policy, has a scenario.
#[test]
fn the_scenarios_cover_what_a_select_can_answer() {
    let scenarios = files(&scenarios());
    let answers = |kind: &str| scenarios.iter().any(|(_, file)| file["expect"]["type"] == kind);
    for name in [
        "insufficient-funds",
        "funds-locked",
        "no-exact-match",
        "too-many-inputs",
        "spender-in-use",
        "invalid",
    ] {
        assert!(answers(&format!("/problems/{name}")), "{name}");
    }
    let asks = |policy: &str| scenarios.iter().any(|(_, file)| file["case"]["select"]["policy"] == policy);
    for policy in ["fewest-inputs", "no-change", "consolidate", "random"] {
        assert!(asks(policy), "{policy}");
    }
}

/// The same case has the same answer, byte for byte, also where chance decides; fields come as HTTP has them.
#[test]
fn a_case_has_one_answer() {
    let (_, file) =
        files(&scenarios()).into_iter().find(|(name, _)| name == "policy-random-with-a-seed").unwrap();
    let folder = folder();
    let path = folder.path().join("case.json");
    std::fs::write(&path, file["case"].to_string()).unwrap();
    let first = dry_run(path.to_str().unwrap(), "");
    for _ in 0..5 {
        assert_eq!(dry_run("-", &file["case"].to_string()).stdout, first.stdout);
    }
    let text: String = String::from_utf8(first.stdout).unwrap().split_whitespace().collect();
    assert_eq!(
        text,
        concat!(
            r#"{"spender":"p1","tokens":[{"id":"t20","quantity":"20","wallet":"alice","type":"token","currency":"EUR"}],"#,
            r#""sum":"20","change":"5","expiresAt":"2025-11-15T09:47:40.000Z","fence":"1"}"#,
        )
    );
    let missing = dry_run(folder.path().join("missing.json").to_str().unwrap(), "");
    assert_eq!(missing.status.code(), Some(2));
}
