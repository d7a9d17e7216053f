//! A token as columns, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_tokens::{Fingerprint, Kind, LockRecord, Name, Token, TokenId};
use postgres::Row;
use postgres::types::ToSql;

use crate::Error;
use crate::guard::unsigned;
use crate::types::{Decimal, Moment, Uuid, list};

/// PostgreSQL's decimals are counted here in ten-thousandths.
const UNIT: i128 = 10_000;

/// A quantity as a decimal.
pub(super) fn decimal(quantity: u64) -> Decimal {
    Decimal(i128::from(quantity) * UNIT)
}

/// A decimal without a fraction.
pub(super) fn whole(table: &'static str, decimal: Decimal) -> Result<u128, Error> {
    let number = decimal.0.checked_div(UNIT).and_then(|whole| u128::try_from(whole).ok());
    number.ok_or_else(|| Error::corrupt(table, "a quantity"))
}

/// The same, of one token.
pub(super) fn quantity(table: &'static str, decimal: Decimal) -> Result<u64, Error> {
    u64::try_from(whole(table, decimal)?).map_err(|_| Error::corrupt(table, "a quantity"))
}

/// One column of tokens, for `unnest`.
type List<'a> = Box<dyn ToSql + Sync + 'a>;

/// Tokens as one list per column, in the order in which rows are made.
pub(super) fn lists_of<'a>(tokens: &[&'a Token]) -> [List<'a>; 10] {
    fn of<'a, T: ToSql + Sync + 'a>(tokens: &[&'a Token], column: impl Fn(&'a Token) -> T) -> List<'a> {
        Box::new(list(tokens.iter().copied(), column))
    }
    let written = |all: &Arc<BTreeMap<String, String>>| {
        serde_json::to_string(&**all).expect("texts can always be written")
    };
    [
        of(tokens, |token| token.id.as_str()),
        of(tokens, |token| &*token.kind.wallet),
        of(tokens, |token| token.kind.external_id.as_deref()),
        of(tokens, |token| token.kind.public_key.as_deref()),
        of(tokens, |token| &*token.kind.token_type),
        of(tokens, |token| &*token.kind.currency),
        of(tokens, |token| decimal(token.quantity)),
        of(tokens, |token| token.kind.issuer.as_deref()),
        of(tokens, |token| token.kind.notary.as_deref()),
        of(tokens, |token| token.kind.attributes.as_ref().map(written)),
    ]
}

/// The columns of a token, in the order in which [`token_of`] reads them.
macro_rules! token_columns {
    () => {
        "t.token_id, t.quantity, t.wallet, t.external_id, t.public_key, t.token_type, t.currency, t.issuer, t.notary,
         t.attributes::text"
    };
}
pub(super) use token_columns;

/// How many columns [`token_columns`] are.
pub(super) const TOKEN_COLUMNS: usize = 10;

/// Reads the columns of [`token_columns`], the first of them at `at`. Names that repeat from row to row are kept once.
pub(super) fn token_of(row: &Row, at: usize, names: &mut Names) -> Result<Token, Error> {
    let attributes: Option<&str> = row.get(at + 9);
    let read = |text: &str| serde_json::from_str(text).map_err(|_| Error::corrupt("token", "attributes"));
    let attributes: Option<BTreeMap<String, String>> = attributes.map(read).transpose()?;
    let mut name = |column: usize| row.get::<_, Option<&str>>(at + column).map(|text| names.shared(text));
    let required = |name: Option<Name>| name.ok_or_else(|| Error::corrupt("token", "a name that is missing"));
    let kind = Kind {
        wallet: required(name(2))?,
        external_id: name(3),
        public_key: name(4),
        token_type: required(name(5))?,
        currency: required(name(6))?,
        issuer: name(7),
        notary: name(8),
        attributes: attributes.map(Arc::new),
    };
    let id = TokenId::from(row.get::<_, &str>(at));
    let quantity = quantity("token", row.get(at + 1))?;
    Ok(Token { id, quantity, kind: names.kind(kind) })
}

/// The kind and the names of the rows before: most tokens that are read together are alike.
#[derive(Default)]
pub(super) struct Names {
    last: Vec<Name>,
    kind: Option<Arc<Kind>>,
}

/// Names remembered; a wallet, a type, a currency, and some besides.
const NAMES_MAX: usize = 8;

impl Names {
    fn shared(&mut self, text: &str) -> Name {
        if let Some(known) = self.last.iter().find(|name| ***name == *text) {
            return known.clone();
        }
        let name = Name::from(text);
        if self.last.len() == NAMES_MAX {
            self.last.remove(0);
        }
        self.last.push(name.clone());
        name
    }

    fn kind(&mut self, kind: Kind) -> Arc<Kind> {
        match &self.kind {
            Some(known) if **known == kind => known.clone(),
            _ => self.kind.insert(Arc::new(kind)).clone(),
        }
    }
}

/// Selections `s` as [`record_of`] reads them, as far as the rest of the question says.
macro_rules! records {
    ($rest:literal) => {
        concat!(
            "SELECT s.spender_tx_id, s.fence, s.created_at, s.expires_at, s.amount, s.body, s.token_ids",
            $rest
        )
    };
}
pub(super) use records;

/// Reads a row of [`records`].
pub(super) fn record_of(row: &Row) -> Result<LockRecord, Error> {
    let Moment(since) = row.get(2);
    let Moment(expires_at) = row.get(3);
    let Uuid(body) = row.get(5);
    let ids: Vec<&str> = row.get(6);
    Ok(LockRecord {
        spender: row.get::<_, &str>(0).into(),
        fence: unsigned("token_selection", row.get(1))?,
        since,
        expires_at,
        amount: quantity("token_selection", row.get(4))?,
        body: Fingerprint(body),
        ids: ids.into_iter().map(TokenId::from).collect(),
    })
}
