//! How fast it is. Not part of a run: `cargo test -p holdfast-postgres --test it speed -- --ignored --nocapture`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_domain::command::Command;
use holdfast_postgres::Point;

use crate::world::*;

const BATCH: usize = 1_000;
/// What the server's process for one connection has worked, in 1/100 s; 0 if it runs elsewhere. Other programs on the
/// machine change how long a batch takes, but hardly this.
fn ticks(backend: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{backend}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    number(11) + number(12)
}

/// `HOLDFAST_SPEED_BATCHES` asks for more.
const BATCHES: usize = 40;
const PARTIES: u32 = 16;

#[test]
#[ignore = "a measurement"]
fn speed() {
    let Some(world) = World::new() else { return };
    let batches = std::env::var("HOLDFAST_SPEED_BATCHES").map_or(BATCHES, |text| text.parse().unwrap());
    let mut node = Node::new(&world, 1);
    let stages: Arc<Mutex<BTreeMap<String, Duration>>> = Arc::default();
    let phase_now = Arc::new(Mutex::new(""));
    let (stages_in, phase_in) = (Arc::clone(&stages), Arc::clone(&phase_now));
    let mut last = Instant::now();
    node.store.watch(move |point| {
        if point != Point::Begun {
            let name = format!("{} until {point:?}", phase_in.lock().unwrap());
            *stages_in.lock().unwrap().entry(name).or_default() += last.elapsed();
        }
        last = Instant::now();
    });
    for party in 1..=PARTIES {
        node.participant(&format!("party{party}"), 1_000_000_000, 1_000_000_000);
    }
    // Ids as clients choose them: spread over the whole range.
    let spread = |id: usize| (id as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let payer = |id: usize| u32::try_from(id).unwrap() % PARTIES + 1;
    let payee = |id: usize| (u32::try_from(id).unwrap() + 1) % PARTIES + 1;
    let backend = node.store.backend().unwrap();
    let mut worked = [0; 4];
    let mut spent = [Duration::ZERO; 4];
    for phase in 0..2 {
        for batch in 0..batches {
            let ids = batch * BATCH..(batch + 1) * BATCH;
            let commands: Vec<Command> = ids
                .map(|id| match phase {
                    0 => prepare(spread(id), payer(id), payee(id), 1, FAR),
                    _ => fulfil(spread(id), payee(id)),
                })
                .collect();
            node.transfers.log.extend(all(node.transfers.at, &commands));
            *phase_now.lock().unwrap() = ["1 prepare", "1 fulfil"][phase];
            let before = ticks(backend);
            let begun = Instant::now();
            let step = node.drain_transfers().unwrap();
            spent[2 * phase] += begun.elapsed();
            worked[2 * phase] += ticks(backend) - before;
            assert_eq!(step.transactions, 1);
            node.relay();
            assert_eq!(node.positions[0].pending().len(), BATCH);
            *phase_now.lock().unwrap() = ["2 prepare", "2 commit"][phase];
            let before = ticks(backend);
            let begun = Instant::now();
            node.drain_positions();
            spent[2 * phase + 1] += begun.elapsed();
            worked[2 * phase + 1] += ticks(backend) - before;
            node.relay();
        }
    }
    let count = i64::try_from(BATCH * batches).unwrap();
    assert_eq!(world.rows("transfer WHERE current_state = 5"), count);
    assert_eq!(world.rows("participant_position_change WHERE transfer_no IS NOT NULL"), 2 * count);
    world.verify();
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        let row = world.sql().query_one(&format!("SHOW {setting}"), &[]).unwrap();
        println!("{setting} {}", row.get::<_, &str>(0));
    }
    let total = (BATCH * batches) as f64;
    let names = ["handler 1 prepare", "handler 2 prepare", "handler 1 fulfil", "handler 2 commit"];
    for ((what, spent), worked) in names.iter().zip(spent).zip(worked) {
        let cpu = worked as f64 * 1e4 / total;
        println!("{what}: {:.0}/s, {cpu:.1} us of the server's CPU each", total / spent.as_secs_f64());
    }
    for (name, spent) in stages.lock().unwrap().iter().filter(|(name, _)| !name.starts_with(' ')) {
        println!("  handler {name}: {:.1} ms a batch", spent.as_secs_f64() * 1e3 / (total / BATCH as f64));
    }
    let both: Duration = spent.iter().sum();
    println!(
        "two-phase payments through both handlers, one after the other: {:.0}/s",
        total / both.as_secs_f64()
    );
}
