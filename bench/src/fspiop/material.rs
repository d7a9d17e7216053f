//! What payments are made of. Every field has a fixed length, so a request is a row of ready parts.
//!
//! Conditions and fulfilments are computed before the clock starts, as a payer has its condition from a quote.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use holdfast_load::payments::{mix, preimage};

/// A realistic length for an ILP packet: an address and a transaction object.
const PACKET_CHARS: usize = 512;
const CONTENT_TYPE: &str = "application/vnd.interoperability.transfers+json;version=1.1";
const ACCEPT: &str = "application/vnd.interoperability.transfers+json;version=1";
const DATE: &str = "Tue, 15 Nov 1994 08:12:31 GMT";
/// Far enough ahead that nothing runs out.
const EXPIRATION: &str = "2099-01-01T00:00:00.000Z";
const ID_CHARS: usize = 36;
const PREIMAGE_CHARS: usize = 43;
const NAME_CHARS: usize = 7;
const AMOUNT_CHARS: usize = 4;
/// Where the id stands in the body of a prepare.
const ID_IN_BODY: usize = "{\"transferId\":\"".len();

/// The name of a participant by its number.
pub(super) fn participant(number: u32) -> String {
    format!("fsp{number:04}")
}

/// The payments of a run.
pub(super) struct Material {
    seed: u64,
    participants: u32,
    preimages: Vec<[u8; PREIMAGE_CHARS]>,
    conditions: Vec<[u8; PREIMAGE_CHARS]>,
    packet: String,
}

impl Material {
    pub(super) fn new(seed: u64, participants: u32, payments: u64) -> Material {
        let texts = |number| {
            let preimage = preimage(seed, number);
            (base64url(&preimage), base64url(&Sha256::digest(preimage).into()))
        };
        let (preimages, conditions) = (0..payments).map(texts).unzip();
        Material { seed, participants, preimages, conditions, packet: "AYIC".repeat(PACKET_CHARS / 4) }
    }

    /// Bytes of a POST and of a PUT, head and body.
    pub(super) fn request_bytes() -> (usize, usize) {
        let (mut post, mut put) = (Vec::new(), Vec::new());
        let material = Material::new(0, 2, 1);
        material.post(0, true, &mut post);
        material.put(0, true, &mut put);
        (post.len(), put.len())
    }

    /// The id of a payment: a UUID of version 4 whose last twelve digits are its number.
    fn id(&self, number: u64) -> [u8; ID_CHARS] {
        let random = mix(self.seed ^ 0x1d, number);
        let text = format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{number:012x}",
            random >> 32,
            random >> 16 & 0xffff,
            random >> 4 & 0xfff,
            mix(self.seed ^ 0x1e, number) & 0xfff,
        );
        text.as_bytes().try_into().expect("every part has a fixed width")
    }

    fn parties(&self, number: u64) -> (String, String) {
        let count = u64::from(self.participants);
        let random = mix(self.seed ^ 0x2a, number);
        let payer = (random >> 32) % count;
        let payee = (payer + 1 + (random & 0xffff_ffff) % (count - 1)) % count;
        let name =
            |number: u64| participant(u32::try_from(number).expect("below the number of participants"));
        (name(payer), name(payee))
    }

    /// Writes the bytes of `POST /transfers`.
    pub(super) fn post(&self, number: u64, waits: bool, out: &mut Vec<u8>) {
        const BODY: [&str; 8] = [
            "{\"transferId\":\"",
            "\",\"payerFsp\":\"",
            "\",\"payeeFsp\":\"",
            "\",\"amount\":{\"currency\":\"USD\",\"amount\":\"",
            "\"},\"ilpPacket\":\"",
            "\",\"condition\":\"",
            "\",\"expiration\":\"",
            "\"}",
        ];
        let (payer, payee) = self.parties(number);
        let random = mix(self.seed ^ 0x4c, number);
        let amount = format!("{}.{}{}", 1 + random % 9, random >> 8 & 7, 1 + (random >> 16) % 9);
        let constant: usize = BODY.iter().map(|part| part.len()).sum();
        let fields =
            ID_CHARS + 2 * NAME_CHARS + AMOUNT_CHARS + PACKET_CHARS + PREIMAGE_CHARS + EXPIRATION.len();
        out.clear();
        out.extend_from_slice(b"POST /transfers HTTP/1.1\r\n");
        head(out, (&payer, &payee), waits, true, constant + fields);
        let id = self.id(number);
        let condition = self.condition(number);
        let values: [&[u8]; 7] = [
            &id,
            payer.as_bytes(),
            payee.as_bytes(),
            amount.as_bytes(),
            self.packet.as_bytes(),
            condition,
            EXPIRATION.as_bytes(),
        ];
        for (part, value) in BODY.iter().zip(values) {
            out.extend_from_slice(part.as_bytes());
            out.extend_from_slice(value);
        }
        out.extend_from_slice(BODY[7].as_bytes());
    }

    /// Writes the bytes of `PUT /transfers/{id}`.
    pub(super) fn put(&self, number: u64, waits: bool, out: &mut Vec<u8>) {
        const OPENING: &str = "{\"transferState\":\"COMMITTED\",\"fulfilment\":\"";
        let (payer, payee) = self.parties(number);
        out.clear();
        out.extend_from_slice(b"PUT /transfers/");
        out.extend_from_slice(&self.id(number));
        out.extend_from_slice(b" HTTP/1.1\r\n");
        head(out, (&payee, &payer), waits, false, OPENING.len() + PREIMAGE_CHARS + 2);
        out.extend_from_slice(OPENING.as_bytes());
        out.extend_from_slice(&self.preimages[usize::try_from(number).expect("an index")]);
        out.extend_from_slice(b"\"}");
    }

    fn condition(&self, number: u64) -> &[u8] {
        &self.conditions[usize::try_from(number).expect("an index")]
    }
}

fn head(out: &mut Vec<u8>, (from, to): (&str, &str), waits: bool, asks: bool, length: usize) {
    let accept = if asks { format!("Accept: {ACCEPT}\r\n") } else { String::new() };
    let prefer = if waits { "Prefer: wait=30\r\n" } else { "" };
    let text = format!(
        "Host: localhost\r\nContent-Type: {CONTENT_TYPE}\r\n{accept}Date: {DATE}\r\nFSPIOP-Source: {from}\r\n\
         FSPIOP-Destination: {to}\r\n{prefer}Content-Length: {length}\r\n\r\n"
    );
    out.extend_from_slice(text.as_bytes());
}

/// The number of the payment whose forwarded prepare this is: bodies come byte for byte as they were sent.
pub(super) fn number_in_body(body: &[u8]) -> Option<u64> {
    number_in_id(body.get(ID_IN_BODY..ID_IN_BODY + ID_CHARS)?)
}

/// The number at the end of an id.
pub(super) fn number_in_id(id: &[u8]) -> Option<u64> {
    let digits = id.get(ID_CHARS - 12..ID_CHARS)?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn base64url(bytes: &[u8; 32]) -> [u8; PREIMAGE_CHARS] {
    let mut text = [0; PREIMAGE_CHARS];
    URL_SAFE_NO_PAD.encode_slice(bytes, &mut text).expect("32 bytes have so many letters");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_length_that_they_say() {
        let material = Material::new(5, 100, 300);
        let mut out = Vec::new();
        for number in [0, 1, 255, 299] {
            for (is_post, waits) in [(true, true), (false, false)] {
                if is_post {
                    material.post(number, waits, &mut out);
                } else {
                    material.put(number, waits, &mut out);
                }
                let text = std::str::from_utf8(&out).unwrap();
                let (head, body) = text.split_once("\r\n\r\n").unwrap();
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
                assert_eq!(length.parse::<usize>().unwrap(), body.len());
                assert_eq!(head.contains("Prefer"), waits);
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                if is_post {
                    assert_ne!(body["payerFsp"], body["payeeFsp"]);
                    assert!(head.contains(&format!("FSPIOP-Source: {}", body["payerFsp"].as_str().unwrap())));
                }
            }
            material.post(number, true, &mut out);
            let body = out.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            assert_eq!(number_in_body(&out[body..]), Some(number));
        }
    }

    #[test]
    fn base64url_is_that_of_everybody() {
        let counted: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 8).unwrap());
        assert_eq!(&base64url(&counted), b"AAgQGCAoMDhASFBYYGhweICIkJigqLC4wMjQ2ODo8Pg");
        assert_eq!(&base64url(&[0xff; 32]), b"__________________________________________8");
    }
}
