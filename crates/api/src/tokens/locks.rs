//! `/tokens/locks…`: who holds what since when; a lease renewed, a lock given back.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_tokens::{LockView, Name, Owner};

use super::json::{self, LockPage, Released, Renewed};
use super::query::{limit, read, scope, values};
use super::receive::receive;
use super::refusal::Problem;
use super::{answer, answered, looked};
use crate::Embedded;
use crate::views::filters::Parameters;

/// The live locks in the order of their fences, those on tokens of a wallet, a currency or of a spender if one is
/// named.
pub(crate) async fn list(
    State(Embedded { hub, .. }): State<Embedded>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let names = ["wallet", "currency", "type", "spender", "after", "limit"];
    let [wallet, currency, token_type, spender, after, rows] = values(parameters, names)?;
    let limit = limit(rows.as_deref())?;
    let after = read("after", after, json::whole)?;
    let wallet = read("wallet", wallet, json::name)?;
    let spender = read("spender", spender, json::name)?;
    let wanted = Wanted {
        wallet: wallet.clone(),
        currency: read("currency", currency.clone(), json::name)?,
        token_type: read("type", token_type.clone(), json::name)?,
    };
    // With a whole scope the index looks at that alone.
    let scope = match wallet {
        Some(wallet) if currency.is_some() => Some(scope(Owner::Wallet(wallet), currency, token_type)?),
        _ => None,
    };
    let desk = hub.tokens().clone();
    let page = looked(move || {
        let mut locks = desk.locks(scope.as_ref())?;
        if scope.is_none() {
            locks.iter_mut().for_each(|lock| wanted.keep(lock));
        }
        locks.retain(|lock| {
            let its = spender.as_ref().is_none_or(|spender| lock.spender == *spender);
            its && !lock.tokens.is_empty() && after.is_none_or(|after| lock.fence > after)
        });
        locks.sort_unstable_by_key(|lock| lock.fence);
        let more = locks.len() > limit;
        locks.truncate(limit);
        let next = locks.last().filter(|_| more).map(|lock| lock.fence);
        Ok(LockPage { locks, next, now: desk.now() })
    });
    Ok(answer(StatusCode::OK, &page.await?))
}

/// Tokens by some of what they have.
struct Wanted {
    wallet: Option<Name>,
    currency: Option<Name>,
    token_type: Option<Name>,
}

impl Wanted {
    /// Keeps those tokens of a lock that are wanted.
    fn keep(&self, lock: &mut LockView) {
        let same = |wanted: &Option<Name>, found: &Name| wanted.as_ref().is_none_or(|wanted| wanted == found);
        lock.tokens.retain(|token| {
            let kind = &token.kind;
            same(&self.wallet, &kind.wallet)
                && same(&self.currency, &kind.currency)
                && same(&self.token_type, &kind.token_type)
        });
    }
}

/// The spender in the path.
fn spender(path: Result<Path<String>, PathRejection>) -> Result<Name, Problem> {
    let Path(text) = path.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    json::name(&text).map_err(|problem| Problem::invalid(format!("spender: {problem}")))
}

/// Moves the end of a live lease.
pub(crate) async fn renew(
    State(Embedded { edge, hub }): State<Embedded>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let spender = spender(path)?;
    let (lease_ms, fence) = receive(&edge, request, json::read_renew).await?;
    let lease = answered(hub.tokens().renew(Name::clone(&spender), fence, lease_ms)).await?;
    Ok(answer(StatusCode::OK, &Renewed { spender: &spender, lease }))
}

/// Gives back what a spender has locked; 0 tokens if that has ended before.
pub(crate) async fn release(
    State(Embedded { hub, .. }): State<Embedded>,
    path: Result<Path<String>, PathRejection>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let spender = spender(path)?;
    let [fence] = values(parameters, ["fence"])?;
    let fence = read("fence", fence, json::whole)?;
    let released = answered(hub.tokens().release(spender, fence)).await?;
    Ok(answer(StatusCode::OK, &Released(released)))
}
