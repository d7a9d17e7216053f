//! What a host with a log and a vault of its own relies on: two-step claims, replay, loading, bounds.

use std::sync::Arc;

use holdfast_tokens::limits::{LIST_TOKENS_MAX, NO_END};
use holdfast_tokens::{
    Claim, Claimed, Config, Consolidation, ConsolidationJob, ConsolidationRequest, Fingerprint, LockRecord,
    LockSummary, MemorySelector, Output, Owner, OwnerKind, Policy, Predicate, Random, Refusal, Scope,
    SelectRequest, SpendRequest, Token, TokenId, TokenSelector, TokenState, Transaction,
};

const NOW: i64 = 1_700_000_000_000;

fn scope() -> Scope {
    Scope::wallet("alice", "EUR")
}

fn tokens(quantities: &[u64]) -> Vec<Token> {
    let numbered = quantities.iter().enumerate();
    numbered.map(|(number, quantity)| Token::new(format!("t{number}"), "alice", "EUR", *quantity)).collect()
}

fn selector(quantities: &[u64]) -> MemorySelector {
    let selector = MemorySelector::new(Config::default());
    selector.issue(tokens(quantities), NOW).expect("fresh");
    selector
}

fn request(spender: &str, amount: u64) -> SelectRequest {
    SelectRequest::new(spender, scope(), amount)
}

fn select(selector: &MemorySelector, spender: &str, amount: u64) -> Result<u128, Refusal> {
    selector.select(&request(spender, amount), NOW, &mut Random::new(1)).map(|selection| selection.sum)
}

fn claim(selector: &MemorySelector, spender: &str, amount: u64) -> Claim {
    match selector.claim(&request(spender, amount), None, NOW, &mut Random::new(1)).expect("enough") {
        Claimed::New(claim) => claim,
        Claimed::Held(selection) => panic!("{selection:?} is held already"),
    }
}

fn free(selector: &MemorySelector) -> u128 {
    selector.balance(&scope(), NOW).expect("a balance").free
}

#[test]
fn a_claim_is_confirmed_or_undone() {
    let selector = selector(&[5, 6]);
    let first = claim(&selector, "s1", 5);
    assert_eq!((first.sum, free(&selector)), (5, 6));
    // It does not end by itself, is no lock yet, and its spender is taken.
    assert_eq!(selector.balance(&scope(), NOW + 1_000_000).expect("a balance").free, 6);
    let again = selector.claim(&request("s1", 5), None, NOW, &mut Random::new(1));
    assert_eq!(again.expect_err("not decided").name(), "spender-in-use");
    let pay = SpendRequest::new("s1", vec![Output::new("bob", 5)]);
    assert_eq!(selector.spend(&pay, NOW).expect_err("not confirmed").name(), "lease-lost");
    assert_eq!(selector.release("s1", None, NOW), Ok(0));
    let selection = selector.confirm(&first, 77, NOW + 500).expect("pending");
    assert_eq!((selection.fence, selection.expires_at), (77, NOW + 500));
    assert_eq!(selector.confirm(&first, 78, NOW + 500).expect_err("once").name(), "lease-lost");
    assert!(!selector.undo(&first, NOW));
    let held = selector.claim(&request("s1", 5), None, NOW, &mut Random::new(1)).expect("the same body");
    assert_eq!(held, Claimed::Held(selection));
    let second = claim(&selector, "s2", 6);
    assert!(selector.undo(&second, NOW));
    assert!(!selector.undo(&second, NOW));
    assert_eq!(free(&selector), 6);
    assert_eq!(selector.balance(&scope(), NOW + 500).expect("a balance").free, 11, "the host's end counts");
    // Our own fences go on above the host's.
    assert!(selector.select(&request("s3", 6), NOW, &mut Random::new(1)).expect("free").fence > 77);
}

#[test]
fn replay_applies_and_never_chooses() {
    let selector = selector(&[5, 6, 7]);
    let record = |spender: &str, fence, expires_at, ids: &[&str]| LockRecord {
        since: NOW,
        expires_at,
        ..record(spender, fence, ids)
    };
    let first = record("s1", 10, NOW + 100, &["t0", "t2"]);
    selector.apply_lock(&first, NOW).expect("free");
    selector.apply_lock(&first, NOW).expect("a record may come twice");
    assert_eq!(free(&selector), 6);
    let second = record("s2", 11, NOW + 900, &["t2", "t1"]);
    assert_eq!(selector.apply_lock(&second, NOW + 99).expect_err("t2 is held").name(), "contention");
    assert_eq!(free(&selector), 6, "nothing of it was taken");
    // At the frame's time the first lease has ended.
    selector.apply_lock(&second, NOW + 100).expect("free or expired");
    assert_eq!(selector.balance(&scope(), NOW + 100).expect("a balance").free, 5);
    assert_eq!(selector.apply_lease_end("s2", 10, NOW + 100), 0, "another fence");
    selector.apply_renew("s2", 11, NO_END, NOW + 100).expect("live");
    assert_eq!(selector.balance(&scope(), i64::MAX - 1).expect("a balance").free, 5, "a hold without lease");
    let pay = SpendRequest::new("s2", vec![Output::new("bob", 13)]);
    let done = spent("s2", &["t2", "t1"], vec![Token::new("out", "bob", "EUR", 13)]);
    for _ in 0..2 {
        selector.apply_spend(&done, pay.fingerprint(), NOW).expect("as the log says");
    }
    assert_eq!(selector.spend(&pay, NOW), Ok(done));
    assert_eq!(selector.balance(&Scope::wallet("bob", "EUR"), NOW).expect("a balance").free, 13);
    let gone = record("s4", 12, NOW + 900, &["t1"]);
    assert_eq!(selector.apply_lock(&gone, NOW).expect_err("spent").name(), "token-consumed");
    let unknown = record("s4", 12, NOW + 900, &["nothing"]);
    assert_eq!(selector.apply_lock(&unknown, NOW).expect_err("unknown").name(), "unknown-token");
    selector.apply_lock(&record("s5", 13, NOW + 900, &["t0"]), NOW).expect("free");
    assert_eq!(selector.apply_unlock("s5", Some(13), NOW), Ok(1));
}

fn record(spender: &str, fence: u64, ids: &[&str]) -> LockRecord {
    LockRecord {
        spender: spender.into(),
        fence,
        since: NOW + 1,
        expires_at: NOW + 900,
        amount: 5,
        body: request(spender, 5).fingerprint(),
        ids: ids.iter().map(|id| TokenId::from(*id)).collect(),
    }
}

fn spent(spender: &str, consumed: &[&str], produced: Vec<Token>) -> Transaction {
    let consumed = consumed.iter().map(|id| TokenId::from(*id)).collect();
    Transaction { id: "tx".into(), spender: spender.into(), consumed, produced }
}

#[test]
fn a_claim_becomes_the_lock_of_its_record() {
    let selector = selector(&[5, 6, 7]);
    let both = claim(&selector, "s1", 11);
    assert_eq!(both.tokens.len(), 2);
    // In whatever order the record names them.
    let ids: Vec<&str> = both.tokens.iter().rev().map(|token| token.id.as_str()).collect();
    selector.apply_lock(&record("s1", 40, &ids), NOW).expect("its own claim");
    assert_eq!(free(&selector), 7);
    let locks = selector.locks(None, NOW).expect("locks");
    assert_eq!((locks[0].fence, locks[0].since, locks[0].expires_at), (40, NOW + 1, NOW + 900));
    // The claim is decided: giving it up late frees nothing, confirming it with the same fence changes nothing.
    assert!(!selector.undo(&both, NOW));
    assert_eq!(selector.confirm(&both, 40, NOW + 5).expect("stands").expires_at, NOW + 900);
    assert_eq!(selector.confirm(&both, 41, NOW + 5).expect_err("another").name(), "lease-lost");
    assert_eq!(free(&selector), 7);
    let again = selector.claim(&request("s1", 5), None, NOW, &mut Random::new(1)).expect("the record's body");
    assert!(matches!(again, Claimed::Held(held) if held.fence == 40 && held.sum == 11));
    assert_eq!(selector.balance(&scope(), NOW + 900).expect("a balance").free, 18, "it ends by itself");
}

#[test]
fn a_claim_on_other_tokens_gives_way_to_the_record() {
    let selector = selector(&[5, 6, 7]);
    let old = claim(&selector, "s1", 5);
    selector.apply_lock(&record("s1", 40, &["t1"]), NOW).expect("the log is right");
    assert_eq!(free(&selector), 12, "what was claimed is free");
    assert_eq!(selector.confirm(&old, 50, NOW + 900).expect_err("gave way").name(), "lease-lost");
    assert!(!selector.undo(&old, NOW));
    assert_eq!(free(&selector), 12);
    // Also if the record itself cannot be applied.
    let old = claim(&selector, "s2", 7);
    let refusal = selector.apply_lock(&record("s2", 41, &["t1"]), NOW).expect_err("s1 holds it");
    assert_eq!((refusal.name(), free(&selector)), ("contention", 12));
    assert!(!selector.undo(&old, NOW));
    let twice = selector.apply_lock(&record("s2", 41, &["t0", "t0"]), NOW).expect_err("twice");
    assert_eq!(twice.name(), "invalid");
}

#[test]
fn the_log_takes_tokens_from_claims_of_others() {
    for indexes in [vec![OwnerKind::Wallet], vec![OwnerKind::TokenOnly]] {
        let selector = MemorySelector::new(Config { indexes, ..Config::default() });
        selector.issue(tokens(&[1, 2, 4, 8, 16, 32]), NOW).expect("fresh");
        let broken = [claim(&selector, "c1", 3), claim(&selector, "c2", 12), claim(&selector, "c3", 48)];
        assert_eq!(broken.each_ref().map(|claim| claim.sum), [3, 12, 48]);
        assert_eq!(free(&selector), 0);
        // A lock takes 1 of c1, a spend 4 of c2, an update 16 of c3.
        selector.apply_lock(&record("s1", 40, &["t0"]), NOW).expect("only claimed");
        selector.apply_spend(&spent("s2", &["t2"], vec![]), Fingerprint(1), NOW).expect("only claimed");
        selector.update(&["t4".into()], vec![], NOW).expect("only claimed");
        assert_eq!(free(&selector), 0, "the rest of each claim stays set aside");
        for claim in &broken {
            assert_eq!(selector.confirm(claim, 60, NOW + 900).expect_err("broken").name(), "lease-lost");
        }
        let own = selector.apply_lock(&record("c1", 41, &["t0", "t1"]), NOW).expect_err("s1 holds t0");
        assert_eq!(own.name(), "contention");
        let undone = broken.each_ref().map(|claim| selector.undo(claim, NOW));
        assert_eq!(undone, [false, true, true], "c1 gave way to its own record");
        let any = Scope::new(Owner::Any, "EUR");
        for scope in [scope(), any] {
            let balance = selector.balance(&scope, NOW).expect("a balance");
            assert_eq!((balance.free, balance.locked), (2 + 8 + 32, 1));
        }
        assert_eq!(selector.release("s1", Some(40), NOW), Ok(1));
        assert_eq!(free(&selector), 1 + 2 + 8 + 32);
    }
}

#[test]
fn exported_locks_come_back_with_their_end() {
    let old = selector(&[5, 6, 7]);
    select(&old, "s1", 5).expect("free");
    select(&old, "s2", 6).expect("free");
    let _pending = claim(&old, "s3", 7);
    let locks = old.export_locks(NOW);
    assert_eq!(locks.len(), 2, "a claim that is not confirmed is the host's");
    let new = MemorySelector::new(Config::default());
    new.begin_load();
    new.load_page(tokens(&[5])).expect("within the bounds");
    let restored = new.restore_locks(&locks, NOW);
    assert_eq!(
        (restored.locks, restored.broken),
        (1, vec!["s2".into()]),
        "t1 is not there: said, not hidden"
    );
    new.load_page(tokens(&[5, 6, 7])).expect("within the bounds");
    assert_eq!(new.restore_locks(&locks, NOW).locks, 2);
    new.end_load();
    assert_eq!(free(&new), 7);
    assert_eq!(new.balance(&scope(), NOW + 60_000).expect("a balance").free, 18);
    assert_eq!(new.restore_locks(&locks, NOW + 60_000).expired, 2);
}

#[test]
fn pages_and_updates_in_any_order() {
    let selector = MemorySelector::new(Config { tombstones_max: 256 * 4, ..Config::default() });
    selector.begin_load();
    assert_eq!(select(&selector, "s", 1).expect_err("incomplete").name(), "loading");
    selector.load_page(tokens(&[1, 2])).expect("first page");
    // Spent before its page came, produced before its page came, spent after.
    selector
        .update(&["t3".into(), "t0".into()], vec![Token::new("t4", "alice", "EUR", 16)], NOW)
        .expect("taken");
    assert_eq!(select(&selector, "s", 1).expect_err("incomplete").name(), "loading");
    assert_eq!(selector.load_page(tokens(&[1, 2, 4, 8, 16])), Ok(1));
    selector.end_load();
    assert_eq!(free(&selector), 2 + 4 + 16);
    // While loading, early consumes are never forgotten: at the bound they are refused.
    selector.begin_load();
    let early = (0..)
        .find_map(|number| selector.update(&[TokenId::from(format!("early{number}"))], vec![], NOW).err());
    assert_eq!(early.expect("bounded").name(), "full");
}

#[test]
fn memory_is_bounded_with_an_error() {
    let selector = MemorySelector::new(Config { tokens_max: 3, ..Config::default() });
    selector.issue(tokens(&[1, 2]), NOW).expect("two fit");
    let more = vec![Token::new("x", "alice", "EUR", 1), Token::new("y", "alice", "EUR", 1)];
    let refusal = selector.issue(more, NOW).expect_err("four do not fit");
    assert_eq!(refusal, Refusal::Full { what: "the number of tokens is", limit: 3 });
    assert_eq!(selector.balance(&scope(), NOW).expect("a balance").tokens, 2, "all or none");
    selector.issue(vec![Token::new("x", "alice", "EUR", 1)], NOW).expect("three fit");
    // A spend that leaves no more tokens than before is not stopped by a full vault.
    select(&selector, "s", 2).expect("free");
    selector.spend(&SpendRequest::new("s", vec![Output::new("bob", 2)]), NOW).expect("one for one");

    let small = MemorySelector::new(Config { bytes_max: 2_000, ..Config::default() });
    let issued =
        (0..100).take_while(|n| small.issue(vec![Token::new(format!("t{n}"), "a", "EUR", 1)], NOW).is_ok());
    let issued = issued.count();
    assert!((3..20).contains(&issued), "{issued}");
    assert!(small.counters().bytes <= 2_000);
    let ids: Vec<TokenId> = (0..issued).map(|n| format!("t{n}").into()).collect();
    small.update(&ids, vec![], NOW).expect("gone");
    assert_eq!((small.counters().bytes, small.counters().tokens), (0, 0), "all given back");
}

#[test]
fn the_memory_of_spends_is_bounded() {
    let selector = MemorySelector::new(Config { spends_max: 256, hash_seed: Some(1), ..Config::default() });
    selector.issue(tokens(&[1; 2_000]), NOW).expect("fresh");
    for number in 0..2_000 {
        let spender = format!("s{number}");
        select(&selector, &spender, 1).expect("free");
        selector.spend(&SpendRequest::redeem(spender, 1), NOW).expect("live");
    }
    let repeated = |number: usize| selector.spend(&SpendRequest::redeem(format!("s{number}"), 1), NOW);
    repeated(1_999).expect("the last is remembered");
    let remembered = (0..2_000).filter(|number| repeated(*number).is_ok()).count();
    assert!((128..=256).contains(&remembered), "{remembered}");
}

#[test]
fn consolidation_into_n_outputs() {
    let selector = selector(&[1, 2, 3, 4, 5, 1_000]);
    let mut plan = ConsolidationRequest::new("c1", scope(), 2);
    plan.quantity_max = 10;
    let done =
        Consolidation::run(&selector, &plan, NOW, &mut Random::new(1)).expect("free").expect("worth it");
    let mut quantities: Vec<u64> = done.produced.iter().map(|token| token.quantity).collect();
    quantities.sort_unstable();
    assert_eq!((done.consumed.len(), quantities), (5, vec![7, 8]));
    // Two into two is no gain; nothing stays locked.
    plan.spender = "c2".into();
    assert!(Consolidation::run(&selector, &plan, NOW, &mut Random::new(1)).expect("free").is_none());
    assert_eq!(free(&selector), 1_015);
    plan.outputs = 0;
    let refusal = Consolidation::run(&selector, &plan, NOW, &mut Random::new(1)).expect_err("into nothing");
    assert_eq!(refusal.name(), "invalid");
}

#[test]
fn a_job_consolidates_within_its_limits() {
    let selector = MemorySelector::new(Config::default());
    for wallet in 0..20 {
        let count = if wallet < 10 { 300 } else { 50 };
        let token = |n: u64| Token::new(format!("t{wallet}-{n}"), format!("w{wallet}"), "EUR", 1 + n % 7);
        selector.issue((0..count).map(token).collect(), NOW).expect("fresh");
    }
    let before = selector.counters().tokens;
    let mut job = ConsolidationJob::new("job-1");
    (job.tokens_min, job.max_inputs, job.outputs, job.wallets_per_step) = (100, 256, 8, 100);
    let report = job.step(&selector, NOW, &mut Random::new(1)).expect("no trouble");
    assert_eq!((report.wallets, report.inputs, report.outputs), (10, 2_560, 80));
    assert_eq!(selector.counters().tokens, before - 2_560 + 80);
    let report = job.step(&selector, NOW, &mut Random::new(1)).expect("no trouble");
    assert_eq!(report.wallets, 0, "nothing is shattered any more");
    let found = selector.fragmentation(&Scope::wallet("w0", "EUR"), NOW).expect("counted");
    assert_eq!(found.tokens.iter().sum::<usize>(), 52);
    assert_eq!(found.sums.iter().sum::<u128>(), (0..300).map(|n| 1 + n % 7).sum::<u128>());
}

#[test]
fn locks_are_counted_without_a_list() {
    let selector = selector(&[5, 6, 7]);
    assert_eq!(selector.lock_summary(NOW), LockSummary::default());
    assert_eq!(selector.lock_summary(NOW).oldest_ms(NOW), 0);
    // One lock of two tokens since NOW + 1, one of a token since NOW, and a claim, which is no lock yet.
    selector.apply_lock(&record("s1", 40, &["t0", "t1"]), NOW).expect("free");
    let pending = claim(&selector, "s2", 7);
    let summary = selector.lock_summary(NOW + 100);
    assert_eq!(summary, LockSummary { locks: 1, oldest_since: Some(NOW + 1) });
    assert_eq!(summary.oldest_ms(NOW + 100), 99);
    selector.confirm(&pending, 41, NOW + 500).expect("pending");
    assert_eq!(selector.lock_summary(NOW + 100), LockSummary { locks: 2, oldest_since: Some(NOW) });
    assert_eq!(
        selector.lock_summary(NOW + 100).locks,
        selector.locks(None, NOW + 100).expect("a list").len()
    );
    // Its lease ends, the other's is renewed and then given back; a remembered spend is no lock.
    assert_eq!(selector.lock_summary(NOW + 500), LockSummary { locks: 1, oldest_since: Some(NOW + 1) });
    selector.renew("s1", None, 2_000, NOW + 500).expect("live");
    assert_eq!(selector.lock_summary(NOW + 900).locks, 1);
    selector.spend(&SpendRequest::new("s1", vec![Output::new("bob", 11)]), NOW + 900).expect("held");
    assert_eq!(selector.lock_summary(NOW + 900), LockSummary::default());
}

#[test]
fn tokens_are_listed_by_state() {
    let selector = selector(&[5, 6, 7]);
    select(&selector, "s", 6).expect("free");
    let list = |state, after: Option<&str>, max| {
        let after = after.map(TokenId::from);
        let page = selector.tokens(&scope(), state, after.as_ref(), max, NOW).expect("known");
        page.tokens.iter().map(|(token, locked)| (token.quantity, *locked)).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None, 10), [(5, false), (6, true), (7, false)]);
    assert_eq!(list(Some(TokenState::Free), None, 10), [(5, false), (7, false)]);
    assert_eq!(list(Some(TokenState::Locked), None, 10), [(6, true)]);
    assert_eq!(list(None, Some("t0"), 1), [(6, true)]);
    // A lease that has ended locks nothing.
    let later = selector.tokens(&scope(), Some(TokenState::Locked), None, 10, NOW + 100_000).expect("known");
    assert!(later.tokens.is_empty());
}

#[test]
fn a_listing_goes_on_behind_tokens_that_went() {
    let selector = MemorySelector::new(Config { stripes: 4, ..Config::default() });
    let token =
        |n: usize| Token::new(format!("t{n}"), format!("w{}", n % 7), "EUR", 1).external_id("account");
    selector.issue((0..500).map(token).collect(), NOW).expect("fresh");
    for owner in [Owner::Any, Owner::ExternalId("account".into()), Owner::Wallet("w3".into())] {
        let scope = Scope::new(owner.clone(), "EUR");
        let all = selector.tokens(&scope, None, None, 1_000, NOW).expect("from the start");
        assert_eq!(all.next, None);
        let mut expected: Vec<TokenId> = all.tokens.into_iter().map(|(token, _)| token.id).collect();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = selector.tokens(&scope, None, after.as_ref(), 7, NOW).expect("known");
            seen.extend(page.tokens.iter().map(|(token, _)| token.id.clone()));
            let Some(next) = page.next else { break };
            // The token to go on from is spent, and its place is taken by another.
            let gone = selector.update(std::slice::from_ref(&next), vec![], NOW).expect("there");
            assert_eq!(gone, (1, 0));
            let name = format!("new-{}-{}", owner.name(), seen.len());
            selector.issue(vec![Token::new(name, "other", "USD", 1)], NOW).expect("fresh");
            after = Some(next);
        }
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen, expected, "each once, none twice");
    }
    let nobody = TokenId::from("nobody");
    let refusal = selector.tokens(&scope(), None, Some(&nobody), 7, NOW).expect_err("never here");
    assert_eq!(refusal.name(), "unknown-token");
}

#[test]
fn a_page_is_bounded_work() {
    let selector = MemorySelector::new(Config { stripes: 1, ..Config::default() });
    for page in 0..25 {
        let token = |n: u32| Token::new(format!("t{page}-{n}"), "big", "EUR", 1);
        selector.issue((0..10_000).map(token).collect(), NOW).expect("fresh");
    }
    selector.issue(vec![Token::new("last", "small", "EUR", 1)], NOW).expect("fresh");
    let small = Scope::wallet("small", "EUR");
    let (mut pages, mut after, mut seen) = (0, None, 0);
    loop {
        let page = selector.tokens(&small, None, after.as_ref(), 10, NOW).expect("known");
        (pages, seen) = (pages + 1, seen + page.tokens.len());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((pages, seen), (250_000 / LIST_TOKENS_MAX + 1, 1));
}

#[test]
fn a_predicate_that_panics_says_no() {
    let selector = selector(&[5, 6]);
    let moody: Predicate = Arc::new(|token| if token.quantity == 5 { panic!("not this one") } else { true });
    let mut any = request("s", 1);
    any.policy = Policy::Random;
    let found = selector.select_where(&any, Some(&moody), NOW, &mut Random::new(1)).expect("6 passes");
    assert_eq!(found.sum, 6);
    assert_eq!(select(&selector, "s2", 5), Ok(5), "the selector goes on");
}

#[test]
fn the_same_seed_makes_the_same_choices() {
    let run = |seed| {
        let selector = MemorySelector::new(Config { hash_seed: Some(1), ..Config::default() });
        selector.issue(tokens(&[5; 100]), NOW).expect("fresh");
        let mut random = Random::new(seed);
        (0..20)
            .map(|n| {
                selector.select(&request(&format!("s{n}"), 5), NOW, &mut random).expect("free").tokens[0]
                    .id
                    .clone()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_ne!(Fingerprint::default(), request("s", 1).fingerprint());
}
