//! What one node does for all: what happened to tokens goes to the topic `token-events`, and what is over is removed.
//!
//! Whoever holds the lease does it. An event may be sent twice, if its sender dies before it could note that; each first comes
//! in its order. One that Kafka can never take is left out, and counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_kafka::Producer;
use holdfast_messages::{Message as _, Topic};
use holdfast_postgres::tokens::Position;
use holdfast_postgres::{Claim, Source, Store};

use super::gather::Gatherer;
use super::limits::{CHANGES_READ, HISTORY, KEEP_EVERY, MEMORY, TIDIED_ROWS};
use crate::health::Part;
use crate::relay::Trouble;
use crate::settings::{FRESH, LEASE, NodeSettings, SEND_WAIT, TROUBLE_PAUSE};
use crate::stop::Stop;

/// How often is looked for what is over.
const TIDY_EVERY: Duration = Duration::from_secs(1);
/// How often is looked for selections and spends that nobody will ask for any more.
const FORGET_EVERY: Duration = Duration::from_secs(300);

pub(crate) struct Keeper {
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) producer: Producer,
    pub(crate) part: Arc<Part>,
    pub(crate) stop: Arc<Stop>,
    /// When old selections were last looked for.
    pub(crate) forgot: Instant,
    /// Brings shattered wallets together, if that is wanted.
    pub(crate) gatherer: Option<Gatherer>,
}

impl Keeper {
    pub(crate) fn run(mut self) {
        let mut store: Option<Store> = None;
        let mut tidied = Instant::now();
        let mut held: Option<Claim> = None;
        while !self.stop.is_set() {
            match self.round(&mut store, &mut held, &mut tidied) {
                Ok(()) => self.part.works(),
                Err(trouble) => {
                    self.part.fails(&trouble);
                    if matches!(trouble, Trouble::Store(_)) {
                        store = None;
                    }
                    self.stop.pause(TROUBLE_PAUSE);
                }
            }
            self.stop.pause(KEEP_EVERY);
        }
        if let (Some(store), Some(claim)) = (&mut store, held)
            && let Err(error) = store.give_up(&claim)
        {
            tracing::warn!(%error, "the tokens' housekeeping is not given up; another node takes it when the lease has ended");
        }
    }

    fn round(
        &mut self,
        store: &mut Option<Store>,
        held: &mut Option<Claim>,
        tidied: &mut Instant,
    ) -> Result<(), Trouble> {
        if store.is_none() {
            *store = Some(self.settings.connect()?);
        }
        let store = store.as_mut().expect("just made");
        let leased = Instant::now();
        *held = store.lease(Source::Tokens, self.settings.node_number(), LEASE)?;
        let Some(claim) = *held else { return Ok(()) };
        self.send(store, &claim, leased)?;
        if tidied.elapsed() >= TIDY_EVERY {
            *tidied = Instant::now();
            let gone = store.tidy_changes(&claim, HISTORY, TIDIED_ROWS, None)?;
            if !gone.is_nothing() {
                tracing::debug!(?gone, "removed what is over of tokens");
            }
            // It looks at all of them, so it is done seldom.
            if self.forgot.elapsed() >= FORGET_EVERY {
                self.forgot = Instant::now();
                while !store.tidy_selections(&claim, MEMORY, TIDIED_ROWS, None)?.is_nothing() {
                    if leased.elapsed() > FRESH || self.stop.is_set() {
                        break;
                    }
                }
            }
        }
        if let Some(gatherer) = &mut self.gatherer {
            let stop = &self.stop;
            let wallets = gatherer.look(store, || leased.elapsed() < FRESH && !stop.is_set())?;
            if wallets > 0 {
                tracing::info!(wallets, "brought small tokens together");
            }
        }
        Ok(())
    }

    /// Sends what nothing older can come before any more.
    fn send(&mut self, store: &mut Store, claim: &Claim, leased: Instant) -> Result<(), Trouble> {
        let mut position = store.tokens_sent()?;
        // Later than that the lease may be another's; the next round goes on.
        while leased.elapsed() < FRESH && !self.stop.is_set() {
            let changes = store.token_changes(position, CHANGES_READ)?;
            let settled = changes.events.iter().take_while(|(place, _)| *place <= changes.next);
            let messages: Vec<(Position, String, Vec<u8>)> =
                settled.map(|(place, event)| (*place, event.key(), event.to_json())).collect();
            let Some((last, ..)) = messages.last() else { return Ok(()) };
            self.send_all(&messages)?;
            position = *last;
            if !store.mark_tokens_sent(claim, position)? || !changes.more {
                return Ok(());
            }
        }
        Ok(())
    }

    fn send_all(&mut self, messages: &[(Position, String, Vec<u8>)]) -> Result<(), Trouble> {
        let mut rest = messages;
        while !rest.is_empty() {
            let topics = &self.settings.topics;
            let outgoing: Vec<_> = rest
                .iter()
                .map(|(_, key, value)| topics.outgoing(Topic::TokenEvents, key.as_bytes(), value))
                .collect();
            match self.producer.send_all(&outgoing, Instant::now() + SEND_WAIT) {
                Ok(_) => return Ok(()),
                Err(error) if error.cause.may_pass() => return Err(Trouble::Kafka(error.cause)),
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
}
