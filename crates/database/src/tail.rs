//! The notifications, read by every node for those who wait at it.

use std::sync::Arc;
use std::time::Instant;

use holdfast_domain::shop::CheckoutAnswer;
use holdfast_engine::Ends;
use holdfast_kafka::{Health, Reader};
use holdfast_messages::{CheckoutNotice, Message as _, Notice, Notification, TraceId};

use crate::health::Part;
use crate::settings::POLL_WAIT;
use crate::stop::Stop;
use crate::waiting::WaitingRoom;

/// The most notifications that are looked at at once.
const LOOK_MESSAGES: usize = 5_000;

pub(crate) struct Tail {
    pub(crate) reader: Reader,
    pub(crate) room: Arc<WaitingRoom>,
    /// Who waits for the end of a checkout.
    pub(crate) ends: Arc<Ends>,
    pub(crate) part: Arc<Part>,
    pub(crate) stop: Arc<Stop>,
}

impl Tail {
    pub(crate) fn run(mut self) {
        let ours = Ours::new(self.room.trace(0));
        while !self.stop.is_set() {
            match self.reader.poll(LOOK_MESSAGES, Instant::now() + POLL_WAIT) {
                Ok(records) => {
                    let checkouts = !self.ends.is_empty();
                    let for_us = |value: &[u8]| ours.may_be(value) || checkouts && is_of_a_checkout(value);
                    for record in records.iter().filter(|record| for_us(&record.value)) {
                        self.look(&record.value);
                    }
                    match self.reader.health() {
                        Health::Down { why, .. } => self.part.fails(format!("Kafka is down: {why}")),
                        Health::Connecting | Health::Up => self.part.works(),
                    }
                }
                Err(error) => {
                    // Callers hear that their outcomes are not known; an operator sees why.
                    self.part.fails(error);
                    self.stop.pause(POLL_WAIT);
                }
            }
            self.room.sweep(Instant::now());
        }
    }

    fn look(&self, value: &[u8]) {
        match Notification::from_json(value) {
            Ok(notification) => {
                if let Notice::Checkout(CheckoutNotice { order, answer: Ok(answer) }) = &notification.notice {
                    // One that is open has not come to its end.
                    if !matches!(answer, CheckoutAnswer::Open { .. }) {
                        self.ends.tell(order, *answer);
                    }
                }
                if let Some(outcome) = notification.notice.outcome() {
                    self.room.tell(notification.trace, outcome);
                }
            }
            Err(poison) => tracing::warn!(%poison, "a notification cannot be read"),
        }
    }
}

/// Tells, without reading a message, that it may be about a checkout: its end is for everybody who waits.
fn is_of_a_checkout(value: &[u8]) -> bool {
    const TYPE: &[u8] = br#""type":"checkout""#;
    // The type stands behind version and trace.
    let head = &value[..value.len().min(96)];
    head.windows(TYPE.len()).any(|window| window == TYPE)
}

/// Tells, without reading a message, that it belongs to another node: most do.
struct Ours {
    start: Vec<u8>,
}

impl Ours {
    fn new(any: TraceId) -> Ours {
        let half = &any.to_string()[..16];
        Ours { start: format!("{{\"v\":1,\"trace\":\"{half}").into_bytes() }
    }

    /// Messages that begin in another way than ours do are read.
    fn may_be(&self, value: &[u8]) -> bool {
        let common = self.start.len() - 16;
        !value.starts_with(&self.start[..common]) || value.starts_with(&self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_nodes_notifications_are_passed_over() {
        let ours = Ours::new(TraceId(0xab << 64));
        let message = |trace: u128| format!("{{\"v\":1,\"trace\":\"{}\",\"type\":\"x\"}}", TraceId(trace));
        assert!(ours.may_be(message(0xab << 64 | 5).as_bytes()));
        assert!(!ours.may_be(message(0xac << 64 | 5).as_bytes()));
        assert!(ours.may_be(br#"{ "trace": 1 }"#), "written by hand");
        assert!(!is_of_a_checkout(message(1).as_bytes()));
        let end = CheckoutNotice {
            order: "o".repeat(90).parse().unwrap(),
            answer: Ok(CheckoutAnswer::Paid { tr: holdfast_domain::shop::TrNum::FIRST }),
        };
        let end = Notification { trace: TraceId::NOBODY, notice: Notice::Checkout(end) };
        assert!(is_of_a_checkout(&end.to_json()));
    }
}
