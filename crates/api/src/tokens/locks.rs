//! `/tokens/locks…`: who holds what since when; a lease renewed, a lock given back.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_engine::{LOCKS_SHOWN, SomeLocks};
use holdfast_tokens::{LockView, Name, Owner};
use holdfast_wire::tokens::{Lease, LockPage, Released, Renew};
use holdfast_wire::{Rule, Whole};

use super::query::{limit, name, read, scope, values};
use super::refusal::Problem;
use super::{Wallets, answer, answered, receive};
use crate::views::filters::Parameters;

/// The live locks in the order of their fences, those on tokens of a wallet, a currency or of a spender if one is
/// named.
pub(crate) async fn list(
    State(Wallets { vault, .. }): State<Wallets>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let names = ["wallet", "currency", "type", "spender", "after", "limit"];
    let [wallet, currency, token_type, spender, after, rows] = values(parameters, names)?;
    let limit = limit(rows.as_deref())?;
    let after = read("after", after)?.map(|Whole(fence)| fence);
    let wallet = name("wallet", wallet)?;
    let spender = name("spender", spender)?;
    let wanted = Wanted {
        wallet: wallet.clone(),
        currency: name("currency", currency.clone())?,
        token_type: name("type", token_type.clone())?,
    };
    // With a whole scope the index looks at that alone.
    let scope = match wallet {
        Some(wallet) if currency.is_some() => Some(scope(Owner::Wallet(wallet), currency, token_type)?),
        _ => None,
    };
    let all_of_it = scope.is_some();
    // Who looks for some among them has to see more than it shows.
    let sought = spender.is_some() || !(all_of_it || wanted.is_anything());
    let rows = if sought { LOCKS_SHOWN } else { limit };
    // Where a page of the vault ends, the next begins, whatever is left of it here.
    let SomeLocks { mut locks, next: end, now } = vault.locks(scope, after, rows).await?;
    if !all_of_it {
        locks.iter_mut().for_each(|lock| wanted.keep(lock));
    }
    locks.retain(|lock| {
        let its = spender.as_ref().is_none_or(|spender| lock.spender == *spender);
        its && !lock.tokens.is_empty()
    });
    let next = if locks.len() > limit {
        locks.truncate(limit);
        locks.last().map(|lock| lock.fence)
    } else {
        end
    };
    Ok(answer(StatusCode::OK, &LockPage::of(&locks, next, now)))
}

/// Tokens by some of what they have.
struct Wanted {
    wallet: Option<Name>,
    currency: Option<Name>,
    token_type: Option<Name>,
}

impl Wanted {
    /// Whether all will do.
    const fn is_anything(&self) -> bool {
        self.wallet.is_none() && self.currency.is_none() && self.token_type.is_none()
    }

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
    let name = holdfast_wire::Name::read(&text).map(holdfast_wire::Name::shared);
    name.map_err(|problem| Problem::invalid(format!("spender: {problem}")))
}

/// Moves the end of a live lease.
pub(crate) async fn renew(
    State(Wallets { edge, vault }): State<Wallets>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let spender = spender(path)?;
    let (lease_ms, fence) = receive(&edge, request, |body: Renew| Ok(body.ask())).await?;
    let lease = answered(vault.renew(Name::clone(&spender), fence, lease_ms)).await?;
    Ok(answer(StatusCode::OK, &Lease::of(&spender, lease)))
}

/// Gives back what a spender has locked; 0 tokens if that has ended before.
pub(crate) async fn release(
    State(Wallets { vault, .. }): State<Wallets>,
    path: Result<Path<String>, PathRejection>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let spender = spender(path)?;
    let [fence] = values(parameters, ["fence"])?;
    let fence = read("fence", fence)?.map(|Whole(fence)| fence);
    let released = answered(vault.release(spender, fence)).await?;
    Ok(answer(StatusCode::OK, &Released { released }))
}
