//! ILP as far as a hub needs it: a condition and its fulfilment are 32 bytes each, written in base64url without
//! padding; the packet is text that is handed on unread.
//!
//! 43 letters carry 258 bits, two more than are needed. The standard's pattern lets those two be anything, and so do
//! the decoders in use, so they are not looked at. What is handed on is the text as it came.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

use super::fields::Must;

/// Letters of 32 bytes.
const PREIMAGE_LETTERS: usize = 43;
const PREIMAGE: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));
const PACKET_CHARS_MAX: usize = 32_768;

/// IlpCondition and IlpFulfilment: exactly 32 bytes.
pub(super) fn preimage(text: &str) -> Result<[u8; 32], Must> {
    const MUST: Must = "must be 32 bytes in base64url without padding, 43 characters";
    if text.len() != PREIMAGE_LETTERS {
        return Err(MUST);
    }
    let bytes = PREIMAGE.decode(text).map_err(|_| MUST)?;
    bytes.try_into().map_err(|_| MUST)
}

/// IlpPacket: `^[A-Za-z0-9-_]+[=]{0,2}$`, not too long.
pub(super) fn packet(text: &str) -> Result<&str, Must> {
    const MUST: Must = "must be 1 to 32768 characters of base64url";
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let letters = &text.as_bytes()[..text.len() - padding];
    let good = (1..=PACKET_CHARS_MAX).contains(&text.len())
        && padding <= 2
        && !letters.is_empty()
        && letters.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
    if good { Ok(text) } else { Err(MUST) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_wire::fspiop::write_preimage;
    use sha2::{Digest, Sha256};

    #[test]
    fn a_fulfilment_from_the_field_hashes_to_its_condition() {
        let fulfilment = preimage("mhPUT9ZAwd-BXLfeSd7-YPh46rBWRNBiTCSWjpku90s").unwrap();
        let condition = Sha256::digest(fulfilment).into();
        assert_eq!(write_preimage(&condition), "fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for seed in 0_u32..200 {
            let bytes: [u8; 32] = Sha256::digest(seed.to_le_bytes()).into();
            let text = write_preimage(&bytes);
            assert_eq!((text.len(), preimage(&text)), (43, Ok(bytes)), "{text}");
        }
        assert_eq!(write_preimage(&[0; 32]), "A".repeat(43));
        assert_eq!(write_preimage(&[0xff; 32]), "_".repeat(42) + "8");
    }

    #[test]
    fn the_two_spare_bits_are_not_looked_at() {
        let canonical = "_".repeat(42) + "8";
        for last in ["9", "-", "_"] {
            assert_eq!(preimage(&("_".repeat(42) + last)), preimage(&canonical));
        }
    }

    #[test]
    fn other_lengths_and_letters_are_refused() {
        let good = "A".repeat(43);
        let bad = [
            String::new(),
            "A".repeat(42),
            "A".repeat(44),
            format!("{good}="),
            "A".repeat(42) + "=",
            "A".repeat(42) + "+",
            "A".repeat(42) + "/",
            "A".repeat(41) + "é",
            "a".repeat(64),
            "A".repeat(22),
        ];
        for text in bad {
            assert!(preimage(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_packet_is_base64url_of_bounded_length() {
        for good in ["A", "AYIBgQ", "AYIBgQ==", "-_=", &"x".repeat(32_768)] {
            assert!(packet(good).is_ok(), "{good}");
        }
        for bad in ["", "=", "==", "AY===", "A=Y", "A+", "A/", "A B", "é", &"x".repeat(32_769)] {
            assert!(packet(bad).is_err(), "{bad}");
        }
    }
}
