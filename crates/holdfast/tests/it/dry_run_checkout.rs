//! Every file of `scenarios/checkout` is a promise about `holdfast dry-run checkout`, kept by the real
//! binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::server::{binary, folder};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/checkout")
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
        .args(["dry-run", "checkout", file])
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
    assert!(scenarios.len() >= 100, "only {} scenarios were found", scenarios.len());
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
    assert!(cases.len() >= 70, "only {} bad cases were found", cases.len());
    let mut wrong = Vec::new();
    for (name, file) in &cases {
        let input = match file["input_text"].as_str() {
            Some(text) => text.to_owned(),
            None => file["case"].to_string(),
        };
        let (output, reason) = (dry_run("-", &input), file["stderr_contains"].as_str().unwrap());
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(2) || !output.stdout.is_empty() || !stderr.contains(reason) {
            wrong.push(format!("{name}: {:?}, '{reason}' against: {stderr}", output.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Each message that a checkout can send, and each alarm that it can raise, has a scenario.
#[test]
fn the_scenarios_cover_what_a_checkout_can_say() {
    let scenarios = files(&scenarios());
    let says = |list: &str, part: &str, name: &str| {
        let expected = scenarios.iter().filter_map(|(_, file)| file["expect"][list].as_array());
        expected.flatten().any(|entry| entry.pointer(part).is_some_and(|said| said == name))
    };
    for name in ["psucc", "pfail", "csucc", "ssucc", "sfail", "asucc", "trsucc", "trfail", "can", "add"] {
        assert!(says("sent", "/value/type", name), "{name}");
    }
    for name in [
        "differs",
        "stuck",
        "misplaced",
        "unknown-order",
        "never-started",
        "other-value",
        "contradiction",
        "unasked",
        "offset-below-log",
        "offset-above-log",
    ] {
        assert!(says("alarms", "/alarm", name), "{name}");
    }
    for state in ["not_paid", "pending", "paid", "cancelling"] {
        assert!(says("orders", "/state", state), "{state}");
    }
}

/// The same case has the same answer, byte for byte; fields come in the order of the contract.
#[test]
fn a_case_has_one_answer() {
    let folder = folder();
    let path = folder.path().join("case.json");
    let text = |name: &str| {
        let (_, file) = files(&scenarios()).into_iter().find(|(file, _)| file == name).unwrap();
        std::fs::write(&path, file["case"].to_string()).unwrap();
        let first = dry_run(path.to_str().unwrap(), "");
        assert_eq!(dry_run("-", &file["case"].to_string()).stdout, first.stdout);
        String::from_utf8(first.stdout).unwrap().split_whitespace().collect::<String>()
    };
    assert_eq!(
        text("can-of-what-never-happened"),
        concat!(
            r#"{"rows":[{"order_id":"o1","tr_num":1,"rollback":true,"outcome":"csucc","value":null}],"users":{"u1":5},"#,
            r#""sent":[{"topic":"outcomes","key":{"order_id":"o1","tr_num":1},"#,
            r#""value":{"type":"csucc","user_id":"u1","amnt":3}}],"alarms":[]}"#,
        )
    );
    assert_eq!(
        text("both-fail"),
        concat!(
            r#"{"orders":[{"order_id":"o1","user_id":"u1","items":[{"id":"a","amnt":2},{"id":"b","amnt":1}],"#,
            r#""amount":3,"state":"not_paid","tr_num":1}],"sent":[{"topic":"outcomes","#,
            r#""key":{"order_id":"o1","tr_num":1},"value":{"type":"trfail"}}],"outcome_offset":0,"alarms":[]}"#,
        )
    );
    let missing = dry_run(folder.path().join("missing.json").to_str().unwrap(), "");
    assert_eq!(missing.status.code(), Some(2));
}
