//! Plain HTTP/1.1, one connection for each request: what a test sends and gets is what is on the wire.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::server::Server;

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The body as JSON; `null` if it is none. Numbers that a double cannot hold are compared in `body`.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// Status and error code of a refusal.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let code = &self.json()["errorInformation"]["errorCode"];
        (self.status, code.as_str().unwrap_or("none").to_owned())
    }

    /// What a refusal says.
    pub(crate) fn description(&self) -> String {
        self.json()["errorInformation"]["errorDescription"].as_str().unwrap_or("none").to_owned()
    }
}

/// Sends one request with these header lines (each ended by CR LF) and reads until the hub closes.
pub(crate) fn exchange(server: &Server, verb: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(server.address).expect("the server listens");
    let length = body.len();
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nHost: localhost:4000\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).expect("the request goes out");
    // A hub that refuses a body early may close before it has it all.
    let _: std::io::Result<()> = stream.write_all(body);
    let mut answer = Vec::new();
    let _: std::io::Result<usize> = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("UTF-8");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}
