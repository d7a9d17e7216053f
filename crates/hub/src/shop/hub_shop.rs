//! The shop of a hub: what goes to the log and what is asked between two frames.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use holdfast_domain::command::Command;
use holdfast_domain::ids::ParticipantId;
use holdfast_domain::participants::Name as ParticipantName;
use holdfast_domain::records::Sealed;
use holdfast_domain::shop::{
    Charging, CheckoutAnswer, CheckoutRow, OrderId, ShopCommand, ShopCounts, ShopOutcome, Side, Sides, TrNum,
};
use holdfast_domain::view::{Participants, ShopSettings, ShopSize};
use holdfast_engine::clock::Clock;
use holdfast_engine::{CheckoutTimes, NotedTroubles, OrderView, Shop, ShopError};
use holdfast_store::{LocalStore, Tables};
use holdfast_tokens::Draws;
use metrics::gauge;

use super::feed::{ShopEvents, ShopFeed};
use crate::core::Core;
use crate::intake::{Intake, stopped};
use crate::tokens::HubVault;

/// The shop of a hub. Cheap to clone.
#[derive(Clone)]
pub struct HubShop {
    pub(crate) intake: Arc<Intake>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) feed: Arc<ShopFeed>,
    pub(crate) times: CheckoutTimes,
    pub(crate) draws: Arc<Draws>,
    pub(crate) tokens: HubVault,
    /// Whether tokens pay, as far as was seen. The log is the judge.
    pub(crate) by_tokens: Arc<AtomicBool>,
    pub(crate) troubles: NotedTroubles,
}

impl HubShop {
    /// How that try stands, or a later one; `None` if the order was made anew since.
    pub(super) async fn standing(
        &self,
        order: OrderId,
        tr: TrNum,
    ) -> Result<Option<CheckoutAnswer>, ShopError> {
        let Some(OrderView { row, open }) = self.order(order).await? else { return Ok(None) };
        Ok(row.stands(open.as_deref(), tr))
    }

    /// Ends the waits of all callers, and of those who come later: the hub is ending. They are told where their checkouts
    /// stand.
    pub fn end_waiting(&self) {
        self.feed.ends.close();
    }

    /// Says which sides are outside from now on. Writes nothing if the log has it so already.
    ///
    /// # Errors
    /// If the hub takes nothing.
    pub async fn set_outside(&self, outside: Sides) -> Result<(), ShopError> {
        if self.outside().await? == outside {
            return Ok(());
        }
        match self.decide(ShopCommand::SetOutside { outside }).await? {
            ShopOutcome::Outside(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Which sides are outside by the log.
    ///
    /// # Errors
    /// If the hub takes no questions.
    pub async fn outside(&self) -> Result<Sides, ShopError> {
        self.ask(|core| core.store().outside()).await
    }

    /// Says what the payment side charges from now on, while it is inside. Writes nothing if the log has it so already: the
    /// secret that was drawn first stays.
    ///
    /// # Errors
    /// If the payee cannot be paid so, or the hub takes nothing.
    pub async fn set_charging(&self, charging: Charging) -> Result<(), ShopError> {
        if self.charging().await?.is_like(&charging) {
            return Ok(());
        }
        match self.decide(ShopCommand::SetCharging { charging }).await? {
            ShopOutcome::Charging(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// What the payment side charges by the log, while it is inside.
    ///
    /// # Errors
    /// If the hub takes no questions.
    pub async fn charging(&self) -> Result<Charging, ShopError> {
        self.ask(|core| core.store().charging()).await
    }

    /// The participant of that name, for who is to be paid; `None` if there is none.
    ///
    /// # Errors
    /// If the hub takes no questions.
    pub async fn participant(&self, name: ParticipantName) -> Result<Option<ParticipantId>, ShopError> {
        self.ask(move |core| core.store().participant_named(name).map(|row| row.id)).await
    }

    /// How many rows of each kind are in memory.
    ///
    /// # Errors
    /// If the hub takes no questions.
    pub async fn counts(&self) -> Result<ShopCounts, ShopError> {
        self.ask(|core| core.store().shop_counts()).await
    }

    /// How long this checkout may still stay undecided.
    #[must_use]
    pub fn time_left(&self, open: &CheckoutRow) -> Duration {
        Duration::from_millis(u64::try_from(open.deadline.saturating_sub(self.now())).unwrap_or(0))
    }

    /// Notes that a side gave no answer, and why; or, with `None`, that it did. Whether that is a change from well to not well.
    pub fn note_trouble(&self, side: Side, why: Option<&str>) -> bool {
        self.troubles.note(side, why)
    }

    /// What durable frames do from now on: messages for outside sides, and ends of checkouts. Whoever listens from a start on
    /// reads [`Shop::open_checkouts`] after this.
    #[must_use]
    pub fn listen(&self) -> ShopEvents {
        self.feed.listen()
    }

    /// Shows what is open to whoever gathers metrics. Counters move by themselves.
    ///
    /// # Errors
    /// If the hub takes no questions.
    #[allow(clippy::cast_precision_loss, reason = "gauges are for the eye")]
    pub async fn publish_metrics(&self) -> Result<(), ShopError> {
        let asked = self.ask(|core| (core.store().shop_counts(), core.store().open_checkouts(None, 1)));
        let (counts, oldest) = asked.await?;
        let age = oldest.first().map_or(0, |row| self.now().saturating_sub(row.started_at).max(0));
        gauge!("holdfast_checkouts_open").set(counts.checkouts as f64);
        gauge!("holdfast_checkout_oldest_seconds").set(age as f64 / 1_000.0);
        gauge!("holdfast_shop_users").set(counts.users as f64);
        gauge!("holdfast_shop_items").set(counts.items as f64);
        gauge!("holdfast_shop_orders_unpaid").set(counts.orders as f64);
        gauge!("holdfast_shop_idempotency_keys").set(counts.keys as f64);
        Ok(())
    }

    /// Asks between two frames; what it sees is durable.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Core<LocalStore>) -> T + Send + 'static,
    ) -> Result<T, ShopError> {
        Ok(self.intake.read(question).await?.ok_or_else(stopped)?)
    }

    pub(super) async fn decide_checkout(&self, command: ShopCommand) -> Result<CheckoutAnswer, ShopError> {
        match self.decide(command).await? {
            ShopOutcome::Checkout(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    /// Has a command decided, and keeps something until it is, whether anybody still waits or not.
    pub(super) async fn decide_keeping(
        &self,
        command: ShopCommand,
        keep: impl Send + 'static,
    ) -> Result<ShopOutcome, ShopError> {
        let records = Sealed::of(&[Command::Shop(Box::new(command))]);
        let outcomes = self.intake.decide(records, keep).await?;
        let outcome = outcomes.into_iter().next().and_then(|first| first.shop).ok_or_else(stopped)?;
        Ok(Arc::unwrap_or_clone(outcome))
    }
}

pub(super) fn unexpected(outcome: &ShopOutcome) -> ShopError {
    match outcome {
        ShopOutcome::Refused(refusal) => ShopError::Refused(refusal.clone()),
        _ => stopped().into(),
    }
}
