//! A data directory that was generated, against what a hub makes of it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::http::exchange;
use crate::support::server::{Server, any_port, folder, run, verify};

fn generate(directory: &Path, more: &[&str]) -> std::process::Output {
    let mut arguments = vec!["generate", "transfers", "--output", "json", "--data"];
    arguments.push(directory.to_str().expect("a plain path"));
    arguments.extend(more);
    run(&arguments)
}

/// Transfers by their state, as the hub lists them.
fn states(server: &Server) -> std::collections::BTreeMap<String, u64> {
    let mut states = std::collections::BTreeMap::new();
    let mut path = "/hub/transfers?limit=1000".to_owned();
    loop {
        let page = exchange(server, "GET", &path, "", b"").json();
        for row in page["transfers"].as_array().expect("a page") {
            *states.entry(row["state"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
        let Some(next) = page["next"].as_str() else { return states };
        path = format!("/hub/transfers?limit=1000&after={next}");
    }
}

#[test]
fn the_expired_ones_end_and_no_other() {
    let folder = folder();
    let data = folder.path().join("made");
    let options = [
        "--total",
        "6000",
        "--expired",
        "300",
        "--hours",
        "1-48",
        "--currencies",
        "USD,EUR",
        "--progress-every",
        "700",
    ];
    let output = generate(&data, &options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((made["transfers"].as_u64(), made["expired"].as_u64()), (Some(6_000), Some(300)));
    assert_eq!(made["open"].as_u64(), Some(300 + 570), "a tenth of the others, and the expired");
    let verified = verify(&data);
    assert_eq!(verified["good"], true, "{verified}");

    let again = generate(&data, &options);
    assert_eq!(again.status.code(), Some(2), "a directory with something in it is left alone");
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"));

    let server = Server::start(&data, any_port());
    let deadline = Instant::now() + Duration::from_secs(30);
    let found = loop {
        let found = states(&server);
        if found.get("RESERVED") == Some(&570) {
            break found;
        }
        assert!(Instant::now() < deadline, "the expired ones do not end: {found:?}");
    };
    let ran_out = (6_000 - 300 - 570) * 7 / 100;
    assert_eq!(found.get("EXPIRED_RESERVED"), Some(&(300 + ran_out)), "{found:?}");
    assert!(found["COMMITTED"] > 3_000 && found["ABORTED_REJECTED"] > 200 && found["ABORTED_ERROR"] > 100);
    assert_eq!(found.values().sum::<u64>(), 6_000);
    server.stop();
    let verified = verify(&data);
    assert_eq!(verified["good"], true, "{verified}");
}

#[test]
fn a_data_set_out_of_bounds_makes_nothing() {
    let folder = folder();
    let data = folder.path().join("made");
    for bad in [["--total", "0"], ["--hours", "3-2"], ["--amount-max", "1000000000"]] {
        let output = generate(&data, &bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!data.exists(), "{bad:?}");
    }
    let nowhere = run(&["generate", "transfers"]);
    assert_eq!(nowhere.status.code(), Some(2));
}
