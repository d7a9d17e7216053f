//! A checkpoint taken apart and put together, as another program might have written it.

use std::path::Path;

use holdfast_log::SimFs;

use crate::support::LOG_ID;

/// The chunk that holds how far the log was taken in.
pub(crate) const PROGRESS: u32 = 1;
pub(crate) const ACCOUNT: u32 = 3;
pub(crate) const OPEN: u32 = 7;
pub(crate) const RUN: u32 = 8;

/// Takes a checkpoint apart, lets `change` at each chunk of that tag, and puts it together with right checksums.
pub(crate) fn rewrite(fs: &SimFs, file: &Path, wanted: u32, mut change: impl FnMut(&mut Vec<u8>)) {
    let bytes = fs.bytes_of(file).unwrap();
    let seed = crc32c::crc32c(&LOG_ID.0);
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut out, mut at, mut parts) = (bytes[..64].to_vec(), 64, 0_u64);
    loop {
        let (tag, length, sequence) = (word(at), word(at + 4) as usize, word(at + 8));
        let mut payload = bytes[at + 16..at + 16 + length].to_vec();
        if tag == u32::MAX {
            payload = parts.to_le_bytes().to_vec();
        } else {
            if tag == wanted {
                change(&mut payload);
            }
            let mut rest = payload.as_slice();
            while let Some((length, after)) = rest.split_first_chunk::<4>() {
                rest = &after[u32::from_le_bytes(*length) as usize..];
                parts += 1;
            }
        }
        let mut head = Vec::new();
        for word in [tag, u32::try_from(payload.len()).unwrap(), sequence] {
            head.extend_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c_append(seed, &head), &payload);
        out.extend_from_slice(&head);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&payload);
        if tag == u32::MAX {
            break;
        }
        at += 16 + length;
    }
    out.resize(out.len().next_multiple_of(4_096), 0);
    fs.put(file, &out);
}

/// Gives a changed header its right checksum.
pub(crate) fn reseal(bytes: &mut [u8]) {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..64]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// Gives a changed block of outcomes (1) or callbacks (2) its right checksum.
pub(crate) fn reseal_block(block: &mut [u8], kind: u8) {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&LOG_ID.0), &[kind]);
    let crc = crc32c::crc32c_append(seed, &block[4..]);
    block[..4].copy_from_slice(&crc.to_le_bytes());
}
