//! How a payer and a payee of this tool come to the same fulfilment without a quote before the transfer.
//!
//! In a real scheme the payee makes the fulfilment when it answers a quote and sends the payer its condition. Here
//! both sides share a test secret instead:
//!
//! fulfilment = HMAC-SHA-256(key = the secret's bytes, message = the text of `ilpPacket` as it stands in the JSON)
//!
//! condition = SHA-256(fulfilment)
//!
//! both as base64url without padding. The packet names the transfer, so every transfer has its own fulfilment; and
//! as it is computed over the text, a hub that changed one character of the packet would make the fulfilment wrong.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// The secret where none is given. It protects nothing: this is a simulator.
pub(crate) const DEFAULT_SECRET: &str = "holdfast-dfsp";

/// The preimage that settles the transfer with this packet.
pub(crate) fn fulfilment(secret: &str, ilp_packet: &str) -> [u8; 32] {
    hmac_sha256(secret.as_bytes(), ilp_packet.as_bytes())
}

/// The condition that goes with a fulfilment.
pub(crate) fn condition(fulfilment: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(fulfilment).into()
}

/// RFC 2104 over SHA-256.
fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

/// Base64url without padding.
pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// An ILP v1 payment packet in base64url: amount in minor units, the payee's address, and the data as base64url text.
pub(crate) fn ilp_packet(payee: &str, minor_units: u64, data: &str) -> String {
    const PAYMENT: u8 = 1;
    let mut content = minor_units.to_be_bytes().to_vec();
    push_octets(&mut content, format!("g.{payee}.msisdn.123456789").as_bytes());
    push_octets(&mut content, base64url(data.as_bytes()).as_bytes());
    // No extensions.
    content.push(0);
    let mut packet = vec![PAYMENT];
    push_octets(&mut packet, &content);
    base64url(&packet)
}

/// An OER octet string: its length in one byte up to 127, else the number of length bytes and those, then itself.
fn push_octets(out: &mut Vec<u8>, octets: &[u8]) {
    match u8::try_from(octets.len()) {
        Ok(short @ 0..=127) => out.push(short),
        _ => {
            let length = octets.len().to_be_bytes();
            let zeros = length.iter().take_while(|byte| **byte == 0).count();
            let significant = &length[zeros..];
            out.push(0x80 | u8::try_from(significant.len()).expect("a length has at most 8 bytes"));
            out.extend_from_slice(significant);
        }
    }
    out.extend_from_slice(octets);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_is_that_of_rfc_4231() {
        let hex = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            hex(hmac_sha256(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let long_key = [0xaa; 131];
        assert_eq!(
            hex(hmac_sha256(&long_key, b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn base64url_has_no_padding() {
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64url(bytes.as_bytes()), text);
        }
        assert_eq!(base64url(&[0xfb, 0xff]), "-_8");
        assert_eq!(base64url(&[0; 32]).len(), 43);
    }

    #[test]
    fn a_packet_is_an_oer_payment() {
        let short = ilp_packet("payee", 500, "{}");
        // Type 1, length, then the amount.
        assert!(short.starts_with("AS"), "{short}");
        let long = ilp_packet("payee", 500, &"x".repeat(300));
        assert!(long.len() > short.len() + 390);
        let secret = "s";
        assert_ne!(fulfilment(secret, &short), fulfilment(secret, &long));
        assert_ne!(fulfilment(secret, &short), fulfilment("t", &short));
    }
}
