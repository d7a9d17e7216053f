//! The wallets, and what is asked of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Wallets and the requests to them.
trait Shape {
    fn tokens(&self) -> impl Iterator<Item = Token>;

    fn measure<E: Engine>(&self, engine: &E, is_ours: bool, cases: &mut Cases);
}

/// Fills each engine, measures it and lets it go before the next.
fn each_engine(options: &SelectorBench, shape: &impl Shape, cases: &mut Cases) -> Result<(), LoadError> {
    let ours = Ours::filled(shape.tokens())?;
    let before = cases.len();
    shape.measure(&ours, true, cases);
    if let Some(case) = cases[before..].iter().find(|case| case.selections == 0 || case.refused > 0) {
        let what = format!("{} of {} selections of the shape {}", case.refused, case.selections, case.shape);
        return Err(LoadError::Refused(format!("the selector refused {what}, and none may be refused")));
    }
    drop(ours);
    shape.measure(&Corda::filled(shape.tokens(), &mut Random::new(options.seed)), false, cases);
    shape.measure(&Sherdlock::filled(shape.tokens(), &mut Random::new(options.seed)), false, cases);
    Ok(())
}

/// One wallet, one thread, and an amount for each request.
struct Single<Q, A> {
    name: &'static str,
    tokens: u64,
    quantity: Q,
    ask: A,
    time: Duration,
    seed: u64,
}

impl<Q: Fn(u64) -> u64, A: Fn(&mut Random) -> u64 + Sync> Shape for Single<Q, A> {
    fn tokens(&self) -> impl Iterator<Item = Token> {
        one_wallet(self.tokens, &self.quantity)
    }

    fn measure<E: Engine>(&self, engine: &E, _: bool, cases: &mut Cases) {
        let ask = &self.ask;
        let requests = |thread: usize, random: &mut Random| {
            let (spender, scope) = (spender(thread), Scope::wallet("wallet", "EUR"));
            let request = |_| SelectRequest::new(spender.clone(), scope.clone(), ask(random));
            (0..REQUESTS).map(request).collect()
        };
        cases.push(run(self.name, engine, 1, self.time, self.seed, requests));
    }
}

/// The peers' own shape: tokens of value 1 in one wallet, 100 of them asked for.
pub(super) fn ones(options: &SelectorBench, cases: &mut Cases) -> Result<(), LoadError> {
    let SelectorBench { tokens, seed, .. } = *options;
    let shape = Single {
        name: "ones",
        tokens,
        quantity: |_| 1,
        ask: |_: &mut Random| ONES_ASKED,
        time: options.time(),
        seed,
    };
    each_engine(options, &shape, cases)
}

/// Different amounts in one wallet, one of them asked for.
pub(super) fn exact(options: &SelectorBench, cases: &mut Cases) -> Result<(), LoadError> {
    let SelectorBench { tokens, seed, .. } = *options;
    let quantity = |number: u64| 2 * number + 2;
    let ask = |random: &mut Random| 2 * random.below(tokens) + 2;
    each_engine(options, &Single { name: "exact", tokens, quantity, ask, time: options.time(), seed }, cases)
}

/// Many wallets with amounts over six orders of magnitude. The peers do not look for an exact amount, so they are asked for
/// any amount only.
struct Wallets<'a> {
    amounts: &'a [u64],
    names: &'a [Arc<str>],
    /// What each wallet has.
    totals: Vec<u64>,
    time: Duration,
    seed: u64,
}

impl Shape for Wallets<'_> {
    fn tokens(&self) -> impl Iterator<Item = Token> {
        spread(self.amounts, self.names)
    }

    fn measure<E: Engine>(&self, engine: &E, is_ours: bool, cases: &mut Cases) {
        for exact in [true, false] {
            if exact && !is_ours {
                continue;
            }
            // Each thread has names of its own, as requests from outside would.
            let requests = |thread: usize, random: &mut Random| {
                let (spender, currency): (_, Arc<str>) = (spender(thread), "EUR".into());
                let request = |_| {
                    let token = random.index(self.amounts.len());
                    let wallet = token % self.names.len();
                    let amount = if exact { self.amounts[token] } else { self.any_amount(wallet, random) };
                    let scope = Scope::wallet(&*self.names[wallet], currency.clone());
                    SelectRequest::new(spender.clone(), scope, amount)
                };
                (0..REQUESTS).map(request).collect()
            };
            let name = if exact { "wallets, exact" } else { "wallets" };
            for threads in THREADS {
                cases.push(run(name, engine, threads, self.time, self.seed, requests));
            }
        }
    }
}

impl Wallets<'_> {
    /// Any amount that 32 others can ask the same wallet for without anybody running out.
    fn any_amount(&self, wallet: usize, random: &mut Random) -> u64 {
        1 + random.below((self.totals[wallet] / 64).clamp(1, 1_000_000))
    }
}

pub(super) fn wallets(options: &SelectorBench, cases: &mut Cases) -> Result<(), LoadError> {
    let (amounts, names) = (amounts(options), wallet_names(options.wallets));
    let mut totals = vec![0; names.len()];
    amounts.iter().enumerate().for_each(|(token, quantity)| totals[token % names.len()] += quantity);
    let seed = options.seed;
    each_engine(
        options,
        &Wallets { amounts: &amounts, names: &names, totals, time: options.time(), seed },
        cases,
    )
}

/// Several threads on one small wallet. They never ask for more than there is.
struct Contended {
    time: Duration,
    seed: u64,
}

impl Shape for Contended {
    fn tokens(&self) -> impl Iterator<Item = Token> {
        one_wallet(CONTENDED_TOKENS, |_| 1)
    }

    fn measure<E: Engine>(&self, engine: &E, _: bool, cases: &mut Cases) {
        let requests = |thread: usize, _: &mut Random| {
            vec![SelectRequest::new(spender(thread), Scope::wallet("wallet", "EUR"), ONES_ASKED)]
        };
        cases.push(run("contention", engine, CONTENDING_THREADS, self.time, self.seed, requests));
    }
}

pub(super) fn contention(options: &SelectorBench, cases: &mut Cases) -> Result<(), LoadError> {
    each_engine(options, &Contended { time: options.time(), seed: options.seed }, cases)
}
