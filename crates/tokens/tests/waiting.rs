//! Who waits is served in order, by events, and never holds a part.

use std::sync::mpsc::{Receiver, TryRecvError, channel};

use holdfast_tokens::{
    ClaimAnswer, Claimed, Config, MemorySelector, Output, Owner, Random, Refusal, Scope, SelectRequest,
    Selecting, Selection, SpendRequest, Ticket, Token, TokenSelector,
};

const NOW: i64 = 1_700_000_000_000;

type Answer = Receiver<Result<Selection, Refusal>>;

fn scope() -> Scope {
    Scope::wallet("alice", "EUR")
}

fn selector(quantities: &[u64]) -> MemorySelector {
    let selector = MemorySelector::new(Config::default());
    let token = |(number, quantity): (usize, &u64)| {
        Token::new(format!("t{number}"), "alice", "EUR", *quantity).external_id("account")
    };
    selector.issue(quantities.iter().enumerate().map(token).collect(), NOW).expect("fresh");
    selector
}

fn ask(selector: &MemorySelector, request: SelectRequest, until: i64) -> (Option<Ticket>, Answer) {
    let (sender, receiver) = channel();
    let answer = Box::new(move |outcome| sender.send(outcome).expect("the test listens"));
    (selector.select_or_wait(request, None, until, NOW, Random::new(1), answer), receiver)
}

fn wait(selector: &MemorySelector, spender: &str, amount: u64) -> Answer {
    let (ticket, answer) = ask(selector, SelectRequest::new(spender, scope(), amount), NOW + 10_000);
    assert!(ticket.is_some(), "{spender} should wait");
    assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
    answer
}

/// The name of the refusal that comes at once.
fn refused(selector: &MemorySelector, spender: &str, amount: u64) -> &'static str {
    let (ticket, answer) = ask(selector, SelectRequest::new(spender, scope(), amount), NOW + 10_000);
    assert!(ticket.is_none());
    answer.try_recv().expect("at once").expect_err("it cannot be given").name()
}

fn hold(selector: &MemorySelector, spender: &str, amount: u64) -> Selection {
    selector.select(&SelectRequest::new(spender, scope(), amount), NOW, &mut Random::new(1)).expect("enough")
}

#[test]
fn unlock_serves_in_order() {
    let selector = selector(&[10, 20]);
    hold(&selector, "a", 10);
    hold(&selector, "b", 20);
    let large = wait(&selector, "large", 30);
    let small = wait(&selector, "small", 5);
    selector.release("a", None, NOW).expect("held");
    assert_eq!(large.try_recv(), Err(TryRecvError::Empty), "20 are missing, and nothing is held meanwhile");
    assert_eq!(small.try_recv(), Err(TryRecvError::Empty), "first come, first served");
    assert_eq!(selector.balance(&scope(), NOW).expect("a balance").free, 10);
    selector.release("b", None, NOW).expect("held");
    assert_eq!(large.try_recv().expect("served").expect("enough").sum, 30);
    assert_eq!(small.try_recv(), Err(TryRecvError::Empty));
    selector.release("large", None, NOW).expect("held");
    assert_eq!(small.try_recv().expect("served").expect("enough").sum, 10);
    assert_eq!((selector.counters().waiting, selector.counters().waits), (0, 2));
    assert_eq!(selector.next_wakeup(), None);
}

#[test]
fn change_and_issue_wake() {
    let selector = selector(&[10]);
    hold(&selector, "a", 10);
    let rest = wait(&selector, "rest", 6);
    selector.spend(&SpendRequest::new("a", vec![Output::new("bob", 4)]), NOW).expect("live");
    assert_eq!(rest.try_recv().expect("served").expect("change").sum, 6);
    let fresh = wait(&selector, "fresh", 5);
    selector.issue(vec![Token::new("new", "alice", "EUR", 5)], NOW).expect("fresh");
    assert_eq!(fresh.try_recv().expect("served").expect("issued").sum, 5);
}

#[test]
fn what_can_never_be_given_is_refused_at_once() {
    let selector = selector(&[10]);
    assert_eq!(refused(&selector, "s", 11), "insufficient-funds", "10 in all");
    // Also behind others in the queue.
    hold(&selector, "a", 10);
    let first = wait(&selector, "first", 10);
    assert_eq!(refused(&selector, "s", 11), "insufficient-funds", "10 in all");
    // And when the funds go for good.
    selector.spend(&SpendRequest::new("a", vec![Output::new("bob", 4)]), NOW).expect("live");
    assert_eq!(first.try_recv().expect("at once").expect_err("6 are left").name(), "insufficient-funds");
}

#[test]
fn lease_end_and_deadline_come_with_the_clock() {
    let selector = selector(&[10]);
    let mut short = SelectRequest::new("a", scope(), 10);
    short.lease_ms = 3_000;
    selector.select(&short, NOW, &mut Random::new(1)).expect("enough");
    let next = wait(&selector, "next", 10);
    let late = wait(&selector, "late", 10);
    assert_eq!(selector.next_wakeup(), Some(NOW + 3_000));
    selector.tick(NOW + 2_999);
    assert_eq!(next.try_recv(), Err(TryRecvError::Empty));
    selector.tick(NOW + 3_000);
    assert_eq!(next.try_recv().expect("served").expect("the lease ended").expires_at, NOW + 63_000);
    assert_eq!(selector.next_wakeup(), Some(NOW + 10_000));
    selector.tick(NOW + 10_000);
    let refusal = late.try_recv().expect("answered").expect_err("the wait is over");
    assert_eq!((refusal.name(), refusal.funds().expect("numbers").locked), ("funds-locked", 10));
    assert_eq!(selector.next_wakeup(), None);
}

#[test]
fn calling_off_lets_the_next_one_in() {
    let selector = selector(&[10, 20]);
    hold(&selector, "b", 20);
    let (ticket, first) = ask(&selector, SelectRequest::new("first", scope(), 30), NOW + 10_000);
    let second = wait(&selector, "second", 10);
    assert!(selector.call_off(&ticket.expect("it waits"), NOW));
    assert_eq!(first.try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(second.try_recv().expect("served").expect("10 are free").sum, 10);
}

#[test]
fn waiters_under_other_index_kinds_are_woken_too() {
    let selector = selector(&[10]);
    hold(&selector, "a", 10);
    for owner in [Owner::ExternalId("account".into()), Owner::Any] {
        let request = SelectRequest::new("other", Scope::new(owner, "EUR"), 10);
        let (ticket, answer) = ask(&selector, request, NOW + 10_000);
        assert!(ticket.is_some());
        selector.release("a", None, NOW).expect("held");
        assert_eq!(answer.try_recv().expect("served").expect("free").sum, 10);
        selector.release("other", None, NOW).expect("held");
        hold(&selector, "a", 10);
    }
}

#[test]
fn the_number_of_waiters_is_bounded() {
    let selector = MemorySelector::new(Config { waiters_max: 1, ..Config::default() });
    selector.issue(vec![Token::new("t", "alice", "EUR", 10)], NOW).expect("fresh");
    hold(&selector, "a", 10);
    let _first = wait(&selector, "first", 10);
    assert_eq!(refused(&selector, "second", 10), "too-many-waiters");
}

#[test]
fn an_answer_may_go_on_with_the_selector() {
    // Each answer spends and so serves the next: 200 answers, one after the other, not one inside the other.
    let selector = std::sync::Arc::new(selector(&[200]));
    hold(&selector, "a", 200);
    let (sender, receiver) = channel();
    for number in 0..200 {
        let (inner, sender) = (selector.clone(), sender.clone());
        let spender = format!("s{number}");
        let request = SelectRequest::new(spender.as_str(), scope(), 1);
        let answer = Box::new(move |outcome: Result<Selection, Refusal>| {
            outcome.expect("its turn comes");
            inner.spend(&SpendRequest::new(spender, vec![Output::new("bob", 1)]), NOW).expect("live");
            sender.send(number).expect("the test listens");
        });
        assert!(selector.select_or_wait(request, None, NOW + 10_000, NOW, Random::new(1), answer).is_some());
    }
    selector.release("a", None, NOW).expect("held");
    let order: Vec<i32> = receiver.try_iter().collect();
    assert_eq!(order, (0..200).collect::<Vec<_>>());
}

#[test]
fn claims_wait_as_well() {
    let selector = selector(&[10]);
    hold(&selector, "a", 10);
    let (sender, receiver) = channel();
    let later =
        || -> ClaimAnswer { Box::new(move |outcome| sender.send(outcome).expect("the test listens")) };
    let request = SelectRequest::new("host", scope(), 10);
    let asked = selector.claim_or_wait(&request, None, NOW + 10_000, NOW, Random::new(1), later);
    assert!(matches!(asked, Selecting::Waits(_)));
    selector.release("a", None, NOW).expect("held");
    let Ok(Claimed::New(claim)) = receiver.try_recv().expect("served") else { panic!("a new claim") };
    assert!(selector.undo(&claim, NOW));
    assert_eq!(selector.balance(&scope(), NOW).expect("a balance").free, 10);
}
