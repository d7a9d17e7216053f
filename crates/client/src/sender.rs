//! A sender: one task with one connection. It carries one shipment at a time and stays with it until the end.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::time::{sleep_until, timeout};

use crate::backoff::Backoff;
use crate::calls::{Calls, Fate};
use crate::error::{Cause, ClientError};
use crate::link::{Attempt, Link};
use crate::options::ClientOptions;
use crate::shipment::Shipment;

pub(crate) struct Sender {
    calls: Arc<Calls>,
    options: Arc<ClientOptions>,
    link: Option<Link>,
    backoff: Backoff,
    wakers: Vec<Waker>,
}

/// What is left to do with a shipment after an attempt.
enum Next {
    Done,
    Halves([Shipment; 2]),
    AgainAfter(Shipment, Duration),
}

impl Sender {
    pub(crate) fn new(
        calls: Arc<Calls>,
        options: Arc<ClientOptions>,
        link: Option<Link>,
        number: u64,
    ) -> Sender {
        let backoff = Backoff::new(options.jitter_seed ^ number.wrapping_mul(0xa076_1d64_78bd_642f));
        Sender { calls, options, link, backoff, wakers: Vec::new() }
    }

    /// Works until the client is dropped.
    pub(crate) async fn run(mut self) {
        let calls = Arc::clone(&self.calls);
        loop {
            let shipment = match self.link.as_mut().filter(|link| link.is_open()) {
                None => calls.next().await,
                Some(link) => tokio::select! {
                    biased;
                    shipment = calls.next() => shipment,
                    () = link.ended() => continue,
                },
            };
            self.carry(shipment).await;
        }
    }

    async fn carry(&mut self, shipment: Shipment) {
        let mut pile = vec![shipment];
        while let Some(shipment) = pile.pop() {
            match self.attempt(shipment).await {
                Next::Done => {}
                Next::Halves([first, second]) => pile.extend([second, first]),
                Next::AgainAfter(shipment, pause) => {
                    // A pause that nobody would outwait is cut short: other calls need the sender.
                    let Some(last) = self.calls.last_deadline(&shipment) else { continue };
                    sleep_until((Instant::now() + pause).min(last).into()).await;
                    pile.push(shipment);
                }
            }
        }
    }

    async fn attempt(&mut self, mut shipment: Shipment) -> Next {
        if !self.link.as_ref().is_some_and(Link::is_open) {
            if self.calls.last_deadline(&shipment).is_none() {
                return Next::Done;
            }
            if let Err(cause) = self.connect().await {
                return self.again(shipment, Fate::NotSent(cause), None);
            }
        }
        if !self.calls.begin_attempt(&mut shipment) {
            return Next::Done;
        }
        let Some(link) = &mut self.link else { return Next::AgainAfter(shipment, Duration::ZERO) };
        let sent =
            timeout(self.options.attempt_max, link.send(shipment.body.clone(), shipment.records())).await;
        let attempt = sent.unwrap_or_else(|_| {
            // Its answer would arrive in place of the next one's.
            self.link = None;
            Attempt::Open(Cause::Timeout)
        });
        match attempt {
            Attempt::Answered(replies) => {
                self.backoff.reset();
                self.calls.deliver(shipment, replies, &mut self.wakers);
                Next::Done
            }
            Attempt::Busy(retry_after) => self.again(shipment, Fate::Busy, retry_after),
            Attempt::NotSent(cause) => {
                self.link = None;
                self.again(shipment, Fate::NotSent(cause), None)
            }
            Attempt::Open(cause) => {
                self.link = None;
                shipment.may_have_happened = true;
                self.again(shipment, Fate::MayHaveHappened(cause), None)
            }
            Attempt::Refused { status, detail } => match shipment.split() {
                // One of them is at fault; the others must not suffer for it.
                Ok(halves) => Next::Halves(halves),
                Err(shipment) => {
                    let error = match shipment.may_have_happened {
                        true => ClientError::Unknown { cause: Cause::Status(status) },
                        false => ClientError::Refused { status, detail },
                    };
                    self.calls.refuse(&shipment, &error);
                    Next::Done
                }
            },
        }
    }

    async fn connect(&mut self) -> Result<(), Cause> {
        let opened = timeout(self.options.attempt_max, Link::open(&self.options)).await;
        let opened = opened.map_err(|_| Cause::Timeout)?;
        self.link = Some(opened.map_err(|error| Cause::Connect(error.kind()))?);
        Ok(())
    }

    fn again(&mut self, shipment: Shipment, fate: Fate, at_least: Option<Duration>) -> Next {
        let fate = match fate {
            Fate::NotSent(cause) if shipment.may_have_happened => Fate::MayHaveHappened(cause),
            Fate::Busy if shipment.may_have_happened => Fate::MayHaveHappened(Cause::Status(429)),
            fate => fate,
        };
        self.calls.note(&shipment, fate);
        let pause = self.backoff.next();
        Next::AgainAfter(shipment, at_least.map_or(pause, |least| least.max(pause)))
    }
}
