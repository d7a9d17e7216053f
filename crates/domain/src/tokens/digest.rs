//! The bytes of token effects that enter the audit chain. A frame without tokens adds none, so the chain of a log from
//! before there were tokens stays what it was.

use super::{LockRow, TokenEffect, TokenOutcome, TokenRefusal, Transaction};
use crate::codec::{Chained, Put};
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

/// Adds fields behind the number of what they are.
fn tagged(out: &mut Vec<u8>, tag: u8, fields: impl Put) {
    out.push(tag);
    fields.put::<Chained<8>>(out);
}

impl TokenEffect {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            TokenEffect::Produced(produced) => tagged(out, 1, produced),
            TokenEffect::Consumed(id) => tagged(out, 2, id),
            TokenEffect::Locked(row) => {
                let LockRow { spender, fence, since, expires_at, amount, body, tokens, funding } = &**row;
                tagged(out, 3, (spender, fence, amount, tokens.len() as u64, since, expires_at));
                body.put::<Chained<8>>(out);
                tokens.iter().for_each(|id| id.put::<Chained<8>>(out));
                funding.put::<Chained<8>>(out);
            }
            TokenEffect::Unlocked { spender, fence } => tagged(out, 4, (spender, fence)),
            TokenEffect::Renewed(row) => tagged(out, 5, (&row.spender, row.fence, row.expires_at)),
            TokenEffect::Spent(row) => {
                let Transaction { id, spender, consumed, produced } = &row.transaction;
                tagged(out, 6, (id, spender, row.body, consumed, produced));
            }
        }
    }
}

impl TokenOutcome {
    /// Effects say what was done; here it is enough to tell the answers apart.
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            TokenOutcome::Issued => out.push(65),
            TokenOutcome::Locked(row) => tagged(out, 66, row.fence),
            TokenOutcome::Spent(row) => tagged(out, 67, &row.transaction.id),
            TokenOutcome::Updated { produced, consumed } => {
                tagged(out, 68, (*produced as u64, *consumed as u64));
            }
            TokenOutcome::Released(count) => tagged(out, 69, *count as u64),
            TokenOutcome::Renewed { fence, expires_at } => tagged(out, 70, (fence, expires_at)),
            TokenOutcome::Refused(refusal) => {
                out.extend_from_slice(&[71, refusal.number()]);
                refusal.token().iter().for_each(|id| id.put::<Chained<8>>(out));
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
