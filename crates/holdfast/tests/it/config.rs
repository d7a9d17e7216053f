//! Settings through the binary: layers, refusals, what is printed, and what a hub makes of them.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::command::{done, json_of, refused};
use crate::support::http::get;
use crate::support::server::{Server, any_port, binary, folder, path, run};

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
    let all = json_of(&config(folder.path(), &environment, &flags));
    assert_eq!(all["clock.jump_max"], json!({"value": 3000, "from": "flag --set clock.jump_max"}));
    assert_eq!(all["position.order"], json!({"value": "smallest", "from": "flag --position-order"}));
    assert_eq!(all["listen"], json!({"value": "127.0.0.1:2", "from": "environment HOLDFAST_LISTEN"}));
    assert_eq!(all["data"], json!({"value": "in-file", "from": "file holdfast.toml"}));
    assert_eq!(all["tls.key"], json!({"value": null, "from": "default"}));

    std::fs::write(folder.path().join("other.toml"), "data = 'elsewhere'").unwrap();
    let all = json_of(&config(folder.path(), &[], &["--config", "other.toml", "--output", "json"]));
    assert_eq!(all["data"]["value"], "elsewhere", "the file that is named, and not the other");
    assert_eq!(all["listen"]["from"], "default");
    let text = done(&config(folder.path(), &[], &[]));
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
    let unknown = &["holdfast.toml", "'intake.record_max'", "'intake.records_max'"];
    let cases: [Refused; 7] = [
        ("[intake]\nrecord_max = 1", &[], &[], unknown),
        ("listne = 'x'", &[], &[], &["'listne'", "'listen'"]),
        ("", &[("HOLDFAST_DAAT", "x")], &[], &["HOLDFAST_DAAT", "HOLDFAST_DATA"]),
        ("", &[], &["--set", "clock.jump=1"], &["clock.jump", "'clock.jump_max'"]),
        ("", &[], &["--set", "clock.jump_max=soon"], &["'soon'", "whole number from 1"]),
        ("", &[], &["--tls-key", "k.pem"], &["go together"]),
        ("", &[], &["--config", "none.toml"], &["cannot read none.toml"]),
    ];
    for (text, variables, flags, reasons) in cases {
        std::fs::write(&file, text).unwrap();
        refused(&config(folder.path(), variables, flags), 2, reasons);
    }
}

#[test]
fn the_defaults_are_a_file_that_can_be_used_and_stand_in_the_docs() {
    let folder = folder();
    let defaults = done(&config(folder.path(), &[], &["--defaults"]));
    std::fs::write(folder.path().join("all.toml"), &defaults).unwrap();
    let values = |output: &Output| -> Vec<Value> {
        json_of(output).as_object().unwrap().values().map(|setting| setting["value"].clone()).collect()
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
    let server = Server::with(folder.path(), any_port(), &["rate.per_second=1", "rate.burst=3"]);
    let answers: Vec<_> = (0..8).map(|_| get(&server, "/hub/stats")).collect();
    assert!(answers[..3].iter().all(|answer| answer.status == 200), "the burst");
    let refused = answers.iter().find(|answer| answer.status == 429).expect("more than the burst");
    refused.is_refused(429, "2005");
    assert!(refused.head_has("retry-after: 1"), "{}", refused.head);
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
    command.args(["serve", "--config", path(&file)]);
    let server = Server::launch(&mut command);
    assert_eq!(get(&server, "/health").status, 200);
    server.stop();
    assert!(data.join("log").is_dir());
    refused(&run(&["serve", "--config", path(&file), "--set", "trace=holdfast_api=loud"]), 2, &[]);
}
