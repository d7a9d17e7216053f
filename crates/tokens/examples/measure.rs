//! Measures the selector: `cargo run --release -p holdfast-tokens --example measure [THREADS [SHAPE]]`.
//!
//! The shapes are those of the issue: a wallet of a million tokens of value 1, a wallet of a million different amounts, and
//! 10,000 wallets with amounts over six orders of magnitude. `warm` is the
//! last with 100 wallets, which fit into the caches: the difference is the price of memory.

use std::time::{Duration, Instant};

use holdfast_tokens::{Config, MemorySelector, Random, Scope, SelectRequest, Token, TokenSelector};

const NOW: i64 = 1_700_000_000_000;
const MILLION: u64 = 1_000_000;
/// What each thread of a run over many wallets does.
const ROUNDS: usize = 5 * 200_000;

fn main() {
    let threads: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2);
    let only = std::env::args().nth(2);
    let run = |name: &str, shape: &dyn Fn()| {
        if only.as_ref().is_none_or(|only| only == name) {
            shape();
        }
    };
    run("load", &load_and_size);
    run("exact", &exact_hits);
    run("hundred", &hundred_inputs);
    run("warm", &|| many_wallets(threads, 100, true));
    run("warm", &|| many_wallets(threads, 100, false));
    run("wallets", &|| many_wallets(threads, 10_000, true));
    run("amounts", &|| many_wallets(threads, 10_000, false));
    run("contention", &|| contention(8));
}

fn filled(tokens: impl Iterator<Item = Token>) -> MemorySelector {
    let selector = MemorySelector::new(Config::default());
    selector.begin_load();
    let mut page = Vec::with_capacity(2_000);
    for token in tokens {
        page.push(token);
        if page.len() == 2_000 {
            selector.load_page(std::mem::take(&mut page)).expect("within the bounds");
        }
    }
    selector.load_page(page).expect("within the bounds");
    selector.end_load();
    selector
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |per_mille: usize| times[(times.len() - 1) * per_mille / 1_000];
    format!("p50 {:?}, p99 {:?}, p99.9 {:?}", at(500), at(990), at(999))
}

fn amount(random: &mut Random) -> u64 {
    let digits = 10_u64.pow(u32::try_from(random.below(6)).expect("below 6"));
    digits + random.below(9 * digits)
}

fn load_and_size() {
    for (name, id_len) in [("ids of 9 bytes", 0), ("ids of 36 bytes", 36)] {
        let mut random = Random::new(3);
        let amounts: Vec<u64> = (0..MILLION).map(|_| amount(&mut random)).collect();
        let wallets: Vec<std::sync::Arc<str>> = (0..10_000).map(|n| format!("w{n}").into()).collect();
        let currency: std::sync::Arc<str> = "EUR".into();
        let id = |n: usize| format!("t{n:0>8}{}", "x".repeat(usize::from(id_len > 0) * 27));
        let before = resident();
        let (start, core) = (Instant::now(), on_core());
        let tokens = amounts
            .iter()
            .enumerate()
            .map(|(n, quantity)| Token::new(id(n), wallets[n % 10_000].clone(), currency.clone(), *quantity));
        let selector = filled(tokens);
        let (took, core) = (start.elapsed(), on_core() - core);
        let bytes = resident().saturating_sub(before);
        let counted = selector.counters().bytes;
        println!(
            "load 1 M tokens, {name}: {took:?} ({core:?} of a core), {} bytes each (counted {})",
            bytes / 1_000_000,
            counted / MILLION
        );
        // Kept, so that the next one does not grow into its memory.
        std::mem::forget(selector);
    }
}

fn exact_hits() {
    let selector = filled((0..MILLION).map(|n| Token::new(format!("t{n}"), "w", "EUR", 2 * n + 2)));
    let scope = Scope::wallet("w", "EUR");
    let mut random = Random::new(1);
    let mut times = Vec::new();
    for round in 0..200_000 {
        let request = SelectRequest::new(format!("s{round}"), scope.clone(), 2 * random.below(MILLION) + 2);
        let start = Instant::now();
        let selection = selector.select(&request, NOW, &mut random).expect("every even amount is there");
        times.push(start.elapsed());
        assert_eq!(selection.tokens.len(), 1);
        selector.release(&request.spender, None, NOW).expect("held");
    }
    println!("exact single hit at 1 M tokens: {}", percentiles(times));
}

fn hundred_inputs() {
    let selector = filled((0..MILLION).map(|n| Token::new(format!("t{n}"), "w", "EUR", 1)));
    let scope = Scope::wallet("w", "EUR");
    let mut random = Random::new(1);
    let (mut selects, mut releases) = (Vec::new(), Vec::new());
    for round in 0..20_000 {
        let request = SelectRequest::new(format!("s{round}"), scope.clone(), 100);
        let start = Instant::now();
        let selection = selector.select(&request, NOW, &mut random).expect("enough");
        selects.push(start.elapsed());
        assert_eq!(selection.tokens.len(), 100);
        let start = Instant::now();
        selector.release(&request.spender, None, NOW).expect("held");
        releases.push(start.elapsed());
    }
    println!("100 inputs of 1 M: select {}", percentiles(selects));
    println!("                   release {}", percentiles(releases));
}

fn many_wallets(threads: usize, wallets: usize, exact: bool) {
    let mut random = Random::new(5);
    let amounts: Vec<u64> = (0..100 * wallets).map(|_| amount(&mut random)).collect();
    let tokens = amounts.iter().enumerate();
    let selector = filled(
        tokens
            .map(|(n, quantity)| Token::new(format!("t{n}"), format!("w{}", n % wallets), "EUR", *quantity)),
    );
    let ready = std::sync::Barrier::new(threads);
    let work = |thread: usize| {
        let mut random = Random::new(u64::try_from(thread).expect("small"));
        let spender: std::sync::Arc<str> = format!("spender-{thread}").into();
        // Each thread has names of its own, as requests from outside would.
        let currency: std::sync::Arc<str> = "EUR".into();
        let scope = |n: usize| Scope::wallet(format!("w{n}"), currency.clone());
        // Made before the clock starts: looking up what to ask for is not the selector's work.
        let requests: Vec<SelectRequest> = (0..200_000)
            .map(|_| {
                let token = random.index(amounts.len());
                let wanted = if exact { amounts[token] } else { 1 + random.below(1_000_000) };
                SelectRequest::new(spender.clone(), scope(token % wallets), wanted)
            })
            .collect();
        ready.wait();
        let (start, before, mut refused) = (Instant::now(), on_core(), 0_u64);
        for request in requests.iter().cycle().take(ROUNDS) {
            match selector.select(request, NOW, &mut random) {
                Ok(_) => _ = selector.release(&spender, None, NOW).expect("held"),
                Err(_) => refused += 1,
            }
        }
        (start.elapsed(), on_core() - before, refused)
    };
    let done: Vec<(Duration, Duration, u64)> = std::thread::scope(|all| {
        let workers: Vec<_> = (0..threads).map(|thread| all.spawn(move || work(thread))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let slowest = done.iter().map(|(wall, ..)| *wall).max().unwrap_or_default();
    let core: Duration = done.iter().map(|(_, core, _)| *core).sum();
    let refused: u64 = done.iter().map(|(.., refused)| refused).sum();
    let rounds = threads * ROUNDS;
    let rate = rounds as f64 / slowest.as_secs_f64();
    let kind = if exact { "exact hits" } else { "any amount" };
    let inputs = selector.counters().inputs as f64 / selector.counters().selections as f64;
    println!(
        "{wallets} wallets of 100, {threads} threads, {kind}: {:.2} M select+release/s, {} ns of a core each, {:.2} inputs, {} refused",
        rate / 1e6,
        core.as_nanos() / rounds as u128,
        inputs,
        refused
    );
}

fn contention(threads: usize) {
    let selector = filled((0..1_000).map(|n| Token::new(format!("t{n}"), "w", "EUR", 1)));
    let scope = Scope::wallet("w", "EUR");
    let start = Instant::now();
    std::thread::scope(|all| {
        for thread in 0..threads {
            let (selector, scope) = (&selector, &scope);
            all.spawn(move || {
                let mut random = Random::new(u64::try_from(thread).expect("small"));
                for round in 0..20_000 {
                    let request = SelectRequest::new(format!("s{thread}-{round}"), scope.clone(), 100);
                    selector.select(&request, NOW, &mut random).expect("800 of 1,000 at most are locked");
                    selector.release(&request.spender, None, NOW).expect("held");
                }
            });
        }
    });
    let rate = (threads * 20_000) as f64 / start.elapsed().as_secs_f64();
    println!("one wallet of 1,000 tokens, {threads} threads, 100 inputs each: {rate:.0} select+release/s");
}

/// How long this thread has had a core, from /proc; on a busy machine a fairer clock than the wall's.
fn on_core() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// The memory of this process, from /proc; 0 where there is none.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    4_096 * pages
}
