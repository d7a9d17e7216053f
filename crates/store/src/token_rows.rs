//! Tokens, locks and spends in few bytes, for the disk. [`holdfast_domain::codec`] tells what varints and texts are.
//!
//! | kind of token | bytes |
//! | --- | --- |
//! | which of the options are there | 1: external id, public key, issuer, notary, attributes, from the lowest bit |
//! | wallet, type, currency | texts |
//! | external id, public key, issuer, notary | texts, if there |
//! | attributes | if there: their number as a varint, then name and value of each as texts, rising by name |
//!
//! | token in a checkpoint | bytes |
//! | --- | --- |
//! | what is there | 1: a holder, the kind, from the lowest bit |
//! | number of the kind | varint: kinds are numbered as they come |
//! | kind | if the number is new |
//! | quantity | varint |
//! | holder | text, if there |
//! | id | UTF-8 to the end |
//!
//! | lock in a checkpoint | bytes |
//! | --- | --- |
//! | whether it funds a transfer | 1 |
//! | spender | text |
//! | fence | varint |
//! | since, expires at | zigzag varints |
//! | amount | varint |
//! | content of the request | 16 |
//! | receiving wallet | text, if it funds a transfer |
//! | tokens | their number as a varint, then the texts |
//!
//! | spend | bytes |
//! | --- | --- |
//! | content of the request | 16 |
//! | transaction, spender | texts |
//! | consumed ids | their number as a varint, then the texts |
//! | produced tokens | their number as a varint, then each: id, quantity, number of its kind, the kind if the number is new |
//!
//! Every row has exactly one form; what is not that form is refused.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use holdfast_domain::codec::{Bad, Bytes, Packed, Put, Read, Take, optional, put_count, put_varint};
use holdfast_domain::tokens::{
    Fingerprint, Kind, LockRow, Name, SpendRow, Token, TokenId, TokenRow, Transaction,
};

const EXTERNAL_ID: u8 = 1;
const PUBLIC_KEY: u8 = 1 << 1;
const ISSUER: u8 = 1 << 2;
const NOTARY: u8 = 1 << 3;
const ATTRIBUTES: u8 = 1 << 4;

const HELD: u8 = 1;
const NEW_KIND: u8 = 1 << 1;

fn write_kind(kind: &Kind, out: &mut Vec<u8>) {
    let flag = |there: bool, flag: u8| if there { flag } else { 0 };
    out.push(
        flag(kind.external_id.is_some(), EXTERNAL_ID)
            | flag(kind.public_key.is_some(), PUBLIC_KEY)
            | flag(kind.issuer.is_some(), ISSUER)
            | flag(kind.notary.is_some(), NOTARY)
            | flag(kind.attributes.is_some(), ATTRIBUTES),
    );
    let optional = [&kind.external_id, &kind.public_key, &kind.issuer, &kind.notary];
    let names = [&kind.wallet, &kind.token_type, &kind.currency];
    names.into_iter().chain(optional.into_iter().flatten()).for_each(|name| name.put::<Packed>(out));
    kind.attributes.iter().for_each(|attributes| attributes.put::<Packed>(out));
}

fn read_kind(from: &mut Bytes<'_>) -> Read<Kind> {
    let [flags] = from.array()?;
    if flags >= ATTRIBUTES << 1 {
        return Err(Bad::new("kind", "holds a bit that has no meaning"));
    }
    let there = |flag: u8| flags & flag != 0;
    let name = Name::take::<Packed>;
    let (wallet, token_type, currency) = (name(from)?, name(from)?, name(from)?);
    Ok(Kind {
        wallet,
        token_type,
        currency,
        external_id: optional(there(EXTERNAL_ID), || name(from))?,
        public_key: optional(there(PUBLIC_KEY), || name(from))?,
        issuer: optional(there(ISSUER), || name(from))?,
        notary: optional(there(NOTARY), || name(from))?,
        attributes: optional(there(ATTRIBUTES), || BTreeMap::take::<Packed>(from).map(Arc::new))?,
    })
}

/// A live token as a checkpoint has it: its kind by its number, and itself where it comes for the first time.
#[derive(Debug)]
pub(crate) struct StoredToken {
    id: TokenId,
    quantity: u64,
    holder: Option<Name>,
    number: u32,
    new_kind: Option<Arc<Kind>>,
}

impl StoredToken {
    /// The row, given the kinds that came before it. `None`: its kind is not one of them.
    pub(crate) fn into_row(self, kinds: &mut Vec<Arc<Kind>>) -> Option<TokenRow> {
        let StoredToken { id, quantity, holder, number, new_kind } = self;
        if let Some(new) = new_kind {
            if number as usize != kinds.len() {
                return None;
            }
            kinds.push(new);
        }
        let kind = Arc::clone(kinds.get(number as usize)?);
        Some(TokenRow { token: Token { id, quantity, kind }, holder })
    }
}

/// Numbers kinds as they come. Equal kinds must be one and the same: they are told by their place in memory.
#[derive(Default)]
pub(crate) struct KindNumbers {
    numbers: HashMap<usize, u32, foldhash::fast::RandomState>,
    /// Keeps their places from being used again.
    kinds: Vec<Arc<Kind>>,
}

impl KindNumbers {
    /// The number of a kind, and whether it comes for the first time.
    fn number(&mut self, kind: &Arc<Kind>) -> (u32, bool) {
        let next = u32::try_from(self.kinds.len()).expect("fewer than 2^32 kinds");
        let number = *self.numbers.entry(Arc::as_ptr(kind).addr()).or_insert(next);
        let is_new = number == next;
        self.kinds.extend(is_new.then(|| Arc::clone(kind)));
        (number, is_new)
    }
}

pub(crate) fn write_token(row: &TokenRow, kinds: &mut KindNumbers, out: &mut Vec<u8>) {
    let TokenRow { token: Token { id, quantity, kind }, holder } = row;
    let (number, is_new) = kinds.number(kind);
    let held = if holder.is_some() { HELD } else { 0 };
    out.push(held | if is_new { NEW_KIND } else { 0 });
    number.put::<Packed>(out);
    if is_new {
        write_kind(kind, out);
    }
    quantity.put::<Packed>(out);
    holder.iter().for_each(|holder| holder.put::<Packed>(out));
    out.extend_from_slice(id.as_str().as_bytes());
}

pub(crate) fn read_token(bytes: &[u8]) -> Option<StoredToken> {
    take_token(&mut Bytes(bytes)).ok()
}

fn take_token(from: &mut Bytes<'_>) -> Read<StoredToken> {
    let [flags] = from.array()?;
    if flags & !(HELD | NEW_KIND) != 0 {
        return Err(Bad::new("token", "holds a bit that has no meaning"));
    }
    let number = from.varint()?;
    let new_kind = optional(flags & NEW_KIND != 0, || read_kind(from).map(Arc::new))?;
    let quantity = from.varint()?;
    let holder = optional(flags & HELD != 0, || Name::take::<Packed>(from))?;
    let id = TokenId::from(from.rest_as_text()?);
    Ok(StoredToken { id, quantity, holder, number, new_kind })
}

pub(crate) fn write_lock(row: &LockRow, out: &mut Vec<u8>) {
    out.push(u8::from(row.funding.is_some()));
    (&row.spender, row.fence, row.since, row.expires_at, row.amount, row.body).put::<Packed>(out);
    row.funding.iter().for_each(|wallet| wallet.put::<Packed>(out));
    row.tokens.put::<Packed>(out);
}

pub(crate) fn read_lock(bytes: &[u8]) -> Option<LockRow> {
    let mut from = Bytes(bytes);
    let row = take_lock(&mut from).ok()?;
    from.end().is_ok().then_some(row)
}

fn take_lock(from: &mut Bytes<'_>) -> Read<LockRow> {
    let [funds] = from.array()?;
    if funds > 1 {
        return Err(Bad::new("lock", "neither funds a transfer nor does not"));
    }
    Ok(LockRow {
        spender: Take::take::<Packed>(from)?,
        fence: from.varint()?,
        since: from.signed()?,
        expires_at: from.signed()?,
        amount: from.varint()?,
        body: Take::take::<Packed>(from)?,
        funding: optional(funds == 1, || Take::take::<Packed>(from))?,
        tokens: Vec::take::<Packed>(from)?.into(),
    })
}

pub(crate) fn write_spend(row: &SpendRow, out: &mut Vec<u8>) {
    let SpendRow { transaction: Transaction { id, spender, consumed, produced }, body } = row;
    (*body, id, spender, consumed).put::<Packed>(out);
    put_count::<Packed>(out, produced.len());
    let mut numbers: HashMap<&Kind, usize> = HashMap::new();
    for token in produced {
        (&token.id, token.quantity).put::<Packed>(out);
        let next = numbers.len();
        let number = *numbers.entry(&token.kind).or_insert(next);
        put_varint(out, number as u64);
        if number == next {
            write_kind(&token.kind, out);
        }
    }
}

pub(crate) fn read_spend(bytes: &[u8]) -> Option<SpendRow> {
    let mut from = Bytes(bytes);
    let row = take_spend(&mut from).ok()?;
    from.end().is_ok().then_some(row)
}

fn take_spend(from: &mut Bytes<'_>) -> Read<SpendRow> {
    const WRONG: Bad = Bad::new("kind", "comes with another number than its own");
    let body = Fingerprint::take::<Packed>(from)?;
    let (id, spender) = Take::take::<Packed>(from)?;
    let consumed = Take::take::<Packed>(from)?;
    let mut kinds: Vec<Arc<Kind>> = Vec::new();
    let mut known = std::collections::HashSet::new();
    let produced = from.list::<Packed, _>(|from| {
        let (id, quantity) = Take::take::<Packed>(from)?;
        let number: usize = from.varint()?;
        if number == kinds.len() {
            let kind = Arc::new(read_kind(from)?);
            // A kind that came before has its number.
            if !known.insert(Arc::clone(&kind)) {
                return Err(WRONG);
            }
            kinds.push(kind);
        }
        Ok(Token { id, quantity, kind: Arc::clone(kinds.get(number).ok_or(WRONG)?) })
    })?;
    Ok(SpendRow { transaction: Transaction { id, spender, consumed, produced }, body })
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::held::{Change, comes_back};

    fn names() -> impl Strategy<Value = Name> {
        "[a-zé]{1,12}".prop_map(Name::from)
    }

    fn ids() -> impl Strategy<Value = TokenId> {
        "[a-z0-9.-]{1,50}".prop_map(TokenId::from)
    }

    prop_compose! {
        fn kinds()(
            (wallet, token_type, currency) in (names(), names(), names()),
            (external_id, public_key) in (option::of(names()), option::of(names())),
            (issuer, notary) in (option::of(names()), option::of(names())),
            attributes in option::of(btree_map("[a-z]{0,5}", "[a-z]{0,5}", 0..4)),
        ) -> Kind {
            let attributes = attributes.map(Arc::new);
            Kind { wallet, external_id, public_key, token_type, currency, issuer, notary, attributes }
        }
    }

    prop_compose! {
        fn spends()(
            (id, spender, body) in (names(), names(), any::<u128>()),
            consumed in vec(ids(), 0..20),
            kinds in vec(kinds(), 1..4),
            produced in vec((ids(), any::<u64>(), any::<prop::sample::Index>()), 0..20),
        ) -> SpendRow {
            let token = |(id, quantity, kind): (TokenId, u64, prop::sample::Index)| {
                Token { id, quantity, kind: Arc::new(kind.get(&kinds).clone()) }
            };
            let produced = produced.into_iter().map(token).collect();
            let transaction = Transaction { id, spender, consumed, produced };
            SpendRow { transaction, body: Fingerprint(body) }
        }
    }

    prop_compose! {
        fn locks()(
            (spender, fence, since, expires_at) in (names(), any::<u64>(), any::<i64>(), any::<i64>()),
            (amount, body, funding) in (any::<u64>(), any::<u128>(), option::of(names())),
            tokens in vec(ids(), 0..20),
        ) -> LockRow {
            LockRow { spender, fence, since, expires_at, amount, body: Fingerprint(body), tokens: tokens.into(), funding }
        }
    }

    proptest! {
        #[test]
        fn every_spend_comes_back(row in spends(), change in any::<Change>()) {
            comes_back(&row, change, write_spend, read_spend);
        }

        #[test]
        fn every_lock_comes_back(row in locks(), change in any::<Change>()) {
            comes_back(&row, change, write_lock, read_lock);
        }

        #[test]
        fn every_token_comes_back(
            kinds in vec(kinds(), 1..4),
            tokens in vec((ids(), any::<u64>(), option::of(names()), any::<prop::sample::Index>()), 0..20),
        ) {
            let kinds: Vec<Arc<Kind>> = kinds.into_iter().map(Arc::new).collect();
            let row = |(id, quantity, holder, kind): (TokenId, u64, Option<Name>, prop::sample::Index)| {
                TokenRow { token: Token { id, quantity, kind: Arc::clone(kind.get(&kinds)) }, holder }
            };
            let rows: Vec<TokenRow> = tokens.into_iter().map(row).collect();
            let (mut numbers, mut known) = (KindNumbers::default(), Vec::new());
            for row in &rows {
                let mut bytes = Vec::new();
                write_token(row, &mut numbers, &mut bytes);
                let back = read_token(&bytes).and_then(|stored| stored.into_row(&mut known));
                prop_assert_eq!(back.as_ref(), Some(row));
            }
            prop_assert!(known.len() <= kinds.len(), "a kind is written once");
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200)) {
            let _ = (read_spend(&bytes), read_lock(&bytes), read_token(&bytes));
        }
    }

    #[test]
    fn a_token_of_a_kind_that_never_came_is_none() {
        let stored =
            |number, new_kind| StoredToken { id: "id".into(), quantity: 1, holder: None, number, new_kind };
        let kind = Arc::new(Kind::new("wallet", "USD"));
        let mut kinds = Vec::new();
        assert_eq!(stored(0, None).into_row(&mut kinds), None);
        assert!(stored(0, Some(Arc::clone(&kind))).into_row(&mut kinds).is_some());
        assert!(stored(0, None).into_row(&mut kinds).is_some());
        assert_eq!(stored(1, None).into_row(&mut kinds), None);
        assert_eq!(stored(3, Some(kind)).into_row(&mut kinds), None, "a number was left out");
    }
}
