//! HTTP/1.1 on a socket, as little of it as a benchmark's client and sink need: messages with a Content-Length.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::LoadError;

const READ_BYTES: usize = 16 * 1024;

/// Where the parts of a message lie in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The first line ends here.
    pub line_end: usize,
    /// The body begins here.
    pub body: usize,
    /// The message ends here.
    pub end: usize,
}

impl Message {
    /// The first message in the buffer, if it is all there.
    pub fn first(buffer: &[u8]) -> Option<Message> {
        let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
        let mut lines = buffer[..head].split(|byte| *byte == b'\n');
        let line_end = lines.next()?.len();
        let length = lines.find_map(|line| {
            const NAME: &[u8] = b"content-length:";
            let (name, value) = line.split_at_checked(NAME.len())?;
            let value = std::str::from_utf8(value).ok()?;
            name.eq_ignore_ascii_case(NAME).then(|| value.trim().parse::<usize>().ok())?
        });
        let body = head + 4;
        let end = body + length.unwrap_or(0);
        (buffer.len() >= end).then_some(Message { line_end, body, end })
    }
}

/// A connection with what was read of it.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    /// On a connection that is there.
    pub fn over(stream: TcpStream) -> Wire {
        Wire { stream, buffer: Vec::with_capacity(READ_BYTES) }
    }

    /// Connects.
    pub async fn open(address: &str) -> Result<Wire, LoadError> {
        let stream = TcpStream::connect(address).await.map_err(|error| lost(&error))?;
        stream.set_nodelay(true).map_err(|error| lost(&error))?;
        Ok(Wire::over(stream))
    }

    /// Sends all of it.
    pub async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next whole message; `None` if the other side has ended the connection.
    pub async fn read(&mut self) -> std::io::Result<Option<Message>> {
        loop {
            if let Some(message) = Message::first(&self.buffer) {
                return Ok(Some(message));
            }
            self.buffer.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// A message from its first line to its end.
    pub fn bytes(&self, message: Message) -> &[u8] {
        &self.buffer[..message.end]
    }

    /// Forgets a message that was dealt with.
    pub fn consume(&mut self, message: Message) {
        self.buffer.drain(..message.end);
    }

    /// Sends a request that must be answered with `status` and, where given, with `state` in its body.
    pub async fn exchange(
        &mut self,
        request: &[u8],
        status: &str,
        state: Option<&str>,
    ) -> Result<(), LoadError> {
        self.write(request).await.map_err(|error| lost(&error))?;
        let message = self.read().await.map_err(|error| lost(&error))?;
        let message =
            message.ok_or_else(|| LoadError::Refused("the server ended a connection".to_owned()))?;
        let answer = self.bytes(message);
        let told = answer.get(9..12) == Some(status.as_bytes());
        let body = &answer[message.body..];
        let stands = state.is_none_or(|state| body.windows(state.len()).any(|part| part == state.as_bytes()));
        if !told || !stands {
            let answer = String::from_utf8_lossy(answer).replace("\r\n", " | ");
            let request = String::from_utf8_lossy(request.split(|byte| *byte == b'\r').next().unwrap_or(&[]));
            return Err(LoadError::Refused(format!("{request} was answered with {answer}")));
        }
        self.consume(message);
        Ok(())
    }
}

fn lost(error: &std::io::Error) -> LoadError {
    LoadError::Refused(format!("a connection broke: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_when_they_are_whole() {
        let text = b"HTTP/1.1 200 OK\r\nContent-length: 3\r\n\r\nabcHTTP/1.1 202 Accepted\r\n\r\n";
        let first = Message::first(text).unwrap();
        assert_eq!((&text[first.body..first.end], first.line_end), (&b"abc"[..], 16));
        let rest = &text[first.end..];
        assert_eq!(Message::first(rest).unwrap().end, rest.len());
        assert_eq!(Message::first(&text[..30]), None);
        assert_eq!(Message::first(&text[..first.end - 1]), None);
    }
}
