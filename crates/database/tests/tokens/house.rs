//! What the node does that keeps house, while payments go on.

use std::time::Duration;

use holdfast_engine::Wallets as _;
use holdfast_tokens::{Output, Scope, SelectRequest, SpendRequest, Token};

use crate::world::{World, runtime};

/// What was spent goes with its changes, and a lease that ended counts as given back. Its token was free before.
#[test]
fn what_is_over_is_removed_while_payments_go_on() {
    let Some(mut world) = World::start("tokens_house", 2, None) else { return };
    let scope = Scope::wallet("alice", "EUR");
    let runtime = runtime();
    runtime.block_on(async {
        let here = world.nodes[0].vault();
        let tokens = (0..20).map(|number| Token::new(format!("t-{number}"), "alice", "EUR", 1)).collect();
        here.issue(tokens).await.unwrap();
        for number in 0..10 {
            let spender = format!("s-{number}");
            here.select(SelectRequest::new(&*spender, scope.clone(), 1), 0).await.unwrap();
            here.spend(SpendRequest::new(&*spender, vec![Output::new("bob", 1)])).await.unwrap();
        }
        for number in 0..10 {
            let request = SelectRequest::new(format!("slow-{number}"), scope.clone(), 1);
            here.select(SelectRequest { lease_ms: 1, ..request }, 1_000).await.unwrap();
        }
        // All ten are there for whoever comes next, and nobody has swept.
        let all = SelectRequest::new("all", scope.clone(), 10);
        let all = here.select(SelectRequest { lease_ms: 1, ..all }, 1_000).await.unwrap();
        assert_eq!(all.tokens.len(), 10);
    });
    assert_eq!(world.database.count("SELECT count(*) FROM token_selection WHERE state = 'HELD'"), 11);
    world.nodes[1].keep_house(Duration::ZERO);
    let database = &world.database;
    database.await_count("SELECT count(*) FROM token_change", |changes| changes == 0);
    database.await_count("SELECT count(*) FROM token", |tokens| tokens == 20);
    database.await_count("SELECT count(*) FROM token_selection WHERE state = 'HELD'", |held| held == 0);
    assert_eq!(database.count("SELECT count(*) FROM token_selection WHERE state = 'SPENT'"), 10);
}
