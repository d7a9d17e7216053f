//! Token commands on the wire: the fixed unit says how long the tail is, the tail holds the fields one after another.
//!
//! Texts are a length of two bytes and UTF-8; what may be absent begins with 0 or 1; lists begin with a count of four bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Kind;
use super::codec::{Writer, length, listed, read_tail};
use crate::codec::{Bad, Bytes, Form, Plain, Put, Read, Readable, Take, put_count, row};
use crate::command::Funding;
use crate::ids::{HUB, TransferId};
use crate::tokens::{Kind as TokenKind, LockTokens, Output, SpendRequest, SpendTokens, Token, TokenCommand};

listed!(TokenCommand in Plain {
    TokenIssue = Issue { tokens },
    TokenLock = Lock(lock),
    TokenSpend = Spend(spend),
    TokenUpdate = Update { consumed, produced },
    TokenUnlock = Unlock { spender, fence },
    TokenRenew = Renew { spender, fence, lease_ms: lease },
});
row!(LockTokens { spender, ids, amount, lease_ms: lease, body });
row!(SpendTokens { request, body, transaction });
row!(SpendRequest { spender, fence, outputs, redeem });
row!(Output { wallet, external_id, public_key, quantity: above_zero, attributes });

pub(super) fn read(kind: Kind, from: &mut Bytes<'_>) -> Read<TokenCommand> {
    read_tail(from, |fields| read_fields(kind, fields))
}

pub(super) fn write(command: &TokenCommand, out: &mut Vec<u8>) {
    let mut tail = Vec::with_capacity(128);
    let kind = put_fields(command, &mut tail);
    Writer::new(out, kind, 0, HUB).put(length(tail.len())).pad_to(1).bytes(&tail).finish();
}

fn lease(ms: i64) -> Read<i64> {
    let known = (1..=crate::tokens::LEASE_MS_MAX).contains(&ms);
    known.then_some(ms).ok_or(Bad::new("lease", "is not 1 ms to a day"))
}

fn above_zero(quantity: u64) -> Read<u64> {
    if quantity == 0 { Err(Bad::new("quantity", "is 0")) } else { Ok(quantity) }
}

/// The tokens that pay for a transfer, as they stand in its prepare: both wallets, then the ids.
pub(super) fn funding_block(funding: &Funding) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    (&funding.payer_wallet, &funding.payee_wallet, &funding.ids).put::<Plain>(&mut out);
    out
}

pub(super) fn read_funding(transfer: TransferId, block: &[u8]) -> Read<Funding> {
    let mut fields = Bytes(block);
    let (payer_wallet, payee_wallet) = Take::take::<Plain>(&mut fields)?;
    let ids = Take::take::<Plain>(&mut fields)?;
    fields.end().map_err(|_| Bad::new("funding", "goes on after its last field"))?;
    Ok(Funding::new(transfer, payer_wallet, payee_wallet, ids))
}

impl Put for Token {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        let TokenKind { wallet, external_id, public_key, token_type, currency, issuer, notary, attributes } =
            &*self.kind;
        (&self.id, self.quantity, wallet, token_type, currency).put::<F>(out);
        (external_id, public_key, issuer, notary).put::<F>(out);
        match attributes {
            Some(attributes) => attributes.put::<F>(out),
            None => put_count::<F>(out, 0),
        }
    }
}

impl Take for Token {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<Token> {
        let (id, quantity) = (Take::take::<F>(from)?, above_zero(Take::take::<F>(from)?)?);
        let kind = TokenKind {
            wallet: Take::take::<F>(from)?,
            token_type: Take::take::<F>(from)?,
            currency: Take::take::<F>(from)?,
            external_id: Take::take::<F>(from)?,
            public_key: Take::take::<F>(from)?,
            issuer: Take::take::<F>(from)?,
            notary: Take::take::<F>(from)?,
            attributes: Some(BTreeMap::take::<F>(from)?).filter(|all| !all.is_empty()).map(Arc::new),
        };
        Ok(Token { id, quantity, kind: Arc::new(kind) })
    }
}
