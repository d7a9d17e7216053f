//! What a reader pastes: the blocks of README.md and docs/database.md are run as they are written, twice on the same data, in
//! bash and in zsh where that is installed (`cargo xtask test` installs it where it may).
//!
//! A block that is fenced as `sh` ends by itself; one that is fenced as `sh foreground` begins a terminal that stays open. Blocks
//! without a language are not run. Three things are put in the reader's place: `cargo` is a script that starts the program of this
//! test, the ports of the page are free ones, and servers are those of the test run.

mod links;
mod page;
mod paste;
mod terminal;

use std::path::Path;

use holdfast_services::Database;

use crate::support::server::folder;
use page::Page;
use terminal::{Reader, Shell};

const README: &str = include_str!("../../../../../README.md");
const DATABASE: &str = include_str!("../../../../../docs/database.md");

/// A front page is read whole or not at all.
const README_LINES_MAX: usize = 150;

#[test]
fn readme_is_short_and_begins_with_the_two_commands() {
    assert!(README.lines().count() <= README_LINES_MAX, "{} lines", README.lines().count());
    let page = Page::read(README);
    assert_eq!(page.blocks[0].text, "cargo run --release -- serve\ncargo xtask test\n");
}

#[test]
fn every_block_may_be_pasted_into_bash_and_zsh() {
    for (name, text) in [("README.md", README), ("docs/database.md", DATABASE)] {
        let page = Page::read(text);
        assert!(page.blocks.iter().any(|block| block.runs), "{name} has no block that is run");
        for block in page.blocks.iter().filter(|block| block.runs) {
            let faults = paste::faults(&block.text);
            assert!(faults.is_empty(), "{name}, line {}: {faults:#?}", block.line);
        }
    }
}

#[test]
fn readme_runs_twice_on_the_same_data() {
    let page = Page::read(README);
    let folder = folder();
    for shell in Shell::two() {
        let reader = Reader::sits_in(folder.path(), &[]);
        let hub = reader.opens(shell, "cargo run --release -- serve", "listening on ");
        let payee = page.blocks.iter().find(|block| block.stays).expect("a terminal for the payee");
        let payee = reader.opens(shell, &payee.text, "payee listens on ");
        let told = reader.pastes(shell, &page.ending());
        for expected in [
            "COMMITTED after",
            "4200 Payer limit error",
            "4200: over the net debit cap of 500",
            "4001 Payer FSP insufficient liquidity",
            "holds 100, of which 0 is change",
            "holds 100 of the 600",
            "has 510 EUR in 2 tokens",
            "the order is paid",
            "order 1 is not paid: the stock side refused",
            "{\"user_id\":\"0\",\"credit\":90}",
            "the hub is gone",
            "unknown 0",
            "everything adds up",
        ] {
            assert!(told.contains(expected), "{shell:?} does not tell {expected:?}:\n{told}");
        }
        payee.ends();
        hub.ends();
    }
}

#[test]
fn three_nodes_run_twice_on_the_same_servers() {
    let (Some(kafka), Some(database)) = (holdfast_services::kafka(), Database::new("pages")) else { return };
    let folder = folder();
    let servers = [
        (
            "HOLDFAST_TEST_EXPORT",
            format!("export HOLDFAST_LOG={} HOLDFAST_STORE={}", kafka.url(), database.url()),
        ),
        ("HOLDFAST_CLUSTER_PREFIX", database.topic_prefix()),
        ("HOLDFAST_CLUSTER_PARTITIONS", "4".to_owned()),
    ];
    for shell in Shell::two() {
        let reader = Reader::sits_in(folder.path(), &servers);
        let told = reader.pastes(shell, &Page::read(DATABASE).ending());
        for expected in
            ["refused 0, unknown 0", "has 6 EUR in 1 tokens", "the order is paid", "everything adds up"]
        {
            assert!(
                told.contains(expected),
                "{shell:?} does not tell {expected:?}:\n{told}\n{}",
                logs(folder.path())
            );
        }
    }
}

/// What the nodes wrote, where something went wrong.
fn logs(folder: &Path) -> String {
    let logs = ["node-1.log", "node-2.log", "node-3.log"];
    logs.map(|log| std::fs::read_to_string(folder.join(log)).unwrap_or_default()).join("\n")
}
