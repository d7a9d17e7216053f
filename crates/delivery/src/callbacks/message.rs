//! What a callback says on the wire: a pure function from what is known to method, headers and body.
//!
//! What participants sent to one another is handed on byte for byte with the sender's headers. What came through
//! `/hub/batch` never was a message; one is made of its fields, in the sender's name and without an ILP packet. All
//! else is said by the hub itself.

use bytes::Bytes;
use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Command, Prepare};
use holdfast_domain::ids::{Currency, Millis, ParticipantId};
use holdfast_domain::participants::HUB_NAME;
use holdfast_domain::transfers::{Reason, Transfer, TransferState};
use holdfast_hub::CallbackRow;
use hyper::http::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderName};
use hyper::http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};

use crate::request::Outgoing;
use holdfast_wire::forward::Forwarded;
use holdfast_wire::fspiop::{code_name, error_information, http_date, write_preimage};
use holdfast_wire::times;

/// What the hub knows about the parties and the transfer when a callback is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Facts {
    /// The name of who is called.
    pub(super) receiver: String,
    /// The registered address for this message, as a template.
    pub(super) endpoint: Option<String>,
    pub(super) payer: Option<String>,
    pub(super) payee: Option<String>,
    pub(super) transfer: Option<Transfer>,
    /// Of an alarm: whose account it is, its currency and percentage.
    pub(super) alarmed: Option<(String, Currency, u16)>,
}

const SOURCE: HeaderName = HeaderName::from_static("fspiop-source");
const DESTINATION: HeaderName = HeaderName::from_static("fspiop-destination");
const SIGNATURE: HeaderName = HeaderName::from_static("fspiop-signature");
const HTTP_METHOD: HeaderName = HeaderName::from_static("fspiop-http-method");
const URI: HeaderName = HeaderName::from_static("fspiop-uri");

const VERSION_1_0: &str = "application/vnd.interoperability.transfers+json;version=1.0";
const VERSION_1_1: &str = "application/vnd.interoperability.transfers+json;version=1.1";
const ANY_VERSION_1: &str = "application/vnd.interoperability.transfers+json;version=1";

/// The value of an extension has at most so many characters.
const EXTENSION_CHARS_MAX: usize = 128;

/// Writes the message of a callback. `origin` is the command that caused it, `now` the time that it bears.
pub(super) fn compose(row: &CallbackRow, facts: &Facts, origin: Option<&Command>, now: Millis) -> Outgoing {
    let by_hub = |method: Method, error_path: bool, body: Value| {
        let path = if error_path {
            format!("/transfers/{}/error", row.transfer)
        } else {
            format!("/transfers/{}", row.transfer)
        };
        let mut headers = common_headers(HUB_NAME, &facts.receiver, asked_version(row.to, origin), now);
        headers.insert(HTTP_METHOD, text(method.as_str()));
        headers.insert(URI, text(&path));
        Outgoing { method, headers, body: bytes(&body) }
    };
    match row.message {
        CallbackMessage::ForwardPrepare => forward(Method::POST, row, facts, origin, now),
        CallbackMessage::ForwardFulfil | CallbackMessage::ForwardError => {
            forward(Method::PUT, row, facts, origin, now)
        }
        CallbackMessage::Put(state) => by_hub(Method::PUT, false, put_body(row, state, facts)),
        CallbackMessage::Patch(state) => by_hub(Method::PATCH, false, patch_body(row, state, facts)),
        CallbackMessage::Error(code, reason) => {
            by_hub(Method::PUT, true, error_information(code.number(), reason.map_or("", Reason::text), &[]))
        }
        CallbackMessage::Alarm { value, net_debit_cap, .. } => {
            let (participant, currency, percentage) = match &facts.alarmed {
                Some((name, currency, percentage)) => {
                    (json!(name), json!(currency.to_string()), json!(percentage))
                }
                None => (Value::Null, Value::Null, Value::Null),
            };
            let body = json!({
                "participant": participant,
                "currency": currency,
                "position": value.to_string(),
                "netDebitCap": net_debit_cap.to_string(),
                "alarmPercentage": percentage,
                "at": times::format(row.time),
            });
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(DATE, text(&http_date(now)));
            Outgoing { method: Method::POST, headers, body: bytes(&body) }
        }
    }
}

/// What one participant says to another: as it was sent, or made of the fields of a batch record.
fn forward(
    method: Method,
    row: &CallbackRow,
    facts: &Facts,
    origin: Option<&Command>,
    now: Millis,
) -> Outgoing {
    let (tail, sender, body): (&[u8], _, _) = match origin {
        Some(Command::Prepare(prepare)) => (&prepare.tail, &facts.payer, prepare_body(prepare, facts)),
        Some(Command::Fulfil(fulfil)) => {
            let body = fulfil_body(&fulfil.fulfilment, completed_at(row, facts));
            (&fulfil.tail, &facts.payee, body)
        }
        Some(Command::Abort(abort)) => (&abort.tail, &facts.payee, error_information(abort.code, "", &[])),
        _ => (&[], &None, Value::Null),
    };
    let sender = sender.as_deref().unwrap_or_default();
    let mut whole = common_headers(sender, &facts.receiver, VERSION_1_1, now);
    if method == Method::POST {
        whole.insert(ACCEPT, HeaderValue::from_static(ANY_VERSION_1));
    }
    let Some(sent) = Forwarded::decode(tail) else {
        return Outgoing { method, headers: whole, body: bytes(&body) };
    };
    // The edge kept only what travels on.
    let mut headers = HeaderMap::with_capacity(sent.headers.len() + 2);
    for (name, value) in &sent.headers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    if method != Method::POST {
        headers.remove(ACCEPT);
    }
    // What the sender may leave out and the receiver wants to have. A signature speaks for the headers that were sent;
    // with one more the receiver would refuse it.
    if !headers.contains_key(SIGNATURE) {
        for (name, value) in &whole {
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
    Outgoing { method, headers, body: Bytes::from(sent.body) }
}

fn common_headers(source: &str, destination: &str, media_type: &'static str, now: Millis) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(DATE, text(&http_date(now)));
    headers.insert(SOURCE, text(source));
    headers.insert(DESTINATION, text(destination));
    headers
}

/// The version that the receiver asked for, where the command that caused the callback is its own request.
fn asked_version(receiver: ParticipantId, origin: Option<&Command>) -> &'static str {
    let Some(Command::Prepare(prepare)) = origin else { return VERSION_1_1 };
    if prepare.source != receiver {
        return VERSION_1_1;
    }
    let Some(sent) = Forwarded::decode(&prepare.tail) else { return VERSION_1_1 };
    let accepts = sent.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let accepts: Vec<String> =
        accepts.map(|(_, value)| String::from_utf8_lossy(value).replace(' ', "")).collect();
    let accepts = accepts.join(",");
    let mut kinds = accepts.split(',').peekable();
    if kinds.peek().is_some() && kinds.all(|kind| kind.ends_with(";version=1.0")) {
        VERSION_1_0
    } else {
        VERSION_1_1
    }
}

fn prepare_body(prepare: &Prepare, facts: &Facts) -> Value {
    json!({
        "transferId": prepare.id.to_string(),
        "payerFsp": facts.payer,
        "payeeFsp": facts.payee,
        "amount": {"currency": prepare.currency.to_string(), "amount": prepare.amount.to_string()},
        "condition": write_preimage(&prepare.condition),
        "expiration": times::format(prepare.expiration),
    })
}

fn fulfil_body(fulfilment: &[u8; 32], completed_at: Millis) -> Value {
    json!({
        "transferState": "COMMITTED",
        "fulfilment": write_preimage(fulfilment),
        "completedTimestamp": times::format(completed_at),
    })
}

/// When the transfer ended; one that awaits the scan ends now.
fn completed_at(row: &CallbackRow, facts: &Facts) -> Millis {
    let ended = facts.transfer.as_ref().filter(|transfer| transfer.state.is_final());
    ended.map_or(row.time, |transfer| transfer.changed_at)
}

fn put_body(row: &CallbackRow, state: TransferState, facts: &Facts) -> Value {
    let completion = facts.transfer.as_ref().and_then(Transfer::completion);
    match (state, completion) {
        (TransferState::Committed, Some(completion)) => {
            fulfil_body(&completion.digest, completed_at(row, facts))
        }
        (state, _) if state.is_final() => json!({
            "transferState": state.external(),
            "completedTimestamp": times::format(completed_at(row, facts)),
        }),
        (state, _) => json!({"transferState": state.external()}),
    }
}

fn patch_body(row: &CallbackRow, state: TransferState, facts: &Facts) -> Value {
    let mut body = json!({
        "completedTimestamp": times::format(completed_at(row, facts)),
        "transferState": state.external(),
    });
    if state != TransferState::Committed {
        let code = facts.transfer.as_ref().and_then(|transfer| transfer.code);
        let reason = facts.transfer.as_ref().and_then(|transfer| transfer.reason);
        let number = code.map_or(ErrorCode::TransferExpired.number(), |code| code.number());
        let mut cause = format!("{number}: {}", code_name(number));
        if let Some(reason) = reason {
            cause = format!("{cause} - {}", reason.text());
        }
        let cause: String = cause.chars().take(EXTENSION_CHARS_MAX).collect();
        body["extensionList"] = json!({"extension": [{"key": "cause", "value": cause}]});
    }
    body
}

fn bytes(body: &Value) -> Bytes {
    Bytes::from(body.to_string())
}

/// Names and paths are plain ASCII.
fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}
