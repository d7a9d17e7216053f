//! One connection to the hub, with a deadline on each exchange.

use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use crate::LoadError;
use crate::options::CALL_DEADLINE;
use crate::wire::Wire;

/// A hub that does not take a connection by then is not there.
pub const CONNECT_WAIT_MAX: Duration = Duration::from_millis(1_500);
/// Between two attempts to reach a hub that is gone.
pub const PAUSE: Duration = Duration::from_millis(50);

/// A connection that is opened anew when it breaks.
pub struct Line {
    address: String,
    wire: Wire,
}

/// What is the same in the heads of all requests to a hub.
#[derive(Debug, Clone)]
pub struct Head(String);

impl Head {
    /// Of requests to that address with that key.
    pub fn of(address: &str, key: Option<&str>) -> Head {
        let key = key.map_or_else(String::new, |key| {
            // A line's end would begin another header.
            let key: String = key.chars().filter(|letter| !letter.is_control()).collect();
            format!("Authorization: Bearer {key}\r\n")
        });
        Head(format!("Host: {address}\r\n{key}"))
    }

    /// Writes a request, whose body is JSON if there is one.
    pub fn write(&self, method: &str, path: &dyn Display, body: &str, out: &mut Vec<u8>) {
        let (Head(head), length) = (self, body.len());
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        out.clear();
        write!(out, "{method} {path} HTTP/1.1\r\n{head}{kind}Content-Length: {length}\r\n\r\n{body}")
            .expect("memory takes every byte");
    }

    /// A question.
    pub fn get(&self, path: &dyn Display, out: &mut Vec<u8>) {
        self.write("GET", path, "", out);
    }

    /// A command that its path says all of.
    pub fn post(&self, path: &dyn Display, out: &mut Vec<u8>) {
        self.write("POST", path, "", out);
    }
}

/// Why there is no answer. The connection is not to be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The connection broke.
    Broken,
    /// The hub ended it.
    Ended,
    /// Nothing came in time.
    Late,
}

impl Lost {
    /// What happened, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Lost::Broken => "the connection broke",
            Lost::Ended => "the hub ended the connection",
            Lost::Late => "no answer in time",
        }
    }
}

impl Line {
    /// Connects, or says that no hub is there.
    pub async fn open(address: &str) -> Result<Line, LoadError> {
        match timeout(CONNECT_WAIT_MAX, Wire::open(address)).await {
            Ok(Ok(wire)) => Ok(Line { address: address.to_owned(), wire }),
            Ok(Err(_)) | Err(_) => Err(LoadError::NoHub(address.to_owned())),
        }
    }

    /// So many of them.
    pub async fn open_all(address: &str, count: usize) -> Result<Vec<Line>, LoadError> {
        let mut lines = Vec::with_capacity(count);
        for _ in 0..count {
            lines.push(Line::open(address).await?);
        }
        Ok(lines)
    }

    /// A new connection in its place.
    pub async fn reopen(&mut self) -> Result<(), LoadError> {
        *self = Line::open(&self.address).await?;
        Ok(())
    }

    /// Goes on trying until then: a hub that is started anew is reached when it listens.
    pub async fn reopen_until(&mut self, end: Instant) -> Result<(), LoadError> {
        loop {
            sleep(PAUSE).await;
            match self.reopen().await {
                Err(_) if Instant::now() < end => {}
                ended => return ended,
            }
        }
    }

    /// Sends a request and hands status and body of its answer to `read`.
    pub async fn ask<T>(
        &mut self,
        request: &[u8],
        patience: Duration,
        read: impl FnOnce(u16, &[u8]) -> T,
    ) -> Result<T, Lost> {
        let exchange = async {
            self.wire.write(request).await.map_err(|_| Lost::Broken)?;
            self.wire.read().await.map_err(|_| Lost::Broken)?.ok_or(Lost::Ended)
        };
        let message = timeout(CALL_DEADLINE + patience, exchange).await.map_err(|_| Lost::Late)??;
        let answer = self.wire.bytes(message);
        let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let value = read(status.unwrap_or(0), &answer[message.body..]);
        self.wire.consume(message);
        Ok(value)
    }

    /// A request of the preparation, which must be answered with `status`.
    pub async fn must<T>(
        &mut self,
        what: &str,
        request: &[u8],
        status: u16,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, LoadError> {
        let answer = self.ask(request, Duration::ZERO, |told, body| match told == status {
            true => read(body).ok_or_else(|| "an answer that is not understood".to_owned()),
            false => Err(format!("{told} {}", String::from_utf8_lossy(body))),
        });
        let answer = answer.await.map_err(|lost| LoadError::Refused(format!("{what}: {}", lost.name())))?;
        answer.map_err(|said| LoadError::Refused(format!("{what}: the hub said {said}")))
    }
}

#[cfg(test)]
mod tests {
    use super::Head;

    #[test]
    fn a_key_cannot_break_the_head() {
        let mut out = Vec::new();
        Head::of("hub:1", Some("secret\r\nX: 1")).post(&"/shop/orders/checkout/7", &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "POST /shop/orders/checkout/7 HTTP/1.1\r\nHost: hub:1\r\nAuthorization: Bearer secretX: 1\r\n\
             Content-Length: 0\r\n\r\n"
        );
    }
}
