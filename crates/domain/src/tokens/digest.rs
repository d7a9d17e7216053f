//! The bytes of token effects that enter the audit chain. A frame without tokens adds none, so the chain of a log from
//! before there were tokens stays what it was.

use super::{LockRow, SpendRow, Token, TokenEffect, TokenOutcome, TokenRefusal};
use crate::effects::Effects;

/// Stands before the token part, which only frames with tokens have.
const TOKENS: u8 = b'T';

impl Effects {
    pub(crate) fn write_token_digest(&self, out: &mut Vec<u8>) {
        let outcomes = self.all(|step| &step.outcomes).filter_map(|outcome| outcome.token.as_deref());
        let mut begun = false;
        let mut begin = |out: &mut Vec<u8>| {
            if !std::mem::replace(&mut begun, true) {
                out.push(TOKENS);
            }
        };
        for effect in self.all(|step| &step.tokens) {
            begin(out);
            effect.write(out);
        }
        for outcome in outcomes {
            begin(out);
            outcome.write(out);
        }
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn token(out: &mut Vec<u8>, token: &Token) {
    text(out, token.id.as_str());
    out.extend_from_slice(&token.quantity.to_le_bytes());
    let kind = &*token.kind;
    for name in [&kind.wallet, &kind.token_type, &kind.currency] {
        text(out, name);
    }
    for name in [&kind.external_id, &kind.public_key, &kind.issuer, &kind.notary] {
        out.push(u8::from(name.is_some()));
        name.iter().for_each(|name| text(out, name));
    }
    out.extend_from_slice(&(kind.attributes.as_ref().map_or(0, |all| all.len()) as u64).to_le_bytes());
    for (name, value) in kind.attributes.iter().flat_map(|all| all.iter()) {
        text(out, name);
        text(out, value);
    }
}

fn lock(out: &mut Vec<u8>, row: &LockRow) {
    text(out, &row.spender);
    for number in [row.fence, row.amount, row.tokens.len() as u64] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for time in [row.since, row.expires_at] {
        out.extend_from_slice(&time.to_le_bytes());
    }
    out.extend_from_slice(&row.body.0.to_le_bytes());
    row.tokens.iter().for_each(|id| text(out, id.as_str()));
    out.push(u8::from(row.funding.is_some()));
    row.funding.iter().for_each(|wallet| text(out, wallet));
}

fn spend(out: &mut Vec<u8>, row: &SpendRow) {
    text(out, &row.transaction.id);
    text(out, &row.transaction.spender);
    out.extend_from_slice(&row.body.0.to_le_bytes());
    out.extend_from_slice(&(row.transaction.consumed.len() as u64).to_le_bytes());
    row.transaction.consumed.iter().for_each(|id| text(out, id.as_str()));
    out.extend_from_slice(&(row.transaction.produced.len() as u64).to_le_bytes());
    row.transaction.produced.iter().for_each(|produced| token(out, produced));
}

impl TokenEffect {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            TokenEffect::Produced(produced) => {
                out.push(1);
                token(out, produced);
            }
            TokenEffect::Consumed(id) => {
                out.push(2);
                text(out, id.as_str());
            }
            TokenEffect::Locked(row) => {
                out.push(3);
                lock(out, row);
            }
            TokenEffect::Unlocked { spender, fence } => {
                out.push(4);
                text(out, spender);
                out.extend_from_slice(&fence.to_le_bytes());
            }
            TokenEffect::Renewed(row) => {
                out.push(5);
                text(out, &row.spender);
                out.extend_from_slice(&row.fence.to_le_bytes());
                out.extend_from_slice(&row.expires_at.to_le_bytes());
            }
            TokenEffect::Spent(row) => {
                out.push(6);
                spend(out, row);
            }
        }
    }
}

impl TokenOutcome {
    /// Effects say what was done; here it is enough to tell the answers apart.
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            TokenOutcome::Issued => out.push(65),
            TokenOutcome::Locked(row) => {
                out.push(66);
                out.extend_from_slice(&row.fence.to_le_bytes());
            }
            TokenOutcome::Spent(row) => {
                out.push(67);
                text(out, &row.transaction.id);
            }
            TokenOutcome::Updated { produced, consumed } => {
                out.push(68);
                out.extend_from_slice(&(*produced as u64).to_le_bytes());
                out.extend_from_slice(&(*consumed as u64).to_le_bytes());
            }
            TokenOutcome::Released(count) => {
                out.push(69);
                out.extend_from_slice(&(*count as u64).to_le_bytes());
            }
            TokenOutcome::Renewed { fence, expires_at } => {
                out.push(70);
                out.extend_from_slice(&fence.to_le_bytes());
                out.extend_from_slice(&expires_at.to_le_bytes());
            }
            TokenOutcome::Refused(refusal) => {
                out.extend_from_slice(&[71, refusal.number()]);
                refusal.token().iter().for_each(|id| text(out, id.as_str()));
            }
        }
    }
}

impl TokenRefusal {
    const fn number(&self) -> u8 {
        match self {
            TokenRefusal::Taken(_) => 1,
            TokenRefusal::Consumed(_) => 2,
            TokenRefusal::Unknown(_) => 3,
            TokenRefusal::Exists(_) => 4,
            TokenRefusal::LeaseLost(_) => 5,
            TokenRefusal::SpenderInUse(_) => 6,
            TokenRefusal::Invalid(_) => 7,
        }
    }

    const fn token(&self) -> Option<&super::TokenId> {
        match self {
            TokenRefusal::Taken(id)
            | TokenRefusal::Consumed(id)
            | TokenRefusal::Unknown(id)
            | TokenRefusal::Exists(id) => Some(id),
            TokenRefusal::LeaseLost(_) | TokenRefusal::SpenderInUse(_) | TokenRefusal::Invalid(_) => None,
        }
    }
}
