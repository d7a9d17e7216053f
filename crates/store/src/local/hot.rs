//! The open transfers: their rows, and the ways to find one.

use holdfast_domain::ids::{TransferId, TransferNo};
use holdfast_domain::transfers::Transfer;

use super::numbers::Numbers;
use super::seats::Seats;
use super::slab::Slab;
use crate::hold_index::{HoldIndex, Seat};
use crate::runs::hash_id;

/// A million open holds are a million of these.
const _: () = assert!(size_of::<Option<Transfer>>() <= 192);

/// Transfers that have not ended, and for the length of a frame those that end in it.
pub(crate) struct Hot {
    key: u64,
    pub(super) slab: Slab<Transfer>,
    numbers: Numbers,
    ids: Seats,
    pub(super) holds: HoldIndex,
}

impl Hot {
    /// Nothing is open; the next transfer gets the number `next`.
    pub(crate) fn from(key: u64, next: TransferNo) -> Hot {
        Hot {
            key,
            slab: Slab::default(),
            numbers: Numbers::from(next),
            ids: Seats::default(),
            holds: HoldIndex::default(),
        }
    }

    /// Makes room for about so many and as many again, so that taking them in does not move the index again and again.
    pub(crate) fn make_room(&mut self, transfers: usize) {
        self.ids.reserve(2 * transfers);
    }

    pub(crate) fn seat_of(&self, id: TransferId) -> Option<Seat> {
        let hash = hash_id(self.key, id.0);
        self.ids.find(hash, |seat| self.slab.get(seat).id == id)
    }

    pub(crate) fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        self.seat_of(id).map(|seat| self.slab.get(seat))
    }

    pub(crate) fn numbered(&self, no: TransferNo) -> Option<&Transfer> {
        self.numbers.get(no).map(|seat| self.slab.get(seat))
    }

    fn seat_numbered(&self, no: TransferNo) -> Seat {
        self.numbers.get(no).expect("a change names a transfer that is open")
    }

    pub(crate) fn numbered_mut(&mut self, no: TransferNo) -> &mut Transfer {
        let seat = self.seat_numbered(no);
        self.slab.get_mut(seat)
    }

    pub(crate) fn next(&self) -> TransferNo {
        self.numbers.next()
    }

    fn index(&mut self, id: TransferId, seat: Seat) {
        self.ids.insert(hash_id(self.key, id.0), seat);
    }

    /// Takes in a transfer that was seen for the first time.
    pub(crate) fn add(&mut self, row: Transfer) {
        assert_eq!(row.no, self.next(), "transfers are numbered without gaps");
        let id = row.id;
        let seat = self.slab.insert(row);
        self.numbers.push(seat);
        self.index(id, seat);
    }

    /// Puts back a transfer that a checkpoint found open.
    pub(crate) fn put_back(&mut self, row: Transfer) {
        let (id, no, expiration, may_expire) = (row.id, row.no, row.expiration, row.state.may_expire());
        let seat = self.slab.insert(row);
        self.numbers.put_older(no, seat);
        self.index(id, seat);
        if may_expire {
            self.holds.insert(expiration, no, seat);
        }
    }

    /// Takes out a transfer that has ended.
    pub(crate) fn take(&mut self, no: TransferNo) -> Transfer {
        let seat = self.seat_numbered(no);
        let hash = hash_id(self.key, self.slab.get(seat).id.0);
        self.ids.remove(hash, seat);
        self.numbers.remove(no);
        self.slab.remove(seat)
    }

    pub(crate) fn hold_opened(&mut self, no: TransferNo) {
        let seat = self.seat_numbered(no);
        self.holds.insert(self.slab.get(seat).expiration, no, seat);
    }

    pub(crate) fn hold_closed(&mut self, no: TransferNo) {
        let seat = self.seat_numbered(no);
        self.holds.remove(self.slab.get(seat).expiration, no, seat);
    }

    /// Open transfers from that number on, by number.
    pub(crate) fn open_from(&self, from: TransferNo, max: usize) -> Vec<&Transfer> {
        self.numbers.open_from(from).take(max).map(|seat| self.slab.get(seat)).collect()
    }
}
