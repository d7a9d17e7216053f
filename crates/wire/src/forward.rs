//! A message as its sender sent it, kept in the tail of its record and handed on byte for byte.
//!
//! Layout: the number of headers (u16), then per header the lengths of name and value (u16 each) and their bytes,
//! then the body. Numbers are little-endian.

/// What is handed on of a request: the headers that travel on, and the body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forwarded {
    /// Names and values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// As it came.
    pub body: Vec<u8>,
}

impl Forwarded {
    /// The bytes for a record's tail; `None` if a header is too long to be written.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(self.body.len() + 64 * self.headers.len() + 2);
        out.extend_from_slice(&u16::try_from(self.headers.len()).ok()?.to_le_bytes());
        for (name, value) in &self.headers {
            out.extend_from_slice(&u16::try_from(name.len()).ok()?.to_le_bytes());
            out.extend_from_slice(&u16::try_from(value.len()).ok()?.to_le_bytes());
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(value);
        }
        out.extend_from_slice(&self.body);
        Some(out)
    }

    /// Reads a tail; `None` if it is none (a record that came through `/hub/batch` has no tail).
    #[must_use]
    pub fn decode(mut tail: &[u8]) -> Option<Forwarded> {
        let number = |tail: &mut &[u8]| {
            let (bytes, rest) = tail.split_first_chunk::<2>()?;
            *tail = rest;
            Some(usize::from(u16::from_le_bytes(*bytes)))
        };
        let count = number(&mut tail)?;
        let mut headers = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            let (name, value) = (number(&mut tail)?, number(&mut tail)?);
            let (name, rest) = tail.split_at_checked(name)?;
            let (value, rest) = rest.split_at_checked(value)?;
            headers.push((String::from_utf8(name.to_vec()).ok()?, value.to_vec()));
            tail = rest;
        }
        Some(Forwarded { headers, body: tail.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_byte_for_byte() {
        let message = Forwarded {
            headers: vec![("date".to_owned(), b"Tue".to_vec()), ("x-any".to_owned(), vec![0xff, 0x00])],
            body: b"{ \"a\" :1}".to_vec(),
        };
        let tail = message.encode().unwrap();
        assert_eq!(Forwarded::decode(&tail), Some(message));
        for cut in 0..tail.len() - 9 {
            assert_eq!(Forwarded::decode(&tail[..cut]), None, "cut at {cut}");
        }
    }
}
