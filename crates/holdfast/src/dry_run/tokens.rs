//! A dry run of a selection: a vault made of the case, one `select` at the instant `now`, and its answer as HTTP would
//! give it: a selection, or the problem of a refusal. Both are answers; only a bad file is not.
//!
//! What the case leaves open is settled here:
//!
//! - Time stands still: `waitMs` is read and nobody waits.
//! - A lock whose `expiresAt` is not after `now` is free, whoever has it. `expiresAt` is RFC 3339 or milliseconds.
//! - Entries of `locks` with the same spender are one lock, so those that still run have one fence and one end.
//! - A case does not say what a lock was asked for. If the select's own spender holds tokens that answer the select, it
//!   is taken for a repeat and gets them again; otherwise its name is in use.
//! - An amount of 0, or of 2^64 and more, is a whole number that no vault has: it is answered with its problem. All else
//!   that HTTP would call malformed makes the file bad.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail, ensure};
use holdfast_tokens::limits::BATCH_TOKENS_MAX;
use holdfast_tokens::{
    Config, Filter, Fingerprint, LockRecord, MemorySelector, Random, Refusal, SelectRequest, Token,
    TokenSelector,
};
use holdfast_wire::limits::TOKEN_NAME_CHARS_MAX;
use holdfast_wire::read;
use holdfast_wire::tokens::{NewToken, Problem, Select, Selection};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{Object, Strict};

/// Fixed, so that the same case has the same answer everywhere.
const HASH_SEED: u64 = 0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    now: i64,
    seed: u64,
    tokens: Vec<Strict>,
    #[serde(deserialize_with = "super::objects")]
    locks: Vec<CaseLock>,
    select: Strict,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CaseLock {
    token: String,
    spender: String,
    #[serde(deserialize_with = "instant")]
    expires_at: i64,
    #[serde(deserialize_with = "fence")]
    fence: u64,
}

super::parts! {
    Case: "a case",
    CaseLock: "a lock",
}

/// A number, or its text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written<N> {
    Number(N),
    Text(String),
}

fn instant<'de, D: Deserializer<'de>>(field: D) -> Result<i64, D::Error> {
    let wrong = || serde::de::Error::custom("expiresAt is neither RFC 3339 nor milliseconds since 1970");
    match Written::<i64>::deserialize(field).map_err(|_| wrong())? {
        Written::Number(millis) => Ok(millis),
        Written::Text(text) => {
            text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond).map_err(|_| wrong())
        }
    }
}

fn fence<'de, D: Deserializer<'de>>(field: D) -> Result<u64, D::Error> {
    let wrong = || serde::de::Error::custom("a fence is a whole number, as a string or a number");
    match Written::<u64>::deserialize(field).map_err(|_| wrong())? {
        Written::Number(fence) => Ok(fence),
        Written::Text(text) if is_whole(&text) => text.parse().map_err(|_| wrong()),
        Written::Text(_) => Err(wrong()),
    }
}

fn is_whole(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

/// Runs the case and returns the answer.
///
/// # Errors
/// Says what is wrong with the case.
pub(crate) fn run(text: &str) -> Result<Value> {
    let Object(case): Object<Case> = serde_json::from_str(text)?;
    let (request, vault) = match (read_select(&case.select.0)?, vault(&case)?) {
        (Err(problem), _) => return Ok(problem),
        (Ok(request), vault) => (request, vault),
    };
    vault.lock(&case, &request)?;
    Ok(match vault.selector.select(&request, case.now, &mut Random::new(case.seed)) {
        Ok(found) => json!(Selection::from(&found)),
        Err(refusal) => json!(Problem::from(&refusal)),
    })
}

/// The request; or its problem, if nothing is wrong with it but that its amount is out of bounds.
fn read_select(select: &Value) -> Result<Result<SelectRequest, Value>> {
    let request = |select: &Value| read::value::<Select>(select).and_then(Select::ask);
    let problem = match request(select) {
        Ok((request, _wait_ms)) => return Ok(Ok(request)),
        Err(problem) => problem,
    };
    let mut otherwise = select.clone();
    if let Some(amount) = otherwise.get_mut("amount").filter(|amount| amount.as_str().is_some_and(is_whole)) {
        *amount = Value::from("1");
        if request(&otherwise).is_ok() {
            let mut answer = Problem::from(&Refusal::Invalid(problem.clone()));
            // As the edge says it, which finds this before any selector does.
            answer.head.detail = problem;
            return Ok(Err(json!(answer)));
        }
    }
    Err(anyhow!("select: {problem}"))
}

struct Vault {
    selector: MemorySelector,
    tokens: BTreeMap<String, Token>,
}

fn vault(case: &Case) -> Result<Vault> {
    let selector = MemorySelector::new(Config { hash_seed: Some(HASH_SEED), ..Config::default() });
    let mut tokens = BTreeMap::new();
    for (place, Strict(token)) in case.tokens.iter().enumerate() {
        let token = read::value::<NewToken>(token).and_then(NewToken::token);
        let token = token.map_err(|problem| anyhow!("tokens[{place}]: {problem}"))?;
        let twice = tokens.insert(token.id.as_str().to_owned(), token).map(|token| token.id);
        ensure!(twice.is_none(), "tokens[{place}]: its id is there twice: give each token its own");
    }
    let all: Vec<Token> = tokens.values().cloned().collect();
    for part in all.chunks(BATCH_TOKENS_MAX) {
        selector.issue(part.to_vec(), case.now).context("the tokens of the case")?;
    }
    Ok(Vault { selector, tokens })
}

impl Vault {
    /// Puts the locks of the case on its tokens.
    fn lock(&self, case: &Case, request: &SelectRequest) -> Result<()> {
        let mut live: BTreeMap<&str, Vec<&CaseLock>> = BTreeMap::new();
        let mut held: BTreeMap<&str, &str> = BTreeMap::new();
        for (place, lock) in case.locks.iter().enumerate() {
            let CaseLock { token, spender, .. } = lock;
            ensure!(self.tokens.contains_key(token), "locks[{place}]: there is no token {token}");
            let named = (1..=TOKEN_NAME_CHARS_MAX).contains(&spender.chars().count());
            ensure!(named, "locks[{place}]: spender must have 1 to {TOKEN_NAME_CHARS_MAX} characters");
            if lock.expires_at <= case.now {
                continue;
            }
            if let Some(other) = held.insert(token, spender) {
                bail!("locks[{place}]: {token} is locked twice, for {other} and for {spender}");
            }
            let of_spender = live.entry(spender).or_default();
            let fits = of_spender
                .first()
                .is_none_or(|first| (first.fence, first.expires_at) == (lock.fence, lock.expires_at));
            ensure!(
                fits,
                "locks[{place}]: {spender} has one lock at a time, with one fence and one expiresAt"
            );
            of_spender.push(lock);
        }
        // In the order in which they were made, so that the next fence is the one after the highest.
        let mut live: Vec<(&str, Vec<&CaseLock>)> = live.into_iter().collect();
        live.sort_by_key(|(_, locks)| locks.first().map(|lock| lock.fence));
        for (spender, locks) in live {
            let first = locks.first().context("a spender without a lock")?;
            let tokens: Vec<&Token> = locks.iter().filter_map(|lock| self.tokens.get(&lock.token)).collect();
            let repeats = spender == &*request.spender && answers(&tokens, request);
            let record = LockRecord {
                spender: spender.into(),
                fence: first.fence,
                since: case.now,
                expires_at: first.expires_at,
                amount: request.amount,
                body: if repeats { request.fingerprint() } else { Fingerprint::default() },
                ids: tokens.iter().map(|token| token.id.clone()).collect(),
            };
            self.selector
                .apply_lock(&record, case.now)
                .with_context(|| format!("the lock of {spender} cannot be put back"))?;
        }
        case.locks.iter().for_each(|lock| self.selector.raise_fence(lock.fence));
        Ok(())
    }
}

/// Whether the tokens could be what the request was answered with.
fn answers(tokens: &[&Token], request: &SelectRequest) -> bool {
    let sum: u128 = tokens.iter().map(|token| u128::from(token.quantity)).sum();
    let enough = request.allow_shortfall || sum >= u128::from(request.amount);
    let few = request.max_inputs.is_none_or(|max| tokens.len() <= max);
    let fits = |token: &&Token| request.scope.owns(token) && passes(token, &request.filter);
    enough && few && tokens.iter().all(fits)
}

fn passes(token: &Token, filter: &Filter) -> bool {
    let kind = &token.kind;
    (filter.issuer.is_none() || filter.issuer == kind.issuer)
        && (filter.notary.is_none() || filter.notary == kind.notary)
        && kind.has_attributes(&filter.attributes)
}
