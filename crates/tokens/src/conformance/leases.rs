//! Promises about locks, leases, fences and spenders.

use super::fixture::{Host, START, alice, refused, request, select, try_select, with_tokens};
use crate::contract::TokenSelector;
use crate::request::{Output, SpendRequest};

fn spend(spender: &str, fence: Option<u64>) -> SpendRequest {
    SpendRequest { fence, ..SpendRequest::new(spender, vec![Output::new("bob", 1)]) }
}

pub(super) fn rollback<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5, 6]);
    let selection = select(&selector, "s1", 11);
    assert_eq!(refused(selector.release("s1", Some(selection.fence + 1), START)), "lease-lost");
    assert_eq!(selector.release("s1", Some(selection.fence), START), Ok(2));
    assert_eq!(selector.release("s1", None, START), Ok(0));
    assert_eq!(selector.balance(&alice(), START).expect("a balance").free, 11);
    assert_eq!(refused(selector.spend(&spend("s1", None), START)), "lease-lost");
    assert_eq!(select(&selector, "s2", 11).sum, 11);
}

pub(super) fn lease_end_without_a_sweep<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5]);
    let held = select(&selector, "s1", 5);
    let before = try_select(&selector, &request("s2", 5), held.expires_at - 1);
    assert_eq!(refused(before), "funds-locked");
    assert_eq!(selector.balance(&alice(), held.expires_at - 1).expect("a balance").free, 0);
    assert_eq!(selector.balance(&alice(), held.expires_at).expect("a balance").free, 5);
    let taken = try_select(&selector, &request("s2", 5), held.expires_at).expect("free at its end");
    assert!(taken.fence > held.fence);
}

pub(super) fn renew<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5]);
    let held = select(&selector, "s1", 5);
    let lease = selector.renew("s1", Some(held.fence), 90_000, START + 1_000).expect("live");
    assert_eq!((lease.expires_at, lease.fence), (START + 91_000, held.fence));
    assert_eq!(refused(try_select(&selector, &request("s2", 5), held.expires_at)), "funds-locked");
    assert_eq!(refused(selector.renew("s1", None, 1_000, lease.expires_at)), "lease-lost");
    assert_eq!(refused(selector.renew("nobody", None, 1_000, START)), "lease-lost");
    assert_eq!(refused(selector.renew("s1", None, 0, START)), "invalid");
    try_select(&selector, &request("s2", 5), lease.expires_at).expect("free at the new end");
}

pub(super) fn fences<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5, 6, 7]);
    let first = select(&selector, "s1", 5);
    let second = select(&selector, "s2", 6);
    assert!(second.fence > first.fence);
    selector.release("s1", None, START).expect("released");
    let third = select(&selector, "s1", 5);
    assert!(third.fence > second.fence, "the fence rises with each selection");
    assert_eq!(refused(selector.spend(&spend("s1", Some(first.fence)), START)), "lease-lost");
    assert_eq!(refused(selector.renew("s1", Some(first.fence), 1_000, START)), "lease-lost");
    selector.spend(&spend("s1", Some(third.fence)), START).expect("the right fence");
}

pub(super) fn expired_holder_cannot_spend<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5]);
    let held = select(&selector, "s1", 5);
    assert_eq!(refused(selector.spend(&spend("s1", Some(held.fence)), held.expires_at)), "lease-lost");
    assert_eq!(refused(selector.renew("s1", None, 1_000, held.expires_at)), "lease-lost");
    let next = try_select(&selector, &request("s2", 5), held.expires_at).expect("free");
    // Also with a clock that runs late.
    assert_eq!(refused(selector.spend(&spend("s1", Some(held.fence)), START)), "lease-lost");
    selector.spend(&spend("s2", Some(next.fence)), held.expires_at).expect("the live holder spends");
}

pub(super) fn restart_with_locks<S: TokenSelector + Host>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5, 6, 7]);
    let held = select(&selector, "s1", 5);
    let mut short = request("s2", 6);
    short.lease_ms = 1_000;
    try_select(&selector, &short, START).expect("enough");
    let selector = selector.restart(START + 2_000);
    let balance = selector.balance(&alice(), START + 2_000).expect("a balance");
    assert_eq!((balance.total, balance.free, balance.locked), (18, 13, 5));
    // The same body gets the same answer, also now.
    assert_eq!(try_select(&selector, &request("s1", 5), START + 2_000), Ok(held.clone()));
    let fresh = try_select(&selector, &request("s3", 6), START + 2_000).expect("enough");
    assert!(fresh.fence > held.fence, "the sequence goes on");
    selector.spend(&spend("s1", Some(held.fence)), START + 2_000).expect("the lock came back");
    let lost = selector.spend(&spend("s2", None), START + 2_000);
    assert_eq!(refused(lost), "lease-lost");
}

pub(super) fn same_spender_twice<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5, 5, 6]);
    let first = select(&selector, "s1", 5);
    assert_eq!(select(&selector, "s1", 5), first);
    assert_eq!(refused(try_select(&selector, &request("s1", 6), START)), "spender-in-use");
    let later = try_select(&selector, &request("s1", 6), first.expires_at).expect("the old lease has ended");
    assert_eq!(later.sum, 6);
}

pub(super) fn lock_list<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5, 6]);
    let held = select(&selector, "s1", 5);
    let locks = selector.locks(Some(&alice()), START + 500).expect("a list");
    assert_eq!(locks.len(), 1);
    assert_eq!((&*locks[0].spender, locks[0].fence, locks[0].age_ms(START + 500)), ("s1", held.fence, 500));
    assert_eq!(locks[0].tokens, held.tokens.to_vec());
    assert_eq!(selector.locks(None, held.expires_at).expect("a list"), []);
    let bob = crate::request::Scope::wallet("bob", "EUR");
    assert_eq!(selector.locks(Some(&bob), START).expect("a list"), []);
}
