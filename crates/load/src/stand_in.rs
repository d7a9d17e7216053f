//! A hub of a few lines, to see that a load counts right.

use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;

use crate::wire::Wire;

/// Something that answers requests by their first line and body; `None` ends the connection.
pub(crate) trait Answers: Send + 'static {
    fn answer(&mut self, line: &str, body: &[u8]) -> Option<(u16, String)>;
}

/// Has it answer on a port of its own; gives the address.
pub(crate) async fn serve(hub: Arc<Mutex<impl Answers>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(Wire::over(stream), Arc::clone(&hub)));
        }
    });
    address
}

async fn converse(mut wire: Wire, hub: Arc<Mutex<impl Answers>>) {
    while let Ok(Some(message)) = wire.read().await {
        let bytes = wire.bytes(message);
        let line = std::str::from_utf8(&bytes[..message.line_end]).expect("a request's line");
        let answered = hub.lock().expect("no panic").answer(line, &bytes[message.body..]);
        let Some((status, answer)) = answered else { return };
        wire.consume(message);
        let head = format!("HTTP/1.1 {status} Told\r\nContent-Length: {}\r\n\r\n", answer.len());
        if wire.write(format!("{head}{answer}").as_bytes()).await.is_err() {
            return;
        }
    }
}
