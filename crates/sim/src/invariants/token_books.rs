//! The vault on paper: what the commands about tokens should have done, worked out one after the other in the plainest way.
//! Answers alone are read, never effects or rows; what a transfer paid out is the exception, for no answer tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_domain::ids::{Millis, TransferId};
use holdfast_domain::tokens::{
    Fingerprint, LockTokens, Name, SpendRow, SpendTokens, Token, TokenCommand, TokenId, TokenOutcome,
    TokenRefusal, Transaction,
};

use super::expect;

/// A lock as its holder was told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub(super) fence: u64,
    pub(super) end: Millis,
    pub(super) amount: u64,
    pub(super) body: Fingerprint,
    pub(super) tokens: Arc<[TokenId]>,
    /// The payee's wallet, if a transfer or checkout holds it.
    pub(super) payee: Option<Name>,
}

/// A true reason to refuse a command, with the token that it is about.
pub(super) type Reason = (&'static str, Option<TokenId>);

/// The books.
#[derive(Debug, Default)]
pub struct TokenBooks {
    pub(super) live: BTreeMap<TokenId, Token>,
    pub(super) gone: BTreeSet<TokenId>,
    pub(super) locks: BTreeMap<Name, Held>,
    pub(super) spends: BTreeMap<Name, (Transaction, Fingerprint)>,
    /// Per currency: issued and produced outside, less redeemed and consumed outside.
    pub(super) worth: BTreeMap<Name, i128>,
}

/// Only transfers make such ids.
fn is_reserved(id: &TokenId) -> bool {
    id.as_str().starts_with("hold:")
}

fn reason_of(refusal: &TokenRefusal) -> Reason {
    match refusal {
        TokenRefusal::Taken(id) => ("taken", Some(id.clone())),
        TokenRefusal::Consumed(id) => ("consumed", Some(id.clone())),
        TokenRefusal::Unknown(id) => ("unknown", Some(id.clone())),
        TokenRefusal::Exists(id) => ("exists", Some(id.clone())),
        TokenRefusal::LeaseLost(_) => ("lease lost", None),
        TokenRefusal::SpenderInUse(_) => ("spender in use", None),
        TokenRefusal::Invalid(_) => ("invalid", None),
    }
}

/// A refusal that is right is one of the true reasons; without any there is none.
fn judge(reasons: &[Reason], outcome: &TokenOutcome) -> Result<bool, String> {
    match outcome {
        TokenOutcome::Refused(refusal) if reasons.contains(&reason_of(refusal)) => Ok(false),
        TokenOutcome::Refused(refusal) => Err(format!("was refused for {refusal:?}; true are {reasons:?}")),
        _ if reasons.is_empty() => Ok(true),
        answered => Err(format!("was answered {answered:?}; against it stand {reasons:?}")),
    }
}

fn worth<'a>(tokens: impl IntoIterator<Item = &'a Token>) -> i128 {
    tokens.into_iter().map(|token| i128::from(token.quantity)).sum()
}

impl TokenBooks {
    /// Books a command whose record lies at `offset` of a frame of time `now`.
    pub fn book(
        &mut self,
        now: Millis,
        offset: u64,
        command: &TokenCommand,
        outcome: &TokenOutcome,
    ) -> Result<(), String> {
        match command {
            TokenCommand::Issue { tokens } => self.issue(tokens, outcome),
            TokenCommand::Lock(lock) => self.lock(now, offset + 1, lock, outcome),
            TokenCommand::Spend(spend) => self.spend(now, spend, outcome),
            TokenCommand::Update { consumed, produced } => self.update(consumed, produced, outcome),
            TokenCommand::Unlock { spender, fence } => self.unlock(now, spender, *fence, outcome),
            TokenCommand::Renew { spender, fence, lease_ms } => {
                self.renew(now, spender, *fence, *lease_ms, outcome)
            }
        }
        .map_err(|said| format!("at {now}, offset {offset}: {command:?} {said}"))
    }

    /// Ends the locks whose lease is over, oldest first; how many that are.
    pub fn end_leases(&mut self, now: Millis, most: usize) -> usize {
        let over = self.locks.iter().filter(|(_, held)| held.end <= now);
        let mut over: Vec<(Millis, u64, Name)> =
            over.map(|(spender, held)| (held.end, held.fence, spender.clone())).collect();
        over.sort();
        over.truncate(most);
        over.iter().for_each(|(_, _, spender)| drop(self.locks.remove(spender)));
        over.len()
    }

    pub(super) fn is_live(&self, now: Millis, spender: &Name) -> Option<&Held> {
        self.locks.get(spender).filter(|held| now < held.end)
    }

    fn add(&mut self, token: &Token) {
        self.live.insert(token.id.clone(), token.clone());
    }

    fn worth_changes(&mut self, token: &Token, sign: i128) {
        *self.worth.entry(token.kind.currency.clone()).or_default() += sign * i128::from(token.quantity);
    }

    fn issue(&mut self, tokens: &[Token], outcome: &TokenOutcome) -> Result<(), String> {
        let mut reasons = Vec::new();
        let mut named = BTreeSet::new();
        for token in tokens {
            if is_reserved(&token.id) {
                reasons.push(("invalid", None));
            }
            if self.gone.contains(&token.id) {
                reasons.push(("consumed", Some(token.id.clone())));
            }
            if self.live.contains_key(&token.id) || !named.insert(&token.id) {
                reasons.push(("exists", Some(token.id.clone())));
            }
        }
        if judge(&reasons, outcome)? {
            expect(*outcome == TokenOutcome::Issued, || format!("was answered {outcome:?}"))?;
            for token in tokens {
                self.worth_changes(token, 1);
                self.add(token);
            }
        }
        Ok(())
    }

    fn lock(
        &mut self,
        now: Millis,
        fence: u64,
        command: &LockTokens,
        outcome: &TokenOutcome,
    ) -> Result<(), String> {
        let told = match outcome {
            TokenOutcome::Locked(row) => Some(Held {
                fence: row.fence,
                end: row.expires_at,
                amount: row.amount,
                body: row.body,
                tokens: row.tokens.clone(),
                payee: row.funding.clone(),
            }),
            _ => None,
        };
        let mut reasons = Vec::new();
        if self.spends.contains_key(&command.spender) {
            reasons.push(("spender in use", None));
        }
        if let Some(held) = self.is_live(now, &command.spender) {
            if held.body == command.body && held.payee.is_none() && reasons.is_empty() {
                return expect(told.as_ref() == Some(held), || {
                    format!("holds {held:?}, told was {outcome:?}")
                });
            }
            reasons.push(("spender in use", None));
        }
        if reasons.is_empty() {
            reasons = self.against_lock(now, &command.spender, &command.ids);
        }
        if !judge(&reasons, outcome)? {
            return Ok(());
        }
        let held = Held {
            fence,
            end: now + command.lease_ms,
            amount: command.amount,
            body: command.body,
            tokens: command.ids.clone(),
            payee: None,
        };
        expect(told.as_ref() == Some(&held), || format!("should be {held:?}, told was {outcome:?}"))?;
        self.put(&command.spender, held);
        Ok(())
    }

    /// Whoever had one of them before has lost its lease, and its lock with it.
    pub(super) fn put(&mut self, spender: &Name, held: Held) {
        self.locks.retain(|_, other| !other.tokens.iter().any(|id| held.tokens.contains(id)));
        self.locks.insert(spender.clone(), held);
    }

    pub(super) fn against_lock(&self, now: Millis, spender: &Name, ids: &[TokenId]) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let mut named = BTreeSet::new();
        let mut kinds = BTreeSet::new();
        for id in ids {
            let taken = |(other, held): (&Name, &Held)| {
                other != spender && now < held.end && held.tokens.contains(id)
            };
            if !named.insert(id) {
                reasons.push(("invalid", None));
            }
            match self.live.get(id) {
                Some(Token { kind, .. }) => {
                    kinds.insert((&kind.notary, &kind.currency, &kind.token_type));
                }
                None if self.gone.contains(id) => reasons.push(("consumed", Some(id.clone()))),
                None => reasons.push(("unknown", Some(id.clone()))),
            }
            if self.locks.iter().any(taken) {
                reasons.push(("taken", Some(id.clone())));
            }
        }
        if ids.is_empty() || kinds.len() > 1 {
            reasons.push(("invalid", None));
        }
        reasons
    }

    fn spend(&mut self, now: Millis, command: &SpendTokens, outcome: &TokenOutcome) -> Result<(), String> {
        let SpendTokens { request, body, transaction } = command;
        let told = match outcome {
            TokenOutcome::Spent(row) => Some(&row.transaction),
            _ => None,
        };
        if let Some((before, known)) = self.spends.get(&request.spender) {
            return if known == body {
                expect(told == Some(before), || format!("was {before:?} before, and now {outcome:?}"))
            } else {
                judge(&[("spender in use", None)], outcome).map(drop)
            };
        }
        let held = self.is_live(now, &request.spender);
        let Some(held) = held.filter(|held| request.fence.is_none_or(|fence| fence == held.fence)).cloned()
        else {
            return judge(&[("lease lost", None)], outcome).map(drop);
        };
        if held.payee.is_some() {
            return judge(&[("spender in use", None)], outcome).map(drop);
        }
        let paid: i128 = request.outputs.iter().map(|output| i128::from(output.quantity)).sum();
        let asked = paid + i128::from(request.redeem);
        let too_much = asked > worth(self.inputs(&held)?.iter().copied());
        let against: &[Reason] = if too_much { &[("invalid", None)] } else { &[] };
        if !judge(against, outcome)? {
            return Ok(());
        }
        let Some(told) = told else { return Err(format!("was answered {outcome:?}")) };
        let named = *told.id == *TransferId(*transaction).to_string() && told.spender == request.spender;
        expect(named, || format!("is called {told:?}"))?;
        let outputs: Vec<(&Name, u64)> =
            request.outputs.iter().map(|output| (&output.wallet, output.quantity)).collect();
        self.exchange(&held, &outputs, request.redeem, told)?;
        self.spends.insert(request.spender.clone(), (told.clone(), *body));
        Ok(())
    }

    fn inputs(&self, held: &Held) -> Result<Vec<&Token>, String> {
        let inputs: Vec<&Token> = held.tokens.iter().filter_map(|id| self.live.get(id)).collect();
        expect(inputs.len() == held.tokens.len(), || format!("locks tokens that do not live: {held:?}"))?;
        Ok(inputs)
    }

    /// Inputs go, outputs come, the lock ends; nobody gets less than is paid, and nothing becomes more.
    fn exchange(
        &mut self,
        held: &Held,
        outputs: &[(&Name, u64)],
        redeem: u64,
        told: &Transaction,
    ) -> Result<(), String> {
        let inputs = self.inputs(held)?;
        let (taken, given) = (worth(inputs.iter().copied()), worth(&told.produced));
        expect(*told.consumed == *held.tokens, || format!("spends {held:?}, told was {told:?}"))?;
        expect(given == taken - i128::from(redeem), || {
            format!("takes in {taken}, redeems {redeem} and gives {told:?}")
        })?;
        for (wallet, _) in outputs {
            let given = worth(told.produced.iter().filter(|token| token.kind.wallet == **wallet));
            let due = outputs.iter().filter(|(other, _)| other == wallet);
            let due: i128 = due.map(|(_, quantity)| i128::from(*quantity)).sum();
            expect(given >= due, || format!("pays {given} of {due} to {wallet}"))?;
        }
        let kind = |token: &Token| {
            (token.kind.currency.clone(), token.kind.issuer.clone(), token.kind.notary.clone())
        };
        let kinds: BTreeSet<_> = inputs.iter().map(|token| kind(token)).collect();
        let same_kind = told.produced.iter().all(|token| kinds.contains(&kind(token)));
        expect(same_kind, || format!("changes the kind: {told:?}"))?;
        let currency = inputs[0].kind.currency.clone();
        *self.worth.entry(currency).or_default() -= i128::from(redeem);
        self.locks.remove(&told.spender);
        for id in &told.consumed {
            self.live.remove(id);
            expect(self.gone.insert(id.clone()), || format!("consumes {id} a second time"))?;
        }
        for token in &told.produced {
            let new = !self.live.contains_key(&token.id) && !self.gone.contains(&token.id);
            expect(new, || format!("produces {} a second time", token.id))?;
            self.add(token);
        }
        Ok(())
    }

    /// What is held for a transfer or a checkout goes to its payee.
    pub(super) fn pay_out(&mut self, held: &Held, row: &SpendRow) -> Result<(), String> {
        let payee = held.payee.as_ref().ok_or("has no payee")?;
        self.exchange(held, &[(payee, held.amount)], 0, &row.transaction)?;
        self.spends.insert(row.transaction.spender.clone(), (row.transaction.clone(), row.body));
        Ok(())
    }

    fn update(
        &mut self,
        consumed: &[TokenId],
        produced: &[Token],
        outcome: &TokenOutcome,
    ) -> Result<(), String> {
        let gone: BTreeSet<&TokenId> = consumed.iter().filter(|id| !self.gone.contains(id)).collect();
        let mut come: BTreeMap<TokenId, Token> = BTreeMap::new();
        let mut reasons = Vec::new();
        for id in &gone {
            let held = self.locks.values().any(|held| held.payee.is_some() && held.tokens.contains(id));
            if held || (is_reserved(id) && !self.live.contains_key(*id)) {
                reasons.push(("invalid", None));
            }
        }
        for token in produced {
            let id = &token.id;
            if self.gone.contains(id) || gone.contains(id) {
                continue;
            }
            match self.live.get(id).or_else(|| come.get(id)) {
                Some(known) if known == token => {}
                Some(_) => reasons.push(("exists", Some(id.clone()))),
                None if is_reserved(id) => reasons.push(("invalid", None)),
                None => drop(come.insert(id.clone(), token.clone())),
            }
        }
        if !judge(&reasons, outcome)? {
            return Ok(());
        }
        let lived = gone.iter().filter(|id| self.live.contains_key(id)).count();
        let right = TokenOutcome::Updated { produced: come.len(), consumed: lived };
        expect(*outcome == right, || format!("should be {right:?}, and was {outcome:?}"))?;
        for id in gone.into_iter().cloned().collect::<Vec<_>>() {
            if let Some(token) = self.live.remove(&id) {
                self.worth_changes(&token, -1);
                self.locks.retain(|_, held| !held.tokens.contains(&id));
            }
            self.gone.insert(id);
        }
        for token in come.values() {
            self.worth_changes(token, 1);
            self.add(token);
        }
        Ok(())
    }

    fn unlock(
        &mut self,
        now: Millis,
        spender: &Name,
        fence: Option<u64>,
        outcome: &TokenOutcome,
    ) -> Result<(), String> {
        let held = self.is_live(now, spender);
        if held.is_some_and(|held| fence.is_some_and(|fence| fence != held.fence)) {
            return judge(&[("lease lost", None)], outcome).map(drop);
        }
        if held.is_some_and(|held| held.payee.is_some()) {
            return judge(&[("spender in use", None)], outcome).map(drop);
        }
        let right = TokenOutcome::Released(held.map_or(0, |held| held.tokens.len()));
        expect(*outcome == right, || format!("should be {right:?}, and was {outcome:?}"))?;
        self.locks.remove(spender);
        Ok(())
    }

    fn renew(
        &mut self,
        now: Millis,
        spender: &Name,
        fence: Option<u64>,
        lease_ms: i64,
        outcome: &TokenOutcome,
    ) -> Result<(), String> {
        let held = self.locks.get_mut(spender).filter(|held| now < held.end);
        let Some(held) = held.filter(|held| fence.is_none_or(|fence| fence == held.fence)) else {
            return judge(&[("lease lost", None)], outcome).map(drop);
        };
        if held.payee.is_some() {
            return judge(&[("spender in use", None)], outcome).map(drop);
        }
        held.end = now + lease_ms;
        let right = TokenOutcome::Renewed { fence: held.fence, expires_at: held.end };
        expect(*outcome == right, || format!("should be {right:?}, and was {outcome:?}"))
    }
}
