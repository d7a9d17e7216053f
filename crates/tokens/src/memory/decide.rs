//! From the lanes of a scope to picks or a refusal: one notary at a time, the best answer wins.

use crate::choose::lane::Lane;
use crate::choose::{Choice, Pick, Shelf, View, Want, choose, sum_of};
use crate::limits::HOLDERS_SHOWN;
use crate::random::Random;
use crate::refusal::{Funds, Holder, Refusal};
use crate::request::{Filter, Policy};
use crate::token::{Name, Token};

/// Tokens of the scope that are locked.
pub(crate) trait Locks {
    /// Shows each with its holder and the end of its lock.
    fn each(&self, show: &mut dyn FnMut(&Token, &Name, i64));
}

/// What a request asks of the lanes.
pub(crate) struct Ask<'a> {
    pub(crate) want: Want,
    pub(crate) filter: &'a Filter,
    /// Attributes and predicate; issuer and notary are lanes.
    pub(crate) test: Option<&'a dyn Fn(&Token) -> bool>,
    /// Whether only the answer is wanted and no lock.
    pub(crate) look: bool,
}

impl Ask<'_> {
    pub(crate) fn takes(&self, lane: &Lane) -> bool {
        let same = |wanted: &Option<Name>, has: &Option<Name>| wanted.is_none() || wanted == has;
        same(&self.filter.issuer, &lane.issuer) && same(&self.filter.notary, &lane.notary)
    }
}

/// Chooses among lanes that pass [`Ask::takes`].
pub(crate) fn decide(
    lanes: &mut [&Lane],
    shelf: &dyn Shelf,
    locks: &dyn Locks,
    ask: &Ask<'_>,
    random: &mut Random,
) -> Result<Vec<Pick>, Refusal> {
    if lanes.len() > 1 {
        lanes.sort_by(|a, b| a.notary.cmp(&b.notary));
    }
    let mut best: Option<(Vec<Pick>, usize)> = None;
    let mut failed: Vec<(&[&Lane], Choice)> = Vec::new();
    for group in lanes.chunk_by(|a, b| a.notary == b.notary) {
        let view = View::new(group, shelf, ask.test);
        let choice = choose(&view, &ask.want, random);
        if view.over_budget() {
            return Err(Refusal::ScanLimit { tokens: view.looked_at() });
        }
        match choice {
            Choice::Found(picks) => {
                let equals = best.as_ref().map_or(0, |(_, equals)| *equals);
                let order =
                    best.as_ref().map(|(best, _)| rank(&picks, &ask.want).cmp(&rank(best, &ask.want)));
                match order {
                    None | Some(std::cmp::Ordering::Less) => best = Some((picks, 1)),
                    // Each of n equals is kept with the same chance.
                    Some(std::cmp::Ordering::Equal) if random.index(equals + 1) == 0 => {
                        best = Some((picks, equals + 1));
                    }
                    Some(_) => {}
                }
            }
            choice => failed.push((group, choice)),
        }
    }
    match best {
        Some((picks, _)) => Ok(picks),
        None => Err(refuse(&failed, shelf, locks, ask)),
    }
}

/// Less is better: covered before short, exact before change, then by the policy's taste.
fn rank(picks: &[Pick], want: &Want) -> (u128, bool, usize) {
    let sum = sum_of(picks);
    let amount = u128::from(want.amount);
    let inputs = match want.policy {
        Policy::Consolidate => usize::MAX - picks.len(),
        Policy::Random => 0,
        _ => picks.len(),
    };
    let exact_counts = matches!(want.policy, Policy::FewestInputs | Policy::NoChange);
    (amount.saturating_sub(sum), exact_counts && sum != amount, inputs)
}

/// The refusal where there is not one token of the scope.
pub(crate) fn nothing_there(ask: &Ask<'_>) -> Refusal {
    Refusal::InsufficientFunds(Box::new(Funds { amount: ask.want.amount, ..Funds::default() }))
}

fn refuse(failed: &[(&[&Lane], Choice)], shelf: &dyn Shelf, locks: &dyn Locks, ask: &Ask<'_>) -> Refusal {
    let amount = u128::from(ask.want.amount);
    let mut best: Option<(Funds, &Choice)> = None;
    for (group, choice) in failed {
        let funds = count(group, shelf, locks, ask);
        let nearness = |funds: &Funds| match funds.total >= amount {
            true => (1, funds.free),
            false => (0, funds.total),
        };
        if best.as_ref().is_none_or(|(other, _)| nearness(&funds) > nearness(other)) {
            best = Some((funds, choice));
        }
    }
    let Some((mut funds, choice)) = best else { return nothing_there(ask) };
    name_holders(&mut funds, locks, ask);
    let funds = Box::new(funds);
    match choice {
        Choice::TooMany { max_inputs, best_sum } => {
            Refusal::TooManyInputs { funds, max_inputs: *max_inputs, best_sum: *best_sum }
        }
        Choice::NoExact => Refusal::NoExactMatch(funds),
        _ if funds.total < amount => Refusal::InsufficientFunds(funds),
        _ => Refusal::FundsLocked(funds),
    }
}

fn count(group: &[&Lane], shelf: &dyn Shelf, locks: &dyn Locks, ask: &Ask<'_>) -> Funds {
    let view = View::new(group, shelf, ask.test);
    let notary = group.first().and_then(|lane| lane.notary.clone());
    let free = view.free_sum();
    let locked = match ask.test {
        None => group.iter().map(|lane| lane.locked_sum).sum(),
        Some(_) => {
            let mut locked = 0_u128;
            locks.each(&mut |token, _, _| {
                if matches(token, &notary, ask) {
                    locked += u128::from(token.quantity);
                }
            });
            locked
        }
    };
    Funds {
        amount: ask.want.amount,
        total: free + locked,
        free,
        locked,
        largest_free: view.largest(),
        holders: Vec::new(),
        earliest_expiry: None,
        notary,
    }
}

fn matches(token: &Token, notary: &Option<Name>, ask: &Ask<'_>) -> bool {
    token.kind.notary == *notary
        && (ask.filter.issuer.is_none() || ask.filter.issuer == token.kind.issuer)
        && ask.test.is_none_or(|test| test(token))
}

fn name_holders(funds: &mut Funds, locks: &dyn Locks, ask: &Ask<'_>) {
    if funds.locked == 0 {
        return;
    }
    let notary = funds.notary.clone();
    let mut holders: Vec<Holder> = Vec::new();
    locks.each(&mut |token, spender, expires_at| {
        if holders.last().is_some_and(|last| last.spender == *spender) || !matches(token, &notary, ask) {
            return;
        }
        holders.push(Holder { spender: spender.clone(), expires_at });
    });
    holders.sort_by(|a, b| (a.expires_at, &a.spender).cmp(&(b.expires_at, &b.spender)));
    holders.dedup();
    holders.truncate(HOLDERS_SHOWN);
    funds.earliest_expiry =
        holders.first().map(|holder| holder.expires_at).filter(|end| *end != crate::limits::NO_END);
    funds.holders = holders;
}
