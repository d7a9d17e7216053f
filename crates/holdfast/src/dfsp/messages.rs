//! Headers and bodies as the standard wants them from a participant.

use holdfast_domain::ids::{Currency, Millis, TransferId};
use holdfast_domain::money::Amount;
use hyper::HeaderMap;
use hyper::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::scheme;
use crate::log_view::time;

const CONTENT: &str = "application/vnd.interoperability.transfers+json;version=1.1";
const ACCEPTED: &str = "application/vnd.interoperability.transfers+json;version=1";
const SOURCE: HeaderName = HeaderName::from_static("fspiop-source");
const DESTINATION: HeaderName = HeaderName::from_static("fspiop-destination");
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// What a header's text must be; names of participants and numbers always are.
fn value(text: impl Into<String>) -> anyhow::Result<HeaderValue> {
    Ok(HeaderValue::try_from(text.into())?)
}

/// The headers of a request that wants an answer by callback (POST, GET).
pub(super) fn request_headers(from: &str, to: &str, wait_seconds: Option<u64>) -> anyhow::Result<HeaderMap> {
    let mut headers = answer_headers(from, to)?;
    headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
    if let Some(seconds) = wait_seconds {
        headers.insert(PREFER, value(format!("wait={seconds}"))?);
    }
    Ok(headers)
}

/// The headers of an answer (PUT): no Accept, which receivers would have to refuse.
pub(super) fn answer_headers(from: &str, to: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
    headers.insert(DATE, value(jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())?);
    headers.insert(SOURCE, value(from)?);
    headers.insert(DESTINATION, value(to)?);
    Ok(headers)
}

/// Who sent a callback.
pub(super) fn source_of(headers: &HeaderMap) -> String {
    headers.get(SOURCE).and_then(|value| value.to_str().ok()).unwrap_or("nobody").to_owned()
}

/// What a payee reads of `POST /transfers`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prepare {
    pub(super) transfer_id: String,
    pub(super) payer_fsp: String,
    pub(super) amount: Money,
    pub(super) ilp_packet: String,
    pub(super) condition: String,
    pub(super) expiration: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Money {
    pub(super) amount: String,
    pub(super) currency: String,
}

/// The body of `POST /transfers`, with the condition of its fulfilment.
pub(super) fn prepare_body(
    id: TransferId,
    (payer, payee): (&str, &str),
    (amount, currency): (Amount, Currency),
    expiration: Millis,
    secret: &str,
) -> (Value, [u8; 32]) {
    const MINOR_UNIT: u64 = 100;
    let minor_units = u64::try_from(amount.0).unwrap_or(0) / MINOR_UNIT;
    let data = json!({"transactionId": id.to_string(), "payee": payee, "payer": payer}).to_string();
    let ilp_packet = scheme::ilp_packet(payee, minor_units, &data);
    let fulfilment = scheme::fulfilment(secret, &ilp_packet);
    let body = json!({
        "transferId": id.to_string(),
        "payerFsp": payer,
        "payeeFsp": payee,
        "amount": {"currency": currency.to_string(), "amount": amount.to_string()},
        "ilpPacket": ilp_packet,
        "condition": scheme::base64url(&scheme::condition(&fulfilment)),
        "expiration": time(expiration),
    });
    (body, fulfilment)
}

/// The body of `PUT /transfers/{id}` from a payee.
pub(super) fn fulfil_body(state: &'static str, fulfilment: &[u8; 32]) -> Value {
    json!({
        "transferState": state,
        "fulfilment": scheme::base64url(fulfilment),
        "completedTimestamp": time(now()),
    })
}

/// The body of `PUT /transfers/{id}/error` from a payee.
pub(super) fn error_body(code: &str, description: &str) -> Value {
    json!({"errorInformation": {"errorCode": code, "errorDescription": description}})
}

/// The wall clock: a participant chooses expirations by it.
pub(super) fn now() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_standard() {
        let asks = request_headers("payer", "payee", Some(30)).unwrap();
        assert_eq!(asks["content-type"], CONTENT);
        assert_eq!(asks["accept"], ACCEPTED);
        assert_eq!(
            (&asks["fspiop-source"], &asks["prefer"]),
            (&value("payer").unwrap(), &value("wait=30").unwrap())
        );
        let date = asks["date"].to_str().unwrap();
        assert_eq!(date.len(), "Tue, 15 Nov 1994 08:12:31 GMT".len(), "{date}");
        let answers = answer_headers("payee", "payer").unwrap();
        assert!(!answers.contains_key("accept") && !answers.contains_key("prefer"));
        assert!(answer_headers("pay\nee", "payer").is_err());
    }

    #[test]
    fn payer_and_payee_come_to_the_same_fulfilment() {
        let amount = ("5".parse().unwrap(), "USD".parse().unwrap());
        let (body, fulfilment) = prepare_body(TransferId(7), ("payer", "payee"), amount, 0, "secret");
        let read: Prepare = serde_json::from_value(body).unwrap();
        assert_eq!(scheme::fulfilment("secret", &read.ilp_packet), fulfilment);
        assert_eq!(read.condition, scheme::base64url(&scheme::condition(&fulfilment)));
        assert_eq!((read.amount.amount.as_str(), read.condition.len()), ("5", 43));
        assert_eq!(read.expiration, "1970-01-01T00:00:00.000Z");
    }
}
