//! The participant itself: what it does with each message from the hub.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use hyper::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::diary::{Diary, Way};
use super::messages::{self, Prepare};
use super::scheme;
use crate::remote::{Answer, Remote, escaped};

/// How a payee answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// PUT with COMMITTED and the fulfilment.
    Fulfil,
    /// PUT with RESERVED and the fulfilment; the hub tells the end by PATCH.
    Reserve,
    /// PUT …/error with 5104.
    Reject,
    /// Not at all.
    Silent,
}

impl Manner {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Manner::Fulfil => "fulfils what it gets",
            Manner::Reserve => "fulfils with RESERVED and waits to be told",
            Manner::Reject => "rejects what it gets with 5104",
            Manner::Silent => "takes what it gets and stays silent",
        }
    }
}

/// Attempts to hand an answer to the hub; it is the same answer each time, so a repeat does no harm.
const ATTEMPTS: u32 = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(100);

/// How a transfer that was paid here ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Committed { fulfilment: Option<String> },
    Aborted,
    Error { code: String, description: String },
}

/// A participant with a hub to talk to.
pub(crate) struct Participant {
    pub(crate) name: String,
    pub(crate) secret: String,
    pub(crate) manner: Manner,
    pub(crate) diary: Diary,
    pub(crate) remote: Remote,
    waiting: Mutex<HashMap<String, oneshot::Sender<End>>>,
}

impl Participant {
    pub(crate) fn new(
        name: String,
        secret: String,
        manner: Manner,
        diary: Diary,
        remote: Remote,
    ) -> Participant {
        Participant { name, secret, manner, diary, remote, waiting: Mutex::default() }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<End>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Will be told how this transfer ends.
    pub(super) fn expect(&self, id: &str) -> oneshot::Receiver<End> {
        let (send, receive) = oneshot::channel();
        self.waiting().insert(id.to_owned(), send);
        receive
    }

    fn ended(&self, id: &str, end: End) {
        if let Some(waiting) = self.waiting().remove(id) {
            // Whoever waited may have given up.
            let _: Result<(), End> = waiting.send(end);
        }
    }

    /// Tells the hub where this participant wants to be called.
    pub(crate) async fn register(&self, base: &str) -> anyhow::Result<()> {
        let path = format!("/participants/{}/endpoints", escaped(&self.name));
        for (kind, tail) in [
            ("FSPIOP_CALLBACK_URL_TRANSFER_POST", ""),
            ("FSPIOP_CALLBACK_URL_TRANSFER_PUT", "/{{transferId}}"),
            ("FSPIOP_CALLBACK_URL_TRANSFER_ERROR", "/{{transferId}}/error"),
        ] {
            let value = format!("{base}/transfers{tail}");
            let answer = self.remote.try_post(&path, &json!({"type": kind, "value": value})).await?;
            match answer.status {
                status if status.is_success() => {}
                StatusCode::FORBIDDEN => bail!(
                    "registering endpoints needs an operator's key; give one with --key or use --register=false ({})",
                    answer.in_words()
                ),
                StatusCode::BAD_REQUEST => bail!(
                    "{} cannot be registered; is it a participant? (holdfast participants create): {}",
                    self.name,
                    answer.in_words()
                ),
                _ => bail!("{} cannot be registered: {}", self.name, answer.in_words()),
            }
        }
        Ok(())
    }

    /// `POST /transfers`: somebody wants to pay this participant.
    pub(super) fn asked(self: &Arc<Participant>, source: &str, body: &[u8]) -> Result<(), String> {
        let prepare: Prepare = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let id = prepare.transfer_id.clone();
        self.diary.message(
            Way::In,
            "POST /transfers",
            &format!(
                "{id} from {source}: {} {}, expires {}",
                prepare.amount.amount, prepare.amount.currency, prepare.expiration
            ),
            json!({
                "transferId": id, "source": source, "amount": prepare.amount.amount,
                "currency": prepare.amount.currency, "expiration": prepare.expiration,
            }),
        );
        if self.manner != Manner::Silent {
            let participant = Arc::clone(self);
            tokio::spawn(async move { participant.answer(&prepare).await });
        }
        Ok(())
    }

    /// `PUT` or `PATCH /transfers/{id}`: how a transfer stands.
    pub(super) fn told(&self, method: &Method, id: &str, source: &str, body: &[u8]) -> Result<(), String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let member = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let state = member("transferState").ok_or("there is no transferState")?;
        self.diary.message(
            Way::In,
            &format!("{method} /transfers/{id}"),
            &format!("from {source}: {state}"),
            json!({"transferId": id, "source": source, "transferState": state}),
        );
        match state.as_str() {
            "COMMITTED" => self.ended(id, End::Committed { fulfilment: member("fulfilment") }),
            "ABORTED" => self.ended(id, End::Aborted),
            _ => {}
        }
        Ok(())
    }

    /// `PUT /transfers/{id}/error`: what went wrong.
    pub(super) fn told_error(&self, id: &str, source: &str, body: &[u8]) -> Result<(), String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let information = body.get("errorInformation").ok_or("there is no errorInformation")?;
        let member = |name: &str| information.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let (code, description) = (member("errorCode"), member("errorDescription"));
        self.diary.message(
            Way::In,
            &format!("PUT /transfers/{id}/error"),
            &format!("from {source}: {code} {description}"),
            json!({"transferId": id, "source": source, "errorCode": code, "errorDescription": description}),
        );
        self.ended(id, End::Error { code, description });
        Ok(())
    }

    async fn answer(&self, prepare: &Prepare) {
        let fulfilment = scheme::fulfilment(&self.secret, &prepare.ilp_packet);
        let ours = prepare.condition == scheme::base64url(&scheme::condition(&fulfilment));
        let (tail, body, words) = match self.manner {
            Manner::Silent => return,
            Manner::Reject => ("/error", messages::error_body("5104", "Payee rejected transaction"), "5104"),
            Manner::Fulfil | Manner::Reserve if !ours => {
                self.diary.note(
                    "the condition was not made with this participant's secret: it cannot be fulfilled",
                );
                ("/error", messages::error_body("5105", "The condition cannot be fulfilled"), "5105")
            }
            Manner::Fulfil => ("", messages::fulfil_body("COMMITTED", &fulfilment), "COMMITTED"),
            Manner::Reserve => ("", messages::fulfil_body("RESERVED", &fulfilment), "RESERVED"),
        };
        let path = format!("/transfers/{}{tail}", escaped(&prepare.transfer_id));
        let headers = match messages::answer_headers(&self.name, &prepare.payer_fsp) {
            Ok(headers) => headers,
            Err(error) => return self.diary.note(&format!("{path} cannot be sent: {error:#}")),
        };
        let answered = self.send(Method::PUT, &path, headers, body.to_string().into()).await;
        let (status, said) = told_by(&answered);
        self.diary.message(
            Way::Out,
            &format!("PUT {path}"),
            &format!("{words}: {said}"),
            json!({"transferId": prepare.transfer_id, "says": words, "status": status, "answer": said}),
        );
    }

    /// Sends a message, and sends it again where the hub may take it the next time.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let mut attempt = 1;
        loop {
            let answered = self.remote.exchange(method.clone(), path, headers.clone(), body.clone()).await;
            let passing = match &answered {
                Ok(answer) => answer.status.is_server_error() || matches!(answer.status.as_u16(), 408 | 429),
                Err(_) => true,
            };
            if !passing || attempt == ATTEMPTS {
                return answered;
            }
            // A hub that waits for its servers may take half a minute for each answer: who watches should see why.
            let (status, said) = told_by(&answered);
            self.diary.message(
                Way::Out,
                &format!("{method} {path}"),
                &format!("{said}, repeating ({attempt} of {ATTEMPTS})"),
                json!({"status": status, "answer": said, "repeating": true}),
            );
            attempt += 1;
            tokio::time::sleep(ATTEMPT_PAUSE).await;
        }
    }
}

/// Status and words of an answer, or why there is none.
fn told_by(answered: &anyhow::Result<Answer>) -> (Option<u16>, String) {
    match answered {
        Ok(answer) => (Some(answer.status.as_u16()), answer.in_words()),
        Err(error) => (None, format!("{error:#}")),
    }
}
