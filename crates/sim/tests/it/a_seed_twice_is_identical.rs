//! The simulator checks itself: a seed gives the same run every time, on any thread, traced or not.

use holdfast_sim::{run, run_traced};

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..100 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.fingerprint, second.fingerprint, "seed {seed}");
        assert_eq!(first.tally, second.tally, "seed {seed}");
    }
}

#[test]
fn looking_on_does_not_change_a_run() {
    for seed in 100..110 {
        let plain = run(seed).fingerprint;
        let elsewhere = std::thread::spawn(move || run_traced(seed)).join().unwrap();
        assert_eq!(plain, elsewhere.fingerprint, "seed {seed}");
        assert!(elsewhere.trace.len() > 50, "seed {seed} was traced");
    }
}

#[test]
fn other_seeds_give_other_runs() {
    let fingerprints: std::collections::BTreeSet<[u8; 32]> =
        (0..200).map(|seed| run(seed).fingerprint).collect();
    assert_eq!(fingerprints.len(), 200);
}
