//! Settings through the binary: layers, refusals, what is printed, and what a hub makes of them.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::http::exchange;
use crate::support::server::{Server, any_port, binary, folder, run};

/// `holdfast config`, in a folder of its own and with nothing of ours in the environment.
fn config(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command: Command = binary();
    for (name, _) in std::env::vars() {
        if name.starts_with("HOLDFAST_") {
            command.env_remove(name);
        }
    }
    command.arg("config").args(arguments).envs(variables.iter().copied()).current_dir(folder);
    command.output().expect("the binary runs")
}

fn as_json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_defaults() {
    let folder = folder();
    std::fs::write(
        folder.path().join("holdfast.toml"),
        "listen = '127.0.0.1:1'\ndata = 'in-file'\n[clock]\njump_max = 1_000\n",
    )
    .unwrap();
    let environment = [("HOLDFAST_LISTEN", "127.0.0.1:2"), ("HOLDFAST_CLOCK_JUMP_MAX", "2000")];
    let flags = ["--output", "json", "--set", "clock.jump_max=3000", "--position-order", "smallest"];
    let all = as_json(&config(folder.path(), &environment, &flags));
    assert_eq!(all["clock.jump_max"], json!({"value": 3000, "from": "flag --set clock.jump_max"}));
    assert_eq!(all["position.order"], json!({"value": "smallest", "from": "flag --position-order"}));
    assert_eq!(all["listen"], json!({"value": "127.0.0.1:2", "from": "environment HOLDFAST_LISTEN"}));
    assert_eq!(all["data"], json!({"value": "in-file", "from": "file holdfast.toml"}));
    assert_eq!(all["tls.key"], json!({"value": null, "from": "default"}));

    std::fs::write(folder.path().join("other.toml"), "data = 'elsewhere'").unwrap();
    let all = as_json(&config(folder.path(), &[], &["--config", "other.toml", "--output", "json"]));
    assert_eq!(all["data"]["value"], "elsewhere", "the file that is named, and not the other");
    assert_eq!(all["listen"]["from"], "default");
    let text = String::from_utf8(config(folder.path(), &[], &[]).stdout).unwrap();
    assert!(
        text.lines().any(|line| line.starts_with("data ") && line.ends_with("file holdfast.toml")),
        "{text}"
    );
}

/// A file, an environment and flags, and what must be said about them.
type Refused =
    (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str], &'static [&'static str]);

#[test]
fn what_is_unknown_or_wrong_is_refused_with_a_reason() {
    let folder = folder();
    let file = folder.path().join("holdfast.toml");
    let cases: [Refused; 7] = [
        (
            "[intake]\nrecord_max = 1",
            &[],
            &[],
            &["holdfast.toml", "'intake.record_max'", "'intake.records_max'"],
        ),
        ("listne = 'x'", &[], &[], &["'listne'", "'listen'"]),
        ("", &[("HOLDFAST_DAAT", "x")], &[], &["HOLDFAST_DAAT", "HOLDFAST_DATA"]),
        ("", &[], &["--set", "clock.jump=1"], &["clock.jump", "'clock.jump_max'"]),
        ("", &[], &["--set", "clock.jump_max=soon"], &["'soon'", "whole number from 1"]),
        ("", &[], &["--tls-key", "k.pem"], &["go together"]),
        ("", &[], &["--config", "none.toml"], &["cannot read none.toml"]),
    ];
    for (text, variables, flags, reasons) in cases {
        std::fs::write(&file, text).unwrap();
        let output = config(folder.path(), variables, flags);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        for reason in reasons {
            assert!(said.contains(reason), "'{reason}' is missing in: {said}");
        }
    }
}

#[test]
fn the_defaults_are_a_file_that_can_be_used_and_stand_in_the_docs() {
    let folder = folder();
    let defaults = String::from_utf8(config(folder.path(), &[], &["--defaults"]).stdout).unwrap();
    std::fs::write(folder.path().join("all.toml"), &defaults).unwrap();
    let values = |output: &Output| -> Vec<Value> {
        as_json(output).as_object().unwrap().values().map(|setting| setting["value"].clone()).collect()
    };
    let with = values(&config(folder.path(), &[], &["--config", "all.toml", "--output", "json"]));
    assert_eq!(with, values(&config(folder.path(), &[], &["--output", "json"])));
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    assert!(
        docs.contains(&format!("```toml\n{defaults}```\n")),
        "docs/configuration.md is old: cargo xtask generate"
    );
}

#[test]
fn a_rate_that_is_set_is_kept() {
    let folder = folder();
    let mut command = Server::command(folder.path(), any_port());
    command.args(["--set", "rate.per_second=1", "--set", "rate.burst=3"]);
    let server = Server::launch(&mut command);
    let answers: Vec<_> = (0..8).map(|_| exchange(&server, "GET", "/hub/stats", "", b"")).collect();
    assert!(answers[..3].iter().all(|answer| answer.status == 200), "the burst");
    let refused = answers.iter().find(|answer| answer.status == 429).expect("more than the burst");
    assert_eq!(refused.refusal(), (429, "2005".to_owned()));
    assert!(refused.head.to_lowercase().contains("retry-after: 1"), "{}", refused.head);
    server.stop();
}

#[test]
fn settings_reach_the_hub() {
    let folder = folder();
    let data = folder.path().join("chosen");
    let file = folder.path().join("hub.toml");
    let text = format!("listen = '127.0.0.1:0'\ndata = '{}'\ntrace = 'warn'\n", data.display());
    std::fs::write(&file, text).unwrap();
    let mut command = binary();
    command.args(["serve", "--config", file.to_str().unwrap()]);
    let server = Server::launch(&mut command);
    assert_eq!(exchange(&server, "GET", "/health", "", b"").status, 200);
    server.stop();
    assert!(data.join("log").is_dir());
    let bad = run(&["serve", "--config", file.to_str().unwrap(), "--set", "trace=holdfast_api=loud"]);
    assert_eq!(bad.status.code(), Some(2), "{}", String::from_utf8_lossy(&bad.stderr));
}
