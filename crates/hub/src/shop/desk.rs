//! What the edges call: have it decided, wait if it stays open, read.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{Millis, ParticipantId};
use holdfast_domain::participants::Name as ParticipantName;
use holdfast_domain::records::Sealed;
use holdfast_domain::shop::callers::{
    CheckoutState, OpenCheckout, OpenCheckouts, PAGE_MAX, TOKENS_WAIT_MS, WAIT_MS_MAX,
};
use holdfast_domain::shop::limits::DEADLINE_MS_MAX;
use holdfast_domain::shop::{
    Charging, CheckoutAnswer, CheckoutOrder, CheckoutRow, ItemId, ItemRow, OrderId, Said, ShopCommand,
    ShopCounts, ShopOutcome, ShopRefusal, Side, Sides, TrNum, TryKey, UserId, UserRow,
};
use holdfast_domain::view::{Checkouts, Items, Orders, Participants, ShopSettings, ShopSize, Users};
use holdfast_engine::clock::Clock;
use holdfast_engine::{CheckoutRequest, CheckoutTimes, NotedTroubles, OrderView, Refusal, ShopError};
use holdfast_store::{LocalStore, Tables};
use metrics::gauge;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::feed::{ShopEvents, ShopFeed};
use crate::core::Core;
use crate::intake::{Query, Submission};
use crate::tokens::TokenDesk;

/// Takes submissions: the intake, without its type.
pub(crate) type Submit = Arc<dyn Fn(Submission) -> Result<(), Refusal> + Send + Sync>;
/// Takes questions.
pub(crate) type Ask = Arc<dyn Fn(Query<LocalStore>) -> Result<(), Refusal> + Send + Sync>;

fn unreadable(error: &impl std::fmt::Display) -> ShopError {
    ShopError::Unreadable(format!("a paid order cannot be read: {error}. Run `holdfast verify`"))
}

/// The shop, for the edges. Cheap to clone.
#[derive(Clone)]
pub struct ShopDesk {
    submit: Submit,
    ask: Ask,
    clock: Arc<dyn Clock>,
    feed: Arc<ShopFeed>,
    options: CheckoutTimes,
    draws: Arc<(RandomState, AtomicU64)>,
    pub(super) tokens: TokenDesk,
    /// Whether tokens pay, as far as was seen. The log is the judge.
    pub(super) by_tokens: Arc<AtomicBool>,
    pub(super) troubles: NotedTroubles,
}

impl ShopDesk {
    pub(crate) fn new(
        submit: Submit,
        ask: Ask,
        clock: Arc<dyn Clock>,
        feed: Arc<ShopFeed>,
        options: CheckoutTimes,
        tokens: TokenDesk,
    ) -> ShopDesk {
        let draws = Arc::new((RandomState::new(), AtomicU64::new(0)));
        let by_tokens = Arc::new(AtomicBool::new(false));
        let troubles = NotedTroubles::default();
        ShopDesk { submit, ask, clock, feed, options, draws, tokens, by_tokens, troubles }
    }

    /// The wall clock.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.clock.read().wall
    }

    /// The options of the shop.
    #[must_use]
    pub const fn options(&self) -> &CheckoutTimes {
        &self.options
    }

    /// A number drawn at random.
    #[must_use]
    pub fn draw(&self) -> u64 {
        self.draws.0.hash_one(self.draws.1.fetch_add(1, Ordering::Relaxed))
    }

    /// A UUID as text, for a new user, item or order.
    #[must_use]
    pub fn new_id(&self) -> String {
        let drawn = u128::from(self.draw()) << 64 | u128::from(self.draw());
        // Version 4, variant 1, as RFC 9562 has them for random ones.
        let id = drawn & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let part = |shift: u32, bits: u32| id >> shift & ((1 << bits) - 1);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            part(96, 32),
            part(80, 16),
            part(64, 16),
            part(48, 16),
            part(0, 48)
        )
    }

    /// Checks an order out, or joins the try that is under way. Returns when it is decided and, if it failed, everything is
    /// given back; or, as [`CheckoutAnswer::Open`], when the caller's wait ends first.
    ///
    /// # Errors
    /// If there is no such order, or the key was used with another request; or, where tokens pay, if others hold them for longer
    /// than it waits for them ([`ShopRefusal::ChooseTokens`]: nothing was tried).
    pub async fn checkout(&self, request: CheckoutRequest) -> Result<CheckoutAnswer, ShopError> {
        let CheckoutRequest { order, deadline_ms, wait_ms, tokens_wait_ms, key } = request;
        let wait = wait_ms.unwrap_or(self.options.wait_ms).min(WAIT_MS_MAX);
        // One wait, for tokens and for the end together.
        let until = Instant::now() + Duration::from_millis(u64::from(wait));
        let deadline_ms = deadline_ms.unwrap_or(self.options.deadline_ms).clamp(1, DEADLINE_MS_MAX);
        // Before it is decided: an end that comes right after it must not be missed.
        let mut waiter = self.feed.wait_for(&order);
        let command = CheckoutOrder { order: order.clone(), deadline_ms, key, chosen: None };
        let answer = self.decide_paid(command, tokens_wait_ms.unwrap_or(wait)).await?;
        let CheckoutAnswer::Open { tr, .. } = answer else { return Ok(answer) };
        match tokio::time::timeout_at(until, waiter.end_of(tr)).await {
            Ok(Some(end)) => Ok(end),
            Ok(None) | Err(_) => {
                // It may have ended together with the wait.
                let standing = match self.standing(order, tr).await {
                    // It was tried: nobody is to read out of a refusal that it was not.
                    Err(ShopError::Hub(Refusal::Busy)) => None,
                    Err(ShopError::Hub(refusal)) => {
                        return Err(Refusal::Unknown(refusal.to_string()).into());
                    }
                    standing => standing?,
                };
                Ok(waiter.ended(tr).or(standing).unwrap_or(answer))
            }
        }
    }

    /// How that try stands, or a later one; `None` if the order was made anew since.
    async fn standing(&self, order: OrderId, tr: TrNum) -> Result<Option<CheckoutAnswer>, ShopError> {
        let Some(OrderView { row, open }) = self.order(order).await? else { return Ok(None) };
        Ok(row.stands(open.as_deref(), tr))
    }

    /// Ends the waits of all callers, and of those who come later: the hub is ending. They are told where their checkouts
    /// stand.
    pub fn end_waiting(&self) {
        self.feed.end_waiting();
    }

    /// An outside participant answers. Gives whether that counted, and how the checkout stands.
    ///
    /// # Errors
    /// If order or try are not known, or the side is inside for that try.
    pub async fn answer(
        &self,
        key: TryKey,
        side: Side,
        said: Said,
    ) -> Result<(bool, CheckoutAnswer), ShopError> {
        match self.decide(ShopCommand::Answer { key, side, said }).await? {
            ShopOutcome::Heard { counts, now } => Ok((counts, now)),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends a try that is not decided. What it took is given back; where that takes an outside side's answer, this does not
    /// wait for it.
    ///
    /// # Errors
    /// If there is no such order, or nothing undecided under way.
    pub async fn cancel(&self, order: OrderId) -> Result<CheckoutAnswer, ShopError> {
        self.decide_checkout(ShopCommand::Cancel { order }).await
    }

    /// Has what was not answered sent again, or a failed order checked out anew. Does not wait for its end.
    ///
    /// # Errors
    /// If there is no such order, or it is paid, or was never tried.
    pub async fn retry(&self, order: OrderId) -> Result<CheckoutAnswer, ShopError> {
        let deadline_ms = self.options.deadline_ms;
        match self.decide_checkout(ShopCommand::Retry { order: order.clone(), deadline_ms }).await {
            Err(ShopError::Refused(ShopRefusal::ChooseTokens { .. })) => {
                let command = CheckoutOrder { order, deadline_ms, key: None, chosen: None };
                self.decide_with_tokens(command, TOKENS_WAIT_MS).await
            }
            other => other,
        }
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

    /// A user; `None` if there is none of that id.
    ///
    /// # Errors
    /// If the hub takes no questions.
    pub async fn user(&self, id: UserId) -> Result<Option<UserRow>, ShopError> {
        self.ask(move |core| core.store().user(&id).cloned()).await
    }

    /// An item; `None` if there is none of that id.
    ///
    /// # Errors
    /// If the hub takes no questions.
    pub async fn item(&self, id: ItemId) -> Result<Option<ItemRow>, ShopError> {
        self.ask(move |core| core.store().item(&id).cloned()).await
    }

    /// An order, paid or not; `None` if there is none of that id.
    ///
    /// # Errors
    /// If the hub takes no questions, or the disk does not hold what was written to it.
    pub async fn order(&self, id: OrderId) -> Result<Option<OrderView>, ShopError> {
        let asked = self.ask(move |core| {
            let store = core.store();
            (store.seek_order(&id), store.checkout(&id).cloned())
        });
        let (sought, open) = asked.await?;
        let read = if sought.is_on_disk() {
            let read = tokio::task::spawn_blocking(move || sought.get()).await;
            read.map_err(|error| unreadable(&error))?
        } else {
            sought.get()
        };
        let row = read.map_err(|error| unreadable(&error))?;
        Ok(row.map(|row| OrderView { row, open }))
    }

    /// Open checkouts, the oldest first, after the one that began at `after`; at most `max` and
    /// [`PAGE_MAX`]. With a state a page may hold fewer, or none, and yet have a next one.
    ///
    /// # Errors
    /// If the hub takes no questions.
    pub async fn open_checkouts(
        &self,
        state: Option<CheckoutState>,
        after: Option<u64>,
        max: usize,
    ) -> Result<OpenCheckouts<u64>, ShopError> {
        let now = self.now();
        self.ask(move |core| page(core.store(), state, after, max.min(PAGE_MAX), now)).await
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

    /// What durable frames do from now on: messages for outside sides, and ends of checkouts. Whoever listens from a start on
    /// reads [`ShopDesk::open_checkouts`] after this.
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
        let (send, receive) = oneshot::channel();
        // Whoever asked may have gone meanwhile.
        (self.ask)(Box::new(move |core| drop(send.send(question(core)))))?;
        receive.await.map_err(|_| stopped())
    }

    pub(super) async fn decide_checkout(&self, command: ShopCommand) -> Result<CheckoutAnswer, ShopError> {
        match self.decide(command).await? {
            ShopOutcome::Checkout(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    /// Has a command decided that is no checkout. A refusal is an outcome.
    ///
    /// # Errors
    /// If the hub takes nothing, or it is not known whether it did.
    pub async fn decide(&self, command: ShopCommand) -> Result<ShopOutcome, ShopError> {
        self.decide_keeping(command, ()).await
    }

    /// Has a command decided, and keeps something until it is, whether anybody still waits or not.
    pub(super) async fn decide_keeping(
        &self,
        command: ShopCommand,
        keep: impl Send + 'static,
    ) -> Result<ShopOutcome, ShopError> {
        let records = Sealed::of(&[Command::Shop(Box::new(command))]);
        let (send, receive) = oneshot::channel();
        let answer = Box::new(move |outcomes: Result<Vec<Outcome>, Refusal>| {
            drop(keep);
            let first = outcomes.map(|outcomes| outcomes.into_iter().next().and_then(|first| first.shop));
            // Whoever asked may have gone meanwhile; it is decided all the same.
            drop(send.send(first));
        });
        (self.submit)(Submission::new(records, answer))?;
        let outcome = receive.await.map_err(|_| stopped())??.ok_or_else(stopped)?;
        Ok(Arc::unwrap_or_clone(outcome))
    }
}

/// Open checkouts after that one. Each page looks at no more than it may show, so that a filter costs the writer no more.
fn page(
    store: &LocalStore,
    state: Option<CheckoutState>,
    after: Option<u64>,
    max: usize,
    now: Millis,
) -> OpenCheckouts<u64> {
    let seen = store.open_checkouts(after, max);
    let next = seen.last().map(|row| row.start).filter(|_| seen.len() == max);
    let is_wanted = |row: &Arc<CheckoutRow>| match state {
        None => true,
        Some(CheckoutState::Pending) => row.undo.is_none(),
        Some(CheckoutState::Cancelling) => row.undo.is_some(),
    };
    let wanted = seen.into_iter().filter(is_wanted);
    let with_order = |row: Arc<CheckoutRow>| {
        let order = store.order(&row.order).expect("the order of an open checkout is there").clone();
        OpenCheckout { row, order }
    };
    OpenCheckouts { checkouts: wanted.map(with_order).collect(), next, now }
}

fn stopped() -> ShopError {
    ShopError::Hub(Refusal::Unknown("the hub stopped".to_owned()))
}

pub(super) fn unexpected(outcome: &ShopOutcome) -> ShopError {
    match outcome {
        ShopOutcome::Refused(refusal) => ShopError::Refused(refusal.clone()),
        _ => stopped(),
    }
}
