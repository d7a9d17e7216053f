//! What operators send and get, as Mojaloop's central-ledger has it. Members that nobody asks for are let through, as the
//! client software that talks to these paths sends more than they need.

use std::collections::BTreeMap;
use std::fmt;

use holdfast_domain::command::{ENDPOINT_KIND_BYTES_MAX, ENDPOINT_VALUE_BYTES_MAX};
use holdfast_domain::ids::{Currency, TransferId};
use holdfast_domain::participants;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use serde_with_macros::skip_serializing_none;

use crate::amount::{ANY, Decimal, Given, Percent};
use crate::text::{Rule, shortened};
use crate::{Instant, Object, currencies};

/// A string that is not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(pub String);

impl Rule for Text {
    fn read(text: &str) -> Result<Text, String> {
        if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(Text(text.to_owned())) }
    }

    fn schema() -> Value {
        json!({"type": "string", "minLength": 1})
    }
}

/// A currency that a caller names: one of ISO 4217, for what is created by a typing error is never deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedCurrency(pub Currency);

impl Rule for NamedCurrency {
    fn read(text: &str) -> Result<NamedCurrency, String> {
        let known = currencies::currency(&Text::read(text)?.0).map(NamedCurrency);
        known.ok_or_else(|| format!("'{}' is not a currency of ISO 4217 such as USD", shortened(text)))
    }

    fn schema() -> Value {
        json!({"type": "string", "enum": currencies::all().collect::<Vec<_>>()})
    }
}

/// A currency that the hub shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownCurrency(pub Currency);

impl Rule for ShownCurrency {
    fn read(text: &str) -> Result<ShownCurrency, String> {
        let wrong = |_| format!("'{}' is not three capital letters such as USD", shortened(text));
        text.parse().map(ShownCurrency).map_err(wrong)
    }

    fn schema() -> Value {
        json!({"type": "string", "pattern": "^[A-Z]{3}$", "examples": ["USD"]})
    }
}

/// The name of a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParticipantName(pub participants::Name);

impl Rule for ParticipantName {
    fn read(text: &str) -> Result<ParticipantName, String> {
        let known = participants::Name::new(&Text::read(text)?.0).map(ParticipantName);
        known.ok_or_else(|| format!("'{}' is not 2 to 30 letters, digits or -._", shortened(text)))
    }

    fn schema() -> Value {
        json!({"type": "string", "pattern": "^[A-Za-z0-9._-]{2,30}$", "examples": ["bank-a"]})
    }
}

/// The id of a movement of funds: a UUID of any version in lower case, or the 128 bits of a ULID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovementId(pub TransferId);

impl Rule for MovementId {
    fn read(text: &str) -> Result<MovementId, String> {
        let of_ulid = || (text.len() == ULID_CHARS).then(|| ulid(text)).flatten().map(TransferId);
        let read = Text::read(text)?.0.parse().ok().or_else(of_ulid).map(MovementId);
        read.ok_or_else(|| format!("'{}' is neither a lower-case UUID nor a ULID", shortened(text)))
    }

    fn schema() -> Value {
        json!({
            "type": "string",
            "pattern": "^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-7][0-9A-HJKMNP-TV-Z]{25})$",
            "examples": ["b51ec534-ee48-4575-b6a9-ead2955b8069"],
        })
    }
}

const ULID_CHARS: usize = 26;

/// Crockford's 32 letters, five bits each; 26 of them carry 130 bits, so the first two must be zero.
fn ulid(text: &str) -> Option<u128> {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let mut id: u128 = 0;
    for (at, byte) in text.bytes().enumerate() {
        let value = LETTERS.iter().position(|letter| *letter == byte)?;
        if at == 0 && value > 7 {
            return None;
        }
        id = id << 5 | value as u128;
    }
    Some(id)
}

/// A string of at most so many bytes, and not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded<const BYTES: usize>(pub String);

impl<const BYTES: usize> fmt::Display for Bounded<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const BYTES: usize> Rule for Bounded<BYTES> {
    fn read(text: &str) -> Result<Bounded<BYTES>, String> {
        let Text(text) = Text::read(text)?;
        if text.len() > BYTES { Err(format!("has more than {BYTES} bytes")) } else { Ok(Bounded(text)) }
    }

    fn schema() -> Value {
        json!({"type": "string", "minLength": 1, "maxLength": BYTES})
    }
}

/// The type of an endpoint.
pub type EndpointKind = Bounded<ENDPOINT_KIND_BYTES_MAX>;
/// The address of an endpoint.
pub type EndpointValue = Bounded<ENDPOINT_VALUE_BYTES_MAX>;

words! {
    /// The one type of limit.
    LimitKind {
        /// How far a position may rise.
        NetDebitCap = "NET_DEBIT_CAP",
    }
}

words! {
    /// Kinds of accounts.
    AccountKind {
        /// What a participant owes.
        Position = "POSITION",
        /// Its funds.
        Settlement = "SETTLEMENT",
        /// The other side of funds in and out.
        HubReconciliation = "HUB_RECONCILIATION",
        /// The other side of settlements.
        HubMultilateralSettlement = "HUB_MULTILATERAL_SETTLEMENT",
    }
}

words! {
    /// What begins a movement of funds.
    FundsAction {
        /// Funds come in.
        In = "recordFundsIn",
        /// The first step of funds out.
        OutReserve = "recordFundsOutPrepareReserve",
    }
}

words! {
    /// What ends funds out.
    FundsEndAction {
        /// They have left.
        Commit = "recordFundsOutCommit",
        /// They stay.
        Abort = "recordFundsOutAbort",
    }
}

written_as_text!(
    Text,
    NamedCurrency,
    ShownCurrency,
    ParticipantName,
    MovementId,
    EndpointKind,
    EndpointValue
);
shown_as_content!(Text, NamedCurrency, ShownCurrency, ParticipantName, MovementId);

/// A flag as answers show it: 1 or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bit(pub bool);

impl Serialize for Bit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.0.into())
    }
}

impl<'de> Deserialize<'de> for Bit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bit, D::Error> {
        u8::deserialize(deserializer).map(|bit| Bit(bit == 1))
    }
}

inline_schema!(Bit, json!({"type": "integer", "enum": [0, 1]}));

/// Whether a participant is a proxy. It may be said also as 1 and 0 as they stand in answers; not there means no.
fn loose_flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match Box::<RawValue>::deserialize(deserializer)?.get() {
        "true" | "1" | "\"1\"" => Err(D::Error::custom("must be false: this hub has no proxies")),
        "null" | "false" | "0" | "\"0\"" | "\"\"" => Ok(false),
        _ => Err(D::Error::custom("must be true or false")),
    }
}

/// `POST /participants`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewParticipant {
    /// 2 to 30 letters, digits, '-', '.' or '_'; case does not matter
    pub name: ParticipantName,
    /// One of ISO 4217
    pub currency: NamedCurrency,
    /// False: there are none here
    #[serde(default, deserialize_with = "loose_flag", skip_serializing_if = "std::ops::Not::not")]
    pub is_proxy: bool,
}

/// Active or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// Whether new transfers may use it
    pub is_active: bool,
}

/// A participant.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Participant {
    /// Its name
    pub name: String,
    /// Its URL
    pub id: String,
    /// Since when it is known
    pub created: Instant,
    /// Whether it takes part in new transfers
    pub is_active: Bit,
    /// Where it is
    pub links: Links,
    /// Position and settlement per currency, in order of creation
    pub accounts: Vec<ParticipantAccount>,
    /// There are none here
    pub is_proxy: Bit,
}

/// Where a participant is.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ParticipantLinks")]
pub struct Links {
    /// Its URL
    #[serde(rename = "self")]
    pub this: String,
}

/// An account of a participant, from the moment that it is made.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParticipantAccount {
    /// Its number
    pub id: u32,
    /// What it is for
    pub ledger_account_type: AccountKind,
    /// Its currency
    pub currency: ShownCurrency,
    /// Whether new transfers may use it
    pub is_active: Bit,
    /// Since when it is there
    pub created_date: Instant,
    /// Who made it
    pub created_by: String,
}

/// `POST …/initialPositionAndLimits`.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitialPositionAndLimits {
    /// Of which accounts
    pub currency: NamedCurrency,
    /// Their first limit
    pub limit: Object<FirstCap>,
    /// Where the position begins; 0 without it
    pub initial_position: Option<Given<ANY>>,
}

/// The first limit.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FirstCap {
    /// The one type there is
    #[serde(rename = "type")]
    pub kind: LimitKind,
    /// How far the position may rise
    pub value: Given<0>,
}

/// `PUT …/limits`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NewLimit {
    /// Of which accounts
    pub currency: NamedCurrency,
    /// The limit
    pub limit: Object<NewCap>,
}

/// A further limit.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewCap {
    /// The one type there is
    #[serde(rename = "type")]
    pub kind: LimitKind,
    /// How far the position may rise
    pub value: Given<0>,
    /// At how much of the cap an alarm is raised
    pub alarm_percentage: Percent,
}

/// A limit; `name` only in the list of all participants.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Whose, in the list of all participants
    pub name: Option<String>,
    /// Of which accounts
    pub currency: ShownCurrency,
    /// The limit
    pub limit: Cap,
}

/// A limit as it stands.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cap {
    /// The one type there is
    #[serde(rename = "type")]
    pub kind: LimitKind,
    /// How far the position may rise
    pub value: Decimal,
    /// At how much of the cap an alarm is raised
    pub alarm_percentage: Percent,
}

/// What a participant owes (above zero) or is owed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// In which currency
    pub currency: ShownCurrency,
    /// What the participant owes, above zero
    pub value: Decimal,
    /// Since when
    pub changed_date: Instant,
}

/// An account with what stands on it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// Its number
    pub id: u32,
    /// What it is for
    pub ledger_account_type: AccountKind,
    /// Its currency
    pub currency: ShownCurrency,
    /// Whether new transfers may use it
    pub is_active: Bit,
    /// What stands on it
    pub value: Decimal,
    /// 0: what is reserved is in `value`
    pub reserved_value: Decimal,
    /// Since when
    pub changed_date: Instant,
}

/// `POST /participants/Hub/accounts`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NewAccount {
    /// One of ISO 4217
    pub currency: NamedCurrency,
    /// HUB_RECONCILIATION or HUB_MULTILATERAL_SETTLEMENT
    #[serde(rename = "type")]
    pub kind: Text,
}

/// `POST …/accounts/{id}`.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Funds {
    /// A UUID or ULID; a repeat is ignored
    pub transfer_id: MovementId,
    /// Of the bank's movement
    pub external_reference: Text,
    /// In, or the first step out
    pub action: FundsAction,
    /// Why
    pub reason: Text,
    /// How much
    pub amount: Object<FundsAmount>,
    /// Not kept
    #[schemars(with = "Option<ExtensionList>")]
    pub extension_list: Option<LooseExtensionList>,
}

/// How much moves.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FundsAmount {
    /// More than zero
    pub amount: Given<1>,
    /// That of the account
    pub currency: NamedCurrency,
}

/// An extension list as it is taken: its shape is looked at, its words are not.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LooseExtensionList {
    extension: Vec<BTreeMap<String, String>>,
}

/// Words between participants, which the hub hands on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExtensionList {
    /// The words
    #[schemars(length(min = 1, max = 16))]
    pub extension: Vec<Extension>,
}

/// A word between participants.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Extension {
    /// Its name
    #[schemars(length(min = 1, max = 32))]
    pub key: String,
    /// What it says
    #[schemars(length(min = 1, max = 128))]
    pub value: String,
}

/// `PUT …/accounts/{id}/transfers/{transferId}`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FundsEnd {
    /// They have left, or stay
    pub action: FundsEndAction,
    /// Why
    pub reason: Text,
}

/// Where a participant wants to be called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Endpoint {
    /// Such as FSPIOP_CALLBACK_URL_TRANSFER_PUT
    #[serde(rename = "type")]
    pub kind: EndpointKind,
    /// A URL, with {{transferId}} where the id goes
    pub value: EndpointValue,
}

/// What there is none of.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// With a filter that names one, that one or nothing; without, a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "OneOrListOf{T}")]
pub enum OneOrList<T> {
    /// All there are.
    List(Vec<T>),
    /// The one that was asked for.
    One(T),
    /// There is none.
    None(Nothing),
}

impl<T> OneOrList<T> {
    /// The last of a list, or nothing.
    #[must_use]
    pub fn one(mut all: Vec<T>) -> OneOrList<T> {
        all.pop().map_or(OneOrList::None(Nothing {}), OneOrList::One)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{assert_refused, body};

    #[test]
    fn ids_are_uuids_in_lower_case_or_ulids() {
        for (text, bits) in [
            ("00000000-0000-0000-0000-000000000001", 1),
            ("00000000000000000000000001", 1),
            ("0000000000000000000000000Z", 31),
            ("00000000000000000000000010", 32),
            ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", u128::MAX),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", 0x0156_3e3a_b5d3_d676_4c61_efb9_9302_bd5b),
        ] {
            assert_eq!(MovementId::read(text), Ok(MovementId(TransferId(bits))), "{text}");
        }
        for bad in [
            "",
            "0D6B1A2C-3F4E-4A5B-8C6D-7E8F9A0B1C2D",
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "01arz3ndektsv4rrffq69g5fav",
            "01ARZ3NDEKTSV4RRFFQ69G5FAI",
            "01ARZ3NDEKTSV4RRFFQ69G5FA",
            "01ARZ3NDEKTSV4RRFFQ69G5FAVX",
            "ÄÄÄÄÄÄÄÄÄÄÄÄÄ",
        ] {
            assert!(MovementId::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_member_that_stands_there_twice_is_refused() {
        for doubled in [r#""currency":"USD","currency":"EUR""#, r#""currency":"USD","\u0063urrency":"EUR""#] {
            let read = body::<NewParticipant>(format!(r#"{{"name":"aa",{doubled}}}"#).as_bytes());
            assert_refused(read, "the body: duplicate field `currency`");
        }
        let nested = br#"{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":1,"value":2}}"#;
        assert_refused(body::<InitialPositionAndLimits>(nested), "the body: duplicate field `value`");
    }

    #[test]
    fn a_body_is_an_object() {
        for bad in ["", "{", "[]", "5", "\"a\"", "null", "{\"a\":1} {}", "{\"a\":}", "{'a':1}"] {
            assert_refused(body::<Activity>(bad.as_bytes()), "the body: ");
        }
        assert_refused(body::<Activity>(b"{\"a\":\"\xff\"}"), "isActive: is missing");
        assert_refused(body::<NewAccount>(b"{\"type\":\"\xff\"}"), "the body: ");
        let deep = format!("{{\"isActive\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
        assert_refused(body::<Activity>(deep.as_bytes()), "isActive: must be true or false");
    }

    #[test]
    fn a_failure_names_its_member() {
        let participant = |members: &str| body::<NewParticipant>(format!("{{{members}}}").as_bytes());
        assert_refused(participant(r#""name":5,"currency":"USD""#), "name: must be a string");
        assert_refused(participant(r#""name":"","currency":"USD""#), "name: must not be empty");
        assert_refused(participant(r#""name":null,"currency":"USD""#), "name: is missing");
        assert_refused(participant(r#""name":"aa","currency":"usd""#), "currency: 'usd' is not a currency");
        let limit =
            |limit: &str| body::<NewLimit>(format!(r#"{{"currency":"USD","limit":{limit}}}"#).as_bytes());
        assert_refused(limit("[]"), "limit: must be an object");
        assert_refused(limit("null"), "limit: is missing");
        let good = r#"{"type":"NET_DEBIT_CAP","value":1,"alarmPercentage":10}"#;
        let cap = |of_good: &str, wrong: &str| limit(&good.replace(of_good, wrong));
        assert_refused(cap(r#""value":1"#, r#""value":"x""#), "limit.value: 'x' is not a decimal number");
        assert_refused(cap(r#""value":1"#, r#""value":null"#), "limit.value: is missing");
        assert_refused(cap("NET_DEBIT_CAP", "CAP"), "limit.type: must be NET_DEBIT_CAP, not 'CAP'");
        assert_refused(cap("10", "10.5"), "limit.alarmPercentage: 10.5 is not a whole number from 0 to 100");
        assert_eq!(cap("10", "\"25\"").unwrap().limit.0.alarm_percentage, Percent(25));
    }

    #[test]
    fn amounts_have_eighteen_digits() {
        let initial = |position: &str| {
            let limit = r#""limit":{"type":"NET_DEBIT_CAP","value":0}"#;
            let text = format!(r#"{{"currency":"USD",{limit},"initialPosition":{position}}}"#);
            let read = body::<InitialPositionAndLimits>(text.as_bytes())?;
            Ok(read.initial_position.map(|given| given.0.to_string()))
        };
        assert_eq!(initial("99999999999999.9999"), Ok(Some("99999999999999.9999".to_owned())));
        assert_eq!(initial("null"), Ok(None));
        for (wrong, problem) in [
            ("100000000000000", "initialPosition: 100000000000000 has more than 14 digits"),
            ("-100000000000000", "initialPosition: -100000000000000 has more than 14 digits"),
            ("\"1.00001\"", "initialPosition: '1.00001' has more than 4 decimal places"),
        ] {
            assert_refused(initial(wrong), problem);
        }
    }

    #[test]
    fn an_extension_list_has_its_shape() {
        let funds = |list: &str| {
            let text = format!(
                r#"{{"transferId":"00000000000000000000000001","externalReference":"r","action":"recordFundsIn","reason":"r",
                    "amount":{{"amount":5,"currency":"USD"}},"extensionList":{list}}}"#
            );
            body::<Funds>(text.as_bytes())
        };
        for list in ["null", r#"{"extension":[{"key":"k","value":"v"}]}"#, r#"{"extension":[]}"#] {
            funds(list).unwrap();
        }
        for list in ["5", "{}", r#"{"extension":{}}"#, r#"{"extension":[{"key":5}]}"#] {
            assert_refused(funds(list), "extensionList");
        }
    }

    #[test]
    fn a_loose_flag_may_be_a_number() {
        let proxy = |json: &str| {
            body::<NewParticipant>(format!(r#"{{"name":"aa","currency":"USD","isProxy":{json}}}"#).as_bytes())
        };
        for good in ["null", "false", "0", "\"0\"", "\"\""] {
            assert!(!proxy(good).unwrap().is_proxy, "{good}");
        }
        for bad in ["true", "1", "\"1\""] {
            assert_refused(proxy(bad), "isProxy: must be false: this hub has no proxies");
        }
        assert_refused(proxy("2"), "isProxy: must be true or false");
    }
}
