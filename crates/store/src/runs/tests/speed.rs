//! Figures, not tests: `cargo test --release -p holdfast-store runs::tests::speed -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use super::*;

const RUN_IDS: u64 = 350_000;

fn random(n: u64) -> u128 {
    u128::from(n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

fn batch(from: u64, count: u64) -> Vec<Entry> {
    (from..from + count).map(|n| Entry { id: random(n), place: n }).collect()
}

/// What this thread has used of a processor, in nanoseconds. The machine may have other work.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(f64::NAN)
}

fn timed<T>(what: &str, count: u64, act: impl FnOnce() -> T) -> T {
    let (start, used) = (Instant::now(), cpu());
    let result = act();
    let (passed, used) = (start.elapsed().as_nanos() as f64, cpu() - used);
    println!("{what}: {:.1} ns each, {:.1} ns of CPU", passed / count as f64, used / count as f64);
    result
}

#[test]
#[ignore = "figures of a release build"]
fn a_miss_a_hit_a_seal_and_a_merge() {
    let temporary = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory on the disk");
    let fs = Arc::new(holdfast_disk::RealFs);
    let folder = RunFolder { fs, dir: temporary.path().to_owned(), log_id: LOG, key: KEY };
    let mut names = (1..).map(RunName);
    let mut name = || names.next().expect("endless");
    let mut set = RunSet::default();
    let mut ids = 0;
    // One of 22 M ids, four of 2.8 M, five of 350 k.
    let mut add = |set: &mut RunSet, count: u64| {
        let entries = batch(ids, count);
        ids += count;
        let run = timed(&format!("seal {count}"), count, || seal(&folder, name(), entries, &mut || {}));
        *set = set.with(Arc::new(run.expect("seal")));
    };
    for _ in 0..8 {
        add(&mut set, RUN_IDS);
    }
    let due = set.due_merge().expect("eight");
    let merged = timed("merge 8 x 350 k", 8 * RUN_IDS, || {
        merge(&folder, RunName(1_000), &due, &mut || {}).expect("merge")
    });
    println!("{} B of memory per 1,000 ids", merged.memory_bytes() * 1_000 / merged.len());
    set = set.replace(&due, Arc::new(merged));
    for count in [64 * RUN_IDS, 8 * RUN_IDS, 8 * RUN_IDS, 8 * RUN_IDS] {
        add(&mut set, count);
    }
    for _ in 0..5 {
        add(&mut set, RUN_IDS);
    }
    println!("{} runs, {} ids", set.len(), set.ids());
    let absent = 1 << 40..(1 << 40) + 2_000_000_u64;
    let count = absent.end - absent.start;
    let alarms: u64 = absent.clone().map(|n| alarms_of(&set, random(n))).sum();
    println!("false alarms: {alarms} of {count} misses");
    let small = set.runs().iter().filter(|run| run.len() == RUN_IDS);
    let small = RunSet::of(due.iter().chain(small.take(2)).cloned().collect());
    let ids: Vec<u128> = absent.map(random).collect();
    let ask = |id| set.get(hash_id(KEY, id), id).expect("get").is_none();
    asked("hash", &ids, |id| hash_id(KEY, id) > 0);
    let quiet: Vec<u128> = ids.iter().copied().filter(|&id| alarms_of(&set, id) == 0).collect();
    asked("miss without a false alarm", &quiet, ask);
    asked("miss, false alarms cold", &ids, ask);
    asked("miss, false alarms warm", &ids, ask);
    let small_runs = format!("miss with false alarms, {} runs of 350 k", small.len());
    asked(&small_runs, &ids, |id| small.get(hash_id(KEY, id), id).expect("get").is_none());
    let beyond: Vec<u128> = (0..count).map(|n| u128::MAX - u128::from(n)).collect();
    asked("miss, ids beyond all runs", &beyond, ask);
    for what in ["hit, cold", "hit, warm"] {
        let step = 2_003;
        let wanted: Vec<u64> = (0..set.ids()).step_by(step).collect();
        timed(what, wanted.len() as u64, || {
            for &n in &wanted {
                assert_eq!(set.get(hash_id(KEY, random(n)), random(n)).expect("get"), Some(n));
            }
        });
    }
    let big = &set.runs().iter().max_by_key(|run| run.len()).expect("some");
    timed("open", big.len(), || Run::open(&folder, big.name()).expect("open"));
    timed("verify", big.len(), || big.verify().expect("verify"));
}

/// Asks in rounds of 10,000: the best round is the machine without its other work.
fn asked(what: &str, ids: &[u128], ask: impl Fn(u128) -> bool) {
    let rounds = ids.chunks(10_000).map(|round| {
        let start = Instant::now();
        assert!(black_box(round).iter().all(|&id| ask(id)));
        start.elapsed().as_nanos() as f64 / round.len() as f64
    });
    let mut rounds: Vec<f64> = rounds.collect();
    rounds.sort_unstable_by(f64::total_cmp);
    println!("{what}: best {:.1} ns, median {:.1} ns", rounds[0], rounds[rounds.len() / 2]);
}

fn alarms_of(set: &RunSet, id: u128) -> u64 {
    let probe = bloom::Probe::of(hash_id(KEY, id));
    set.runs().iter().map(|run| u64::from(run.filter.may_hold(&probe))).sum()
}
