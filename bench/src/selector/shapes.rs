//! The wallets, and what is asked of them.

use std::sync::Arc;
use std::time::Instant;

use holdfast_load::LoadError;
use holdfast_load::figures::per;
use holdfast_load::meter::Usage;
use holdfast_load::report::Row;
use holdfast_tokens::{Random, Scope, SelectRequest, Token};

use super::drive::{Figures, run};
use super::engine::{Engine, Ours};
use super::peers::{Corda, Sherdlock};
use super::{SelectorBench, THREADS};

/// Requests a thread makes before the clock starts and repeats until the time is over.
const REQUESTS: usize = 50_000;
/// Tokens and threads of the contended wallet.
const CONTENDED_TOKENS: u64 = 1_000;
const CONTENDING_THREADS: usize = 8;
/// What the peers' own benchmark asks for.
const ONES_ASKED: u64 = 100;

type Cases = Vec<Figures>;

/// An amount of one to six digits, each number of digits as often as the others.
fn amount(random: &mut Random) -> u64 {
    let digits = 10_u64.pow(u32::try_from(random.below(6)).expect("below 6"));
    digits + random.below(9 * digits)
}

/// Amounts of the realistic wallets, in the order of the tokens.
fn amounts(options: &SelectorBench) -> Vec<u64> {
    let mut random = Random::new(options.seed);
    (0..options.tokens).map(|_| amount(&mut random)).collect()
}

/// An id of 36 bytes, as a UUID has.
fn id(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn spread<'a>(amounts: &'a [u64], wallets: &'a [Arc<str>]) -> impl Iterator<Item = Token> + 'a {
    let currency: Arc<str> = "EUR".into();
    amounts.iter().enumerate().map(move |(number, quantity)| {
        Token::new(id(number), wallets[number % wallets.len()].clone(), currency.clone(), *quantity)
    })
}

fn wallet_names(count: usize) -> Vec<Arc<str>> {
    (0..count).map(|number| format!("wallet-{number}").into()).collect()
}

fn one_wallet(tokens: u64, quantity: impl Fn(u64) -> u64) -> impl Iterator<Item = Token> {
    let (wallet, currency): (Arc<str>, Arc<str>) = ("wallet".into(), "EUR".into());
    (0..tokens).map(move |number| {
        let id = id(usize::try_from(number).expect("counted tokens fit"));
        Token::new(id, wallet.clone(), currency.clone(), quantity(number))
    })
}

fn spender(thread: usize) -> Arc<str> {
    format!("spender-{thread}").into()
}

/// How long a load takes, making the tokens included, and what a token costs.
pub(super) fn load(options: &SelectorBench) -> Result<Row, LoadError> {
    let (amounts, wallets) = (amounts(options), wallet_names(options.wallets));
    let resident = || Usage::of(std::process::id()).rss_bytes;
    let before = resident();
    let start = Instant::now();
    let loaded = Ours::filled(spread(&amounts, &wallets))?;
    let took = start.elapsed();
    let bytes = resident().saturating_sub(before);
    Ok(Row::default()
        .count("tokens", options.tokens)
        .count("wallets", options.wallets as u64)
        .number("seconds", took.as_secs_f64(), 2)
        .number("bytes each", per(bytes, options.tokens), 0)
        // By the selector's own estimate, which its bound goes by.
        .number("counted", per(loaded.counted_bytes(), options.tokens), 0))
}

type Requests<'a> = Box<dyn Fn(usize, &mut Random) -> Vec<SelectRequest> + Sync + 'a>;

/// What is asked, and by how many threads.
struct Ask<'a> {
    name: &'static str,
    threads: &'a [usize],
    /// The peers do not look for an exact amount, so they are not asked for one.
    is_exact: bool,
    /// What a thread asks for, made before the clock starts.
    requests: Requests<'a>,
}

/// Fills each engine, asks it and lets it go before the next.
fn each_engine<T: Iterator<Item = Token>>(
    options: &SelectorBench,
    tokens: impl Fn() -> T,
    asks: &[Ask<'_>],
    cases: &mut Cases,
) -> Result<(), LoadError> {
    let ours = Ours::filled(tokens())?;
    let before = cases.len();
    measure(options, &ours, true, asks, cases);
    if let Some(case) = cases[before..].iter().find(|case| case.selections == 0 || case.refused > 0) {
        let what = format!("{} of {} selections of the shape {}", case.refused, case.selections, case.shape);
        return Err(LoadError::Refused(format!("the selector refused {what}, and none may be refused")));
    }
    drop(ours);
    measure(options, &Corda::filled(tokens(), &mut Random::new(options.seed)), false, asks, cases);
    measure(options, &Sherdlock::filled(tokens(), &mut Random::new(options.seed)), false, asks, cases);
    Ok(())
}

fn measure<E: Engine>(
    options: &SelectorBench,
    engine: &E,
    is_ours: bool,
    asks: &[Ask<'_>],
    cases: &mut Cases,
) {
    for Ask { name, threads, requests, .. } in asks.iter().filter(|ask| is_ours || !ask.is_exact) {
        let one = |threads: &usize| run(name, engine, *threads, options.time(), options.seed, requests);
        cases.extend(threads.iter().map(one));
    }
}

/// One wallet, one thread, and an amount for each request.
fn alone<'a>(name: &'static str, amount: impl Fn(&mut Random) -> u64 + Sync + 'a) -> Ask<'a> {
    let requests = move |thread: usize, random: &mut Random| {
        let (spender, scope) = (spender(thread), Scope::wallet("wallet", "EUR"));
        let request = |_| SelectRequest::new(spender.clone(), scope.clone(), amount(random));
        (0..REQUESTS).map(request).collect()
    };
    Ask { name, threads: &[1], is_exact: false, requests: Box::new(requests) }
}

/// The peers' own shape: tokens of value 1 in one wallet, 100 of them asked for.
pub(super) fn ones(options: &SelectorBench, cases: &mut Cases) -> Result<(), LoadError> {
    each_engine(options, || one_wallet(options.tokens, |_| 1), &[alone("ones", |_| ONES_ASKED)], cases)
}

/// Different amounts in one wallet, one of them asked for.
pub(super) fn exact(options: &SelectorBench, cases: &mut Cases) -> Result<(), LoadError> {
    let tokens = options.tokens;
    let one_of_them = alone("exact", move |random| 2 * random.below(tokens) + 2);
    each_engine(options, || one_wallet(tokens, |number| 2 * number + 2), &[one_of_them], cases)
}

/// Many wallets with amounts over six orders of magnitude.
pub(super) fn wallets(options: &SelectorBench, cases: &mut Cases) -> Result<(), LoadError> {
    let (amounts, names) = (amounts(options), wallet_names(options.wallets));
    let mut totals = vec![0; names.len()];
    amounts.iter().enumerate().for_each(|(token, quantity)| totals[token % names.len()] += quantity);
    // Any amount that 32 others can ask the same wallet for without anybody running out.
    let any_amount =
        |wallet: usize, random: &mut Random| 1 + random.below((totals[wallet] / 64).clamp(1, 1_000_000));
    let (amounts, names, any_amount) = (&amounts, &names, &any_amount);
    let ask = |name, is_exact| {
        // Each thread has names of its own, as requests from outside would.
        let requests = move |thread: usize, random: &mut Random| {
            let (spender, currency): (_, Arc<str>) = (spender(thread), "EUR".into());
            let request = |_| {
                let token = random.index(amounts.len());
                let wallet = token % names.len();
                let amount = if is_exact { amounts[token] } else { any_amount(wallet, random) };
                let scope = Scope::wallet(&*names[wallet], currency.clone());
                SelectRequest::new(spender.clone(), scope, amount)
            };
            (0..REQUESTS).map(request).collect()
        };
        Ask { name, threads: &THREADS, is_exact, requests: Box::new(requests) }
    };
    let asks = [ask("wallets, exact", true), ask("wallets", false)];
    each_engine(options, || spread(amounts, names), &asks, cases)
}

/// Several threads on one small wallet. They never ask for more than there is.
pub(super) fn contention(options: &SelectorBench, cases: &mut Cases) -> Result<(), LoadError> {
    let requests = |thread: usize, _: &mut Random| {
        vec![SelectRequest::new(spender(thread), Scope::wallet("wallet", "EUR"), ONES_ASKED)]
    };
    let ask = Ask {
        name: "contention",
        threads: &[CONTENDING_THREADS],
        is_exact: false,
        requests: Box::new(requests),
    };
    each_engine(options, || one_wallet(CONTENDED_TOKENS, |_| 1), &[ask], cases)
}
