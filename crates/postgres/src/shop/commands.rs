//! What edges change: users, items and orders made, filled and changed, each command in a transaction of its own. What moves a
//! checkout does not come here; it goes by the topic `orders`, where all of an order's commands have one order.

use holdfast_domain::shop::limits::INIT_ROWS_MAX;
use holdfast_domain::shop::{ItemId, OrderId, ShopCommand, ShopOutcome, ShopRefusal, UserId, decide_asked};

use super::load::Lock;
use super::write;
use crate::Error;
use crate::error::is_conflict;
use crate::load::Loader;
use crate::session::Store;
use crate::written::{RowWriter, Written};

/// What is answered to a command that does not belong here.
const ELSEWHERE: ShopRefusal =
    ShopRefusal::Invalid("in the database profile this goes by the topic orders, or not at all");

impl Store {
    /// Has a command about users, items or orders decided, as an embedded shop decides it.
    ///
    /// # Errors
    /// If the database fails, or refuses a value (such as an id with a NUL in it).
    pub fn shop(&mut self, command: &ShopCommand) -> Result<ShopOutcome, Error> {
        match self.retrying(|store| store.try_shop(command)) {
            // Another has made the same row meanwhile: now it will be seen.
            Err(Error::Refused(cause)) if is_conflict(&cause) => {
                self.retrying(|store| store.try_shop(command))
            }
            other => other,
        }
    }

    fn try_shop(&mut self, command: &ShopCommand) -> Result<ShopOutcome, Error> {
        let Store { client, statements, settings, .. } = self;
        let mut tx = client.transaction()?;
        let mut loader = Loader::new(&mut tx, statements);
        if let Err(refusal) = load(&mut loader, command)? {
            return Ok(ShopOutcome::Refused(refusal));
        }
        let (mut loaded, now) = loader.finish()?;
        let effects = decide_asked(&loaded.shop, (now, 0), [command]);
        let outcome = effects.all(|step| &step.outcomes).next().and_then(|outcome| outcome.shop.clone());
        let outcome = outcome.expect("a command about the shop is answered");
        if effects.all(|step| &step.shop).next().is_none() {
            tx.rollback()?;
        } else {
            loaded.shop.apply(&effects);
            let written = &mut Written::default();
            write::write(&mut RowWriter { tx: &mut tx, statements, written }, &loaded.shop, settings, now)?;
            tx.commit()?;
        }
        Ok(ShopOutcome::clone(&outcome))
    }
}

/// Loads what the decision reads, and locks what it may change.
fn load(loader: &mut Loader<'_, '_>, command: &ShopCommand) -> Result<Result<(), ShopRefusal>, Error> {
    match command {
        ShopCommand::CreateUser { id, .. } => loader.users([id])?,
        ShopCommand::AddFunds { user, .. } | ShopCommand::TakeFunds { user, .. } => {
            loader.users([user])?;
        }
        ShopCommand::CreateItem { id, .. } => loader.items([id], Lock::Wait)?,
        ShopCommand::AddStock { item, .. } | ShopCommand::TakeStock { item, .. } => {
            loader.items([item], Lock::Wait)?;
        }
        ShopCommand::CreateOrder { id, .. } => loader.orders([id], Lock::Wait)?,
        ShopCommand::AddItem { order, item, .. } => {
            loader.orders([order], Lock::Wait)?;
            // Its price of now; that is no promise for later.
            loader.items([item], Lock::None)?;
        }
        ShopCommand::InitUsers { first, count, .. } => {
            count_open(loader)?;
            let ids: Vec<UserId> = numbered(*first, *count);
            loader.users(&ids)?;
        }
        ShopCommand::InitItems { first, count, .. } => {
            count_open(loader)?;
            let ids: Vec<ItemId> = numbered(*first, *count);
            loader.items(&ids, Lock::Wait)?;
        }
        ShopCommand::InitOrders { first, count, .. } => {
            count_open(loader)?;
            let ids: Vec<OrderId> = numbered(*first, *count);
            loader.orders(&ids, Lock::Wait)?;
        }
        ShopCommand::Checkout(_)
        | ShopCommand::Answer { .. }
        | ShopCommand::Cancel { .. }
        | ShopCommand::Retry { .. }
        | ShopCommand::SetOutside { .. }
        | ShopCommand::SetCharging { .. } => return Ok(Err(ELSEWHERE)),
    }
    Ok(Ok(()))
}

/// Counts the checkouts that are open, and lets none begin or end until this transaction does: what an open one has taken must
/// not be given back to a row that was replaced meanwhile.
fn count_open(loader: &mut Loader<'_, '_>) -> Result<(), Error> {
    let Loader { tx, loaded, .. } = loader;
    tx.batch_execute("LOCK TABLE orders IN SHARE ROW EXCLUSIVE MODE")?;
    let open: i64 =
        tx.query_one("SELECT count(*) FROM orders WHERE state IN ('pending', 'cancelling')", &[])?.get(0);
    loaded.shop.open_count =
        usize::try_from(open).map_err(|_| Error::corrupt("orders", "a negative count"))?;
    Ok(())
}

/// The ids of an init, sorted as the database sorts them. One that asks for too much is refused without them.
fn numbered<T: std::str::FromStr<Err: std::fmt::Debug> + Ord>(first: u64, count: u32) -> Vec<T> {
    let end = first.saturating_add(u64::from(count.min(INIT_ROWS_MAX)));
    let mut ids: Vec<T> =
        (first..end).map(|number| number.to_string().parse().expect("a number is a short text")).collect();
    ids.sort_unstable();
    ids
}
