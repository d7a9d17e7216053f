//! Every file of `scenarios/position` is a promise about `holdfast dry-run position`, kept by the real binary.

use serde_json::Value;

use crate::support::scenarios::{Scenarios, assert_refused, holdfast};

const SCENARIOS: Scenarios = Scenarios::of("position");

#[test]
fn every_scenario_comes_out_as_written() {
    SCENARIOS.assert_good(45);
}

#[test]
fn every_bad_case_is_refused_with_its_reason() {
    SCENARIOS.assert_bad(30);
}

#[test]
fn fields_come_in_the_order_of_the_contract() {
    let case = r#"{"accounts":[{"account":"7","position":"5","reserved":"0","settlement_position":"-9","net_debit_cap":null}],
        "messages":[{"action":"abort","account":"7","transfer":"t1","amount":"5","state_before":"RESERVED"},
                    {"action":"prepare","account":"7","transfer":"t2","amount":"1","state_before":"RECEIVED_PREPARE"}]}"#;
    let output = SCENARIOS.run("-", case);
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
    let scenario = SCENARIOS.named("no-messages");
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
