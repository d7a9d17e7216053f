//! Every file of `scenarios/checkout` is a promise about `holdfast dry-run checkout`, kept by the real
//! binary.

use crate::support::scenarios::Scenarios;

const SCENARIOS: Scenarios = Scenarios::of("checkout");

#[test]
fn every_scenario_comes_out_as_written() {
    SCENARIOS.assert_good(100);
}

#[test]
fn every_bad_case_is_refused_with_its_reason() {
    SCENARIOS.assert_bad(70);
}

/// Each message that a checkout can send, and each alarm that it can raise, has a scenario.
#[test]
fn the_scenarios_cover_what_a_checkout_can_say() {
    let scenarios = SCENARIOS.good();
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
        "undecided",
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
    let text = |name| SCENARIOS.one_answer(name);
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
}
