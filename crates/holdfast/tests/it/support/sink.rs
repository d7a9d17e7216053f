//! A participant's callback server that remembers what it got, and behaves as badly as a test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use serde_json::Value;

use super::server::any_port;
use super::wait::PATIENCE;

/// How the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// 200, empty.
    Good,
    /// So many times with this status, then well.
    FailFirst(u32, u16),
    Status(u16),
    /// Takes the request and says nothing.
    Hang,
    /// A redirection to the path `/elsewhere`.
    Redirect,
    /// What is no HTTP.
    Garbage,
    /// 200, and a body that never ends.
    EndlessBody,
    /// 200, and the connection is closed without a word about it.
    CloseAfter,
}

/// One request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether it was answered with 200.
    pub(crate) acknowledged: bool,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

struct State {
    manner: Mutex<Manner>,
    received: Mutex<Vec<Received>>,
    more: Condvar,
}

/// The server. Its threads end with the test.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

impl Sink {
    pub(crate) fn new(manner: Manner) -> Sink {
        Sink::on(any_port(), manner)
    }

    /// An address that nobody listens on, now.
    pub(crate) fn nowhere() -> SocketAddr {
        TcpListener::bind(any_port()).and_then(|listener| listener.local_addr()).expect("a port")
    }

    pub(crate) fn on(address: SocketAddr, manner: Manner) -> Sink {
        let state = State { manner: Mutex::new(manner), received: Mutex::default(), more: Condvar::new() };
        let state = Arc::new(state);
        let serving = Arc::clone(&state);
        Sink { address: serve_each(address, move |stream| serve(stream, &serving)), state }
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.state.manner.lock().unwrap() = manner;
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }

    /// Waits until what was received meets the condition.
    pub(crate) fn wait(&self, what: &str, met: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        let deadline = Instant::now() + PATIENCE;
        let mut received = self.state.received.lock().unwrap();
        while !met(&received) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never: {what}. Received: {received:#?}");
            received = self.state.more.wait_timeout(received, left).unwrap().0;
        }
        received.clone()
    }

    pub(crate) fn wait_for(&self, count: usize) -> Vec<Received> {
        self.wait(&format!("{count} requests"), |received| received.len() >= count)
    }
}

/// Takes connections at an address, each on a thread of its own; where they are taken. It ends with the test.
pub(crate) fn serve_each(
    address: SocketAddr,
    serve: impl Fn(TcpStream) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(address).expect("a port");
    let address = listener.local_addr().expect("bound");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

pub(crate) fn read_request(reader: &mut impl BufRead) -> Option<Received> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Received { method, path, headers, body, acknowledged: false })
}

fn serve(mut stream: TcpStream, state: &State) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    while let Some(mut request) = read_request(&mut reader) {
        let manner = {
            let mut manner = state.manner.lock().unwrap();
            match *manner {
                Manner::FailFirst(0, _) => Manner::Good,
                Manner::FailFirst(times, status) => {
                    *manner = Manner::FailFirst(times - 1, status);
                    Manner::Status(status)
                }
                other => other,
            }
        };
        request.acknowledged = matches!(manner, Manner::Good | Manner::EndlessBody | Manner::CloseAfter);
        state.received.lock().unwrap().push(request);
        state.more.notify_all();
        let answer = match manner {
            Manner::Status(status) => format!("HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno"),
            Manner::Redirect => {
                "HTTP/1.1 307 There\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
            Manner::Garbage => "220 mail.example ready\r\n\r\n".to_owned(),
            Manner::EndlessBody => "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\nand".to_owned(),
            Manner::Hang => {
                // Until the other side gives up.
                let _: Result<usize, _> = reader.read_to_end(&mut Vec::new());
                return;
            }
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
        };
        let written = stream.write_all(answer.as_bytes());
        if written.is_err() || matches!(manner, Manner::CloseAfter | Manner::Garbage) {
            return;
        }
    }
}
