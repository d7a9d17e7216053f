//! Rows found by a text that clients choose: a slab, and a hash table of its seats.

use super::seats::Seats;
use super::slab::{Slab, SlabSnapshot};
use super::vault::Secret;
use crate::hold_index::Seat;

/// A row that has its name in it.
pub(super) trait Named: Clone {
    fn name(&self) -> &str;
}

pub(super) struct Table<R> {
    secret: Secret,
    rows: Slab<R>,
    seats: Seats,
}

impl<R: Named> Table<R> {
    pub(super) fn new(secret: Secret) -> Table<R> {
        Table { secret, rows: Slab::default(), seats: Seats::default() }
    }

    fn seat(&self, hash: u64, name: &str) -> Option<Seat> {
        self.seats.find(hash, |seat| self.rows.get(seat).name() == name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&R> {
        self.seat(self.secret.text(name), name).map(|seat| self.rows.get(seat))
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut R> {
        self.seat(self.secret.text(name), name).map(|seat| self.rows.get_mut(seat))
    }

    /// Puts a row in, in the place of the one of its name; gives that one back.
    pub(super) fn put(&mut self, row: R) -> Option<R> {
        let hash = self.secret.text(row.name());
        if let Some(seat) = self.seat(hash, row.name()) {
            return Some(std::mem::replace(self.rows.get_mut(seat), row));
        }
        self.seats.insert(hash, self.rows.insert(row));
        None
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<R> {
        let hash = self.secret.text(name);
        let seat = self.seat(hash, name)?;
        self.seats.remove(hash, seat);
        Some(self.rows.remove(seat))
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &R> {
        self.rows.iter()
    }

    /// The rows by their names, as they are compared.
    pub(super) fn sorted(&self) -> Vec<&R> {
        let mut rows: Vec<&R> = self.iter().collect();
        rows.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        rows
    }

    pub(super) fn snapshot(&self) -> SlabSnapshot<R> {
        self.rows.snapshot()
    }
}
