//! Plain HTTP/1.1, one connection for each request: what a test sends and gets is what is on the wire.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::Duration;

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
    /// The bytes as they came. A hub that closes without a word has the status 0.
    pub(crate) fn read(answer: &[u8]) -> Answer {
        let answer = String::from_utf8_lossy(answer);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// The body as JSON; `null` if it is none. Numbers that a double cannot hold are compared in `body`.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// Status and error code of a refusal.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let code = &self.json()["errorInformation"]["errorCode"];
        (self.status, code.as_str().unwrap_or("none").to_owned())
    }

    /// It is a refusal with this status and code.
    #[track_caller]
    pub(crate) fn is_refused(&self, status: u16, code: &str) {
        assert_eq!(self.refusal(), (status, code.to_owned()), "{self:?}");
    }

    /// What a refusal says.
    pub(crate) fn description(&self) -> String {
        self.json()["errorInformation"]["errorDescription"].as_str().unwrap_or("none").to_owned()
    }

    /// Whether the head has that, in whatever case.
    pub(crate) fn head_has(&self, part: &str) -> bool {
        self.head.to_lowercase().contains(part)
    }
}

/// The first lines of a request whose body has so many bytes, with these header lines, each ended by CR LF.
pub(crate) fn head(verb: &str, path: &str, headers: &str, length: usize) -> String {
    format!(
        "{verb} {path} HTTP/1.1\r\nHost: localhost:4000\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    )
}

/// Sends one request with these header lines and reads until the hub closes.
pub(crate) fn exchange(server: &Server, verb: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    on_the_wire(server, &[head(verb, path, headers, body.len()).as_bytes(), body].concat(), false)
}

/// Writes these bytes, with `ends` the last that will come, and reads until the hub closes.
pub(crate) fn on_the_wire(server: &Server, request: &[u8], ends: bool) -> Answer {
    let mut stream = TcpStream::connect(server.address).expect("the server listens");
    // A hub that refuses a body early may close before it has it all.
    let _: std::io::Result<()> = stream.write_all(request);
    if ends {
        let _: std::io::Result<()> = stream.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    let _: std::io::Result<usize> = stream.read_to_end(&mut answer);
    Answer::read(&answer)
}

pub(crate) fn get(server: &Server, path: &str) -> Answer {
    exchange(server, "GET", path, "", b"")
}

/// A request with a body of JSON.
pub(crate) fn send(server: &Server, verb: &str, path: &str, body: &str) -> Answer {
    exchange(server, verb, path, "Content-Type: application/json\r\n", body.as_bytes())
}

/// The figure of that name, labels and all, in `/metrics`.
pub(crate) fn figure<N: FromStr>(server: &Server, name: &str) -> Option<N> {
    let all = get(server, "/metrics").body;
    all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// The rows of a list under `name`, page after page; `page` asks for the one behind that cursor.
pub(crate) fn rows_of_all_pages(name: &str, mut page: impl FnMut(Option<&str>) -> Value) -> Vec<Value> {
    let mut page_behind = |after: Option<&str>| {
        let page = page(after);
        let rows = page[name].as_array().unwrap_or_else(|| panic!("no {name} in {page}")).clone();
        (rows, page["next"].as_str().map(str::to_owned))
    };
    let (mut all, mut next) = page_behind(None);
    while let Some(after) = next {
        let (rows, following) = page_behind(Some(&after));
        all.extend(rows);
        next = following;
    }
    all
}

/// A request to a hub that may be gone, and that has not answered yet. What goes wrong is told in words.
pub(crate) struct Asked {
    stream: TcpStream,
    what: String,
}

impl Asked {
    /// Writes a request to a hub's socket; whether the hub is awake to read it is its own affair. The answer is waited for so long.
    pub(crate) fn send(
        address: SocketAddr,
        (verb, path, headers): (&str, &str, &str),
        body: &[u8],
        wait: Duration,
    ) -> Result<Asked, String> {
        let what = format!("{address}{path}");
        let told = |error: std::io::Error| format!("{what}: {error}");
        let mut stream = TcpStream::connect_timeout(&address, wait).map_err(told)?;
        stream.set_read_timeout(Some(wait)).map_err(told)?;
        let head = head(verb, path, headers, body.len());
        stream.write_all(&[head.as_bytes(), body].concat()).map_err(told)?;
        Ok(Asked { stream, what })
    }

    /// The whole answer as it lies on the wire.
    pub(crate) fn bytes(mut self) -> Result<Vec<u8>, String> {
        let mut answer = Vec::new();
        self.stream.read_to_end(&mut answer).map_err(|error| format!("{}: {error}", self.what))?;
        if !answer.windows(4).any(|four| four == b"\r\n\r\n") {
            return Err(format!("{}: half an answer: {}", self.what, String::from_utf8_lossy(&answer)));
        }
        Ok(answer)
    }

    pub(crate) fn answer(self) -> Result<Answer, String> {
        self.bytes().map(|answer| Answer::read(&answer))
    }
}
