//! `bench` and `load` at a size that fits a test: what matters here is that they count right, not how fast it is.

use serde_json::Value;

use crate::support::command::{json_of, refused};
use crate::support::server::{folder, fresh_hub, path, run};
use crate::support::sink::Sink;

fn rows<'r>(report: &'r Value, table: &str) -> &'r [Value] {
    report.pointer(&format!("/tables/{table}/rows")).and_then(Value::as_array).expect("rows")
}

#[test]
fn bench_reports_every_shape() {
    let data = folder();
    let data = path(data.path());
    let common = ["--payments", "600", "--runs", "1", "--accounts", "10", "--data", data, "--output", "json"];
    for (shape, cases) in [("batch", 2), ("single", 3)] {
        let report = json_of(&run(&[&["bench", "transfers", "--shape", shape][..], &common].concat()));
        let [speed, costs, disks] = ["0", "1", "2"].map(|table| rows(&report, table));
        assert_eq!((costs.len(), disks.len()), (cases, cases), "{report}");
        assert!(speed.len() >= cases, "{report}");
        for row in speed {
            assert_eq!(row["payments"], 600);
            assert!(row["per second"].as_f64() > Some(0.0) && row["p99"].as_f64() > Some(0.0), "{row}");
        }
        for row in costs {
            assert!(row["frames"].as_u64() > Some(0) && row["append"].as_f64() > Some(0.0), "{row}");
        }
        assert!(disks.iter().all(|row| row["4 KiB p50"].as_u64() > Some(0)), "{report}");
        assert!(report["machine"]["cores"].as_u64() > Some(0) && report["date"].is_string(), "{report}");
    }
    let left = std::fs::read_dir(data).expect("the folder is there").count();
    assert_eq!(left, 0, "without --keep nothing is left");
}

#[test]
fn bench_refuses_what_is_out_of_bounds() {
    refused(&run(&["bench", "transfers", "--batch", "8193"]), 2, &["--batch must be from 1 to 8192"]);
}

#[test]
fn load_counts_each_end_in_both_loops() {
    let (_data, server) = fresh_hub();
    let url = server.url();
    let common =
        ["--payments", "1000", "--abort-percent", "10", "--expire-percent", "10", "--output", "json"];
    for pace in [&["--in-flight", "50"][..], &["--rate", "5000", "--in-flight", "500"]] {
        let report = json_of(&run(&[&["load", "transfers", "--url", &url][..], &common, pace].concat()));
        let count = |name: &str| report[name].as_u64().expect("a count");
        assert_eq!(count("payments"), 1000, "{report}");
        assert_eq!(count("settled") + count("aborted") + count("leftToExpire"), 1000, "{report}");
        assert!(count("aborted") > 50 && count("leftToExpire") > 50, "{report}");
        assert_eq!(count("expired"), count("leftToExpire"), "{report}");
    }
    server.stop();
}

#[test]
fn load_wants_the_url_of_a_hub() {
    refused(&run(&["load", "transfers", "--url", "127.0.0.1:1"]), 2, &["must begin with http://"]);
}

#[test]
fn load_without_a_hub_says_so_soon() {
    let url = format!("http://{}", Sink::nowhere());
    let said = format!("is a hub running at {url}? start one with `holdfast serve`");
    refused(&run(&["load", "transfers", "--url", &url]), 1, &[&said]);
}

#[test]
fn load_explains_a_seed_that_was_used_before() {
    let (_data, server) = fresh_hub();
    let url = server.url();
    let again = ["load", "transfers", "--url", &url, "--payments", "10", "--seed", "7", "--output", "json"];
    json_of(&run(&again));
    refused(&run(&again), 1, &["a run with the same --seed"]);
    server.stop();
}
