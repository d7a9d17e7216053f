//! `POST /transfers`: a payer asks for a transfer.
//!
//! What makes two prepares the same request is what the standard names: id, parties, amount, currency, condition,
//! expiration, ILP packet and extensions, each by what it says and not by how it is written. Headers and unknown
//! fields travel on and do not count.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use holdfast_domain::command::{Command, Prepare};
use holdfast_domain::ids::{Currency, Millis, TransferId};
use holdfast_engine::Kept;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::answer::{decide, decide_keeping, stored_fulfilment};
use super::body::{self, ExtensionList, Fields, Object, Text};
use super::fields::{self, Sum};
use super::funding::{self, FUNDING_BYTES_MAX, Wallets};
use super::ilp;
use super::names::{self, NOBODY};
use super::receive::{Verb, receive, sender};
use crate::Edge;
use crate::calls::take;
use crate::error::ApiError;
use crate::gate::Caller;

/// The instants that a record can hold: from 1970 to the end of the year 9999. An expiration outside of them is as
/// good as the nearest: past, or never.
const EXPIRATIONS: std::ops::RangeInclusive<Millis> = 0..=253_402_300_799_999;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrepareBody<'a> {
    #[serde(borrow, default)]
    transfer_id: Text<'a>,
    #[serde(borrow, default)]
    payee_fsp: Text<'a>,
    #[serde(borrow, default)]
    payer_fsp: Text<'a>,
    #[serde(borrow, default)]
    amount: Object<MoneyBody<'a>>,
    #[serde(borrow, default)]
    ilp_packet: Text<'a>,
    #[serde(borrow, default)]
    condition: Text<'a>,
    #[serde(borrow, default)]
    expiration: Text<'a>,
    #[serde(borrow, default)]
    extension_list: Object<ExtensionList<'a>>,
}

#[derive(Debug, Deserialize)]
struct MoneyBody<'a> {
    #[serde(borrow, default)]
    currency: Text<'a>,
    #[serde(borrow, default)]
    amount: Text<'a>,
}

/// A prepare as its body has it: well formed, the parties still by name.
struct Asked<'a> {
    id: TransferId,
    id_text: &'a str,
    payer: &'a str,
    payee: &'a str,
    currency: Currency,
    sum: Sum,
    amount_text: &'a str,
    packet: &'a str,
    condition: [u8; 32],
    expiration: Millis,
    extensions: Option<[u8; 32]>,
    wallets: Option<Wallets<'a>>,
}

impl<'a> Asked<'a> {
    fn read(body: &'a PrepareBody<'_>) -> Result<Asked<'a>, ApiError> {
        let id = body.transfer_id.read("transferId", fields::correlation_id)?;
        let payee = body.payee_fsp.read("payeeFsp", fields::fsp_id)?;
        let payer = body.payer_fsp.read("payerFsp", fields::fsp_id)?;
        let Fields(money) = body.amount.required("amount", "an object")?;
        let currency = money.currency.read("amount.currency", fields::currency)?;
        let sum = money.amount.read("amount.amount", fields::amount)?;
        Ok(Asked {
            id,
            id_text: body.transfer_id.as_str(),
            payer,
            payee,
            currency,
            sum,
            amount_text: money.amount.as_str(),
            packet: body.ilp_packet.read("ilpPacket", ilp::packet)?,
            condition: body.condition.read("condition", ilp::preimage)?,
            expiration: body.expiration.read("expiration", fields::date_time)?,
            extensions: body::extensions(&body.extension_list, "extensionList")?,
            wallets: Wallets::of(&body.extension_list)?,
        })
    }

    /// The digest of the extensions, and of what the record's own fields cannot tell apart: amounts and expirations
    /// beyond what they hold, and names that are nobody's. Zeros where there is nothing of all this.
    fn extensions_digest(&self, payee_is_known: bool) -> [u8; 32] {
        let beyond = [
            (!self.sum.exact).then(|| format!("amount={}", self.amount_text)),
            (!EXPIRATIONS.contains(&self.expiration)).then(|| format!("expiration={}", self.expiration)),
            (!payee_is_known).then(|| format!("payee={}", self.payee.to_lowercase())),
        ];
        if beyond.iter().all(Option::is_none) {
            return self.extensions.unwrap_or_default();
        }
        let mut digest = Sha256::new_with_prefix(self.extensions.unwrap_or_default());
        for text in beyond.into_iter().flatten() {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        digest.finalize().into()
    }
}

/// Takes a prepare; the payee gets it, or the payer gets told why not.
pub(crate) async fn post(
    State(edge): State<Edge>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let received = receive(&edge, Verb::Post, headers, body).await?;
    let parsed: PrepareBody<'_> = body::parse(&received.body)?;
    let asked = Asked::read(&parsed)?;
    if !asked.payer.eq_ignore_ascii_case(&received.source_name) {
        return Err(ApiError::invalid("FSPIOP-Source is not the payerFsp of this transfer"));
    }
    asked.wallets.as_ref().map_or(Ok(()), |wallets| wallets.check_caller(caller))?;
    let payer = sender(&edge, &received.source_name).await?;
    let payee = names::participant(&edge, asked.payee).await?;
    let prepare = Prepare {
        source: payer,
        id: asked.id,
        payer,
        payee: payee.unwrap_or(NOBODY),
        amount: asked.sum.amount,
        expiration: asked.expiration.clamp(*EXPIRATIONS.start(), *EXPIRATIONS.end()),
        currency: asked.currency,
        condition: asked.condition,
        hash: [0; 32],
        tail: Vec::new(),
        funding: None,
    };
    let packet = Sha256::digest(asked.packet).into();
    let hashed = prepare.hashed_with(&packet, &asked.extensions_digest(payee.is_some()));
    let (prepare, kept) = match &asked.wallets {
        None => {
            let prepare = Prepare { tail: received.tail()?, ..hashed };
            received.parsed(&edge);
            (prepare, Kept::Nothing)
        }
        Some(wallets) => {
            let vault = edge.wallets.as_deref().ok_or_else(funding::no_tokens)?;
            let prepare = Prepare { tail: received.tail_beside(FUNDING_BYTES_MAX)?, ..hashed };
            received.parsed(&edge);
            let units = asked.sum.exact.then(|| prepare.amount.whole_units()).flatten();
            wallets.fund(vault, prepare, units).await?
        }
    };
    let decided = match (kept, received.wait) {
        (Kept::UntilDecided(claim), _) => {
            decide_keeping(&edge, caller, Command::Prepare(prepare), claim).await?
        }
        (kept, None) => {
            if let Err(error) = take(&edge, Command::Prepare(prepare)).await {
                funding::give_back(kept, &error).await;
                return Err(error);
            }
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        (kept, Some(wait)) => {
            match decide(&edge, caller, Command::Prepare(prepare), wait, asked.id_text).await {
                Ok(Ok(decided)) => decided,
                Ok(Err(later)) => return Ok(later),
                Err(error) => {
                    funding::give_back(kept, &error).await;
                    return Err(error);
                }
            }
        }
    };
    let Some(wait) = received.wait else { return Ok(StatusCode::ACCEPTED.into_response()) };
    // The same prepare again, after the transfer was committed.
    let fulfilment = if decided.is_committed() { stored_fulfilment(&edge, asked.id).await? } else { None };
    decided.answer(wait, asked.id_text, fulfilment)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sample() -> Value {
        json!({
            "transferId": "b51ec534-ee48-4575-b6a9-ead2955b8069",
            "payeeFsp": "payee", "payerFsp": "payer",
            "amount": {"currency": "USD", "amount": "12.5"},
            "ilpPacket": "AYIBgQAAAAAAAASwNGxldmVs",
            "condition": "fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs",
            "expiration": "2026-11-15T08:24:36.120Z",
        })
    }

    fn code(body: &Value) -> u16 {
        let text = body.to_string();
        let read = body::parse(text.as_bytes()).and_then(|parsed| Asked::read(&parsed).map(|_| ()));
        read.map_or_else(|error| error.code, |()| 0)
    }

    fn digest(body: &Value, payee_is_known: bool) -> [u8; 32] {
        let text = body.to_string();
        let parsed: PrepareBody<'_> = body::parse(text.as_bytes()).unwrap();
        Asked::read(&parsed).unwrap().extensions_digest(payee_is_known)
    }

    #[test]
    fn every_field_is_needed_and_must_be_what_it_is() {
        assert_eq!(code(&sample()), 0);
        let required =
            ["transferId", "payeeFsp", "payerFsp", "amount", "ilpPacket", "condition", "expiration"];
        for name in required {
            let mut body = sample();
            body.as_object_mut().unwrap().remove(name);
            assert_eq!(code(&body), 3102, "without {name}");
            for wrong in [json!(1), json!(null), json!([]), json!(true), json!({"x": 1}), json!("")] {
                let mut body = sample();
                body[name] = wrong.clone();
                let expected = if name == "amount" && wrong.is_object() { 3102 } else { 3101 };
                assert_eq!(code(&body), expected, "{name} = {wrong}");
            }
        }
        for name in ["currency", "amount"] {
            let mut body = sample();
            body["amount"].as_object_mut().unwrap().remove(name);
            assert_eq!(code(&body), 3102, "without amount.{name}");
            body["amount"][name] = json!(12.5);
            assert_eq!(code(&body), 3101, "amount.{name} as a number");
        }
        let mut body = sample();
        body["amount"]["currency"] = json!("ZZZ");
        assert_eq!(code(&body), 3101);
        let mut body = sample();
        body["unknown"] = json!({"deep": [1, {"amount": 2}]});
        assert_eq!(code(&body), 0, "unknown fields are allowed");
    }

    #[test]
    fn what_the_record_cannot_hold_is_in_the_digest() {
        let with = |change: fn(&mut Value)| {
            let mut body = sample();
            change(&mut body);
            body
        };
        assert_eq!(digest(&sample(), true), [0; 32], "as in binary records");
        let huge = digest(&with(|body| body["amount"]["amount"] = json!("999999999999999999")), true);
        let other = digest(&with(|body| body["amount"]["amount"] = json!("999999999999999998")), true);
        assert_ne!(huge, other);
        let early = digest(&with(|body| body["expiration"] = json!("1000-01-01T00:00:00.000Z")), true);
        let late = digest(&with(|body| body["expiration"] = json!("1001-01-01T00:00:00.000Z")), true);
        assert_ne!(early, late);
        let nobody = digest(&sample(), false);
        let other = digest(&with(|body| body["payeeFsp"] = json!("ghost")), false);
        assert_ne!(nobody, other);
        assert_eq!(nobody, digest(&with(|body| body["payeeFsp"] = json!("PAYEE")), false));
        let list = json!({"extension": [{"key": "k", "value": "v"}]});
        let mut extended = sample();
        extended["extensionList"] = list;
        assert_ne!(digest(&extended, true), [0; 32]);
        assert_ne!(digest(&extended, true), digest(&extended, false));
    }
}
