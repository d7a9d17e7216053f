//! The bodies of `/hub/batch`, byte by byte: clients in any language are written against them.

use holdfast_domain::records::batch::{
    BatchError, HEADER_LEN, REPLY_LEN, Reply, read_replies, read_request_header, request_header,
    write_replies,
};
use proptest::prelude::*;

use crate::world::*;

/// Two replies: one of a reserved prepare, one of a fulfil that found nothing.
fn golden() -> Vec<u8> {
    let mut body = b"HFBA\x01\0\0\0\x02\0\0\0\0\0\0\0".to_vec();
    body.extend_from_slice(&[3, 0, 0, 0, 0, 0, 0, 0]); // state, reason, code, zeros
    body.extend_from_slice(&[0x08, 0x07, 0, 0, 0, 0, 0, 0]); // subject
    body.extend_from_slice(&[0xfb; 1]); // value: -5
    body.extend_from_slice(&[0xff; 15]);
    body.extend_from_slice(&[0, 13, 0x1c, 0x0c, 0, 0, 0, 0]);
    body.extend_from_slice(&[0; 24]);
    body
}

#[test]
fn a_request_opens_with_sixteen_bytes() {
    let header = request_header(0x0102);
    assert_eq!(&header, b"HFBQ\x01\0\0\0\x02\x01\0\0\0\0\0\0");
    assert_eq!(read_request_header(&header), Ok(0x0102));
}

#[test]
fn headers_that_are_none_are_refused() {
    let header = request_header(1);
    assert_eq!(read_request_header(&[]), Err(BatchError::NotABatch));
    assert_eq!(read_request_header(&header[..15]), Err(BatchError::NotABatch));
    for place in [0, 3, 6, 7, 12, 15] {
        let mut other = header;
        other[place] ^= 1;
        assert_eq!(read_request_header(&other), Err(BatchError::NotABatch), "at {place}");
    }
    let mut other = header;
    other[4] = 2;
    assert_eq!(read_request_header(&other), Err(BatchError::Version(2)));
    assert_eq!(read_replies(&header), Err(BatchError::NotABatch), "a request is no reply");
}

#[test]
fn replies_are_written_and_read_as_they_always_were() {
    let outcomes = [
        answer(0x0708, TransferState::Reserved, -5),
        refused(
            no_transfer(None, Subject::Nothing, 0),
            ErrorCode::ValidationError,
            Some(Reason::WrongSource),
        ),
    ];
    assert_eq!(write_replies(&outcomes), golden());
    assert_eq!(golden().len(), HEADER_LEN + 2 * REPLY_LEN);
    let first = Reply {
        state: Some(TransferState::Reserved),
        code: 0,
        reason: 0,
        subject: 0x0708,
        value: Balance(-5),
    };
    let second = Reply { state: None, code: 3100, reason: 13, subject: 0, value: Balance(0) };
    assert_eq!(read_replies(&golden()), Ok(vec![first, second]));
    assert_eq!(read_replies(&write_replies(&[])), Ok(Vec::new()));
}

#[test]
fn replies_of_another_length_are_refused() {
    let body = golden();
    assert_eq!(read_replies(&body[..body.len() - 1]), Err(BatchError::Length));
    assert_eq!(read_replies(&body[..HEADER_LEN + REPLY_LEN]), Err(BatchError::Length));
    assert_eq!(read_replies(&[body.clone(), vec![0]].concat()), Err(BatchError::Length));
    let mut state = body;
    state[HEADER_LEN] = 99;
    assert_eq!(read_replies(&state), Err(BatchError::NotABatch));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_bring_the_reader_down(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (read_request_header(&bytes), read_replies(&bytes));
        let header = golden();
        let length = bytes.len().min(HEADER_LEN);
        bytes[..length].copy_from_slice(&header[..length]);
        let _ = read_replies(&bytes);
    }
}
