//! The power goes at every sync: the survivor has the whole run under its name, or none.

use super::*;

/// Loses power at every sync of `act` in turn. Returns how many syncs there are.
fn crash_everywhere(
    prepare: impl Fn(&SimFs) -> Vec<Arc<Run>>,
    act: impl Fn(&SimFs, &[Arc<Run>]) -> Result<Run, StoreError>,
    name: u64,
    expected: &[Entry],
    seeds: u64,
) -> u64 {
    let (mut whole, mut none) = (0, 0);
    for sync in 1.. {
        let fs = new_fs();
        let inputs = prepare(&fs);
        fs.freeze_at_sync(sync);
        let done = act(&fs, &inputs);
        assert_eq!(done.is_err(), fs.is_frozen());
        for seed in 0..seeds {
            let survivor = fs.crash(seed);
            let names = survivor.list(dir()).expect("list");
            if names.contains(&RunName(name).to_string()) {
                let run = open_in(&survivor, name).expect("under its name it is whole");
                assert_eq!(run.verify().expect("verify"), expected.len() as u64);
                assert!(all(&run) == expected);
                whole += u64::from(done.is_err());
            } else {
                assert!(done.is_err(), "it was durable");
                none += 1;
            }
            for input in &inputs {
                open_in(&survivor, input.name().0).expect("an input").verify().expect("an input");
            }
            // The next try is not in the way of what this one left.
            if done.is_err() && seed < 3 && !names.contains(&RunName(name).to_string()) {
                let inputs: Vec<Arc<Run>> = inputs
                    .iter()
                    .map(|input| Arc::new(open_in(&survivor, input.name().0).expect("an input")))
                    .collect();
                let run = act(&survivor, &inputs).expect("with the power on");
                assert!(all(&run) == expected);
                let is_run = |name: &String| RunName::parse(name).is_some();
                assert!(survivor.list(dir()).expect("list").iter().all(is_run), "a leftover");
            }
        }
        if done.is_ok() {
            assert!(whole > 0 && none > 0, "both fates were seen");
            return sync - 1;
        }
    }
    unreachable!("the syncs of a run are counted")
}

#[test]
fn a_small_seal() {
    let expected = sorted(entries(1, 400));
    let act = |fs: &SimFs, _: &[Arc<Run>]| seal_in(fs, 1, entries(1, 400));
    assert_eq!(crash_everywhere(|_| Vec::new(), act, 1, &expected, 50), 2);
}

#[test]
fn a_seal_of_several_syncs() {
    let expected = sorted(entries(1, 200_000));
    let act = |fs: &SimFs, _: &[Arc<Run>]| seal_in(fs, 1, entries(1, 200_000));
    assert_eq!(crash_everywhere(|_| Vec::new(), act, 1, &expected, 4), 3);
}

#[test]
fn a_merge() {
    let expected = sorted((1..=4).flat_map(|n| entries(n, 300)).collect());
    let prepare = |fs: &SimFs| {
        (1..=4).map(|n| Arc::new(seal_in(fs, n, entries(n, 300)).expect("seal"))).collect::<Vec<_>>()
    };
    let act = |fs: &SimFs, inputs: &[Arc<Run>]| merge_in(fs, 5, inputs);
    assert_eq!(crash_everywhere(prepare, act, 5, &expected, 50), 2);
}

#[test]
fn a_failed_write_or_sync_leaves_nothing() {
    let plans: [fn(&SimFs); 2] = [SimFs::fail_next_write, SimFs::fail_next_sync];
    for plan in plans {
        let fs = new_fs();
        plan(&fs);
        let error = seal_in(&fs, 1, entries(1, 400)).expect_err("planned");
        assert!(matches!(&error, StoreError::Io { .. }), "{error}");
        assert!(fs.list(dir()).expect("list").is_empty());
        seal_in(&fs, 1, entries(1, 400)).expect("seal").verify().expect("verify");
    }
}
