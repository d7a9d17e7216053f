//! `Idempotency-Key`: the same key with the same request gets the stored answer.

use axum::http::HeaderMap;
use holdfast_domain::shop::{IdempotencyKey, OrderId};
use holdfast_tokens::Fingerprint;
use sha2::{Digest, Sha256};

use super::failure::Failure;
use crate::limits::IDEMPOTENCY_KEY_CHARS_MAX;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The key of a checkout, if it came with one. Both dialects make the same of the same request, so a key may be repeated in
/// either. How long the caller waits is no part of what it asks for.
pub(super) fn of(
    headers: &HeaderMap,
    order: &OrderId,
    deadline_ms: Option<u32>,
) -> Result<Option<IdempotencyKey>, Failure> {
    let mut sent = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = sent.next() else { return Ok(None) };
    if sent.next().is_some() {
        return Err(wrong("stands there twice"));
    }
    let text = value.to_str().map_err(|_| wrong("has characters that are not plain ASCII"))?;
    if !(1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&text.len()) {
        return Err(wrong(&format!("has 1 to {IDEMPOTENCY_KEY_CHARS_MAX} characters, not {}", text.len())));
    }
    Ok(Some(IdempotencyKey { key: text.into(), body: fingerprint(order, deadline_ms) }))
}

fn wrong(problem: &str) -> Failure {
    Failure::Invalid(format!("Idempotency-Key: {problem}"))
}

/// Stored with the key for a day: what goes into it must not change between two releases.
fn fingerprint(order: &OrderId, deadline_ms: Option<u32>) -> Fingerprint {
    let mut hasher = Sha256::new();
    hasher.update(b"holdfast checkout 1\0");
    // 0 is no deadline that a caller can ask for.
    hasher.update(deadline_ms.unwrap_or(0).to_le_bytes());
    hasher.update(order.as_str());
    let hash = hasher.finalize();
    Fingerprint(u128::from_le_bytes(*hash.first_chunk().expect("a SHA-256 has 32 bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(
        values: &[&[u8]],
        order: &str,
        deadline_ms: Option<u32>,
    ) -> Result<Option<IdempotencyKey>, Failure> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, axum::http::HeaderValue::from_bytes(value).unwrap());
        }
        of(&headers, &order.parse().unwrap(), deadline_ms)
    }

    #[test]
    fn a_key_is_one_short_text() {
        assert_eq!(key(&[], "o", None), Ok(None));
        assert_eq!(&*key(&[b"k 1"], "o", None).unwrap().unwrap().key, "k 1");
        assert!(key(&[&[b'k'; 128]], "o", None).is_ok());
        for bad in [&[&b""[..]][..], &[&[b'k'; 129]], &[b"a", b"b"], &[b"\xff"]] {
            assert!(matches!(key(bad, "o", None), Err(Failure::Invalid(_))), "{bad:?}");
        }
    }

    #[test]
    fn the_content_is_the_order_and_its_deadline() {
        let body = |order, deadline_ms| key(&[b"k"], order, deadline_ms).unwrap().unwrap().body;
        assert_eq!(body("o", None), body("o", None));
        assert_ne!(body("o", None), body("p", None));
        assert_ne!(body("o", None), body("o", Some(1)));
        let stored = Fingerprint(0x7b7d_e75d_a3f0_0c7f_bb16_61e2_872b_d361);
        assert_eq!(body("o", None), stored, "keys that are stored would be refused");
    }
}
