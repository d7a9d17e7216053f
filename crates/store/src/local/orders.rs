//! Paid orders, read beside the deciding thread.

use holdfast_domain::shop::{OrderId, OrderRow};

use super::LocalStore;
use super::spent::{self, Record};
use crate::StoreError;
use crate::blocks::BlockReader;
use crate::folder::StoreFolder;
use crate::runs::RunSet;

/// Where an order was found to be.
pub struct SoughtOrder(Where);

enum Where {
    Here(Box<OrderRow>),
    Elsewhere {
        place: StoreFolder,
        reader: BlockReader,
        order: OrderId,
        id: u128,
        hash: u64,
        at: Option<u64>,
        runs: RunSet,
    },
}

impl SoughtOrder {
    /// Whether [`SoughtOrder::get`] may read the disk.
    #[must_use]
    pub const fn is_on_disk(&self) -> bool {
        matches!(self.0, Where::Elsewhere { .. })
    }

    /// The order, if there is one of that id.
    ///
    /// # Errors
    /// If the disk does not hold what was written to it.
    pub fn get(self) -> Result<Option<OrderRow>, StoreError> {
        match self.0 {
            Where::Here(row) => Ok(Some(*row)),
            Where::Elsewhere { place, reader, order, id, hash, at, runs } => {
                let at = match at {
                    Some(at) => Some(at),
                    None => runs.get(hash, id)?,
                };
                let Some(at) = at else { return Ok(None) };
                match spent::read(&place, at, |at, out| reader.read_into(at, out))? {
                    Record::Order(row) if row.order.order_id == order => Ok(Some(*row)),
                    _ => Err(spent::damaged(&place, at, "the index says that a paid order stands there")),
                }
            }
        }
    }
}

impl LocalStore {
    /// Where an order is: at hand if it is not paid, else to be read without disturbing this thread.
    #[must_use]
    pub fn seek_order(&self, order: &OrderId) -> SoughtOrder {
        if let Some(row) = self.shelves.orders.get(order.as_str()) {
            return SoughtOrder(Where::Here(Box::new(row.clone())));
        }
        let id = self.past.order_id(order.as_str(), self.shelves.life(order.as_str()));
        let hash = self.spent.hash(id);
        SoughtOrder(Where::Elsewhere {
            place: self.place.clone(),
            reader: self.spent.reader(),
            order: order.clone(),
            id,
            hash,
            at: self.spent.unsealed(hash, id),
            runs: self.spent.runs().clone(),
        })
    }
}
