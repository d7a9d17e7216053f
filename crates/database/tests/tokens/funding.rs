//! Locks of prepares on their way, and wallets that are brought together, as an adversary looked at them.

use std::time::Duration;

use holdfast_database::tokens::limits::FUNDING_LEASE_MS;
use holdfast_database::tokens::{Funded, TokenVault};
use holdfast_engine::Wallets as _;
use holdfast_tokens::{ConsolidationOptions, Owner, Refusal, Scope, SelectRequest, Token};

use crate::world::{World, runtime};

const TRANSFER: &str = "00000000-0000-0000-0000-000000000001";
const NOW: i64 = 1_800_000_000_000;
const OPTIONS: ConsolidationOptions =
    ConsolidationOptions { every: Duration::from_secs(1), tokens_min: 20, outputs: 4, inputs_max: 256 };

/// Tokens of `alice` for the transfer.
async fn fund(vault: &TokenVault, amount: u64) -> Result<Funded, Refusal> {
    vault.fund_for(FUNDING_LEASE_MS, TRANSFER, "alice".into(), "USD", amount).await
}

/// A prepare whose first sending came to nothing is sent again shortly before the lock's lease ends: it must not travel with
/// a lock that ends on its way.
#[test]
fn a_repeated_prepare_has_time_to_travel() {
    let Some(world) = World::start("adv_lease", 1, Some(NOW)) else { return };
    runtime().block_on(async {
        let node = world.node();
        node.issue(vec![Token::new("a", "alice", "USD", 10)]).await.unwrap();
        let first = fund(node, 10).await.unwrap();
        assert_eq!(first.selection.expires_at, NOW + 300_000);
        world.at(NOW + 299_999);
        let again = fund(world.node(), 10).await.unwrap();
        assert_eq!((again.selection.fence, again.made), (first.selection.fence, false));
    });
    let ends = "SELECT (extract(epoch FROM expires_at) * 1000)::bigint FROM token_selection";
    assert_eq!(world.database.count(ends), NOW + 299_999 + 300_000);
}

/// The second sending of a prepare finds the lock of the first, which may be on its way: it is not the second's to give back.
#[test]
fn a_repeat_knows_that_the_tokens_are_anothers() {
    let Some(world) = World::start("adv_429", 2, None) else { return };
    runtime().block_on(async {
        world.node().issue(vec![Token::new("a", "alice", "USD", 10)]).await.unwrap();
        let mut made = Vec::new();
        // At this node and at the other, and again.
        for _ in 0..4 {
            made.push(fund(world.node(), 10).await.unwrap().made);
        }
        assert_eq!(made, [true, false, false, false]);
    });
}

/// Tokens of one wallet that are of two owners by another name, or of two kinds by their attributes.
#[test]
fn consolidation_leaves_owners_what_they_have() {
    let Some(world) = World::start("adv_owners", 1, None) else { return };
    runtime().block_on(async {
        let node = world.node();
        let token = |number: usize, owner: &str| {
            Token::new(format!("{owner}-{number}"), "pool", "USD", 10).external_id(owner)
        };
        let tokens = (0..20).map(|n| token(n, if n % 2 == 0 { "ann" } else { "ben" })).collect();
        node.issue(tokens).await.unwrap();
        let request = OPTIONS.request("c", Scope::wallet("pool", "USD"));
        assert!(node.consolidate(request).await.unwrap().is_none(), "none of them is the wallet's alone");
        let of = |owner: &str| Scope::new(Owner::ExternalId(owner.into()), "USD");
        let (ann, ben) = (node.holdings(of("ann")).await.unwrap(), node.holdings(of("ben")).await.unwrap());
        assert_eq!((ann.0.total, ben.0.total), (100, 100));
    });
}

/// A prepare for a wallet that has enough, while some of its tokens are being brought together.
#[test]
fn a_wallet_that_is_brought_together_pays() {
    let Some(world) = World::start("adv_together", 1, None) else { return };
    runtime().block_on(async {
        let node = world.node();
        let tokens = (0..50).map(|n| Token::new(format!("d{n}"), "alice", "USD", 1)).collect();
        node.issue(tokens).await.unwrap();
        let request = OPTIONS.request("consolidation-x", Scope::wallet("alice", "USD"));
        let (select, predicate) = holdfast_tokens::Consolidation::select_request(&request);
        // The keeper has selected, and dies before it spends.
        let taken = node.select_where(select, predicate.as_ref(), 0).await.unwrap();
        assert_eq!(taken.tokens.len(), 10);
        fund(node, 40).await.unwrap();
    });
}

/// Transfers that live for longer than the lease of their lock: no node hears that the lock became a hold.
#[test]
fn long_holds_do_not_keep_others_from_paying() {
    let Some(world) = World::start("adv_long", 1, Some(NOW)) else { return };
    runtime().block_on(async {
        let node = world.node();
        let mut tokens: Vec<Token> =
            (0..200).map(|n| Token::new(format!("big{n:03}"), "alice", "USD", 100)).collect();
        tokens.push(Token::new("free", "alice", "USD", 100));
        node.issue(tokens).await.unwrap();
        for number in 0..200 {
            node.fund(&format!("00000000-0000-0000-0000-0000000001{number:02x}"), "alice".into(), "USD", 100)
                .await
                .unwrap();
        }
    });
    // What the step does: holds without an end.
    world.database.run(
        "UPDATE token_selection SET expires_at = 'infinity', payee_wallet = 'bob';
         UPDATE token_lock SET expires_at = 'infinity' WHERE spender_tx_id IS NOT NULL",
    );
    world.at(NOW + 300_001);
    runtime().block_on(async {
        let mut refused = 0;
        while let Err(refusal) = fund(world.node(), 100).await {
            assert!(matches!(refusal, Refusal::Contention { .. }), "{refusal}");
            refused += 1;
            assert!(refused < 20);
        }
        assert_eq!(refused, 0, "so often 503, and one token was free all the time");
    });
}

/// The steps of a node that ends go on for a while. One wallet that others hold must not look to them as if there were no store.
#[test]
fn a_node_that_ends_still_tells_what_others_hold() {
    let Some(world) = World::start("tokens_ending", 1, None) else { return };
    runtime().block_on(async {
        let node = world.node();
        let tokens = vec![Token::new("t", "alice", "USD", 10), Token::new("u", "bob", "USD", 10)];
        node.issue(tokens).await.unwrap();
        node.select(SelectRequest::new("other", Scope::wallet("alice", "USD"), 10), 0).await.unwrap();
        world.nodes[0].end_waiting();
        let refused = fund(node, 10).await.unwrap_err();
        assert_eq!(refused.name(), "funds-locked");
        let refused =
            node.select(SelectRequest::new("late", Scope::wallet("alice", "USD"), 10), 60_000).await;
        assert_eq!(refused.unwrap_err().name(), "store-unavailable", "who wants to wait is told");
        node.select(SelectRequest::new("free", Scope::wallet("bob", "USD"), 10), 60_000).await.unwrap();
    });
}
