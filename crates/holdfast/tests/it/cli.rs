//! The operator's and participants' commands, against a real hub: participants set up, money moved between two
//! simulated participants, and the story of every kind of end.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use holdfast_bench::fspiop::{Answers, FspiopBench, bench_fspiop};
use holdfast_load::LoadError;
use holdfast_load::bench::DataPlace;
use serde_json::Value;

use crate::support::command::{assert_says, done, json_of, refused};
use crate::support::server::{Running, Server, any_port, binary, folder, fresh_hub, path, run};
use crate::support::wait::PATIENCE;

/// Runs a command against the hub, for programs.
fn ask(server: &Server, arguments: &[&str]) -> Output {
    run(&[arguments, &["--url", &server.url(), "--output", "json"]].concat())
}

#[track_caller]
fn create(server: &Server, name: &str, cap: &str, funds: &str) {
    json_of(&ask(
        server,
        &["participants", "create", name, "--currency", "USD", "--cap", cap, "--funds", funds],
    ));
}

/// A `holdfast dfsp` that takes callbacks. Killed when dropped.
struct Dfsp {
    _child: Running,
    lines: Receiver<Value>,
}

impl Dfsp {
    fn start(server: &Server, name: &str, manner: &str) -> Dfsp {
        let mut child = binary()
            .args(["dfsp", name, manner, "--output", "json", "--url", &server.url()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the participant starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The test may have ended before the participant.
                let _: Result<(), _> = send.send(serde_json::from_str(&line).expect("lines of JSON"));
            }
        });
        let dfsp = Dfsp { _child: Running(child), lines };
        dfsp.wait_for("it listens", |line| {
            line["note"].as_str().is_some_and(|note| note.contains("listens on"))
        });
        dfsp
    }

    #[track_caller]
    fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if wanted(&line) => return line,
                Ok(line) => seen.push(line),
                Err(error) => panic!("{what}: {error}; seen: {seen:?}"),
            }
        }
    }

    /// The participant was called so about this transfer.
    #[track_caller]
    fn was_called(&self, call: &str, id: &str) -> Value {
        let call = call.replace("{id}", id);
        self.wait_for(&call, |line| line["way"] == "in" && line["call"] == call && line["transferId"] == id)
    }
}

/// Pays once; the transfer's id, whether it was committed, and everything that was printed.
#[track_caller]
fn pay(server: &Server, payer: &str, amount: &str, more: &[&str]) -> (String, bool, String) {
    let arguments = [&["dfsp", payer, "--pay", "payee", amount, "USD"], more].concat();
    let output = ask(server, &arguments);
    let text = String::from_utf8(output.stdout).expect("text");
    let posted = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let id = posted.into_iter().find_map(|line| line["transferId"].as_str().map(str::to_owned));
    let id = id.unwrap_or_else(|| panic!("nothing was sent: {text}"));
    (id, output.status.success(), text)
}

/// What `transfers why` tells.
#[track_caller]
fn why(data: &Path, id: &str) -> String {
    done(&run(&["transfers", "why", id, "--data", path(data)]))
}

#[test]
fn participants_are_set_up_and_shown() {
    let (_folder, server) = fresh_hub();
    create(&server, "payer", "10", "1000.5");
    let exact = json_of(&ask(&server, &["participants", "show", "PAYER"]));
    assert_eq!((&exact["name"], &exact["isActive"]), (&Value::from("payer"), &Value::from(true)));
    assert_eq!(exact["currencies"][0]["netDebitCap"].to_string(), "10");
    assert_eq!(exact["currencies"][0]["settlement"].to_string(), "-1000.5");
    // Without a limit it is there and not yet active; funds alone bring a cap of the same height.
    json_of(&ask(&server, &["participants", "create", "bare", "--currency", "USD"]));
    json_of(&ask(&server, &["participants", "create", "bare", "--currency", "EUR", "--funds", "7"]));
    let bare = json_of(&ask(&server, &["participants", "show", "bare"]));
    let shown: Vec<String> = bare["currencies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {} {}", row["currency"], row["isActive"], row["netDebitCap"]))
        .collect();
    assert_eq!(shown, ["\"USD\" false null", "\"EUR\" true 7"]);
    let table = done(&run(&["participants", "--url", &server.url()]));
    assert_says(&table, &["participant", "Hub", "payer", "bare", "-1000.5", "net debit cap"]);
    let post = "FSPIOP_CALLBACK_URL_TRANSFER_POST";
    let set = format!("{post}=http://127.0.0.1:9/transfers");
    let endpoints = json_of(&ask(&server, &["participants", "endpoints", "payer", "--set", &set]));
    assert_eq!(endpoints[0]["type"], post);
    // What the hub refuses is told in its words; what makes no sense is not sent.
    let again = &["participants", "create", "payer", "--currency", "USD", "--cap", "99", "--funds", "99"][..];
    refused(&ask(&server, again), 1, &["payer has USD already, and nothing was changed"]);
    let as_before = json_of(&ask(&server, &[again, &["--if-absent"]].concat()));
    assert_eq!(as_before["currencies"], exact["currencies"]);
    let reserved = &["participants", "create", "Hub", "--currency", "USD", "--if-absent"][..];
    // Only what was made counts as made.
    refused(&ask(&server, reserved), 1, &["3000"]);
    refused(&ask(&server, &["participants", "show", "nobody"]), 1, &["3200"]);
    for bad in [
        &["participants", "create", "x1", "--currency", "usd"][..],
        &["participants", "create", "x1", "--currency", "USD", "--cap", "-1"],
        &["participants", "create", "x1", "--currency", "USD", "--cap", "1.00001"],
        &["participants", "endpoints", "payer", "--set", "no-value"],
        &["transfers", "show", "not-an-id"],
        &["transfers", "list", "--state", "DONE"],
        &["dfsp", "payer", "--fulfil", "--reject"],
        &["dfsp", "payer", "--pay", "payee", "0", "USD"],
        &["dfsp", "payer", "--pay", "payee", "5", "USD", "--expires", "soon"],
    ] {
        refused(&ask(&server, bad), 2, &[]);
    }
    let nobody = run(&["participants", "--url", "http://127.0.0.1:9"]);
    refused(&nobody, 1, &["no hub answers at http://127.0.0.1:9"]);
    server.stop();
}

#[test]
fn money_moves_between_two_processes_and_every_end_has_its_story() {
    let folder = folder();
    let data = folder.path();
    let server = Server::start(data, any_port());
    create(&server, "payer", "10", "1000");
    create(&server, "payee", "1000", "1000");
    create(&server, "poor", "100", "3");

    let payee = Dfsp::start(&server, "payee", "--fulfil");
    let (committed, done, text) = pay(&server, "payer", "5", &[]);
    assert!(done && text.contains("with the right fulfilment"), "{text}");
    payee.was_called("POST /transfers", &committed);
    payee.wait_for("its answer was taken", |line| line["way"] == "out" && line["status"] == 200);
    let (waited, done, text) = pay(&server, "payer", "1", &["--prefer-wait"]);
    assert!(done && text.contains("RESERVED"), "{text}");
    let (over_cap, done, text) = pay(&server, "payer", "5", &[]);
    assert!(!done && text.contains("4200"), "{text}");
    let (over_cover, done, text) = pay(&server, "poor", "5", &[]);
    assert!(!done && text.contains("4001"), "{text}");
    drop(payee);

    let payee = Dfsp::start(&server, "payee", "--reject");
    let (rejected, done, text) = pay(&server, "payer", "2", &[]);
    assert!(!done && text.contains("5104"), "{text}");
    drop(payee);

    let payee = Dfsp::start(&server, "payee", "--reserve");
    let (patched, done, text) = pay(&server, "payer", "1", &[]);
    assert!(done, "{text}");
    assert_eq!(payee.was_called("PATCH /transfers/{id}", &patched)["transferState"], "COMMITTED");
    drop(payee);

    let payee = Dfsp::start(&server, "payee", "--silent");
    let (expired, done, text) = pay(&server, "payer", "2", &["--expires", "500ms"]);
    assert!(!done && text.contains("3303"), "{text}");
    payee.was_called("PUT /transfers/{id}/error", &expired);
    drop(payee);

    let strangers = pay(&server, "payer", "1", &["--secret", "another", "--expires", "500ms"]);
    assert!(!strangers.1, "nobody can fulfil it");

    for (id, state, code) in [
        (&committed, "COMMITTED", None),
        (&waited, "COMMITTED", None),
        (&over_cap, "ABORTED_REJECTED", Some("4200")),
        (&over_cover, "ABORTED_REJECTED", Some("4001")),
        (&rejected, "ABORTED_ERROR", Some("5104")),
        (&patched, "COMMITTED", None),
        (&expired, "EXPIRED_RESERVED", Some("3303")),
    ] {
        let shown = json_of(&ask(&server, &["transfers", "show", id]));
        let shown_code = shown["errorInformation"]["errorCode"].as_str();
        assert_eq!((shown["state"].as_str(), shown_code), (Some(state), code));
        let story = why(data, id);
        assert!(story.contains(&format!("It ended as {state}")), "{story}");
        assert!(code.is_none_or(|code| story.contains(&format!("{state} {code}"))), "{story}");
    }
    let story = why(data, &over_cap);
    assert!(story.contains("the cap is 10, the position was 6, 6 + 5 > 10."), "{story}");
    assert!(story.contains("payer is to be told: PUT /transfers/{id}/error with 4200 (callback"), "{story}");
    assert!(story.contains(&format!("/transfers/{over_cap}/error).")), "the URL that was called: {story}");
    let story = why(data, &over_cover);
    assert!(story.contains("the cover is 3, the position was 0, 0 + 5 > 3."), "{story}");
    let story = why(data, &committed);
    assert!(story.contains("the position of payee was 0, 0 - 5 = -5."), "{story}");

    let page =
        json_of(&ask(&server, &["transfers", "list", "--state", "COMMITTED", "--participant", "payer"]));
    let ids: Vec<&str> =
        page["transfers"].as_array().unwrap().iter().filter_map(|row| row["transferId"].as_str()).collect();
    assert_eq!(ids, [committed.as_str(), waited.as_str(), patched.as_str()]);
    let first = json_of(&ask(&server, &["transfers", "list", "--limit", "1"]));
    let next = first["next"].as_str().expect("there are more");
    let second = json_of(&ask(&server, &["transfers", "list", "--limit", "1", "--after", next]));
    assert_eq!(second["transfers"][0]["transferId"], waited.as_str());

    let unknown = "0d6b1a2c-3f4e-4a5b-8c6d-7e8f9a0b1c2d";
    refused(&run(&["transfers", "why", unknown, "--data", path(data)]), 1, &["says nothing of"]);
    server.stop();
    // The story needs no hub.
    let story = run(&["transfers", "why", &expired, "--output", "json", "--data", path(data)]);
    assert_eq!(json_of(&story)["transfer"]["state"], "EXPIRED_RESERVED");
}

#[test]
fn a_payer_without_callbacks_asks_for_the_end() {
    let (_folder, server) = fresh_hub();
    create(&server, "payer", "10", "1000");
    create(&server, "payee", "1000", "1000");
    let asking = ["--register=false", "--prefer-wait", "--expires", "2s"];
    let payee = Dfsp::start(&server, "payee", "--fulfil");
    let (_, done, text) = pay(&server, "payer", "5", &asking);
    assert!(done && text.contains("with the right fulfilment"), "{text}");
    assert!(!text.contains("now point here"), "{text}");
    drop(payee);
    let _payee = Dfsp::start(&server, "payee", "--silent");
    let (_, done, text) = pay(&server, "payer", "5", &asking);
    assert!(!done && text.contains("EXPIRED_RESERVED") && text.contains("3303"), "{text}");
    // A refusal is told once, by the line about the transfer.
    let arguments = [&["dfsp", "payer", "--pay", "payee", "50", "USD"][..], &asking].concat();
    let output = ask(&server, &arguments);
    assert_eq!(refused(&output, 1, &[]), "");
    assert_says(&String::from_utf8_lossy(&output.stdout), &["4200"]);
    server.stop();
}

#[test]
fn the_json_path_is_measured_both_ways() {
    let folder = folder();
    let options = |connections| FspiopBench {
        answers: Answers::All,
        payments: Some(200),
        runs: 1,
        connections,
        in_flight: 16,
        participants: 4,
        seed: 1,
        place: DataPlace { data: Some(folder.path().to_owned()), keep: false },
    };
    let program = binary().get_program().to_owned();
    let report = bench_fspiop(program.as_ref(), &options(8)).unwrap();
    let report = serde_json::to_value(&report).unwrap();
    let rows = |table: usize| report["tables"][table]["rows"].as_array().unwrap();
    assert_eq!(rows(0).len(), 2 * 3, "payment, POST and PUT of both: {report}");
    for (row, way) in rows(0).iter().zip(["Prefer: wait"; 3].into_iter().chain(["callbacks"; 3])) {
        assert!(row["case"].as_str().unwrap().starts_with(way), "{row}");
        assert_eq!(row["payments"], 200);
        assert!(row["per second"].as_f64().unwrap() > 0.0);
        assert!(row["p99"].as_f64().unwrap() >= row["p50"].as_f64().unwrap());
    }
    assert!(rows(2).iter().all(|row| row["4 KiB /s"].as_f64().unwrap() > 0.0), "{report}");
    assert!(report["machine"]["cores"].as_u64().unwrap() > 0);
    let refused = bench_fspiop(program.as_ref(), &options(0)).unwrap_err();
    assert!(matches!(refused, LoadError::Options(_)), "{refused}");
}
