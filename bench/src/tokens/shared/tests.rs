//! Both algorithms on the real server, with few tokens. Every case ends with its books, so that a token spent twice fails it.

use holdfast_services::Database;

use super::bench::for_tests::both;
use super::cases::{HotToken, ManyInputs, OneInput};
use super::options::{NODES, SharedOptions, Sizes};

fn options() -> SharedOptions {
    let sizes = Sizes {
        wallets: 5,
        // Payments go to and fro at random: so many that no wallet runs dry by chance.
        tokens: 400,
        many_wallets: 4,
        many_tokens: 60,
        inputs: 10,
        requests: 4,
        warm_up: 30,
    };
    SharedOptions { seconds: 1, callers: 16, sizes, ..SharedOptions::on("") }
}

#[test]
fn nothing_is_spent_twice_by_either() {
    let (Some(ours), Some(theirs)) = (Database::new("tokens_ours"), Database::new("tokens_theirs")) else {
        return;
    };
    let case = OneInput { brief: true, compared: None };
    let found = both([ours.url(), theirs.url()], &options(), &case).unwrap();
    for speed in found.map(|found| found.peak) {
        assert!(speed.rounds > 0 && (speed.inputs_per_round - 1.0).abs() < f64::EPSILON, "{speed:?}");
    }
}

#[test]
fn many_inputs_are_many() {
    let (Some(ours), Some(theirs)) = (Database::new("many_ours"), Database::new("many_theirs")) else {
        return;
    };
    for speed in both([ours.url(), theirs.url()], &options(), &ManyInputs).unwrap() {
        assert!((speed.inputs_per_round - 10.0).abs() < f64::EPSILON, "{speed:?}");
    }
}

#[test]
fn one_hot_token_serves_all_of_ours() {
    let (Some(ours), Some(theirs)) = (Database::new("hot_ours"), Database::new("hot_theirs")) else {
        return;
    };
    let requests = options().sizes.requests * NODES as u64;
    let [ours, theirs] = both([ours.url(), theirs.url()], &options(), &HotToken).unwrap();
    assert_eq!((ours.rounds, ours.refused.values().sum::<u64>()), (requests, 0), "{ours:?}");
    assert_eq!(theirs.rounds + theirs.refused.values().sum::<u64>(), requests, "{theirs:?}");
}
