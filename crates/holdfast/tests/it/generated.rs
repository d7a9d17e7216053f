//! A data directory that was generated, against what a hub makes of it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::command::{json_of, refused};
use crate::support::http::{get, rows_of_all_pages};
use crate::support::server::{Server, any_port, folder, path, run, verify};
use crate::support::shop::text;
use crate::support::wait::await_that;

fn generate(directory: &Path, more: &[&str]) -> std::process::Output {
    run(&[&["generate", "transfers", "--output", "json", "--data", path(directory)], more].concat())
}

/// Transfers by their state, as the hub lists them.
fn states(server: &Server) -> BTreeMap<String, u64> {
    let rows = rows_of_all_pages("transfers", |after| {
        let after = after.map_or_else(String::new, |next| format!("&after={next}"));
        get(server, &format!("/hub/transfers?limit=1000{after}")).json()
    });
    let mut states = BTreeMap::new();
    rows.iter().for_each(|row| *states.entry(text(row, "state")).or_insert(0) += 1);
    states
}

#[test]
fn the_expired_ones_end_and_no_other() {
    let folder = folder();
    let data = folder.path().join("made");
    let options = "--total 6000 --expired 300 --hours 1-48 --currencies USD,EUR --progress-every 700";
    let options: Vec<&str> = options.split(' ').collect();
    let made = json_of(&generate(&data, &options));
    assert_eq!((made["transfers"].as_u64(), made["expired"].as_u64()), (Some(6_000), Some(300)));
    assert_eq!(made["open"].as_u64(), Some(300 + 570), "a tenth of the others, and the expired");
    let verified = verify(&data);
    assert_eq!(verified["good"], true, "{verified}");

    // A directory with something in it is left alone.
    refused(&generate(&data, &options), 2, &["is not empty"]);

    let server = Server::start(&data, any_port());
    let found =
        await_that("the expired ones end", || states(&server), |found| found.get("RESERVED") == Some(&570));
    let ran_out = (6_000 - 300 - 570) * 7 / 100;
    assert_eq!(found.get("EXPIRED_RESERVED"), Some(&(300 + ran_out)), "{found:?}");
    assert!(found["COMMITTED"] > 3_000 && found["ABORTED_REJECTED"] > 200 && found["ABORTED_ERROR"] > 100);
    assert_eq!(found.values().sum::<u64>(), 6_000);
    let verified = server.stop_and_verify(&data);
    assert_eq!(verified["good"], true, "{verified}");
}

#[test]
fn a_data_set_out_of_bounds_makes_nothing() {
    let folder = folder();
    let data = folder.path().join("made");
    for bad in [["--total", "0"], ["--hours", "3-2"], ["--amount-max", "1000000000"]] {
        refused(&generate(&data, &bad), 2, &[]);
        assert!(!data.exists(), "{bad:?}");
    }
    refused(&run(&["generate", "transfers"]), 2, &[]);
}
