//! Where callbacks end: a server that acknowledges everything at once and says what came.

use std::io;
use std::net::Ipv4Addr;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use super::material::{number_in_body, number_in_id};
use holdfast_load::LoadError;
use holdfast_load::wire::{Message, Wire};

/// A callback, by the number of its payment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// The payee has the prepare.
    Prepare(u64),
    /// The payer knows that it is committed.
    Committed(u64),
    /// Something else: no payment of a benchmark ends so.
    Other(String),
}

/// Connections that may wait to be accepted. The hub opens one for each of the first callbacks at once; behind a full queue the kernel
/// drops a first packet, and the hub's next one comes a second later: that would be measured as a payment of a second.
const BACKLOG: u32 = 4_096;

/// A listening sink.
pub(super) struct Sink {
    listener: TcpListener,
    pub(super) address: String,
}

impl Sink {
    pub(super) fn open() -> Result<Sink, LoadError> {
        Sink::listen().map_err(|error| LoadError::Refused(format!("cannot listen for callbacks: {error}")))
    }

    fn listen() -> io::Result<Sink> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?.to_string();
        Ok(Sink { listener, address })
    }

    /// Takes callbacks until nobody wants to know of them.
    pub(super) async fn take(self, tell: UnboundedSender<Called>) {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = self.listener.accept().await {
            // Small answers must not wait for more.
            let _: io::Result<()> = stream.set_nodelay(true);
            connections.spawn(serve(Wire::over(stream), tell.clone()));
        }
    }
}

async fn serve(mut wire: Wire, tell: UnboundedSender<Called>) {
    while let Ok(Some(message)) = wire.read().await {
        let (called, answer) = read(wire.bytes(message), message);
        wire.consume(message);
        if wire.write(answer).await.is_err() || tell.send(called).is_err() {
            return;
        }
    }
}

fn read(bytes: &[u8], message: Message) -> (Called, &'static [u8]) {
    const ACCEPTED: &[u8] = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    const STATE: &[u8] = b"\"COMMITTED\"";
    let line = &bytes[..message.line_end];
    let body = &bytes[message.body..];
    let other = || Called::Other(String::from_utf8_lossy(bytes).into_owned());
    let mut words = line.split(|byte| *byte == b' ');
    let (verb, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match verb {
        b"POST" => (number_in_body(body).map_or_else(other, Called::Prepare), ACCEPTED),
        b"PUT" if body.windows(STATE.len()).any(|part| part == STATE) => {
            let id = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            (number_in_id(id).map_or_else(other, Called::Committed), OK)
        }
        _ => (other(), OK),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_first_callbacks_connect_at_once_and_none_stalls() {
        let sink = Sink::open().unwrap();
        let mut crowd = Vec::new();
        for callback in 0..400 {
            let connecting = timeout(Duration::from_secs(30), TcpStream::connect(&sink.address)).await;
            crowd.push(connecting.unwrap_or_else(|_| panic!("callback {callback} stalls")).unwrap());
        }
    }

    #[test]
    fn callbacks_are_told_apart() {
        let id = "00000000-0000-4000-8000-00000000002a";
        let of = |head: &str, body: &str| {
            let text = format!("{head} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            read(text.as_bytes(), Message::first(text.as_bytes()).unwrap()).0
        };
        assert_eq!(of("POST /a/transfers", &format!("{{\"transferId\":\"{id}\"}}")), Called::Prepare(42));
        let put = of(&format!("PUT /a/transfers/{id}"), "{\"transferState\":\"COMMITTED\"}");
        assert_eq!(put, Called::Committed(42));
        assert!(matches!(of(&format!("PUT /a/transfers/{id}/error"), "{}"), Called::Other(_)));
    }
}
