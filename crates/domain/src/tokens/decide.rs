//! The judge: may these tokens be issued, locked, renewed, given back?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::spend::{decide_spend, why_reserved};
use super::{LockRow, LockTokens, NO_END, Name, Token, TokenCommand, TokenEffect, TokenId};
use super::{TokenOutcome, TokenRefusal};
use crate::effects::Step;
use crate::ids::Millis;
use crate::planted::{self, Bug};
use crate::view::{Spenders, Spends, Tokens, Vault};

type Verdict = Result<TokenOutcome, TokenRefusal>;

/// Decides a command whose record lies at `offset`. A refusal leaves nothing behind.
pub(crate) fn decide_tokens(
    view: &impl Vault,
    now: Millis,
    offset: u64,
    command: &TokenCommand,
    effects: &mut Step,
) -> TokenOutcome {
    let before = effects.tokens.len();
    let verdict = match command {
        TokenCommand::Issue { tokens } => issue(view, tokens, effects),
        TokenCommand::Lock(command) => lock(view, now, offset + 1, command, effects),
        TokenCommand::Spend(command) => decide_spend(view, now, command, effects),
        TokenCommand::Update { consumed, produced } => update(view, consumed, produced, effects),
        TokenCommand::Unlock { spender, fence } => unlock(view, now, spender, *fence, effects),
        TokenCommand::Renew { spender, fence, lease_ms } => {
            renew(view, now, spender, *fence, *lease_ms, effects)
        }
    };
    verdict.unwrap_or_else(|refusal| {
        effects.tokens.truncate(before);
        TokenOutcome::Refused(refusal)
    })
}

/// Ends up to `max` locks whose lease has run out. Nobody depends on it: an ended lease locks nothing.
pub(crate) fn end_leases(due: &[Arc<LockRow>], now: Millis, effects: &mut Step) {
    for row in due {
        assert!(!row.is_live(now), "the lease of {} is not over", row.spender);
        effects.tokens.push(ended(row));
    }
}

pub(super) fn ended(row: &LockRow) -> TokenEffect {
    TokenEffect::Unlocked { spender: row.spender.clone(), fence: row.fence }
}

/// The spender's live lock, of that fence if one is told.
pub(super) fn live_lock<'a>(
    view: &'a impl Spenders,
    now: Millis,
    spender: &str,
    fence: Option<u64>,
) -> Result<&'a Arc<LockRow>, TokenRefusal> {
    let lost = |why| Err(TokenRefusal::LeaseLost(why));
    match view.lock(spender) {
        None => lost("it holds nothing"),
        Some(row) if fence.is_some_and(|fence| fence != row.fence) => {
            lost("the fence is of another selection")
        }
        Some(row) if !row.is_live(now) && !planted::has(Bug::SpendAfterLease) => lost("the lease is over"),
        Some(row) => Ok(row),
    }
}

fn not_reserved(id: &TokenId) -> Result<(), TokenRefusal> {
    why_reserved(id).map_or(Ok(()), |why| Err(TokenRefusal::Invalid(why)))
}

fn issue(view: &(impl Tokens + Spends), tokens: &[Token], effects: &mut Step) -> Verdict {
    let mut new = BTreeSet::new();
    for token in tokens {
        not_reserved(&token.id)?;
        if view.is_consumed(&token.id) {
            return Err(TokenRefusal::Consumed(token.id.clone()));
        }
        if view.token(&token.id).is_some() || !new.insert(&token.id) {
            return Err(TokenRefusal::Exists(token.id.clone()));
        }
        effects.tokens.push(TokenEffect::Produced(token.clone()));
    }
    Ok(TokenOutcome::Issued)
}

fn lock(view: &impl Vault, now: Millis, fence: u64, command: &LockTokens, effects: &mut Step) -> Verdict {
    let LockTokens { spender, ids, amount, lease_ms, body } = command;
    let same = |row: &&Arc<LockRow>| row.is_live(now) && row.body == *body && row.funding.is_none();
    if let Some(row) = view.lock(spender).filter(same).filter(|_| !view.has_spent(spender)) {
        return Ok(TokenOutcome::Locked(Arc::clone(row)));
    }
    let row = LockRow {
        spender: spender.clone(),
        fence,
        since: now,
        expires_at: now.saturating_add(*lease_ms).min(NO_END - 1),
        amount: *amount,
        body: *body,
        tokens: ids.clone(),
        funding: None,
    };
    hold(view, now, row, effects).map_err(|refusal| match refusal {
        TokenRefusal::Unknown(id) if view.is_consumed(&id) => TokenRefusal::Consumed(id),
        other => other,
    })
}

/// Locks tokens for a spender that holds none: with a lease, or for a transfer or checkout, which ends the lock itself.
pub(crate) fn hold(
    view: &(impl Tokens + Spenders + ?Sized),
    now: Millis,
    row: LockRow,
    effects: &mut Step,
) -> Verdict {
    if view.has_spent(&row.spender) {
        return Err(TokenRefusal::SpenderInUse("it has spent already"));
    }
    match view.lock(&row.spender) {
        Some(held) if held.is_live(now) => {
            return Err(TokenRefusal::SpenderInUse("it holds a selection of another request"));
        }
        Some(held) => effects.tokens.push(ended(held)),
        None => {}
    }
    take(view, now, row, effects)
}

/// The transfer gives its tokens back.
pub(crate) fn end_hold(row: &LockRow, effects: &mut Step) {
    assert!(row.funding.is_some(), "{} holds tokens for a transfer", row.spender);
    effects.tokens.push(ended(row));
}

/// A spend makes outputs of what its inputs are: they must be alike in all but owner, issuer and attributes.
fn goes_with(first: &Token, other: &Token) -> Result<(), TokenRefusal> {
    if Arc::ptr_eq(&first.kind, &other.kind) {
        return Ok(());
    }
    let (first, other) = (&*first.kind, &*other.kind);
    let what = if first.notary != other.notary {
        "notaries"
    } else if (&first.currency, &first.token_type) != (&other.currency, &other.token_type) {
        "currencies or types"
    } else {
        return Ok(());
    };
    Err(TokenRefusal::Invalid(format!("tokens of two {what} in one selection")))
}

/// Puts the lock on its tokens, if each of them is live and free.
fn take(view: &(impl Tokens + Spenders + ?Sized), now: Millis, row: LockRow, effects: &mut Step) -> Verdict {
    if row.tokens.is_empty() {
        return Err(TokenRefusal::Invalid("a lock without tokens".into()));
    }
    let mut seen = BTreeSet::new();
    let mut over: BTreeSet<&Name> = BTreeSet::new();
    let mut first: Option<&Token> = None;
    for id in row.tokens.iter() {
        if !seen.insert(id) {
            return Err(TokenRefusal::Invalid(format!("token {id} is named twice")));
        }
        let found = view.token(id).ok_or_else(|| TokenRefusal::Unknown(id.clone()))?;
        goes_with(first.get_or_insert(found.token), found.token)?;
        // Who locks anew has given its own former lock back above.
        let Some(holder) = found.holder.filter(|holder| **holder != row.spender) else { continue };
        let held = view.lock(holder).expect("a holder has its lock");
        if planted::has(Bug::LockOverLock) {
            continue;
        }
        if held.is_live(now) {
            return Err(TokenRefusal::Taken(id.clone()));
        }
        if over.insert(holder) {
            effects.tokens.push(ended(held));
        }
    }
    let row = Arc::new(row);
    effects.tokens.push(TokenEffect::Locked(Arc::clone(&row)));
    Ok(TokenOutcome::Locked(row))
}

fn unlock(
    view: &impl Spenders,
    now: Millis,
    spender: &str,
    fence: Option<u64>,
    effects: &mut Step,
) -> Verdict {
    let Some(row) = view.lock(spender) else { return Ok(TokenOutcome::Released(0)) };
    if fence.is_some_and(|fence| fence != row.fence) && row.is_live(now) {
        return Err(TokenRefusal::LeaseLost("the fence is of another selection"));
    }
    if row.funding.is_some() {
        return Err(TokenRefusal::SpenderInUse("a transfer or checkout holds it and will end it"));
    }
    effects.tokens.push(ended(row));
    Ok(TokenOutcome::Released(if row.is_live(now) { row.tokens.len() } else { 0 }))
}

fn renew(
    view: &impl Spenders,
    now: Millis,
    spender: &str,
    fence: Option<u64>,
    lease_ms: i64,
    effects: &mut Step,
) -> Verdict {
    let row = live_lock(view, now, spender, fence)?;
    if row.funding.is_some() {
        return Err(TokenRefusal::SpenderInUse("a transfer or checkout holds it and will end it"));
    }
    let (fence, expires_at) = (row.fence, now.saturating_add(lease_ms).min(NO_END - 1));
    effects.tokens.push(TokenEffect::Renewed(Arc::new(LockRow { expires_at, ..LockRow::clone(row) })));
    Ok(TokenOutcome::Renewed { fence, expires_at })
}

/// An outside ledger is right, whatever is locked here: a holder of a consumed token loses its lock. What was consumed once
/// never comes alive, also if its produce comes later.
fn update(view: &impl Vault, consumed: &[TokenId], produced: &[Token], effects: &mut Step) -> Verdict {
    let mut gone: BTreeSet<&TokenId> = BTreeSet::new();
    let mut lived = 0;
    let mut broken: BTreeSet<&Name> = BTreeSet::new();
    for id in consumed {
        if view.is_consumed(id) || !gone.insert(id) {
            continue;
        }
        if view.token(id).is_none() {
            // A tombstone there would be in the way of a transfer that is yet to pay out.
            not_reserved(id)?;
        }
        if let Some(holder) = view.token(id).and_then(|row| row.holder)
            && broken.insert(holder)
        {
            let held = view.lock(holder).expect("a holder has its lock");
            if held.funding.is_some() {
                let why = format!("token {id} is held by transfer or checkout {holder}; end that first");
                return Err(TokenRefusal::Invalid(why));
            }
            effects.tokens.push(ended(held));
        }
        lived += usize::from(view.token(id).is_some());
        effects.tokens.push(TokenEffect::Consumed(id.clone()));
    }
    let mut new: BTreeMap<&TokenId, &Token> = BTreeMap::new();
    for token in produced {
        if view.is_consumed(&token.id) || gone.contains(&token.id) {
            continue;
        }
        let known = view.token(&token.id).map(|row| row.token).or_else(|| new.get(&token.id).copied());
        match known {
            Some(known) if known == token => {}
            Some(_) => return Err(TokenRefusal::Exists(token.id.clone())),
            None => {
                not_reserved(&token.id)?;
                new.insert(&token.id, token);
                effects.tokens.push(TokenEffect::Produced(token.clone()));
            }
        }
    }
    Ok(TokenOutcome::Updated { produced: new.len(), consumed: lived })
}
