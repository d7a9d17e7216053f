//! Token commands on the wire: the fixed unit says how long the tail is, the tail holds the fields one after another.
//!
//! Texts are a length of two bytes and UTF-8; what may be absent begins with 0 or 1; lists begin with a count of four bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codec::{Cursor, Writer, bad, from_hub, only_flags};
use super::{Kind, RecordError};
use crate::codec::{Bad, Bytes, Form, Plain, Put, Read, Readable, Take, field, put_count, put_optional};
use crate::command::Funding;
use crate::ids::{HUB, TransferId};
use crate::tokens::{
    Kind as TokenKind, LockTokens, Name, Output, SpendRequest, SpendTokens, Token, TokenCommand, TokenId,
};

pub(super) fn read(kind: Kind, cursor: &mut Cursor<'_>) -> Result<TokenCommand, RecordError> {
    let (flags, source) = cursor.header();
    only_flags(flags, 0)?;
    from_hub(source)?;
    let length = cursor.u32();
    cursor.zeros(52)?;
    let mut tail = Bytes(cursor.tail(length)?);
    let command = read_tail(kind, &mut tail)?;
    tail.end()?;
    Ok(command)
}

fn read_tail(kind: Kind, from: &mut Bytes<'_>) -> Read<TokenCommand> {
    Ok(match kind {
        Kind::TokenIssue => TokenCommand::Issue { tokens: take(from)? },
        Kind::TokenLock => TokenCommand::Lock(LockTokens {
            spender: take(from)?,
            ids: take::<Vec<TokenId>>(from)?.into(),
            amount: take(from)?,
            lease_ms: lease(from)?,
            body: take(from)?,
        }),
        Kind::TokenSpend => TokenCommand::Spend(SpendTokens {
            request: SpendRequest {
                spender: take(from)?,
                fence: from.optional(take)?,
                outputs: take(from)?,
                redeem: take(from)?,
            },
            body: take(from)?,
            transaction: u128::from_le_bytes(from.array()?),
        }),
        Kind::TokenUpdate => TokenCommand::Update { consumed: take(from)?, produced: take(from)? },
        Kind::TokenUnlock => TokenCommand::Unlock { spender: take(from)?, fence: from.optional(take)? },
        Kind::TokenRenew => {
            TokenCommand::Renew { spender: take(from)?, fence: from.optional(take)?, lease_ms: lease(from)? }
        }
        _ => unreachable!("read by their own functions"),
    })
}

/// The next field of a tail.
pub(super) fn take<T: Take>(from: &mut Bytes<'_>) -> Read<T> {
    T::take::<Plain>(from)
}

/// Adds fields to the tail of a record of that kind.
pub(super) fn put(kind: Kind, tail: &mut Vec<u8>, fields: impl Put) -> Kind {
    fields.put::<Plain>(tail);
    kind
}

fn lease(from: &mut Bytes<'_>) -> Read<i64> {
    let lease = take(from)?;
    let known = (1..=crate::tokens::LEASE_MS_MAX).contains(&lease);
    known.then_some(lease).ok_or(Bad::new("lease", "is not 1 ms to a day"))
}

pub(super) fn write(command: &TokenCommand, out: &mut Vec<u8>) {
    let mut tail = Vec::with_capacity(128);
    let to = &mut tail;
    let kind = match command {
        TokenCommand::Issue { tokens } => put(Kind::TokenIssue, to, tokens),
        TokenCommand::Lock(LockTokens { spender, ids, amount, lease_ms, body }) => {
            put(Kind::TokenLock, to, (spender, &ids[..], amount, lease_ms, body))
        }
        TokenCommand::Spend(SpendTokens { request, body, transaction }) => {
            let SpendRequest { spender, fence, outputs, redeem } = request;
            let fence = Presence(fence.as_ref());
            put(Kind::TokenSpend, to, (spender, fence, outputs, redeem, body));
            to.extend_from_slice(&transaction.to_le_bytes());
            Kind::TokenSpend
        }
        TokenCommand::Update { consumed, produced } => put(Kind::TokenUpdate, to, (consumed, produced)),
        TokenCommand::Unlock { spender, fence } => {
            put(Kind::TokenUnlock, to, (spender, Presence(fence.as_ref())))
        }
        TokenCommand::Renew { spender, fence, lease_ms } => {
            put(Kind::TokenRenew, to, (spender, Presence(fence.as_ref()), lease_ms))
        }
    };
    let length = u32::try_from(tail.len()).expect("the edge bounds what a record may carry");
    Writer::new(out, kind, 0, HUB).put(&length.to_le_bytes()).pad_to(1).put(&tail).finish();
}

/// The tokens that pay for a transfer, as they stand in its prepare: both wallets, then the ids.
pub(super) fn funding_block(funding: &Funding) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    (&funding.payer_wallet, &funding.payee_wallet, &funding.ids[..]).put::<Plain>(&mut out);
    out
}

pub(super) fn read_funding(transfer: TransferId, block: &[u8]) -> Result<Funding, RecordError> {
    let mut fields = Bytes(block);
    let (payer_wallet, payee_wallet) = take(&mut fields)?;
    let ids = take(&mut fields)?;
    if !fields.0.is_empty() {
        return Err(bad("funding", "goes on after its last field"));
    }
    Ok(Funding::new(transfer, payer_wallet, payee_wallet, ids))
}

/// A field that a byte of 0 or 1 stands before.
struct Presence<'a, T>(Option<&'a T>);

impl<T: Put> Put for Presence<'_, T> {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        put_optional::<F>(out, self.0);
    }
}

fn quantity(from: &mut Bytes<'_>) -> Read<u64> {
    let quantity = take(from)?;
    if quantity == 0 { Err(Bad::new("quantity", "is 0")) } else { Ok(quantity) }
}

impl Put for Token {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        let TokenKind { wallet, external_id, public_key, token_type, currency, issuer, notary, attributes } =
            &*self.kind;
        (&self.id, self.quantity, wallet, token_type, currency).put::<F>(out);
        for name in [external_id, public_key, issuer, notary] {
            put_optional::<F>(out, name.as_ref());
        }
        match attributes {
            Some(attributes) => attributes.put::<F>(out),
            None => put_count::<F>(out, 0),
        }
    }
}

impl Take for Token {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<Token> {
        let (id, quantity) = (TokenId::take::<F>(from)?, quantity(from)?);
        let name = Name::take::<F>;
        let kind = TokenKind {
            wallet: name(from)?,
            token_type: name(from)?,
            currency: name(from)?,
            external_id: from.optional(name)?,
            public_key: from.optional(name)?,
            issuer: from.optional(name)?,
            notary: from.optional(name)?,
            attributes: Some(BTreeMap::take::<F>(from)?).filter(|all| !all.is_empty()).map(Arc::new),
        };
        Ok(Token { id, quantity, kind: Arc::new(kind) })
    }
}

field!(Output, F: |output, out| {
    let Output { wallet, external_id, public_key, quantity, attributes } = output;
    let (external_id, public_key) = (Presence(external_id.as_ref()), Presence(public_key.as_ref()));
    (wallet, external_id, public_key, quantity, attributes).put::<F>(out);
}, |from| {
    Ok(Output {
        wallet: Name::take::<F>(from)?,
        external_id: from.optional(Name::take::<F>)?,
        public_key: from.optional(Name::take::<F>)?,
        quantity: quantity(from)?,
        attributes: BTreeMap::take::<F>(from)?,
    })
});
