//! The shapes that paths share.

use holdfast_wire::Rule;
use holdfast_wire::admin::NamedCurrency;
use serde_json::{Value, json};

/// `{"$ref":…}` to a schema of the document.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn text(what: &str) -> Value {
    json!({"type": "string", "description": what})
}

fn text_like(pattern: &str, example: &str) -> Value {
    json!({"type": "string", "pattern": pattern, "examples": [example]})
}

fn whole(what: &str) -> Value {
    json!({"type": "integer", "description": what})
}

/// An object with these members, of which those in `required` must be there.
fn object(required: &[&str], members: Value) -> Value {
    if required.is_empty() {
        return json!({"type": "object", "properties": members});
    }
    json!({"type": "object", "required": required, "properties": members})
}

const AMOUNT: &str = "^([0]|([1-9][0-9]{0,17}))([.][0-9]{0,3}[1-9])?$";
const UUID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
/// A UUID of version 1 to 7.
const CORRELATION_ID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[1-7][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";
const THIRTY_TWO_BYTES: &str = "^[A-Za-z0-9_-]{43}$";

pub(super) fn transfer_id() -> Value {
    text_like(UUID, "b51ec534-ee48-4575-b6a9-ead2955b8069")
}

/// An instant as FSPIOP wants it: with milliseconds and zone.
fn date_time() -> Value {
    let pattern =
        "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}(Z|[+-][0-9]{2}:[0-9]{2})$";
    json!({"type": "string", "format": "date-time", "pattern": pattern, "examples": ["2026-11-15T08:24:36.000Z"]})
}

fn transfer_state() -> Value {
    json!({"type": "string", "enum": ["RECEIVED", "RESERVED", "COMMITTED", "ABORTED"]})
}

/// `components.schemas`.
pub(super) fn schemas() -> Value {
    json!({
        "ErrorInformation": object(&["errorInformation"], json!({
            "errorInformation": object(&["errorCode", "errorDescription"], json!({
                "errorCode": text_like("^[1-9][0-9]{3}$", "3100"),
                "errorDescription": {"type": "string", "minLength": 1, "maxLength": 128},
                "extensionList": reference("ExtensionList"),
            })),
        })),
        "Money": object(&["currency", "amount"], json!({"currency": NamedCurrency::schema(), "amount": text_like(AMOUNT, "12.5")})),
        "Transfer": object(
            &["transferId", "payeeFsp", "payerFsp", "amount", "ilpPacket", "condition", "expiration"],
            json!({
                "transferId": text_like(CORRELATION_ID, "b51ec534-ee48-4575-b6a9-ead2955b8069"),
                "payeeFsp": {"type": "string", "minLength": 1, "maxLength": 32, "description": "Who is paid"},
                "payerFsp": {"type": "string", "minLength": 1, "maxLength": 32, "description": "Who pays; must be FSPIOP-Source"},
                "amount": reference("Money"),
                "ilpPacket": {"type": "string", "minLength": 1, "maxLength": 32768, "description": "Handed on unread"},
                "condition": text_like(THIRTY_TWO_BYTES, "YlK5TZyhflbXaDRPtR5zhCu8FrbgvrQwwmzuH0iQ0AI"),
                "expiration": date_time(),
                "extensionList": reference("ExtensionList"),
            }),
        ),
        "Fulfilment": object(&["transferState"], json!({
            "transferState": {"type": "string", "enum": ["COMMITTED", "RESERVED"]},
            "fulfilment": text_like(THIRTY_TWO_BYTES, "WLctttbu2HvTsa1XWvUoGRcQozHsqeu9Ahl2JW9Bsu8"),
            "completedTimestamp": date_time(),
            "extensionList": reference("ExtensionList"),
        })),
        "Outcome": object(&["transferId", "state", "transferState"], json!({
            "transferId": transfer_id(),
            "state": text("The state inside the hub"),
            "transferState": transfer_state(),
            "fulfilment": text("Where it was committed"),
            "errorInformation": object(&["errorCode", "errorDescription"], json!({"errorCode": text("Four digits"), "errorDescription": text("In words")})),
        })),
        "Stats": object(&[], json!({
            "transfers": whole("Transfers since the log began"),
            "openHolds": whole("Holds that are open now"),
            "nextExpiration": {"type": ["string", "null"], "description": "When the next of them runs out"},
            "reachedState": {"type": "object", "additionalProperties": {"type": "integer"}, "description": "How many transfers ever came to each state"},
            "participants": whole("Participants"),
            "accounts": whole("Accounts"),
            "deadLetters": whole("Records that a decision could not place"),
            "limitAlarms": whole("Times a position passed the alarm percentage of its cap"),
            "shop": object(&["openCheckouts", "payment", "stock"], json!({
                "users": whole("Users"),
                "items": whole("Items"),
                "unpaidOrders": whole("Orders that are not paid"),
                "openCheckouts": whole("Checkouts that are open"),
                "payment": {"type": "string", "enum": ["credit", "positions", "tokens", "outside"], "description": "What checkouts charge"},
                "stock": {"type": "string", "enum": ["inside", "outside"], "description": "Who takes their stock"},
            })),
            "log": {"type": "object", "description": "Frames, records, end, time of the last frame, audit chain"},
        })),
    })
}

/// `components.responses`: what any path may answer.
pub(super) fn responses() -> Value {
    let content = json!({"application/json": {"schema": reference("ErrorInformation")}});
    let refusal = |what: &str| json!({"description": what, "content": content});
    let later = |what: &str| {
        let mut refusal = refusal(what);
        refusal["headers"] =
            json!({"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}});
        refusal
    };
    json!({
        "KeyNeeded": refusal("3000: no API key, or one that is not known (only on a hub with keys)"),
        "KeyOfAnother": refusal("3000: the key is of a participant who may not do this"),
        "TooMany": later("2005: the queue is full, or this caller comes too often; nothing was stored"),
        "Unavailable": later("2003: no commands are taken now, see /health"),
        "NoAnswer": refusal("2004: the outcome is unknown; repeat with the same id"),
    })
}
