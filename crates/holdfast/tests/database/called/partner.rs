//! A participant of checkouts that is called over HTTP, with books of its own: one row for each step, as docs/shop.md asks for. It
//! behaves as badly as a test wants.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use holdfast_services::PATIENCE;
use serde_json::{Value, json};

use crate::support::server::any_port;
use crate::support::sink::{read_request, serve_each};

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Does the step and says so.
    Well,
    /// So many times with this status and nothing done, then well.
    FailFirst(u32, u16),
    /// 202, and nothing done yet; so many times, then well.
    LaterFirst(u32),
    /// Takes the request and says nothing; nothing is done.
    Hang,
    /// Does the step and says nothing.
    DoAndHang,
}

/// A step that it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub order: String,
    pub tr: u64,
    pub kind: String,
}

/// What a step has moved: how much of what.
type Moved = Vec<(String, u64)>;

/// What it has done: rows by (order, try, whether it gave back), with what was answered and how much was moved.
#[derive(Debug, Default)]
pub struct Books {
    /// What there is of each thing: items, or users' money.
    pub left: BTreeMap<String, u64>,
    rows: BTreeMap<(String, u64, bool), (&'static str, Moved)>,
    pub asked: Vec<Asked>,
    manners: BTreeMap<String, Manner>,
    otherwise: Option<Manner>,
}

impl Books {
    fn manner(&mut self, order: &str) -> Manner {
        let manner = match self.manners.get_mut(order) {
            Some(manner) => manner,
            None => self.otherwise.get_or_insert(Manner::Well),
        };
        match *manner {
            Manner::FailFirst(0, _) | Manner::LaterFirst(0) => Manner::Well,
            Manner::FailFirst(times, status) => {
                *manner = Manner::FailFirst(times - 1, status);
                Manner::FailFirst(times, status)
            }
            Manner::LaterFirst(times) => {
                *manner = Manner::LaterFirst(times - 1);
                Manner::LaterFirst(times)
            }
            other => other,
        }
    }

    /// Does a step once, whatever became of it before.
    pub fn act(&mut self, order: &str, tr: u64, value: &Value) -> &'static str {
        let kind = value["type"].as_str().expect("a type");
        let gives_back = matches!(kind, "can" | "add");
        let (taken, refused, undone) = match kind {
            "pay" | "can" => ("psucc", "pfail", "csucc"),
            _ => ("ssucc", "sfail", "asucc"),
        };
        let key = |gives_back| (order.to_owned(), tr, gives_back);
        if let Some((outcome, _)) = self.rows.get(&key(gives_back)) {
            return outcome;
        }
        if gives_back {
            let back = self.rows.get(&key(false)).map(|(_, moved)| moved.clone()).unwrap_or_default();
            for (holder, amount) in &back {
                *self.left.entry(holder.clone()).or_default() += amount;
            }
            self.rows.insert(key(true), (undone, back));
            return undone;
        }
        let wanted = parts(value);
        let there = wanted.iter().all(|(holder, amount)| self.left.get(holder).unwrap_or(&0) >= amount);
        if self.rows.contains_key(&key(true)) || !there {
            self.rows.insert(key(false), (refused, Vec::new()));
            return refused;
        }
        for (holder, amount) in &wanted {
            *self.left.get_mut(holder).expect("it is there") -= amount;
        }
        self.rows.insert(key(false), (taken, wanted));
        taken
    }

    /// The orders for which it has taken and not given back.
    pub fn holds(&self) -> Vec<String> {
        let taken = self.rows.iter().filter(|((order, tr, gives_back), (_, moved))| {
            !gives_back && !moved.is_empty() && !self.rows.contains_key(&(order.clone(), *tr, true))
        });
        taken.map(|((order, ..), _)| order.clone()).collect()
    }

    /// How often it was asked that about an order.
    pub fn count(&self, order: &str, kind: &str) -> usize {
        self.asked.iter().filter(|asked| asked.order == order && asked.kind == kind).count()
    }
}

fn parts(value: &Value) -> Moved {
    let text = |value: &Value| value.as_str().expect("an id").to_owned();
    let number = |value: &Value| value.as_u64().expect("an amount");
    match value["items"].as_array() {
        Some(items) => items.iter().map(|item| (text(&item["id"]), number(&item["amnt"]))).collect(),
        None => vec![(text(&value["user_id"]), number(&value["amnt"]))],
    }
}

struct State {
    books: Mutex<Books>,
    changed: Condvar,
}

/// The participant. Its threads end with the test.
pub struct Partner {
    pub address: SocketAddr,
    state: Arc<State>,
}

impl Partner {
    pub fn open() -> Partner {
        let state = Arc::new(State { books: Mutex::default(), changed: Condvar::new() });
        let serving = Arc::clone(&state);
        Partner { address: serve_each(any_port(), move |stream| serve(stream, &serving)), state }
    }

    pub fn url(&self) -> String {
        format!("http://{}/steps", self.address)
    }

    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.state.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn put(&self, holder: &str, amount: u64) {
        self.books().left.insert(holder.to_owned(), amount);
    }

    /// From now on, about that order.
    pub fn behave_about(&self, order: &str, manner: Manner) {
        self.books().manners.insert(order.to_owned(), manner);
    }

    /// From now on, about all orders.
    pub fn behave(&self, manner: Manner) {
        let mut books = self.books();
        books.manners.clear();
        books.otherwise = Some(manner);
    }

    /// Waits until its books meet the condition.
    #[track_caller]
    pub fn wait(&self, what: &str, met: impl Fn(&Books) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut books = self.books();
        while !met(&books) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never: {what}. {books:#?}");
            books = self.state.changed.wait_timeout(books, left).expect("whole").0;
        }
    }
}

fn serve(mut stream: TcpStream, state: &State) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    while let Some(request) = read_request(&mut reader) {
        let body = request.json();
        let (order, tr) = (body["key"]["order_id"].as_str(), body["key"]["tr_num"].as_u64());
        let (Some(order), Some(tr)) = (order, tr) else { return };
        let kind = body["value"]["type"].as_str().unwrap_or_default().to_owned();
        let (manner, outcome) = {
            let mut books = state.books.lock().unwrap_or_else(PoisonError::into_inner);
            let manner = books.manner(order);
            let does = matches!(manner, Manner::Well | Manner::DoAndHang);
            let outcome = does.then(|| books.act(order, tr, &body["value"]));
            books.asked.push(Asked { order: order.to_owned(), tr, kind });
            (manner, outcome)
        };
        state.changed.notify_all();
        let (status, text) = match (manner, outcome) {
            (Manner::Well, Some(outcome)) => (200, json!({ "outcome": outcome }).to_string()),
            (Manner::FailFirst(_, status), _) => (status, "no".to_owned()),
            (Manner::LaterFirst(_), _) => (202, "{}".to_owned()),
            _ => {
                // Until the other side gives up.
                let _: Result<usize, _> = reader.read_to_end(&mut Vec::new());
                return;
            }
        };
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
