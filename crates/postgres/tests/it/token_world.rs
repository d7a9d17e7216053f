//! What tests of tokens do again and again: tokens are locked and spent, and it is counted what the server reads for that.

use holdfast_postgres::Store;
use holdfast_postgres::tokens::{ClaimVerdict, WantedClaim, WantedSpend};
use holdfast_services::Database;
use holdfast_tokens::{Fingerprint, Token, Transaction};

pub const LEASE_MS: i64 = 300_000;

/// A claim on exactly these tokens.
pub fn wanted(spender: &str, tokens: &[Token]) -> WantedClaim {
    let (spender, tokens) = (spender.into(), tokens.into());
    WantedClaim { spender, body: Fingerprint(1), amount: 1, lease_ms: LEASE_MS, tokens }
}

/// Locks these tokens; the fence.
pub fn lock(store: &mut Store, spender: &str, tokens: &[Token]) -> u64 {
    let verdicts = store.claim_tokens(&[wanted(spender, tokens)], None).unwrap();
    let [ClaimVerdict::Locked { fence, .. }] = verdicts[..] else { panic!("{verdicts:?}") };
    fence
}

/// The spend of what was locked with that fence.
pub fn spend(fence: u64, spender: &str, consumed: &[Token], produced: Token) -> WantedSpend {
    let consumed = consumed.iter().map(|token| token.id.clone()).collect();
    let (id, spender, produced) = (spender.into(), spender.into(), vec![produced]);
    let transaction = Transaction { id, spender, consumed, produced };
    WantedSpend { fence, body: Fingerprint(2), transaction }
}

/// Issues the token `t-NAME` and locks it; the spend that makes `p-NAME` of it.
pub fn selected(store: &mut Store, name: &str) -> WantedSpend {
    let token = [Token::new(format!("t-{name}"), "alice", "EUR", 1)];
    store.issue_tokens(&token, None).unwrap().unwrap();
    let fence = lock(store, name, &token);
    spend(fence, name, &token, Token::new(format!("p-{name}"), "bob", "EUR", 1))
}

/// Rows of these tables that scans have read so far, when so many others are connected. The server counts what a connection has
/// read when that ends, at the latest.
pub fn rows_read(database: &Database, connected: i64, tables: &str) -> i64 {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                  AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    database.await_count(others, |others| others == connected);
    database.count(&format!(
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables
         WHERE relname IN ({tables})"
    ))
}
