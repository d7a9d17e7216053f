//! The shapes that paths share.

use serde_json::{Value, json};

/// `{"$ref":…}` to a schema of the document.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A list of a schema of the document.
pub(super) fn list_of(name: &str) -> Value {
    json!({"type": "array", "items": reference(name)})
}

/// JSON content of a schema.
pub(super) fn json_of(schema: &Value) -> Value {
    json!({"application/json": {"schema": schema}})
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
const THIRTY_TWO_BYTES: &str = "^[A-Za-z0-9_-]{43}$";

pub(super) fn transfer_id() -> Value {
    text_like(UUID, "b51ec534-ee48-4575-b6a9-ead2955b8069")
}

fn currency() -> Value {
    text_like("^[A-Z]{3}$", "USD")
}

fn instant() -> Value {
    json!({"type": "string", "format": "date-time", "examples": ["2026-11-15T08:24:36.000Z"]})
}

fn transfer_state() -> Value {
    json!({"type": "string", "enum": ["RECEIVED", "RESERVED", "COMMITTED", "ABORTED"]})
}

/// `components.schemas`.
pub(super) fn schemas() -> Value {
    let mut all = json!({
        "ErrorInformation": object(&["errorInformation"], json!({
            "errorInformation": object(&["errorCode", "errorDescription"], json!({
                "errorCode": text_like("^[1-9][0-9]{3}$", "3100"),
                "errorDescription": json!({"type": "string", "maxLength": 128}),
                "extensionList": reference("ExtensionList"),
            })),
        })),
        "Money": object(&["currency", "amount"], json!({"currency": currency(), "amount": text_like(AMOUNT, "12.5")})),
        "Transfer": object(
            &["transferId", "payeeFsp", "payerFsp", "amount", "ilpPacket", "condition", "expiration"],
            json!({
                "transferId": transfer_id(),
                "payeeFsp": text("Who is paid"),
                "payerFsp": text("Who pays; must be FSPIOP-Source"),
                "amount": reference("Money"),
                "ilpPacket": {"type": "string", "maxLength": 32768, "description": "Handed on unread"},
                "condition": text_like(THIRTY_TWO_BYTES, "YlK5TZyhflbXaDRPtR5zhCu8FrbgvrQwwmzuH0iQ0AI"),
                "expiration": instant(),
                "extensionList": reference("ExtensionList"),
            }),
        ),
        "Fulfilment": object(&["transferState"], json!({
            "transferState": {"type": "string", "enum": ["COMMITTED", "RESERVED"]},
            "fulfilment": text_like(THIRTY_TWO_BYTES, "WLctttbu2HvTsa1XWvUoGRcQozHsqeu9Ahl2JW9Bsu8"),
            "completedTimestamp": instant(),
            "extensionList": reference("ExtensionList"),
        })),
        "Outcome": object(&["transferId", "state", "transferState"], json!({
            "transferId": transfer_id(),
            "state": text("The state inside the hub"),
            "transferState": transfer_state(),
            "fulfilment": text("Where it was committed"),
            "errorInformation": object(&["errorCode", "errorDescription"], json!({"errorCode": text("Four digits"), "errorDescription": text("In words")})),
        })),
        "TransferRow": object(&["transferId", "state"], transfer_row()),
        "TransferPage": object(&["transfers", "next"], json!({"transfers": list_of("TransferRow"), "next": cursor()})),
        "HoldPage": object(&["holds", "next"], json!({"holds": list_of("TransferRow"), "next": cursor()})),
        "TransferStory": {"allOf": [reference("TransferRow"), object(&["history", "positionChanges"], json!({
            "history": {"type": "array", "items": object(&["state", "at"], json!({"state": text("The state inside the hub"), "at": instant()}))},
            "positionChanges": {"type": "array", "items": object(&["participant", "change", "value"], json!({"participant": text("Whose position"), "change": text("By how much"), "value": text("The position after it")}))},
            "errorInformation": object(&["errorCode"], json!({"errorCode": text("Four digits"), "errorDescription": text("In words")})),
            "archived": {"type": "boolean", "const": true, "description": "Only there if retention has removed the record of its prepare from the log"},
        }))]},
    });
    for more in [hub_schemas(), super::shop::schemas()] {
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
    }
    all
}

fn cursor() -> Value {
    json!({"type": ["string", "null"], "description": "For `after` of the next page; null at the end"})
}

fn transfer_row() -> Value {
    json!({
        "transferId": transfer_id(),
        "state": text("The state inside the hub"),
        "transferState": transfer_state(),
        "payerFsp": text("Who pays"),
        "payeeFsp": text("Who is paid"),
        "amount": text("A decimal"),
        "currency": currency(),
        "expiration": instant(),
    })
}

fn hub_schemas() -> Value {
    json!({
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
        "DeadLetterPage": object(&["deadLetters", "next"], json!({"deadLetters": list_of("DeadLetter"), "next": cursor()})),
        "DeadLetter": object(&["number", "what", "lastError", "attempts", "at", "retrying"], json!({
            "number": whole("The callback's number"),
            "participant": {"type": ["string", "null"], "description": "Who was called"},
            "transferId": {"type": ["string", "null"], "description": "About which transfer; null for a limit alarm"},
            "what": text("The call, such as PUT /transfers/{id}"),
            "url": {"type": ["string", "null"], "description": "Where it was sent last; null if it never was"},
            "lastError": text("Why that failed"),
            "attempts": whole("Attempts made"),
            "at": instant(),
            "retrying": {"type": "boolean", "description": "Whether it is being tried again"},
        })),
        "DeadLettersRetried": object(&["retried", "more"], json!({
            "retried": whole("How many were set in motion"),
            "more": {"type": "boolean", "description": "Whether some are left"},
        })),
        "Backup": object(&["state"], json!({
            "state": {"type": "string", "enum": ["NONE", "RUNNING", "DONE", "FAILED"]},
            "dir": text("Where it goes"),
            "doneBytes": whole("Bytes copied"),
            "totalBytes": whole("Bytes to copy; 0 as long as that is not known"),
            "offset": whole("The state in it is that after the records before this offset"),
            "logEnd": whole("Where its log ends"),
            "files": whole("How many files it has"),
            "reason": text("Why it failed"),
        })),
        "Health": object(&["status", "services"], json!({
            "status": {"type": "string", "enum": ["OK", "DOWN"]},
            "uptime": whole("Seconds"),
            "startTime": instant(),
            "versionNumber": text("Of this program"),
            "services": {"type": "array", "items": object(&["name", "status"], json!({"name": text("log, clock or process"), "status": text("OK or DOWN"), "reason": text("What is wrong")}))},
        })),
    })
}

/// `components.responses`: what any path may answer.
pub(super) fn responses() -> Value {
    let refusal =
        |what: &str| json!({"description": what, "content": json_of(&reference("ErrorInformation"))});
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
