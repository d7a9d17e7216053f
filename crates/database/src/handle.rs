//! The handle of a running node: requests go in here, questions are asked here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::AccountId;
use holdfast_domain::shop::{OrderId, Side};
use holdfast_engine::{Answer, Ends, NotedTroubles, Refusal, Written};
use holdfast_messages::{
    Message, OrderCommand, OrderMessage, PositionMessage, TraceId, TransferCommand, TransferMessage,
};
use holdfast_postgres::{Error, Store};
use holdfast_tokens::Draws;

use crate::health::{Health, Part};
use crate::reads::{ReadError, Reads};
use crate::roles::Role;
use crate::sender::{CallerMessages, Letter, Queue, Wants};
use crate::settings::{NodeSettings, ONE_BY_ONE_MAX, OUTCOME_GRACE, OUTCOME_WAIT};
use crate::shop::{Called, CalledSide, SharedShop, Tellings};
use crate::tokens::TokenVault;
use crate::waiting::WaitingRoom;

/// The handle of a node.
#[derive(Clone)]
pub struct NodeHandle {
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) room: Arc<WaitingRoom>,
    pub(crate) reads: Arc<Reads>,
    pub(crate) health: Arc<Health>,
    /// How the delivery of callbacks is, which works beside the node.
    pub(crate) delivery: Option<Arc<Part>>,
    /// How many wait on threads of their own.
    pub(crate) one_by_one: Arc<AtomicUsize>,
    /// The vault, if this node takes requests.
    pub(crate) tokens: Option<TokenVault>,
    /// Who waits for the end of a checkout.
    pub(crate) ends: Arc<Ends>,
    /// The sides that this node calls over HTTP.
    pub(crate) called: Called,
    /// What is wrong with them.
    pub(crate) troubles: NotedTroubles,
    /// For ids that nobody else has.
    pub(crate) draws: Arc<Draws>,
}

/// A seat of a caller that waits on a thread of its own; given back when dropped.
pub(crate) struct WaitingSeat(Arc<AtomicUsize>);

impl Drop for WaitingSeat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl NodeHandle {
    /// How the parts are.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Where the delivery of callbacks tells how it is, if this node does that.
    #[must_use]
    pub const fn delivery(&self) -> Option<&Arc<Part>> {
        self.delivery.as_ref()
    }

    /// The vault that all nodes share, if this node takes requests.
    #[must_use]
    pub const fn tokens(&self) -> Option<&TokenVault> {
        self.tokens.as_ref()
    }

    /// The shop that all nodes share, if there is one and this node takes requests.
    #[must_use]
    pub fn shop(&self) -> Option<SharedShop> {
        let has_one = self.settings.topics.shop.is_some() && self.settings.roles.has(Role::Api);
        has_one.then(|| SharedShop { node: self.clone() })
    }

    /// A side that is called over HTTP, if this node does that.
    #[must_use]
    pub fn called(&self, side: Side) -> Option<CalledSide> {
        let asks = self.called.of(side)?;
        Some(CalledSide { node: self.clone(), side, asks: Arc::clone(asks) })
    }

    /// What is wrong with outside sides, as far as this node has asked them.
    #[must_use]
    pub const fn troubles(&self) -> &NotedTroubles {
        &self.troubles
    }

    /// Where ends of checkouts wait that somebody is to be told of, if this node does that.
    #[must_use]
    pub fn tellings(&self) -> Option<Tellings> {
        let tells = self.settings.store.tells_outcomes && self.settings.roles.has(Role::Callbacks);
        tells.then(|| Tellings { node: self.clone() })
    }

    /// How this node runs.
    #[must_use]
    pub fn settings(&self) -> &NodeSettings {
        &self.settings
    }

    /// Asks the database, on this thread.
    ///
    /// # Errors
    /// If all connections are in use for too long, or the database fails.
    pub fn ask<R>(&self, question: impl FnMut(&mut Store) -> Result<R, Error>) -> Result<R, ReadError> {
        self.reads.ask(question)
    }

    /// How many commands of callers at this node are on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.room.commands()
    }

    /// The node is about to end: who waits for the end of a checkout is told at once where it stands, who waits for tokens that there
    /// are none. Who waits for the outcome of a command nearly always has it within a moment, and is told after some seconds that it
    /// is not known.
    ///
    /// It holds nothing else of the node: its connections must not be the last thing that a runtime drops.
    pub fn end_waiting(&self) -> impl Future<Output = ()> + Send + use<> {
        let (ends, room) = (Arc::clone(&self.ends), Arc::clone(&self.room));
        let end_waiting_for_tokens = self.tokens.as_ref().map(TokenVault::end_waiting);
        async move {
            ends.close();
            if let Some(end_waiting) = end_waiting_for_tokens {
                end_waiting();
            }
            tokio::time::sleep(OUTCOME_GRACE).await;
            room.close();
        }
    }

    /// A place among those who wait on threads of their own; `None` if there is none.
    pub(crate) fn one_by_one(&self) -> Option<WaitingSeat> {
        let place = WaitingSeat(Arc::clone(&self.one_by_one));
        (place.0.fetch_add(1, Ordering::Relaxed) < ONE_BY_ONE_MAX).then_some(place)
    }

    /// A node without the role has nobody who would send what it takes.
    fn takes_requests(&self) -> Result<(), Refusal> {
        if self.settings.roles.has(Role::Api) {
            Ok(())
        } else {
            Err(Refusal::Closed("this node does not take requests: its roles do not include api".to_owned()))
        }
    }

    /// Has transfers decided; the answer is called with their outcomes, and `written` as soon as Kafka has them, if it does before
    /// they are given up. Panics if a command is about no transfer.
    pub(crate) fn submit(
        &self,
        commands: Vec<Command>,
        written: Option<Written>,
        answer: Answer,
    ) -> Result<(), Refusal> {
        self.wait_for(commands.len(), written, answer, |first| self.letters(first, commands))
    }

    /// Has a transfer's command written to the log; the answer is called, without outcomes, when it is durable.
    ///
    /// # Errors
    /// If it was not taken; the answer is not called then.
    ///
    /// # Panics
    /// If a command is about no transfer.
    pub fn write(&self, commands: Vec<Command>, answer: Answer) -> Result<(), Refusal> {
        self.takes_requests()?;
        self.put(self.letters(self.room.numbers(commands.len()), commands), answer)
    }

    /// Has a message written to the log; the answer is called when Kafka has it. For parts of the node itself: there must be
    /// somebody who sends it, whatever its roles.
    pub(crate) fn send(&self, message: &impl Message, answer: Answer) -> Result<(), Refusal> {
        self.put(vec![Letter::of(message)], answer)
    }

    fn put(&self, letters: Vec<Letter>, answer: Answer) -> Result<(), Refusal> {
        let messages =
            CallerMessages { letters, wants: Wants::Written(answer), written: None, since: Instant::now() };
        self.queue.put(messages)
    }

    /// Has limits and funds of an account decided, on the key of that position account.
    pub(crate) fn submit_admin(
        &self,
        account: AccountId,
        admin: Admin,
        answer: Answer,
    ) -> Result<(), Refusal> {
        if PositionMessage::admin(TraceId(0), account, admin).is_none() {
            // No account has that number.
            answer(Ok(vec![Outcome::refused(ErrorCode::IdNotFound)]));
            return Ok(());
        }
        self.wait_for(1, None, answer, |first| {
            let trace = self.room.trace(first);
            let message = PositionMessage::admin(trace, account, admin).expect("looked at above");
            vec![Letter::of(&message)]
        })
    }

    /// Has a command about an order decided.
    pub(crate) fn submit_order(
        &self,
        order: OrderId,
        command: OrderCommand,
        answer: Answer,
    ) -> Result<(), Refusal> {
        self.wait_for(1, None, answer, |first| {
            vec![Letter::of(&OrderMessage { trace: self.room.trace(first), order, command })]
        })
    }

    /// Commands as messages, with the traces of numbers from `first` on.
    fn letters(&self, first: u64, commands: Vec<Command>) -> Vec<Letter> {
        let numbered = (first..).zip(commands);
        numbered.map(|(number, command)| letter_of(self.room.trace(number), command)).collect()
    }

    fn wait_for(
        &self,
        count: usize,
        written: Option<Written>,
        answer: Answer,
        letters: impl FnOnce(u64) -> Vec<Letter>,
    ) -> Result<(), Refusal> {
        self.takes_requests()?;
        let since = Instant::now();
        let first = self.room.enter(count, since + OUTCOME_WAIT, answer)?;
        let messages =
            CallerMessages { letters: letters(first), wants: Wants::Outcomes(first), written, since };
        self.queue.put(messages).inspect_err(|_| self.room.withdraw(first))
    }
}

fn letter_of(trace: TraceId, command: Command) -> Letter {
    let command = match command {
        Command::Prepare(prepare) => TransferCommand::Prepare(prepare),
        Command::Fulfil(fulfil) => TransferCommand::Fulfil(fulfil),
        Command::Abort(abort) => TransferCommand::Abort(abort),
        Command::Lookup(lookup) => TransferCommand::Lookup(lookup),
        other => panic!("{other:?} is about no transfer"),
    };
    Letter::of(&TransferMessage { trace, command })
}
