//! Every file of `scenarios/tokens` is a promise about `holdfast dry-run tokens`, kept by the real binary.

use crate::support::scenarios::Scenarios;

const SCENARIOS: Scenarios = Scenarios::of("tokens");

#[test]
fn every_scenario_comes_out_as_written() {
    SCENARIOS.assert_good(70);
}

#[test]
fn every_bad_case_is_refused_with_its_reason() {
    SCENARIOS.assert_bad(60);
}

/// Each refusal that a selection can get from a vault at rest, and each policy, has a scenario.
#[test]
fn the_scenarios_cover_what_a_select_can_answer() {
    let scenarios = SCENARIOS.good();
    let answers = |kind: &str| scenarios.iter().any(|(_, file)| file["expect"]["type"] == kind);
    for name in
        "insufficient-funds funds-locked no-exact-match too-many-inputs spender-in-use invalid".split(' ')
    {
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
    let text = SCENARIOS.one_answer("policy-random-with-a-seed");
    assert_eq!(
        text,
        concat!(
            r#"{"spender":"p1","tokens":[{"id":"t20","quantity":"20","wallet":"alice","type":"token","currency":"EUR"}],"#,
            r#""sum":"20","change":"5","expiresAt":"2025-11-15T09:47:40.000Z","fence":"1"}"#,
        )
    );
}
