//! What the edges call.

use std::time::Duration;

use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::callers::{PAGE_MAX, WAIT_MS_MAX};
use holdfast_domain::shop::limits::DEADLINE_MS_MAX;
use holdfast_domain::shop::{
    CheckoutAnswer, CheckoutRow, IdempotencyKey, ItemId, ItemRow, Message, Order, OrderId, OrderRow,
    OrderState, Said, ShopCommand, ShopOutcome, ShopRefusal, Side, SideSaid, TrNum, TryKey, UserId, UserRow,
    Why, spoken,
};
use holdfast_messages::{OrderCommand, OutcomeMessage};
use holdfast_postgres::shop::{OpenCheckouts, OpenState};
use holdfast_postgres::{Error, Store};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::limits::{BEGIN_WAIT_MIN, HEARD_LOOK_EVERY, HEARD_WAIT};
use crate::handle::NodeHandle;
use crate::meters::answer_repeated;
use crate::reads::ReadError;
use crate::tokens::TokenVault;
use crate::waiting::Refusal;

/// A call to check out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    /// The order.
    pub order: OrderId,
    /// How long it may stay undecided.
    pub deadline_ms: u32,
    /// How long the caller waits for its end; 0: not at all.
    pub wait_ms: u32,
    /// Under which key it is asked for.
    pub key: Option<IdempotencyKey>,
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShopTrouble {
    /// The shop says no.
    Refused(ShopRefusal),
    /// Too much is on its way; nothing was done.
    Busy,
    /// Whether it was done is not known.
    Unknown(String),
}

impl From<ShopRefusal> for ShopTrouble {
    fn from(refusal: ShopRefusal) -> ShopTrouble {
        ShopTrouble::Refused(refusal)
    }
}

impl From<Refusal> for ShopTrouble {
    fn from(refusal: Refusal) -> ShopTrouble {
        match refusal {
            Refusal::Busy => ShopTrouble::Busy,
            other => ShopTrouble::Unknown(other.to_string()),
        }
    }
}

impl From<ReadError> for ShopTrouble {
    fn from(error: ReadError) -> ShopTrouble {
        match error {
            ReadError::Busy | ReadError::Store(Error::Busy { .. }) => ShopTrouble::Busy,
            ReadError::Store(error) => ShopTrouble::Unknown(error.to_string()),
        }
    }
}

/// Whether what a side said about a try is what counts, now that something was heard from that side or the try is over. Another
/// may have said something else at the same time, and was first.
fn counted(
    (side, said): (Side, Said),
    tr: TrNum,
    open: Option<&CheckoutRow>,
    stands: &CheckoutAnswer,
) -> bool {
    if let Some(open) = open.filter(|open| open.tr == tr) {
        let heard = open.side(side);
        return match said {
            Said::Taken => heard.said == Some(SideSaid::Taken),
            Said::Refused => heard.said == Some(SideSaid::Refused),
            Said::Undone => heard.undone,
        };
    }
    let refused = match (stands, side) {
        (CheckoutAnswer::Failed { tr: of, why: Why::Both }, _)
        | (CheckoutAnswer::Failed { tr: of, why: Why::Pay }, Side::Pay)
        | (CheckoutAnswer::Failed { tr: of, why: Why::Stock }, Side::Stock) => *of == tr,
        _ => false,
    };
    match said {
        Said::Taken => stands.tr() == tr && !refused,
        Said::Refused => refused,
        // A try that failed is over when all is given back.
        Said::Undone => !matches!(stands, CheckoutAnswer::Paid { tr: of } if *of == tr),
    }
}

/// The shop of all nodes, seen from one. Cheap to clone.
#[derive(Clone)]
pub struct SharedShop {
    pub(crate) node: NodeHandle,
}

fn ended() -> ShopTrouble {
    ShopTrouble::Unknown("the node is ending, or the threads that would have answered are gone".to_owned())
}

/// Asks the database, on a thread that may wait.
pub(super) async fn asked<T: Send + 'static>(
    node: &NodeHandle,
    question: impl FnMut(&mut Store) -> Result<T, Error> + Send + 'static,
) -> Result<T, ShopTrouble> {
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
) -> Result<(), ShopTrouble> {
    let message = Message { key, body: spoken(order, side, said) };
    let message = OutcomeMessage::new(message).expect("a side answers on outcomes");
    let (send, receive) = oneshot::channel();
    let answer = Box::new(move |written| {
        // Whoever has gone away asks the side again.
        let _: Result<(), _> = send.send(written);
    });
    node.send(&message, answer)?;
    receive.await.map_err(|_| ended())??;
    Ok(())
}

impl SharedShop {
    /// The database's time, as this node estimates it. The vault keeps the estimate; both are there where requests are taken.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.node.tokens().map_or(0, TokenVault::now)
    }

    /// A UUID as text, for a new user, item or order.
    #[must_use]
    pub fn new_id(&self) -> String {
        holdfast_domain::ids::TransferId(self.node.draws.uuid()).to_string()
    }

    async fn asked<T: Send + 'static>(
        &self,
        question: impl FnMut(&mut Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ShopTrouble> {
        asked(&self.node, question).await
    }

    /// Has a command decided that is no checkout. A refusal is an outcome.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn decide(&self, command: ShopCommand) -> Result<ShopOutcome, ShopTrouble> {
        let node = self.node.clone();
        let done = tokio::task::spawn_blocking(move || node.reads.write(|store| store.shop(&command))).await;
        Ok(done.map_err(|_| ended())??)
    }

    /// A number drawn at random.
    #[must_use]
    pub fn draw(&self) -> u64 {
        self.node.draws.draw()
    }

    /// Checks an order out, or joins the try that is under way. Returns when it is decided and, if it failed, everything is
    /// given back; or, as [`CheckoutAnswer::Open`], when the caller's wait ends first.
    ///
    /// # Errors
    /// If there is no such order, or the key was used with another request.
    pub async fn checkout(&self, asking: Asking) -> Result<CheckoutAnswer, ShopTrouble> {
        let Asking { order, deadline_ms, wait_ms, key } = asking;
        let until = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX).into());
        // Before it is asked for: an end that comes right after it must not be missed.
        let mut waiter = self.node.ends.wait_for(&order).ok_or(ShopTrouble::Busy)?;
        let deadline_ms = deadline_ms.clamp(1, DEADLINE_MS_MAX);
        let begun_by = until.max(Instant::now() + BEGIN_WAIT_MIN);
        let asked = self.command(&order, OrderCommand::Checkout { deadline_ms, key });
        let Ok(answer) = timeout_at(begun_by, asked).await else { return self.begun(order).await };
        let answer = answer?;
        let CheckoutAnswer::Open { tr, .. } = answer else { return Ok(answer) };
        match timeout_at(until, waiter.end_of(tr)).await {
            Ok(Some(end)) => Ok(end),
            // It may have ended together with the wait. If nobody can say, it is as it was.
            Ok(None) | Err(_) => Ok(self.standing(order, tr).await.unwrap_or(answer)),
        }
    }

    /// Ends a checkout that is not decided: the try that is open now, and no later one, however late the command comes or how
    /// often.
    ///
    /// # Errors
    /// If there is no such order, or nothing of it can be ended.
    pub async fn cancel(&self, order: OrderId) -> Result<CheckoutAnswer, ShopTrouble> {
        let found = self.order(order.clone()).await?;
        let (row, _) = found.ok_or_else(|| ShopRefusal::UnknownOrder(order.clone()))?;
        let state = row.order.state;
        let OrderState::Pending(tr) = state else { return Err(ShopRefusal::NotNow { order, state }.into()) };
        self.command(&order, OrderCommand::Cancel { tr: Some(tr) }).await
    }

    /// Has what was not answered sent again, or a failed order checked out anew.
    ///
    /// # Errors
    /// As [`SharedShop::cancel`].
    pub async fn retry(&self, order: OrderId, deadline_ms: u32) -> Result<CheckoutAnswer, ShopTrouble> {
        let deadline_ms = deadline_ms.clamp(1, DEADLINE_MS_MAX);
        self.command(&order, OrderCommand::Retry { deadline_ms }).await
    }

    async fn command(&self, order: &OrderId, command: OrderCommand) -> Result<CheckoutAnswer, ShopTrouble> {
        let (send, receive) = oneshot::channel();
        let answer = Box::new(move |outcomes| {
            // A caller that has gone away misses its answer and will ask again.
            let _: Result<(), _> = send.send(outcomes);
        });
        self.node.submit_order(order.clone(), command, answer)?;
        let mut outcomes = receive.await.map_err(|_| ended())??;
        match outcomes.pop().and_then(|Outcome { shop, .. }| shop).as_deref() {
            Some(ShopOutcome::Checkout(answer)) => Ok(*answer),
            Some(ShopOutcome::Refused(refusal)) => Err(refusal.clone().into()),
            other => Err(ShopTrouble::Unknown(format!("another answer than asked for: {other:?}"))),
        }
    }

    /// An outside side answers about a try, at whichever node. Gives whether that counted, and how the checkout stands. It goes by
    /// the log, where what was recorded first counts; this waits until the order's row shows it.
    ///
    /// # Errors
    /// If order or try are not known, or the side is inside; or if it is not known whether it was heard: say it again.
    pub async fn answer(
        &self,
        key: TryKey,
        side: Side,
        said: Said,
    ) -> Result<(bool, CheckoutAnswer), ShopTrouble> {
        let unknown = || ShopRefusal::UnknownOrder(key.order_id.clone());
        let (row, open) = self.order(key.order_id.clone()).await?.ok_or_else(unknown)?;
        if row.order.state.tr_num() < Some(key.tr_num) {
            return Err(ShopRefusal::UnknownTry(key.order_id).into());
        }
        if row.is_of_an_earlier(key.tr_num) {
            return Err(ShopRefusal::Replaced(key.order_id).into());
        }
        let stands = row.stands(open.as_ref(), key.tr_num).ok_or_else(unknown)?;
        let Some(open) = open.filter(|open| open.tr == key.tr_num) else {
            answer_repeated();
            return Ok((false, stands));
        };
        if !self.node.settings.store.outside.has(side) {
            return Err(ShopRefusal::NotOutside(side).into());
        }
        if said == Said::Undone && open.undo.is_none() {
            // Nobody has asked for that yet. In the log it would be taken for the answer once somebody has.
            answer_repeated();
            return Ok((false, stands));
        }
        publish(&self.node, &row.order, key.clone(), side, said).await?;
        let before = open.side(side);
        let is_new = match said {
            Said::Taken | Said::Refused => before.said.is_none(),
            Said::Undone => !before.undone,
        };
        if !is_new {
            answer_repeated();
            return Ok((false, stands));
        }
        let until = Instant::now() + HEARD_WAIT;
        loop {
            let (row, now) = self.order(key.order_id.clone()).await?.ok_or_else(unknown)?;
            let is_heard = now.as_ref().is_none_or(|now| now.tr != key.tr_num || now.side(side) != before);
            if is_heard {
                let stands = row.stands(now.as_ref(), key.tr_num).ok_or_else(unknown)?;
                let counted = counted((side, said), key.tr_num, now.as_ref(), &stands);
                if !counted {
                    answer_repeated();
                }
                return Ok((counted, stands));
            }
            if Instant::now() >= until {
                let why = "the log has the answer, but it was not heard yet; say it again";
                return Err(ShopTrouble::Unknown(why.to_owned()));
            }
            tokio::time::sleep(HEARD_LOOK_EVERY).await;
        }
    }

    /// How the open try of an order stands, for a caller whose command was not answered in time.
    async fn begun(&self, order: OrderId) -> Result<CheckoutAnswer, ShopTrouble> {
        let found = self.order(order).await?;
        let open = found.as_ref().and_then(|(row, open)| row.stands(open.as_ref(), open.as_ref()?.tr));
        let why = "the checkout was not begun in time and may begin yet; look, or check out again with the same key";
        open.ok_or_else(|| ShopTrouble::Unknown(why.to_owned()))
    }

    /// How that try stands, or a later one; `None` if the order was made anew since.
    async fn standing(&self, order: OrderId, tr: TrNum) -> Option<CheckoutAnswer> {
        let (row, open) = self.order(order).await.ok()??;
        row.stands(open.as_ref(), tr)
    }

    /// A user; `None` if there is none of that id.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn user(&self, id: UserId) -> Result<Option<UserRow>, ShopTrouble> {
        self.asked(move |store| store.find_user(&id)).await
    }

    /// An item; `None` if there is none of that id.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn item(&self, id: ItemId) -> Result<Option<ItemRow>, ShopTrouble> {
        self.asked(move |store| store.find_item(&id)).await
    }

    /// An order and its open checkout; `None` if there is none of that id.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn order(&self, id: OrderId) -> Result<Option<(OrderRow, Option<CheckoutRow>)>, ShopTrouble> {
        self.asked(move |store| store.find_order(&id)).await
    }

    /// A page of open checkouts of all nodes, the oldest first.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn open_checkouts(
        &self,
        state: Option<OpenState>,
        after: Option<(Millis, OrderId)>,
        limit: usize,
    ) -> Result<OpenCheckouts, ShopTrouble> {
        let limit = limit.min(PAGE_MAX);
        self.asked(move |store| store.open_checkouts(state, after.as_ref(), limit)).await
    }
}

#[cfg(test)]
mod tests {
    use holdfast_domain::shop::{SideRow, Sides};

    use super::*;

    fn open(pay: Option<SideSaid>, undone: bool) -> CheckoutRow {
        CheckoutRow {
            order: "o".parse().unwrap(),
            tr: TrNum::FIRST,
            start: 0,
            started_at: 0,
            deadline: 9,
            outside: Sides { pay: true, stock: true },
            pay: SideRow { said: pay, undone, branch: None },
            stock: SideRow::default(),
            undo: None,
            why: None,
            waits_since: 0,
            keys: Vec::new(),
            charge: None,
        }
    }

    #[test]
    fn what_counts_is_what_the_row_has() {
        let (tr, next) = (TrNum::FIRST, TrNum::FIRST.next().unwrap());
        let row = open(Some(SideSaid::Refused), false);
        let standing = CheckoutAnswer::Open { tr, waits: row.waits() };
        let now = |said| counted((Side::Pay, said), tr, Some(&row), &standing);
        assert_eq!([Said::Taken, Said::Refused, Said::Undone].map(now), [false, true, false]);
        assert!(counted((Side::Pay, Said::Undone), tr, Some(&open(None, true)), &standing));
        let over = |said, stands| counted((Side::Pay, said), tr, None, &stands);
        for (stands, counts) in [
            (CheckoutAnswer::Paid { tr }, [true, false, false]),
            (CheckoutAnswer::Failed { tr, why: Why::Pay }, [false, true, true]),
            (CheckoutAnswer::Failed { tr, why: Why::Both }, [false, true, true]),
            (CheckoutAnswer::Failed { tr, why: Why::Stock }, [true, false, true]),
            (CheckoutAnswer::Failed { tr, why: Why::Deadline }, [true, false, true]),
            (CheckoutAnswer::Paid { tr: next }, [false, false, true]),
        ] {
            let found = [Said::Taken, Said::Refused, Said::Undone].map(|said| over(said, stands));
            assert_eq!(found, counts, "{stands:?}");
        }
    }
}
