//! Figures of a million live tokens. `cargo test -p holdfast-store --lib measure -- --ignored --nocapture`.
#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::time::{Duration, Instant};

use holdfast_disk::RealFs;
use holdfast_domain::effects::{Effects, TokenRows};
use holdfast_domain::tokens::{Fingerprint, SpendRow, Token, TokenEffect, TokenId, Transaction};

use super::*;
use crate::Tables;

const MANY: usize = 1_000_000;
const WALLETS: usize = 10_000;

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn token(number: usize) -> Token {
    Token::new(uuid(number), format!("wallet-{}", number % WALLETS), "USD", 100)
}

/// As long as a uuid.
fn uuid(number: usize) -> TokenId {
    TokenId::from(format!("{:036x}", (number as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// What this thread has used of a processor. The machine may have other work.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

fn applied(store: &mut LocalStore, effects: &[TokenEffect]) -> Duration {
    let began = cpu();
    effects.iter().for_each(|effect| store.token_effect(effect));
    store.settle(&Effects::default());
    cpu() - began
}

fn run_jobs(store: &mut LocalStore) {
    while let Some(job) = store.take_job() {
        let done = job.run(&mut || {}).unwrap();
        store.absorb(done);
    }
}

#[test]
#[ignore = "figures of a release build"]
fn a_million_tokens() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let shared: Arc<dyn FileSystem> = Arc::new(RealFs);
    let mut store = LocalStore::create(&shared, folder.path(), LOG).unwrap();
    println!("{} bytes for a row", size_of::<holdfast_domain::tokens::TokenRow>());
    let before = resident_bytes();
    let (mut took, mut worst) = (Duration::ZERO, Duration::ZERO);
    for first in (0..MANY).step_by(1_000) {
        let effects: Vec<_> =
            (first..first + 1_000).map(|number| TokenEffect::Produced(token(number))).collect();
        let one = applied(&mut store, &effects);
        (took, worst) = (took + one, worst.max(one));
    }
    let per_token = (resident_bytes() - before) / MANY;
    println!(
        "{per_token} bytes per token with its id of 36 bytes; {:?} per token, worst 1,000 {worst:?}",
        took / MANY as u32
    );

    let began = Instant::now();
    assert!(store.begin_checkpoint(1, vec![1]));
    println!("begin a checkpoint: {:?}", began.elapsed());
    // Spends of two tokens each, all over the pages, while the checkpoint holds them.
    let spend = |number: usize| {
        let consumed = vec![uuid(number), uuid(MANY / 2 + number)];
        let produced: Vec<Token> = (0..2)
            .map(|n| {
                Token::new(
                    format!("{:036x}.{n}", number + (7 << 40)),
                    format!("wallet-{}", number % WALLETS),
                    "USD",
                    100,
                )
            })
            .collect();
        let mut effects: Vec<_> = consumed.iter().cloned().map(TokenEffect::Consumed).collect();
        effects.extend(produced.iter().cloned().map(TokenEffect::Produced));
        let transaction = Transaction {
            id: format!("{number:036x}").into(),
            spender: format!("spender-{number:028}").into(),
            consumed,
            produced,
        };
        effects.push(TokenEffect::Spent(Arc::new(SpendRow { transaction, body: Fingerprint(1) })));
        effects
    };
    let spends = |numbers: std::ops::Range<usize>| {
        numbers.flat_map(|number| spend(number * 499 % (MANY / 2))).collect::<Vec<_>>()
    };
    println!("1,000 spends beside it: {:?}", applied(&mut store, &spends(0..1_000)));
    let began = Instant::now();
    run_jobs(&mut store);
    println!(
        "the checkpoint on its thread: {:?}, {} bytes",
        began.elapsed(),
        size_of_folder(&folder.path().join("checkpoints"))
    );
    println!("1,000 spends alone: {:?}", applied(&mut store, &spends(1_000..2_000)));
    for round in 0..10 {
        applied(&mut store, &spends(2_000 + 10_000 * round..12_000 + 10_000 * round));
        assert!(store.begin_checkpoint(2 + round as u64, vec![1]));
        run_jobs(&mut store);
    }
    let (spends, ids) =
        (size_of_folder(&folder.path().join("spends")), size_of_folder(&folder.path().join("spent-ids")));
    println!(
        "102,000 spends of two tokens: {} bytes each, and {} for their three ids",
        spends / 102_000,
        ids / 102_000
    );
    let new: Vec<TokenId> = (0..10_000).map(|number| uuid(MANY * 8 + number)).collect();
    let began = Instant::now();
    store.load(&mut new.iter().map(Key::Token)).unwrap();
    println!("load of an id that is new: {:?}", began.elapsed() / 10_000);
    let old: Vec<TokenId> = (0..1_000).map(|number| uuid(number * 499 % (MANY / 2))).collect();
    let began = Instant::now();
    store.load(&mut old.iter().map(Key::Token)).unwrap();
    println!("load of a consumed id: {:?}", began.elapsed() / 1_000);
    let spenders: Vec<String> =
        (0..1_000).map(|number| format!("spender-{:028}", number * 499 % (MANY / 2))).collect();
    let began = Instant::now();
    store.load(&mut spenders.iter().map(|name| Key::Spender(name))).unwrap();
    println!("load of a spend: {:?}", began.elapsed() / 1_000);
    drop(store);
    let began = Instant::now();
    let found = recover(&shared, folder.path()).unwrap().unwrap();
    println!("a start with {} tokens: {:?}", found.store.token_count(), began.elapsed());
}

fn size_of_folder(dir: &Path) -> u64 {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}
