//! Every file of `scenarios/position` is a promise about `holdfast dry-run position`, kept by the real binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/position")
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

fn holdfast(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A run that does not get as far as its input closes the pipe; its exit code and output tell.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn dry_run(input: &str) -> Output {
    holdfast(&["dry-run", "position", "-"], input)
}

/// Nothing on standard output, a reason on standard error, exit code 2.
fn assert_refused(name: &str, output: &Output, reason: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
    assert_eq!(output.stdout, b"", "{name}");
    assert!(stderr.contains(reason), "{name}: '{reason}' is not in: {stderr}");
}

#[test]
fn every_scenario_comes_out_as_written() {
    let scenarios = files(&scenarios());
    assert!(scenarios.len() >= 45, "only {} scenarios were found", scenarios.len());
    let mut wrong = Vec::new();
    for (name, file) in &scenarios {
        assert!(file["why"].as_str().is_some_and(|why| !why.is_empty()), "{name} does not say why");
        let output = dry_run(&file["case"].to_string());
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
    assert!(cases.len() >= 30, "only {} bad cases were found", cases.len());
    for (name, file) in &cases {
        let input = match file["input_text"].as_str() {
            Some(text) => text.to_owned(),
            None => file["case"].to_string(),
        };
        assert_refused(name, &dry_run(&input), file["stderr_contains"].as_str().unwrap());
    }
}

#[test]
fn fields_come_in_the_order_of_the_contract() {
    let case = r#"{"accounts":[{"account":"7","position":"5","reserved":"0","settlement_position":"-9","net_debit_cap":null}],
        "messages":[{"action":"abort","account":"7","transfer":"t1","amount":"5","state_before":"RESERVED"},
                    {"action":"prepare","account":"7","transfer":"t2","amount":"1","state_before":"RECEIVED_PREPARE"}]}"#;
    let output = dry_run(case);
    let text: String = String::from_utf8(output.stdout).unwrap().split_whitespace().collect();
    assert_eq!(
        text,
        concat!(
            r#"{"results":[{"transfer":"t1","action":"abort","state":"RESERVED","error":"2001"},"#,
            r#"{"transfer":"t2","action":"prepare","state":"RESERVED","error":null}],"#,
            r#""accounts":[{"account":"7","position":"6"}],"#,
            r#""position_changes":[{"account":"7","transfer":"t2","change":"1","value":"6"}],"#,
            r#""notifications":[{"to":"payee","transfer":"t2","error":null}],"#,
            r#""dead_letters":[{"transfer":"t1","action":"abort","reason":"abortdoesnotfitthestateRESERVED"}]}"#,
        )
    );
}

#[test]
fn a_case_is_read_from_a_file_too() {
    let (_, scenario) = files(&scenarios()).into_iter().find(|(name, _)| name == "no-messages").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("case.json");
    std::fs::write(&path, scenario["case"].to_string()).unwrap();
    let output = holdfast(&["dry-run", "position", path.to_str().unwrap()], "");
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), scenario["expect"]);

    for output in ["text", "json"] {
        let same = holdfast(&["dry-run", "position", path.to_str().unwrap(), "--output", output], "");
        assert_eq!(serde_json::from_slice::<Value>(&same.stdout).unwrap(), scenario["expect"]);
    }

    let missing = folder.path().join("missing.json");
    let output = holdfast(&["dry-run", "position", missing.to_str().unwrap()], "");
    assert_refused("missing", &output, "missing.json");

    std::fs::write(&path, b"{\"accounts\":[],\"messages\":[]\xff}").unwrap();
    let output = holdfast(&["dry-run", "position", path.to_str().unwrap()], "");
    assert_refused("not UTF-8", &output, "UTF-8");
}

#[test]
fn a_command_line_that_makes_no_sense_exits_2() {
    assert_refused("no kind", &holdfast(&["dry-run"], ""), "<KIND>");
    assert_refused("no file", &holdfast(&["dry-run", "position"], ""), "<FILE>");
    assert_refused("unknown kind", &holdfast(&["dry-run", "weather", "-"], ""), "possible values: position");
}
