//! Tokens, locks and balances as they are now. Read without a lock.

use std::collections::{HashMap, HashSet};

use holdfast_domain::ids::Millis;
use holdfast_tokens::{
    Balance, Fingerprint, Fragmentation, LockRecord, LockView, Owner, Scope, Selection, Token, TokenId,
    TokenState, Transaction,
};
use postgres::fallible_iterator::FallibleIterator as _;
use postgres::types::ToSql;
use postgres::{GenericClient, Row};

use super::claim::fence_of;
use super::moment;
use super::rows::{Names, TOKEN_COLUMNS, quantity, record_of, records, token_columns, token_of, whole};
use super::spend::transaction_of;
use crate::Error;
use crate::session::{Statements, Store};
use crate::types::{Decimal, Uuid, list, most};

/// What is known of tokens that a claim could not have.
#[derive(Debug, Default)]
pub struct SeenTokens {
    /// Spent, or never heard of.
    pub gone: Vec<TokenId>,
    /// The live selections that hold the others.
    pub locks: Vec<LockRecord>,
}

/// What a spender has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredSelection {
    /// Tokens, locked.
    Held {
        /// What was asked.
        body: Fingerprint,
        /// The answer.
        selection: Selection,
        /// A transfer holds it, and will end it.
        of_transfer: bool,
    },
    /// A spend.
    Spent {
        /// What was paid.
        body: Fingerprint,
        /// The answer.
        transaction: Transaction,
    },
}

/// What an owner has, and in what pieces.
#[derive(Debug, Clone, Copy, Default)]
pub struct Holdings {
    /// The sums.
    pub balance: Balance,
    /// The pieces.
    pub fragmentation: Fragmentation,
}

/// A token, and whether it is locked.
pub type ListedToken = (Token, bool);

/// The condition of an owner's tokens, with the owner as `$1`, the type as `$2` and the currency as `$3`.
const fn owned(owner: &Owner) -> &'static str {
    match owner {
        Owner::Wallet(_) => "t.wallet = $1 AND t.token_type = $2 AND t.currency = $3",
        Owner::ExternalId(_) => "t.external_id = $1 AND t.token_type = $2 AND t.currency = $3",
        Owner::PublicKey(_) => "t.public_key = $1 AND t.token_type = $2 AND t.currency = $3",
        Owner::Any => "$1 = '' AND t.token_type = $2 AND t.currency = $3",
    }
}

/// Each token of `t` with its lock as `l`, looked up by its key. As a plain join it may be read whole for every token: a plan
/// of PostgreSQL's takes it for empty if it was analyzed while its first rows were not committed.
macro_rules! with_lock {
    () => {
        "CROSS JOIN LATERAL (SELECT * FROM token_lock WHERE token_id = t.token_id OFFSET 0) l"
    };
}

/// Whether a token is locked at a time that stands at `$4`.
const LOCKED: &str =
    "(l.spender_tx_id IS NOT NULL AND l.expires_at > coalesce($4::timestamptz, (SELECT hub_clock())))";

impl Store {
    /// Shows all tokens of an owner that are not spent.
    pub fn tokens_of(&mut self, scope: &Scope, mut show: impl FnMut(Token)) -> Result<(), Error> {
        let sql = format!(
            "SELECT {} FROM token t {} WHERE {} AND NOT l.spent",
            token_columns!(),
            with_lock!(),
            owned(&scope.owner)
        );
        let parameters: [&(dyn ToSql + Sync); 3] =
            [&scope.owner.name(), &&*scope.token_type, &&*scope.currency];
        let mut rows = self.client.query_raw(&sql, parameters)?;
        let mut names = Names::default();
        while let Some(row) = rows.next()? {
            show(token_of(&row, 0, &mut names)?);
        }
        Ok(())
    }

    /// The live selections of an owner's tokens, those that end last first, at most `limit` of one wallet and as many over
    /// several. What is over is not looked at, however much of it there is.
    pub fn token_locks_of(
        &mut self,
        scope: Option<&Scope>,
        limit: usize,
        now: Option<Millis>,
    ) -> Result<Vec<LockRecord>, Error> {
        const OF_WALLET: &str = concat!(
            "(",
            records!(
                " FROM token_selection s
              WHERE s.state = 'HELD' AND s.wallet = $3
                  AND s.expires_at > coalesce($1::timestamptz, (SELECT hub_clock()))
              ORDER BY s.expires_at DESC LIMIT $2)
             UNION ALL
             ("
            ),
            records!(
                " FROM token_selection s
              WHERE s.state = 'HELD' AND s.wallet IS NULL
                  AND s.expires_at > coalesce($1::timestamptz, (SELECT hub_clock()))
              ORDER BY s.expires_at DESC LIMIT $2)"
            )
        );
        const OF_ALL: &str = records!(
            " FROM token_selection s
             WHERE s.state = 'HELD' AND s.expires_at > coalesce($1::timestamptz, (SELECT hub_clock()))
             ORDER BY s.expires_at DESC LIMIT $2"
        );
        let rows = match scope.and_then(wallet_of) {
            Some(wallet) => self.query(OF_WALLET, &[&moment(now), &most(limit), &wallet])?,
            None => self.query(OF_ALL, &[&moment(now), &most(limit)])?,
        };
        rows.iter().map(record_of).collect()
    }

    /// Why a claim on these tokens could not have them all.
    pub fn see_tokens(&mut self, ids: &[TokenId], now: Option<Millis>) -> Result<SeenTokens, Error> {
        // A row per lock and not per token: each shows all that it holds, and a claim may have met one lock a thousand times.
        const SEEN: &str = records!(
            ", l.unspent FROM (
                 SELECT spender_tx_id, fence, array_agg(token_id) AS unspent FROM token_lock
                 WHERE token_id = ANY($1) AND NOT spent GROUP BY spender_tx_id, fence) l
             LEFT JOIN LATERAL (
                 SELECT * FROM token_selection WHERE spender_tx_id = l.spender_tx_id OFFSET 0
             ) s ON s.fence = l.fence AND s.state = 'HELD'
                 AND s.expires_at > coalesce($2::timestamptz, (SELECT hub_clock()))"
        );
        let rows = self.query(SEEN, &[&list(ids, TokenId::as_str), &moment(now)])?;
        let mut live: HashSet<&str> = HashSet::new();
        let mut locks: Vec<LockRecord> = Vec::new();
        for row in &rows {
            live.extend(row.get::<_, Vec<&str>>(7));
            if row.get::<_, Option<&str>>(0).is_some() {
                locks.push(record_of(row)?);
            }
        }
        let gone = ids.iter().filter(|id| !live.contains(id.as_str())).cloned().collect();
        locks.sort_by_key(|record| record.fence);
        Ok(SeenTokens { gone, locks })
    }

    /// What a spender has: a selection, also one whose lease is over; or a spend. `None`: nothing, or it gave it back, or its
    /// lease is over and others have spent its tokens since.
    pub fn token_selection(
        &mut self,
        spender: &str,
        now: Option<Millis>,
    ) -> Result<Option<StoredSelection>, Error> {
        const SELECTION: &str = records!(
            ", s.state, s.spend_body, s.event::text, s.expires_at > coalesce($2::timestamptz, hub_clock()),
                 s.payee_wallet IS NOT NULL
             FROM token_selection s WHERE s.spender_tx_id = $1"
        );
        let Some(row) = self.query_opt(SELECTION, &[&spender, &moment(now)])? else { return Ok(None) };
        match row.get(7) {
            "HELD" => {}
            "SPENT" => {
                let body: Option<Uuid> = row.get(8);
                let missing = || Error::corrupt("token_selection", "a spend without its content");
                let Uuid(body) = body.ok_or_else(missing)?;
                let event: Option<&str> = row.get(9);
                let transaction = transaction_of(event.ok_or_else(missing)?, &row.get::<_, Vec<&str>>(6))?;
                return Ok(Some(StoredSelection::Spent { body: Fingerprint(body), transaction }));
            }
            _ => return Ok(None),
        }
        let record = record_of(&row)?;
        let tokens = tokens_by_id(&mut self.client, &self.statements, &record.ids)?;
        if tokens.len() != record.ids.len() {
            if !row.get::<_, bool>(10) {
                return Ok(None);
            }
            return Err(Error::corrupt("token_selection", format!("{spender} holds what is not there")));
        }
        let sum = tokens.iter().map(|token| u128::from(token.quantity)).sum();
        let LockRecord { spender, fence, expires_at, amount, body, .. } = record;
        let selection = Selection { spender, tokens: tokens.into(), sum, amount, expires_at, fence };
        Ok(Some(StoredSelection::Held { body, selection, of_transfer: row.get(11) }))
    }

    /// The live locks with higher fences than `after`, in their order, at most `limit`: of one owner, or of all. With the fence
    /// behind which there may be more.
    pub fn token_lock_views(
        &mut self,
        scope: Option<&Scope>,
        after: Option<u64>,
        limit: usize,
        now: Option<Millis>,
    ) -> Result<(Vec<LockView>, Option<u64>), Error> {
        const VIEWS: &str = records!(
            " FROM token_selection s
             WHERE s.state = 'HELD' AND s.expires_at > coalesce($1::timestamptz, (SELECT hub_clock()))
                 AND s.fence > $2 AND (s.wallet = $4 OR s.wallet IS NULL OR $4 IS NULL)
             ORDER BY s.fence LIMIT $3"
        );
        let (after, wallet) = (fence_of(after.unwrap_or(0)), scope.and_then(wallet_of));
        let rows = self.query(VIEWS, &[&moment(now), &after, &most(limit), &wallet])?;
        let records: Vec<LockRecord> = rows.iter().map(record_of).collect::<Result<_, Error>>()?;
        let next = records.last().map(|record| record.fence).filter(|_| records.len() == limit);
        let ids: Vec<TokenId> = records.iter().flat_map(|record| record.ids.iter().cloned()).collect();
        let tokens = tokens_by_id(&mut self.client, &self.statements, &ids)?;
        let known: HashMap<&TokenId, &Token> = tokens.iter().map(|token| (&token.id, token)).collect();
        let mut views = Vec::new();
        for LockRecord { spender, fence, since, expires_at, ids, .. } in records {
            let tokens: Vec<Token> = ids.iter().filter_map(|id| known.get(id).copied().cloned()).collect();
            if scope.is_none_or(|scope| tokens.iter().any(|token| scope.owns(token))) {
                views.push(LockView { spender, fence, since, expires_at, tokens });
            }
        }
        Ok((views, next))
    }

    /// What an owner has, counted by the database.
    pub fn token_holdings(&mut self, scope: &Scope, now: Option<Millis>) -> Result<Holdings, Error> {
        let sql = format!(
            "SELECT length(t.quantity::text), {LOCKED} AS locked, count(*), sum(t.quantity), min(t.quantity),
                 max(t.quantity)
             FROM token t {} WHERE {} AND NOT l.spent GROUP BY 1, 2",
            with_lock!(),
            owned(&scope.owner)
        );
        let rows = self
            .client
            .query(&sql, &[&scope.owner.name(), &&*scope.token_type, &&*scope.currency, &moment(now)])?;
        let mut holdings = Holdings::default();
        let Holdings { balance, fragmentation } = &mut holdings;
        for row in rows {
            let digits = usize::try_from(row.get::<_, i32>(0)).unwrap_or(1).clamp(1, 20);
            let count = usize::try_from(row.get::<_, i64>(2)).unwrap_or(0);
            let sum = whole("token", row.get::<_, Decimal>(3))?;
            balance.total += sum;
            balance.tokens += count;
            if row.get(1) {
                balance.locked += sum;
                balance.locked_tokens += count;
                continue;
            }
            balance.free += sum;
            fragmentation.tokens[digits - 1] += count;
            fragmentation.sums[digits - 1] += sum;
            let (least, most) = (quantity("token", row.get(4))?, quantity("token", row.get(5))?);
            balance.smallest_free =
                Some(balance.smallest_free.map_or(least, |least_yet| least_yet.min(least)));
            balance.largest_free = Some(balance.largest_free.map_or(most, |most_yet| most_yet.max(most)));
        }
        Ok(holdings)
    }

    /// Up to `limit` wallets with their types and currencies, in order, after the one given; and whether each has as many free
    /// tokens. What it costs follows the wallets looked at, not what they hold.
    pub fn wallets_after(
        &mut self,
        after: Option<&Scope>,
        tokens_min: usize,
        limit: usize,
    ) -> Result<Vec<(Scope, bool)>, Error> {
        const WALLETS: &str = concat!(
            "WITH RECURSIVE next AS (
                (SELECT wallet, token_type, currency FROM token
                 WHERE (wallet, token_type, currency) > ($1, $2, $3)
                 ORDER BY wallet, token_type, currency LIMIT 1)
                UNION ALL
                SELECT n.wallet, n.token_type, n.currency FROM next w CROSS JOIN LATERAL (
                    SELECT t.wallet, t.token_type, t.currency FROM token t
                    WHERE (t.wallet, t.token_type, t.currency) > (w.wallet, w.token_type, w.currency)
                    ORDER BY t.wallet, t.token_type, t.currency LIMIT 1) n)
            SELECT w.wallet, w.token_type, w.currency, (SELECT count(*) FROM (
                SELECT 1 FROM token t ",
            with_lock!(),
            "
                WHERE t.wallet = w.wallet AND t.token_type = w.token_type AND t.currency = w.currency
                    AND NOT l.spent AND (l.spender_tx_id IS NULL OR l.expires_at <= (SELECT hub_clock()))
                LIMIT $4) AS free) >= $4
            FROM next w LIMIT $5"
        );
        let name = |of: fn(&Scope) -> &str| after.map_or("", of);
        let wallet = name(|scope| scope.owner.name());
        let (token_type, currency) = (name(|scope| &scope.token_type), name(|scope| &scope.currency));
        let (least, limit) = (most(tokens_min), most(limit));
        let rows = self.query(WALLETS, &[&wallet, &token_type, &currency, &least, &limit])?;
        let scope = |row: &Row| Scope {
            token_type: row.get::<_, &str>(1).into(),
            ..Scope::wallet(row.get::<_, &str>(0), row.get::<_, &str>(2))
        };
        Ok(rows.iter().map(|row| (scope(row), row.get(3))).collect())
    }

    /// Some of an owner's tokens by rising id, after the one given.
    pub fn token_page(
        &mut self,
        scope: &Scope,
        state: Option<TokenState>,
        after: Option<&TokenId>,
        limit: usize,
        now: Option<Millis>,
    ) -> Result<Vec<ListedToken>, Error> {
        let wanted = state.map(|state| state == TokenState::Locked);
        let sql = format!(
            "SELECT {}, {LOCKED} FROM token t {}
             WHERE {} AND NOT l.spent AND t.token_id > $5 AND {LOCKED} = coalesce($6, {LOCKED})
             ORDER BY t.token_id LIMIT $7",
            token_columns!(),
            with_lock!(),
            owned(&scope.owner)
        );
        let after = after.map_or("", TokenId::as_str);
        let rows = self.client.query(
            &sql,
            &[
                &scope.owner.name(),
                &&*scope.token_type,
                &&*scope.currency,
                &moment(now),
                &after,
                &wanted,
                &most(limit),
            ],
        )?;
        let mut names = Names::default();
        rows.iter().map(|row| Ok((token_of(row, 0, &mut names)?, row.get(TOKEN_COLUMNS)))).collect()
    }
}

/// Tokens by their ids, in the order of the ids; those that are not there are left out.
pub(super) fn tokens_by_id(
    client: &mut impl GenericClient,
    statements: &Statements,
    ids: &[TokenId],
) -> Result<Vec<Token>, Error> {
    const BY_ID: &str = concat!(
        "SELECT ",
        token_columns!(),
        " FROM unnest($1::text[]) WITH ORDINALITY AS w (token_id, place)
         CROSS JOIN LATERAL (SELECT * FROM token WHERE token_id = w.token_id OFFSET 0) t ORDER BY w.place"
    );
    let rows = statements.query(client, BY_ID, &[&list(ids, TokenId::as_str)])?;
    let mut names = Names::default();
    rows.iter().map(|row| token_of(row, 0, &mut names)).collect()
}

/// The wallet, where an owner is named by it.
fn wallet_of(scope: &Scope) -> Option<&str> {
    match &scope.owner {
        Owner::Wallet(wallet) => Some(wallet),
        Owner::ExternalId(_) | Owner::PublicKey(_) | Owner::Any => None,
    }
}
