//! A vault without indexes, overlays or holders: the judge of the random frames, written apart from the code it judges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_domain::ids::{Millis, TransferId};
use holdfast_domain::tokens::{
    LockTokens, SpendTokens, Token, TokenCommand, TokenId, TokenOutcome, TokenRefusal,
};

/// What a command came to, as far as a naive vault can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Issued,
    Locked { fence: u64, until: Millis, ids: Vec<String> },
    Spent(Vec<(String, String, Option<String>, u64)>),
    Updated(usize, usize),
    Released(usize),
    Renewed(u64, Millis),
    Taken,
    Consumed,
    Unknown,
    Exists,
    Lost,
    InUse,
    Invalid,
}

pub fn answer(outcome: &TokenOutcome) -> Answer {
    match outcome {
        TokenOutcome::Issued => Answer::Issued,
        TokenOutcome::Locked(row) => Answer::Locked {
            fence: row.fence,
            until: row.expires_at,
            ids: row.tokens.iter().map(ToString::to_string).collect(),
        },
        TokenOutcome::Spent(row) => Answer::Spent(row.transaction.produced.iter().map(seen).collect()),
        TokenOutcome::Updated { produced, consumed } => Answer::Updated(*produced, *consumed),
        TokenOutcome::Released(count) => Answer::Released(*count),
        TokenOutcome::Renewed { fence, expires_at } => Answer::Renewed(*fence, *expires_at),
        TokenOutcome::Refused(refusal) => match refusal {
            TokenRefusal::Taken(_) => Answer::Taken,
            TokenRefusal::Consumed(_) => Answer::Consumed,
            TokenRefusal::Unknown(_) => Answer::Unknown,
            TokenRefusal::Exists(_) => Answer::Exists,
            TokenRefusal::LeaseLost(_) => Answer::Lost,
            TokenRefusal::SpenderInUse(_) => Answer::InUse,
            TokenRefusal::Invalid(_) => Answer::Invalid,
        },
    }
}

fn seen(token: &Token) -> (String, String, Option<String>, u64) {
    let issuer = token.kind.issuer.as_ref().map(ToString::to_string);
    (token.id.to_string(), token.kind.wallet.to_string(), issuer, token.quantity)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NaiveLock {
    pub fence: u64,
    pub until: Millis,
    pub body: u128,
    pub ids: Vec<String>,
}

/// A vault that knows what lives, what is gone, who holds what now, and who has spent. A lock is forgotten the
/// instant its lease ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Naive {
    pub live: BTreeMap<String, Token>,
    pub gone: BTreeSet<String>,
    pub locks: BTreeMap<String, NaiveLock>,
    pub spent: BTreeMap<String, (u128, Vec<Token>)>,
    /// What came less what went, by issuer.
    pub value: BTreeMap<Option<String>, i128>,
}

impl Naive {
    fn add(&mut self, token: &Token) {
        assert!(!self.gone.contains(token.id.as_str()));
        assert!(self.live.insert(token.id.to_string(), token.clone()).is_none());
    }

    fn count(&mut self, token: &Token, sign: i128) {
        let issuer = token.kind.issuer.as_ref().map(ToString::to_string);
        *self.value.entry(issuer).or_default() += sign * i128::from(token.quantity);
    }

    fn is_locked(&self, id: &str) -> bool {
        self.locks.values().any(|lock| lock.ids.iter().any(|held| held == id))
    }

    /// The fence of the spender's lock, if it is the one that was told.
    fn held(&self, spender: &str, fence: Option<u64>) -> Option<NaiveLock> {
        self.locks.get(spender).filter(|lock| fence.is_none_or(|fence| fence == lock.fence)).cloned()
    }

    pub fn command(&mut self, now: Millis, fence: u64, command: &TokenCommand) -> Answer {
        self.locks.retain(|_, lock| lock.until > now);
        match command {
            TokenCommand::Issue { tokens } => self.issue(tokens),
            TokenCommand::Lock(command) => self.lock(now, fence, command),
            TokenCommand::Spend(command) => self.spend(command),
            TokenCommand::Update { consumed, produced } => self.update(consumed, produced),
            TokenCommand::Unlock { spender, fence } => match self.locks.get(&**spender) {
                Some(lock) if fence.is_some_and(|fence| fence != lock.fence) => Answer::Lost,
                _ => Answer::Released(self.locks.remove(&**spender).map_or(0, |lock| lock.ids.len())),
            },
            TokenCommand::Renew { spender, fence, lease_ms } => match self.held(spender, *fence) {
                None => Answer::Lost,
                Some(lock) => {
                    self.locks.get_mut(&**spender).unwrap().until = now + lease_ms;
                    Answer::Renewed(lock.fence, now + lease_ms)
                }
            },
        }
    }

    fn issue(&mut self, tokens: &[Token]) -> Answer {
        let mut after = self.clone();
        for token in tokens {
            if self.gone.contains(token.id.as_str()) {
                return Answer::Consumed;
            }
            if after.live.contains_key(token.id.as_str()) {
                return Answer::Exists;
            }
            after.add(token);
            after.count(token, 1);
        }
        *self = after;
        Answer::Issued
    }

    fn lock(&mut self, now: Millis, fence: u64, command: &LockTokens) -> Answer {
        if self.spent.contains_key(&*command.spender) {
            return Answer::InUse;
        }
        if let Some(NaiveLock { fence, until, body, ids }) = self.locks.get(&*command.spender).cloned() {
            return if body == command.body.0 { Answer::Locked { fence, until, ids } } else { Answer::InUse };
        }
        let wanted: Vec<String> = command.ids.iter().map(ToString::to_string).collect();
        if wanted.is_empty() {
            return Answer::Invalid;
        }
        // The first token that stands in the way is the one that is told.
        for (at, id) in wanted.iter().enumerate() {
            if wanted[..at].contains(id) {
                return Answer::Invalid;
            }
            let Some(found) = self.live.get(id) else {
                return if self.gone.contains(id) { Answer::Consumed } else { Answer::Unknown };
            };
            if self.live[&wanted[0]].kind.notary != found.kind.notary {
                return Answer::Invalid;
            }
            if self.is_locked(id) {
                return Answer::Taken;
            }
        }
        let until = now + command.lease_ms;
        let lock = NaiveLock { fence, until, body: command.body.0, ids: wanted.clone() };
        self.locks.insert(command.spender.to_string(), lock);
        Answer::Locked { fence, until, ids: wanted }
    }

    /// All inputs on one line, issuer after issuer: first comes what is redeemed, then the outputs, then change.
    fn spend(&mut self, command: &SpendTokens) -> Answer {
        let request = &command.request;
        if let Some((body, produced)) = self.spent.get(&*request.spender) {
            let same = *body == command.body.0;
            return if same { Answer::Spent(produced.iter().map(seen).collect()) } else { Answer::InUse };
        }
        let Some(lock) = self.held(&request.spender, request.fence) else { return Answer::Lost };
        let inputs: Vec<Token> = lock.ids.iter().map(|id| self.live[id].clone()).collect();
        let mut stretches: Vec<(Token, u128, u128)> = Vec::new();
        let mut at = 0_u128;
        for first in &inputs {
            if stretches.iter().all(|(other, ..)| other.kind.issuer != first.kind.issuer) {
                let of = inputs.iter().filter(|token| token.kind.issuer == first.kind.issuer);
                let length: u128 = of.map(|token| u128::from(token.quantity)).sum();
                stretches.push((first.clone(), at, at + length));
                at += length;
            }
        }
        let mut cuts = vec![u128::from(request.redeem)];
        for output in &request.outputs {
            cuts.push(cuts.last().unwrap() + u128::from(output.quantity));
        }
        let end = *cuts.last().unwrap();
        if end > at {
            return Answer::Invalid;
        }
        let mut parts: Vec<(&Token, &str, u128)> = Vec::new();
        for (output, cut) in request.outputs.iter().zip(cuts.windows(2)) {
            for (of, from, to) in &stretches {
                parts.push((of, &output.wallet, cut[1].min(*to).saturating_sub(cut[0].max(*from))));
            }
        }
        for (of, from, to) in &stretches {
            parts.push((of, &of.kind.wallet, to.saturating_sub(end.max(*from))));
        }
        let mut produced = Vec::new();
        for (of, wallet, mut quantity) in parts {
            while quantity > 0 {
                let one = u64::try_from(quantity).unwrap_or(u64::MAX);
                quantity -= u128::from(one);
                let id = format!("{}.{}", TransferId(command.transaction), produced.len());
                let mut made = Token { id: id.as_str().into(), quantity: one, ..of.clone() };
                Arc::make_mut(&mut made.kind).wallet = wallet.into();
                produced.push(made);
            }
        }
        self.locks.remove(&*request.spender);
        for token in &inputs {
            self.live.remove(token.id.as_str());
            assert!(self.gone.insert(token.id.to_string()));
        }
        produced.iter().for_each(|token| self.add(token));
        // Nothing leaves but what is redeemed.
        for (of, from, to) in &stretches {
            let redeemed = u64::try_from(cuts[0].min(*to).saturating_sub(*from)).unwrap();
            self.count(&Token { quantity: redeemed, ..of.clone() }, -1);
        }
        self.spent.insert(request.spender.to_string(), (command.body.0, produced.clone()));
        Answer::Spent(produced.iter().map(seen).collect())
    }

    fn update(&mut self, consumed: &[TokenId], produced: &[Token]) -> Answer {
        let mut after = self.clone();
        let mut went = 0;
        for id in consumed {
            if let Some(token) = after.live.remove(id.as_str()) {
                went += 1;
                after.count(&token, -1);
                after.locks.retain(|_, lock| lock.ids.iter().all(|held| held != id.as_str()));
            }
            after.gone.insert(id.to_string());
        }
        let mut came = BTreeSet::new();
        for token in produced {
            match after.live.get(token.id.as_str()) {
                _ if after.gone.contains(token.id.as_str()) => {}
                Some(known) if known == token => {}
                Some(_) => return Answer::Exists,
                None => {
                    came.insert(token.id.to_string());
                    after.add(token);
                    after.count(token, 1);
                }
            }
        }
        *self = after;
        Answer::Updated(came.len(), went)
    }
}
