//! What one node does for all: what happened to tokens goes to the topic `token-events`, and what is over is removed.
//!
//! Whoever holds the lease does it. An event may be sent twice, if its sender dies before it could note that; each first comes
//! in its order. One that Kafka can never take is left out, and counted.

use std::sync::Arc;
use std::time::Instant;

use holdfast_kafka::Producer;
use holdfast_messages::{Message as _, TokenEvent, Topic};
use holdfast_postgres::tokens::Position;

use super::gather::Gatherer;
use super::housekeeping::{Housekeeping, Kept, NotAll};
use super::limits::{HISTORY, KEEP_EVERY};
use crate::health::Part;
use crate::relay::Trouble;
use crate::settings::{FRESH, NodeSettings, SEND_WAIT, TROUBLE_PAUSE};
use crate::stop::Stop;

pub(crate) struct Keeper {
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) producer: Producer,
    pub(crate) part: Arc<Part>,
    pub(crate) stop: Arc<Stop>,
    /// Brings shattered wallets together, if that is wanted.
    pub(crate) gatherer: Option<Gatherer>,
}

impl Keeper {
    pub(crate) fn run(mut self) {
        let mut housekeeping = Housekeeping::new(&self.settings, &self.stop, HISTORY);
        while !self.stop.is_set() {
            match self.round(&mut housekeeping) {
                Ok(()) => self.part.works(),
                Err(trouble) => {
                    self.part.fails(&trouble);
                    housekeeping.note(&trouble);
                    self.stop.pause(TROUBLE_PAUSE);
                }
            }
            self.stop.pause(KEEP_EVERY);
        }
        housekeeping.leave();
    }

    fn round(&mut self, housekeeping: &mut Housekeeping) -> Result<(), Trouble> {
        let Keeper { settings, producer, stop, gatherer, .. } = self;
        let kept = housekeeping.keep(|events| send_all(settings, producer, events))?;
        if let (Some(Kept { store, since }), Some(gatherer)) = (kept, gatherer) {
            let wallets = gatherer.look(store, || since.elapsed() < FRESH && !stop.is_set())?;
            if wallets > 0 {
                tracing::info!(wallets, "brought small tokens together");
            }
        }
        Ok(())
    }
}

fn send_all(
    settings: &NodeSettings,
    producer: &mut Producer,
    events: &[(Position, TokenEvent)],
) -> Result<(), NotAll> {
    let messages: Vec<(Position, String, Vec<u8>)> =
        events.iter().map(|(place, event)| (*place, event.key(), event.to_json())).collect();
    let mut rest = &messages[..];
    while !rest.is_empty() {
        let topics = &settings.topics;
        let outgoing: Vec<_> = rest
            .iter()
            .map(|(_, key, value)| topics.outgoing(Topic::TokenEvents, key.as_bytes(), value))
            .collect();
        match producer.send_all(&outgoing, Instant::now() + SEND_WAIT) {
            Ok(_) => return Ok(()),
            Err(error) if error.cause.may_pass() => {
                let taken = messages.len() - rest.len() + error.first_unsent;
                return Err(NotAll { taken, trouble: Trouble::Kafka(error.cause) });
            }
            Err(error) => {
                // It will never fit, and nothing behind it may wait for ever. The tables have it.
                let (place, ..) = &rest[error.first_unsent];
                metrics::counter!("holdfast_cluster_relay_left_out_total", "from" => "token events")
                    .increment(1);
                tracing::error!(?place, cause = %error.cause, "an event of tokens cannot be sent and is left out");
                rest = &rest[error.first_unsent + 1..];
            }
        }
    }
    Ok(())
}
