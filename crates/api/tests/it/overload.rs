//! Overload is told at the edge, with a time to wait.

use std::io::Read;

use holdfast_domain::records::{UNIT, batch};
use holdfast_hub::limits::HubOptions;

use crate::world::Served;

/// An abort of a transfer that does not exist: the smallest record a client can send.
fn one_abort() -> Vec<u8> {
    let mut record = [0; UNIT];
    record[0] = 3;
    record[2] = 1;
    record[24..26].copy_from_slice(&5104_u16.to_le_bytes());
    [&batch::request_header(1)[..], &record].concat()
}

/// What a hub with these options answers to one record.
fn answer_with(options: HubOptions) -> String {
    let served = Served::start(options);
    let mut answer = Vec::new();
    let mut stream = served.send("POST /hub/batch", batch::MEDIA_TYPE, &one_abort());
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).to_lowercase()
}

#[test]
fn a_full_queue_is_told_as_429_with_a_time_to_wait() {
    let answer = answer_with(HubOptions { intake_records_max: 0, ..HubOptions::default() });
    assert!(answer.starts_with("http/1.1 429"), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(answer.contains(r#""errorcode":"2005""#), "{answer}");
}

#[test]
fn the_same_request_is_taken_where_there_is_room() {
    let answer = answer_with(HubOptions::default());
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    assert!(answer.contains(batch::MEDIA_TYPE), "{answer}");
}
