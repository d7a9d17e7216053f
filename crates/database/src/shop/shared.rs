//! What callers of the shop ask, as the port has it.

use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{Millis, TransferId};
use holdfast_domain::shop::callers::{CheckoutState, OpenCheckouts, PAGE_MAX, WAIT_MS_MAX};
use holdfast_domain::shop::limits::DEADLINE_MS_MAX;
use holdfast_domain::shop::{
    CheckoutAnswer, CheckoutRow, ItemId, ItemRow, Message, Order, OrderId, OrderRow, OrderState, Said,
    ShopCommand, ShopOutcome, ShopRefusal, Side, TrNum, TryKey, UserId, UserRow, spoken,
};
use holdfast_engine::{
    Answer, CheckoutRequest, CheckoutTimes, OrderView, Refusal, Shop, ShopError, Shopping, Troubles,
};
use holdfast_messages::{OrderCommand, OutcomeMessage};
use holdfast_postgres::{Error, Store};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::limits::BEGIN_WAIT_MIN;
use super::trouble::{after_sending, unknown};
use crate::handle::NodeHandle;
use crate::reads::ReadError;
use crate::tokens::TokenVault;

/// The shop of all nodes, seen from one. Cheap to clone.
#[derive(Clone)]
pub struct SharedShop {
    pub(crate) node: NodeHandle,
}

fn ended() -> ShopError {
    unknown("the node is ending, or the threads that would have answered are gone")
}

/// Asks the database, on a thread that may wait.
pub(super) async fn asked<T: Send + 'static>(
    node: &NodeHandle,
    question: impl FnMut(&mut Store) -> Result<T, Error> + Send + 'static,
) -> Result<T, ShopError> {
    let node = node.clone();
    let asked = tokio::task::spawn_blocking(move || node.ask(question)).await;
    Ok(asked.map_err(|_| ended())??)
}

/// Has the log know what a side outside said about a try of that order; returns when Kafka has it.
pub(super) async fn publish(
    node: &NodeHandle,
    order: &Order,
    key: TryKey,
    side: Side,
    said: Said,
) -> Result<(), ShopError> {
    let message = Message { key, body: spoken(order, side, said) };
    let message = OutcomeMessage::new(message).expect("a side answers on outcomes");
    // Whoever has gone away asks the side again.
    answered(|answer| node.send(&message, answer)).await.map(drop)
}

/// Puts something in line and waits for its answer. A caller that has gone away misses it and will ask again.
async fn answered(put: impl FnOnce(Answer) -> Result<(), Refusal> + Send) -> Result<Vec<Outcome>, ShopError> {
    let (send, receive) = oneshot::channel();
    put(Box::new(move |outcomes| drop(send.send(outcomes))))?;
    Ok(receive.await.map_err(|_| ended())??)
}

impl Shop for SharedShop {
    fn times(&self) -> CheckoutTimes {
        self.node.settings().checkout
    }

    /// The database's time, as this node estimates it. The vault keeps the estimate; both are there where requests are taken.
    fn now(&self) -> Millis {
        self.node.tokens().map_or(0, TokenVault::now)
    }

    fn draw(&self) -> u64 {
        self.node.draws.draw()
    }

    fn new_id(&self) -> String {
        TransferId(self.node.draws.uuid()).to_string()
    }

    fn troubles(&self) -> Troubles {
        self.node.troubles().seen()
    }

    fn decide(&self, command: ShopCommand) -> Shopping<'_, ShopOutcome> {
        let node = self.node.clone();
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || node.reads.write(|store| store.shop(&command)));
            done.await.map_err(|_| ended())?.map_err(|error| match error {
                ReadError::Busy | ReadError::Store(Error::Busy { .. }) => Refusal::Busy.into(),
                // It is a command: the failure may have come after its commit.
                ReadError::Store(error) => unknown(error.to_string()),
            })
        })
    }

    fn checkout(&self, request: CheckoutRequest) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(self.check_out(request))
    }

    /// The try that is open now, and no later one, however late the command comes or how often.
    fn cancel(&self, order: OrderId) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(async move {
            let found = self.order_row(order.clone()).await?;
            let (row, _) = found.ok_or_else(|| ShopRefusal::UnknownOrder(order.clone()))?;
            let state = row.order.state;
            let OrderState::Pending(tr) = state else {
                return Err(ShopRefusal::NotNow { order, state }.into());
            };
            self.command(&order, OrderCommand::Cancel { tr: Some(tr) }).await
        })
    }

    fn retry(&self, order: OrderId) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(async move {
            let deadline_ms = self.times().deadline_ms.clamp(1, DEADLINE_MS_MAX);
            self.command(&order, OrderCommand::Retry { deadline_ms }).await
        })
    }

    fn answer(&self, key: TryKey, side: Side, said: Said) -> Shopping<'_, (bool, CheckoutAnswer)> {
        Box::pin(self.hear(key, side, said))
    }

    fn user(&self, id: UserId) -> Shopping<'_, Option<UserRow>> {
        Box::pin(self.asked(move |store| store.find_user(&id)))
    }

    fn item(&self, id: ItemId) -> Shopping<'_, Option<ItemRow>> {
        Box::pin(self.asked(move |store| store.find_item(&id)))
    }

    fn order(&self, id: OrderId) -> Shopping<'_, Option<OrderView>> {
        Box::pin(async move {
            let found = self.order_row(id).await?;
            Ok(found.map(|(row, open)| OrderView { row, open: open.map(Arc::new) }))
        })
    }

    /// A place is when the last checkout before it began, and its order.
    fn open_checkouts(
        &self,
        state: Option<CheckoutState>,
        after: Option<String>,
        limit: usize,
    ) -> Shopping<'_, OpenCheckouts<String>> {
        Box::pin(async move {
            let place = |text: String| place_of(&text).ok_or(ShopError::NoSuchPage(text));
            let (after, limit) = (after.map(place).transpose()?, limit.min(PAGE_MAX));
            let page = self.asked(move |store| store.open_checkouts(state, after.as_ref(), limit));
            let OpenCheckouts { checkouts, next, now } = page.await?;
            Ok(OpenCheckouts { checkouts, next: next.map(|(began, order)| format!("{began} {order}")), now })
        })
    }
}

fn place_of(text: &str) -> Option<(Millis, OrderId)> {
    let (began, order) = text.split_once(' ')?;
    let order = Some(order).filter(|order| !order.contains('\0'))?;
    Some((began.parse().ok()?, order.parse().ok()?))
}

impl SharedShop {
    async fn asked<T: Send + 'static>(
        &self,
        question: impl FnMut(&mut Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ShopError> {
        asked(&self.node, question).await
    }

    async fn check_out(&self, request: CheckoutRequest) -> Result<CheckoutAnswer, ShopError> {
        let CheckoutRequest { order, deadline_ms, wait_ms, key, .. } = request;
        let times = self.times();
        let wait_ms = wait_ms.unwrap_or(times.wait_ms).min(WAIT_MS_MAX);
        let until = Instant::now() + Duration::from_millis(wait_ms.into());
        // Before it is asked for: an end that comes right after it must not be missed.
        let mut waiter = self.node.ends.wait_for(&order)?;
        let deadline_ms = deadline_ms.unwrap_or(times.deadline_ms).clamp(1, DEADLINE_MS_MAX);
        let begun_by = until.max(Instant::now() + BEGIN_WAIT_MIN);
        let asked = self.command(&order, OrderCommand::Checkout { deadline_ms, key });
        let answer = match timeout_at(begun_by, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(ShopError::Hub(Refusal::Unknown(_)))) | Err(_) => return self.begun(order).await,
            Ok(Err(trouble)) => return Err(trouble),
        };
        let CheckoutAnswer::Open { tr, .. } = answer else { return Ok(answer) };
        match timeout_at(until, waiter.end_of(tr)).await {
            Ok(Some(end)) => Ok(end),
            // It may have ended together with the wait. If nobody can say, it is as it was.
            Ok(None) | Err(_) => Ok(self.standing(order, tr).await.unwrap_or(answer)),
        }
    }

    async fn command(&self, order: &OrderId, command: OrderCommand) -> Result<CheckoutAnswer, ShopError> {
        let submit = |answer| self.node.submit_order(order.clone(), command, answer);
        let mut outcomes = answered(submit).await?;
        match outcomes.pop().and_then(|Outcome { shop, .. }| shop).as_deref() {
            Some(ShopOutcome::Checkout(answer)) => Ok(*answer),
            Some(ShopOutcome::Refused(refusal)) => Err(refusal.clone().into()),
            other => Err(unknown(format!("another answer than asked for: {other:?}"))),
        }
    }

    /// How the open try of an order stands, for a caller whose command was not answered in time.
    async fn begun(&self, order: OrderId) -> Result<CheckoutAnswer, ShopError> {
        let found = self.order_row(order).await.map_err(after_sending)?;
        let open = found.as_ref().and_then(|(row, open)| row.stands(open.as_ref(), open.as_ref()?.tr));
        let why = "the checkout was not begun in time and may begin yet: check the same order out again, with its key if it had \
                   one; an order is paid at most once";
        open.ok_or_else(|| unknown(why))
    }

    /// How that try stands, or a later one; `None` if the order was made anew since.
    async fn standing(&self, order: OrderId, tr: TrNum) -> Option<CheckoutAnswer> {
        let (row, open) = self.order_row(order).await.ok()??;
        row.stands(open.as_ref(), tr)
    }

    /// An order and its open checkout; `None` if there is none of that id.
    pub(super) async fn order_row(
        &self,
        id: OrderId,
    ) -> Result<Option<(OrderRow, Option<CheckoutRow>)>, ShopError> {
        self.asked(move |store| store.find_order(&id)).await
    }
}
