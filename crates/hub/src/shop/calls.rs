//! What callers of the shop ask, as the port has it: have it decided, wait if it stays open, read.

use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::ids::{Millis, TransferId};
use holdfast_domain::shop::callers::{
    CheckoutState, OpenCheckout, OpenCheckouts, PAGE_MAX, TOKENS_WAIT_MS, WAIT_MS_MAX,
};
use holdfast_domain::shop::limits::DEADLINE_MS_MAX;
use holdfast_domain::shop::{
    CheckoutAnswer, CheckoutOrder, CheckoutRow, ItemId, ItemRow, OrderId, Said, ShopCommand, ShopOutcome,
    ShopRefusal, Side, TryKey, UserId, UserRow,
};
use holdfast_domain::view::{Checkouts, Items, Orders, Users};
use holdfast_engine::{
    CheckoutRequest, CheckoutTimes, OrderView, Refusal, Shop, ShopError, Shopping, Troubles,
};
use holdfast_store::{LocalStore, Tables};
use tokio::time::Instant;

use super::hub_shop::{HubShop, unexpected};

fn unreadable(error: &impl std::fmt::Display) -> ShopError {
    ShopError::Unreadable(format!("a paid order cannot be read: {error}. Run `holdfast verify`"))
}

impl Shop for HubShop {
    fn times(&self) -> CheckoutTimes {
        self.times
    }

    fn now(&self) -> Millis {
        self.clock.read().wall
    }

    fn draw(&self) -> u64 {
        self.draws.draw()
    }

    fn new_id(&self) -> String {
        TransferId(self.draws.uuid()).to_string()
    }

    fn troubles(&self) -> Troubles {
        self.troubles.seen()
    }

    fn decide(&self, command: ShopCommand) -> Shopping<'_, ShopOutcome> {
        Box::pin(self.decide_keeping(command, ()))
    }

    fn checkout(&self, request: CheckoutRequest) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(self.check_out(request))
    }

    fn answer(&self, key: TryKey, side: Side, said: Said) -> Shopping<'_, (bool, CheckoutAnswer)> {
        Box::pin(async move {
            match self.decide(ShopCommand::Answer { key, side, said }).await? {
                ShopOutcome::Heard { counts, now } => Ok((counts, now)),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn cancel(&self, order: OrderId) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(self.decide_checkout(ShopCommand::Cancel { order }))
    }

    fn retry(&self, order: OrderId) -> Shopping<'_, CheckoutAnswer> {
        Box::pin(async move {
            let deadline_ms = self.times.deadline_ms;
            match self.decide_checkout(ShopCommand::Retry { order: order.clone(), deadline_ms }).await {
                Err(ShopError::Refused(ShopRefusal::ChooseTokens { .. })) => {
                    let command = CheckoutOrder { order, deadline_ms, key: None, chosen: None };
                    self.decide_with_tokens(command, TOKENS_WAIT_MS).await
                }
                other => other,
            }
        })
    }

    fn user(&self, id: UserId) -> Shopping<'_, Option<UserRow>> {
        Box::pin(self.ask(move |core| core.store().user(&id).cloned()))
    }

    fn item(&self, id: ItemId) -> Shopping<'_, Option<ItemRow>> {
        Box::pin(self.ask(move |core| core.store().item(&id).cloned()))
    }

    fn order(&self, id: OrderId) -> Shopping<'_, Option<OrderView>> {
        Box::pin(async move {
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
        })
    }

    /// A place is the record that began the last checkout before it.
    fn open_checkouts(
        &self,
        state: Option<CheckoutState>,
        after: Option<String>,
        limit: usize,
    ) -> Shopping<'_, OpenCheckouts<String>> {
        Box::pin(async move {
            let place = |text: String| text.parse().map_err(|_| ShopError::NoSuchPage(text));
            let after: Option<u64> = after.map(place).transpose()?;
            let now = self.now();
            self.ask(move |core| page(core.store(), state, after, limit.min(PAGE_MAX), now)).await
        })
    }
}

impl HubShop {
    async fn check_out(&self, request: CheckoutRequest) -> Result<CheckoutAnswer, ShopError> {
        let CheckoutRequest { order, deadline_ms, wait_ms, tokens_wait_ms, key } = request;
        let wait = wait_ms.unwrap_or(self.times.wait_ms).min(WAIT_MS_MAX);
        // One wait, for tokens and for the end together.
        let until = Instant::now() + Duration::from_millis(u64::from(wait));
        let deadline_ms = deadline_ms.unwrap_or(self.times.deadline_ms).clamp(1, DEADLINE_MS_MAX);
        // Before it is decided: an end that comes right after it must not be missed.
        let mut waiter = self.feed.ends.wait_for(&order).ok();
        let command = CheckoutOrder { order: order.clone(), deadline_ms, key, chosen: None };
        let answer = self.decide_paid(command, tokens_wait_ms.unwrap_or(wait)).await?;
        let CheckoutAnswer::Open { tr, .. } = answer else { return Ok(answer) };
        // On a hub that is ending it is not worth waiting.
        if let Some(waiter) = &mut waiter
            && let Ok(Some(end)) = tokio::time::timeout_at(until, waiter.end_of(tr)).await
        {
            return Ok(end);
        }
        // It may have ended together with the wait.
        let standing = match self.standing(order, tr).await {
            // It was tried: nobody is to read out of a refusal that it was not.
            Err(ShopError::Hub(Refusal::Busy)) => None,
            Err(ShopError::Hub(refusal)) => return Err(Refusal::Unknown(refusal.to_string()).into()),
            standing => standing?,
        };
        let ended = waiter.and_then(|waiter| waiter.ended(tr));
        Ok(ended.or(standing).unwrap_or(answer))
    }
}

/// Open checkouts after that one. Each page looks at no more than it may show, so that a filter costs the writer no more.
fn page(
    store: &LocalStore,
    state: Option<CheckoutState>,
    after: Option<u64>,
    max: usize,
    now: Millis,
) -> OpenCheckouts<String> {
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
    let next = next.map(|record: u64| record.to_string());
    OpenCheckouts { checkouts: wanted.map(with_order).collect(), next, now }
}
