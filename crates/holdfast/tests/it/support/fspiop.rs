//! Messages of FSPIOP as a client sends them, to be spoiled by a test before they go out.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_domain::ids::Millis;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::http::{Answer, exchange, get};
use super::server::Server;
use super::wait::await_that;
use super::world::now;

/// What the most common client says by default.
pub(crate) const CONTENT_TYPE_1_0: &str = "application/vnd.interoperability.transfers+json;version=1.0";
pub(crate) const CONTENT_TYPE_1_1: &str = "application/vnd.interoperability.transfers+json;version=1.1";
pub(crate) const ACCEPT_1: &str = "application/vnd.interoperability.transfers+json;version=1";

/// A transfer of fsp1 to fsp2, by a number from which all of it follows.
pub(crate) struct Payment {
    pub(crate) id: String,
    preimage: [u8; 32],
    pub(crate) body: Value,
}

impl Payment {
    pub(crate) fn new(number: u32, amount: &str) -> Payment {
        Payment::until(number, amount, now() + 600_000)
    }

    pub(crate) fn until(number: u32, amount: &str, expiration: Millis) -> Payment {
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        let preimage: [u8; 32] = Sha256::digest(number.to_le_bytes()).into();
        let expiration = jiff::Timestamp::from_millisecond(expiration).unwrap();
        let body = json!({
            "transferId": id,
            "payeeFsp": "fsp2",
            "payerFsp": "fsp1",
            "amount": {"currency": "USD", "amount": amount},
            "ilpPacket": "AYIBgQAAAAAAAASwNGxldmVsb25lLmRmc3AxLm1lci45VDhkMTk",
            "condition": base64url(&Sha256::digest(preimage)),
            "expiration": format!("{expiration:.3}"),
        });
        Payment { id, preimage, body }
    }

    /// The payment with another value under that name.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Payment {
        self.body[name] = value;
        self
    }

    pub(crate) fn fulfilment(&self) -> String {
        base64url(&self.preimage)
    }

    pub(crate) fn post(&self) -> Message {
        Message::new("POST", "/transfers", "fsp1", &self.body.to_string())
    }

    pub(crate) fn put(&self, state: &str) -> Message {
        let body = json!({"fulfilment": self.fulfilment(), "transferState": state});
        Message::new("PUT", &format!("/transfers/{}", self.id), "fsp2", &body.to_string())
    }

    pub(crate) fn put_error(&self, code: &str) -> Message {
        let body = json!({"errorInformation": {"errorCode": code, "errorDescription": "the payee does not want it"}});
        Message::new("PUT", &format!("/transfers/{}/error", self.id), "fsp2", &body.to_string())
    }

    pub(crate) fn get(&self) -> Message {
        Message::new("GET", &format!("/transfers/{}", self.id), "fsp1", "")
    }
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    verb: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Message {
    fn new(verb: &'static str, path: &str, source: &str, body: &str) -> Message {
        let mut headers = vec![
            ("Content-Type".to_owned(), CONTENT_TYPE_1_1.to_owned()),
            ("Date".to_owned(), "Sat, 15 Nov 2025 08:24:36 GMT".to_owned()),
            ("FSPIOP-Source".to_owned(), source.to_owned()),
        ];
        if verb != "PUT" {
            headers.push(("Accept".to_owned(), ACCEPT_1.to_owned()));
        }
        Message { verb, path: path.to_owned(), headers, body: body.as_bytes().to_vec() }
    }

    pub(crate) fn without(mut self, name: &str) -> Message {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn with(self, name: &str, value: &str) -> Message {
        self.without(name).and(name, value)
    }

    /// With this header besides another of its name.
    pub(crate) fn and(mut self, name: &str, value: &str) -> Message {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn from(self, source: &str) -> Message {
        self.with("FSPIOP-Source", source)
    }

    pub(crate) fn at(mut self, path: &str) -> Message {
        path.clone_into(&mut self.path);
        self
    }

    pub(crate) fn saying(mut self, body: impl Into<Vec<u8>>) -> Message {
        self.body = body.into();
        self
    }

    /// The body's JSON with another value under that name.
    pub(crate) fn but(self, name: &str, value: Value) -> Message {
        let mut body: Value = serde_json::from_slice(&self.body).unwrap();
        body[name] = value;
        self.saying(body.to_string())
    }

    pub(crate) fn waiting(self) -> Message {
        self.with("Prefer", "wait=10")
    }

    pub(crate) fn send(&self, server: &Server) -> Answer {
        exchange(server, self.verb, &self.path, &self.header_lines(), &self.body)
    }

    pub(crate) fn header_lines(&self) -> String {
        self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }
}

/// How many records the log has, and how many transfers there are.
pub(crate) fn stored(server: &Server) -> (u64, u64) {
    let stats = get(server, "/hub/stats").json();
    (stats["log"]["records"].as_u64().unwrap(), stats["transfers"].as_u64().unwrap())
}

/// Waits until the transfer stands there.
pub(crate) fn wait_for_state(server: &Server, payment: &Payment, state: &str) -> Value {
    await_that(state, || payment.get().waiting().send(server).json(), |seen| seen["state"] == state)
}

fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
