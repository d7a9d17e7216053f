//! Token commands on the wire: the fixed unit says how long the tail is, the tail holds the fields one after another.
//!
//! Texts are a length of two bytes and UTF-8; what may be absent begins with 0 or 1; lists begin with a count of four bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codec::{Cursor, Writer, bad, from_hub, only_flags};
use super::{Kind, RecordError};
use crate::command::Funding;
use crate::ids::{HUB, TransferId};
use crate::tokens::{
    Fingerprint, Kind as TokenKind, LockTokens, Name, Output, SpendRequest, SpendTokens, Token, TokenCommand,
    TokenId,
};

pub(super) fn read(kind: Kind, cursor: &mut Cursor<'_>) -> Result<TokenCommand, RecordError> {
    let (flags, source) = cursor.header();
    only_flags(flags, 0)?;
    from_hub(source)?;
    let length = cursor.u32();
    cursor.zeros(52)?;
    let mut fields = Fields { rest: cursor.tail(length)? };
    let command = match kind {
        Kind::TokenIssue => TokenCommand::Issue { tokens: fields.list(Fields::token)? },
        Kind::TokenLock => TokenCommand::Lock(LockTokens {
            spender: fields.name()?,
            ids: fields.list(Fields::id)?.into(),
            amount: fields.u64()?,
            lease_ms: fields.lease()?,
            body: fields.fingerprint()?,
        }),
        Kind::TokenSpend => TokenCommand::Spend(SpendTokens {
            request: SpendRequest {
                spender: fields.name()?,
                fence: fields.optional(Fields::u64)?,
                outputs: fields.list(Fields::output)?,
                redeem: fields.u64()?,
            },
            body: fields.fingerprint()?,
            transaction: u128::from_le_bytes(fields.array()?),
        }),
        Kind::TokenUpdate => {
            TokenCommand::Update { consumed: fields.list(Fields::id)?, produced: fields.list(Fields::token)? }
        }
        Kind::TokenUnlock => {
            TokenCommand::Unlock { spender: fields.name()?, fence: fields.optional(Fields::u64)? }
        }
        Kind::TokenRenew => TokenCommand::Renew {
            spender: fields.name()?,
            fence: fields.optional(Fields::u64)?,
            lease_ms: fields.lease()?,
        },
        _ => unreachable!("read by their own functions"),
    };
    if !fields.rest.is_empty() {
        return Err(bad("tail", "goes on after its last field"));
    }
    Ok(command)
}

pub(super) fn write(command: &TokenCommand, out: &mut Vec<u8>) {
    let mut tail = Vec::with_capacity(128);
    let kind = match command {
        TokenCommand::Issue { tokens } => {
            put_list(&mut tail, tokens, put_token);
            Kind::TokenIssue
        }
        TokenCommand::Lock(LockTokens { spender, ids, amount, lease_ms, body }) => {
            put_text(&mut tail, spender);
            put_list(&mut tail, ids, |out, id| put_text(out, id.as_str()));
            tail.extend_from_slice(&amount.to_le_bytes());
            tail.extend_from_slice(&lease_ms.to_le_bytes());
            tail.extend_from_slice(&body.0.to_le_bytes());
            Kind::TokenLock
        }
        TokenCommand::Spend(SpendTokens { request, body, transaction }) => {
            put_text(&mut tail, &request.spender);
            put_fence(&mut tail, request.fence);
            put_list(&mut tail, &request.outputs, put_output);
            tail.extend_from_slice(&request.redeem.to_le_bytes());
            tail.extend_from_slice(&body.0.to_le_bytes());
            tail.extend_from_slice(&transaction.to_le_bytes());
            Kind::TokenSpend
        }
        TokenCommand::Update { consumed, produced } => {
            put_list(&mut tail, consumed, |out, id| put_text(out, id.as_str()));
            put_list(&mut tail, produced, put_token);
            Kind::TokenUpdate
        }
        TokenCommand::Unlock { spender, fence } => {
            put_text(&mut tail, spender);
            put_fence(&mut tail, *fence);
            Kind::TokenUnlock
        }
        TokenCommand::Renew { spender, fence, lease_ms } => {
            put_text(&mut tail, spender);
            put_fence(&mut tail, *fence);
            tail.extend_from_slice(&lease_ms.to_le_bytes());
            Kind::TokenRenew
        }
    };
    let length = u32::try_from(tail.len()).expect("the edge bounds what a record may carry");
    Writer::new(out, kind, 0, HUB).put(&length.to_le_bytes()).pad_to(1).put(&tail).finish();
}

/// The tokens that pay for a transfer, as they stand in its prepare: both wallets, then the ids.
pub(super) fn funding_block(funding: &Funding) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    put_text(&mut out, &funding.payer_wallet);
    put_text(&mut out, &funding.payee_wallet);
    put_list(&mut out, &funding.ids, |out, id| put_text(out, id.as_str()));
    out
}

pub(super) fn read_funding(transfer: TransferId, block: &[u8]) -> Result<Funding, RecordError> {
    let mut fields = Fields { rest: block };
    let (payer_wallet, payee_wallet) = (fields.name()?, fields.name()?);
    let ids = fields.list(Fields::id)?;
    if !fields.rest.is_empty() {
        return Err(bad("funding", "goes on after its last field"));
    }
    Ok(Funding::new(transfer, payer_wallet, payee_wallet, ids))
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("the edge bounds names");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_optional_text(out: &mut Vec<u8>, text: Option<&Name>) {
    out.push(u8::from(text.is_some()));
    text.iter().for_each(|text| put_text(out, text));
}

fn put_fence(out: &mut Vec<u8>, fence: Option<u64>) {
    out.push(u8::from(fence.is_some()));
    fence.iter().for_each(|fence| out.extend_from_slice(&fence.to_le_bytes()));
}

pub(super) fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    let count = u32::try_from(items.len()).expect("the edge bounds lists");
    out.extend_from_slice(&count.to_le_bytes());
    items.iter().for_each(|item| put(out, item));
}

fn put_attributes(out: &mut Vec<u8>, attributes: Option<&BTreeMap<String, String>>) {
    let count = attributes.map_or(0, BTreeMap::len);
    out.extend_from_slice(&u32::try_from(count).expect("the edge bounds attributes").to_le_bytes());
    for (name, value) in attributes.into_iter().flatten() {
        put_text(out, name);
        put_text(out, value);
    }
}

fn put_token(out: &mut Vec<u8>, token: &Token) {
    let TokenKind { wallet, external_id, public_key, token_type, currency, issuer, notary, attributes } =
        &*token.kind;
    put_text(out, token.id.as_str());
    out.extend_from_slice(&token.quantity.to_le_bytes());
    [wallet, token_type, currency].into_iter().for_each(|name| put_text(out, name));
    for name in [external_id, public_key, issuer, notary] {
        put_optional_text(out, name.as_ref());
    }
    put_attributes(out, attributes.as_deref());
}

fn put_output(out: &mut Vec<u8>, output: &Output) {
    let Output { wallet, external_id, public_key, quantity, attributes } = output;
    put_text(out, wallet);
    put_optional_text(out, external_id.as_ref());
    put_optional_text(out, public_key.as_ref());
    out.extend_from_slice(&quantity.to_le_bytes());
    put_attributes(out, Some(attributes));
}

/// What is left of a tail.
pub(super) struct Fields<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| bad("tail", "ends in the middle of a field"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        Ok(self.bytes(N)?.try_into().expect("so many were taken"))
    }

    pub(super) fn u64(&mut self) -> Result<u64, RecordError> {
        self.array().map(u64::from_le_bytes)
    }

    fn lease(&mut self) -> Result<i64, RecordError> {
        let lease = self.array().map(i64::from_le_bytes)?;
        let known = (1..=crate::tokens::LEASE_MS_MAX).contains(&lease);
        known.then_some(lease).ok_or_else(|| bad("lease", "is not 1 ms to a day"))
    }

    pub(super) fn fingerprint(&mut self) -> Result<Fingerprint, RecordError> {
        Ok(Fingerprint(u128::from_le_bytes(self.array()?)))
    }

    pub(super) fn text(&mut self) -> Result<&'a str, RecordError> {
        let length = u16::from_le_bytes(self.array()?);
        std::str::from_utf8(self.bytes(usize::from(length))?).map_err(|_| bad("text", "is not UTF-8"))
    }

    pub(super) fn name(&mut self) -> Result<Name, RecordError> {
        let text = self.text()?;
        if text.is_empty() {
            return Err(bad("name", "is empty"));
        }
        Ok(text.into())
    }

    pub(super) fn id(&mut self) -> Result<TokenId, RecordError> {
        self.name().map(|name| TokenId::from(&*name))
    }

    fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, RecordError>,
    ) -> Result<Option<T>, RecordError> {
        match self.array()? {
            [0] => Ok(None),
            [1] => read(self).map(Some),
            _ => Err(bad("presence", "is neither 0 nor 1")),
        }
    }

    pub(super) fn list<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<T, RecordError>,
    ) -> Result<Vec<T>, RecordError> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        // Each item takes a byte at least, so a count from nowhere asks for no memory.
        if count > self.rest.len() {
            return Err(bad("count", "is more than the tail can hold"));
        }
        (0..count).map(|_| read(self)).collect()
    }

    fn attributes(&mut self) -> Result<BTreeMap<String, String>, RecordError> {
        let pairs = self.list(|fields| Ok((fields.text()?.to_owned(), fields.text()?.to_owned())))?;
        let rising = pairs.windows(2).all(|pair| pair[0].0 < pair[1].0);
        rising.then(|| pairs.into_iter().collect()).ok_or_else(|| bad("attributes", "are not in their order"))
    }

    fn token(&mut self) -> Result<Token, RecordError> {
        let (id, quantity) = (self.id()?, self.u64()?);
        if quantity == 0 {
            return Err(bad("quantity", "is 0"));
        }
        let (wallet, token_type, currency) = (self.name()?, self.name()?, self.name()?);
        let external_id = self.optional(Self::name)?;
        let public_key = self.optional(Self::name)?;
        let issuer = self.optional(Self::name)?;
        let notary = self.optional(Self::name)?;
        let attributes = Some(self.attributes()?).filter(|all| !all.is_empty()).map(Arc::new);
        let kind =
            TokenKind { wallet, external_id, public_key, token_type, currency, issuer, notary, attributes };
        Ok(Token { id, quantity, kind: Arc::new(kind) })
    }

    fn output(&mut self) -> Result<Output, RecordError> {
        let wallet = self.name()?;
        let external_id = self.optional(Self::name)?;
        let public_key = self.optional(Self::name)?;
        let quantity = self.u64()?;
        if quantity == 0 {
            return Err(bad("quantity", "is 0"));
        }
        Ok(Output { wallet, external_id, public_key, quantity, attributes: self.attributes()? })
    }
}
