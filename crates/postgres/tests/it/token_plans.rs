//! Plans that were made while the tables were empty do not read them whole when they are not.

use holdfast_postgres::tokens::SpendVerdict;
use holdfast_postgres::{Settings, Store};
use holdfast_services::Database;
use holdfast_tokens::Scope;

use crate::token_world::{rows_read, selected};

/// Far more than one request may look at.
const ROWS: i64 = 50_000;

const TABLES: &str = "'token', 'token_lock', 'token_selection'";

fn select_and_spend(store: &mut Store, name: &str) {
    let spend = selected(store, name);
    assert_eq!(store.spend_tokens(&[spend], None).unwrap(), [Some(SpendVerdict::Spent)]);
}

#[test]
fn plans_of_empty_tables_stay_good_when_they_are_full() {
    let Some(database) = Database::new("token_plans") else { return };
    let mut store = Store::open_for_tokens(database.url(), Settings::default()).unwrap();
    let mut sql = database.sql();
    // Nobody is to tell the planner that they have grown.
    sql.batch_execute("ALTER TABLE token_selection SET (autovacuum_enabled = off)").unwrap();
    sql.batch_execute("ALTER TABLE token_lock SET (autovacuum_enabled = off)").unwrap();
    sql.batch_execute("VACUUM ANALYZE token, token_lock, token_selection").unwrap();
    select_and_spend(&mut store, "first");
    sql.batch_execute(&format!(
        "INSERT INTO token_lock (token_id, spent) SELECT 'old-' || n, true FROM generate_series(1, {ROWS}) n;
         INSERT INTO token_selection
             (spender_tx_id, state, fence, body, amount, token_ids, created_at, expires_at, changed_at)
         SELECT 'old-' || n, 'SPENT', 0, gen_random_uuid(), 1, '{{}}', hub_clock(), hub_clock(), hub_clock()
         FROM generate_series(1, {ROWS}) n"
    ))
    .unwrap();
    drop(sql);
    let before = rows_read(&database, 1, TABLES);
    select_and_spend(&mut store, "second");
    drop(store);
    let read = rows_read(&database, 0, TABLES) - before;
    assert!(read < ROWS / 10, "one selection and its spend have read {read} rows");
}

/// A table that is analyzed while its first rows are not committed counts as empty from then on, however large it grows before
/// it is analyzed again.
#[test]
fn a_wallet_is_read_by_key_though_its_tables_count_as_empty() {
    const TOKENS: i64 = 2_000;
    let Some(database) = Database::new("token_plans_wallet") else { return };
    let mut store = Store::open_for_questions(database.url(), Settings::default()).unwrap();
    let (mut sql, mut analyst) = (database.sql(), database.sql());
    for table in ["token", "token_lock", "token_selection"] {
        sql.batch_execute(&format!("ALTER TABLE {table} SET (autovacuum_enabled = off)")).unwrap();
    }
    let mut loading = sql.transaction().unwrap();
    let issue = format!(
        "INSERT INTO token (token_id, wallet, token_type, currency, quantity, created_at)
         SELECT 'a' || n, 'alice', 'cash', 'EUR', n, hub_clock() FROM generate_series(1, {TOKENS}) n;
         INSERT INTO token_lock (token_id) SELECT 'a' || n FROM generate_series(1, {TOKENS}) n;
         INSERT INTO token_selection
             (spender_tx_id, state, fence, body, amount, token_ids, created_at, expires_at, changed_at)
         SELECT 's' || n, 'RELEASED', 0, gen_random_uuid(), 1, '{{}}', hub_clock(), hub_clock(), hub_clock()
         FROM generate_series(1, {TOKENS}) n"
    );
    loading.batch_execute(&issue).unwrap();
    analyst.batch_execute("ANALYZE token, token_lock, token_selection").unwrap();
    loading.commit().unwrap();
    let empty = "SELECT count(*) FROM pg_class WHERE relname IN ('token', 'token_lock') AND reltuples = 0";
    assert_eq!(database.count(empty), 2, "it stands as this test needs it");
    drop((sql, analyst));
    let before = rows_read(&database, 1, TABLES);
    let scope = Scope { token_type: "cash".into(), ..Scope::wallet("alice", "EUR") };
    let mut ids = Vec::new();
    store.tokens_of(&scope, |token| ids.push(token.id)).unwrap();
    assert_eq!(ids.len(), 2_000);
    assert_eq!(store.token_holdings(&scope, None).unwrap().balance.tokens, 2_000);
    assert_eq!(store.token_page(&scope, None, None, 2_000, None).unwrap().len(), 2_000);
    assert_eq!(store.wallets_after(None, 2_000, 10).unwrap(), [(scope, true)]);
    assert!(store.see_tokens(&ids, None).unwrap().gone.is_empty());
    drop(store);
    let read = rows_read(&database, 0, TABLES) - before;
    assert!(read < 20 * TOKENS, "five questions about {TOKENS} tokens have read {read} rows");
}
