//! Transfer number to seat. Numbers rise by one and most transfers end soon, so the seats of recent numbers lie in
//! a queue; those that stay open long are moved to small pages, of which only those exist where one is open.

use std::collections::{BTreeMap, VecDeque};

use holdfast_domain::ids::TransferNo;

use crate::hold_index::Seat;

/// Numbers in the queue at most: four bytes each.
const RECENT_MAX: usize = 1 << 20;
/// Numbers in a page of older ones.
const PAGE: usize = 64;
/// Not open.
const NOBODY: Seat = Seat::MAX;

/// The seats of [`PAGE`] numbers, and how many of them are taken.
struct Page {
    seats: [Seat; PAGE],
    taken: u32,
}

/// Older numbers. A crowd that was prepared together lies in few pages, which are found in a few steps.
#[derive(Default)]
struct Older(BTreeMap<u64, Page>);

/// The page of a number, and its place there.
#[allow(clippy::cast_possible_truncation, reason = "a place in a page is small")]
const fn split(no: TransferNo) -> (u64, usize) {
    (no.0 / PAGE as u64, (no.0 % PAGE as u64) as usize)
}

impl Older {
    fn get(&self, no: TransferNo) -> Option<Seat> {
        let (page, at) = split(no);
        self.0.get(&page).map(|page| page.seats[at]).filter(|seat| *seat != NOBODY)
    }

    fn insert(&mut self, no: TransferNo, seat: Seat) {
        let (page, at) = split(no);
        let page = self.0.entry(page).or_insert_with(|| Page { seats: [NOBODY; PAGE], taken: 0 });
        page.taken += u32::from(page.seats[at] == NOBODY);
        page.seats[at] = seat;
    }

    fn remove(&mut self, no: TransferNo) {
        let (number, at) = split(no);
        let Some(page) = self.0.get_mut(&number) else { return };
        if std::mem::replace(&mut page.seats[at], NOBODY) == NOBODY {
            return;
        }
        page.taken -= 1;
        if page.taken == 0 {
            self.0.remove(&number);
        }
    }

    fn from(&self, from: TransferNo) -> impl Iterator<Item = Seat> {
        let (first, at) = split(from);
        let pages = self.0.range(first..).flat_map(move |(number, page)| {
            let skip = if *number == first { at } else { 0 };
            page.seats[skip..].iter().copied()
        });
        pages.filter(|seat| *seat != NOBODY)
    }
}

#[derive(Default)]
pub(crate) struct Numbers {
    /// The number that stands first in `recent`.
    first: u64,
    recent: VecDeque<Seat>,
    older: Older,
}

impl Numbers {
    /// Numbers from `first` on.
    pub(crate) fn from(first: TransferNo) -> Numbers {
        Numbers { first: first.0, ..Numbers::default() }
    }

    /// The number after the last one that was given out.
    pub(crate) fn next(&self) -> TransferNo {
        TransferNo(self.first + self.recent.len() as u64)
    }

    fn place(&self, no: TransferNo) -> Option<usize> {
        no.0.checked_sub(self.first).map(|place| usize::try_from(place).unwrap_or(usize::MAX))
    }

    pub(crate) fn get(&self, no: TransferNo) -> Option<Seat> {
        match self.place(no) {
            Some(place) => self.recent.get(place).copied().filter(|seat| *seat != NOBODY),
            None => self.older.get(no),
        }
    }

    /// Seats the next number.
    pub(crate) fn push(&mut self, seat: Seat) {
        if self.recent.len() == RECENT_MAX {
            self.retire_first();
        }
        self.recent.push_back(seat);
    }

    fn retire_first(&mut self) {
        if let Some(seat) = self.recent.pop_front().filter(|seat| *seat != NOBODY) {
            self.older.insert(TransferNo(self.first), seat);
        }
        self.first += 1;
    }

    /// Seats a number from before the first one: a transfer that a checkpoint found open.
    pub(crate) fn put_older(&mut self, no: TransferNo, seat: Seat) {
        assert!(no.0 < self.first, "{} is not older than {}", no.0, self.first);
        self.older.insert(no, seat);
    }

    /// The seats of open transfers from that number on, by number.
    pub(crate) fn open_from(&self, from: TransferNo) -> impl Iterator<Item = Seat> {
        let skip = self.place(from).unwrap_or(0).min(self.recent.len());
        let recent = self.recent.range(skip..).copied().filter(|seat| *seat != NOBODY);
        self.older.from(from).chain(recent)
    }

    /// The transfer has ended.
    pub(crate) fn remove(&mut self, no: TransferNo) {
        match self.place(no) {
            None => self.older.remove(no),
            Some(place) => {
                self.recent[place] = NOBODY;
                while self.recent.front() == Some(&NOBODY) {
                    self.retire_first();
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "the numbers are small")]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn answers_as_a_map_does(ends in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..300)) {
            let mut numbers = Numbers::from(TransferNo(7));
            let mut model = BTreeMap::new();
            for no in 0..7 {
                numbers.put_older(TransferNo(no), 100 + no as Seat);
                model.insert(TransferNo(no), 100 + no as Seat);
            }
            for (ends, which) in ends {
                if ends && !model.is_empty() {
                    let no = *model.keys().nth(which.index(model.len())).unwrap();
                    model.remove(&no);
                    numbers.remove(no);
                } else {
                    let no = numbers.next();
                    numbers.push(no.0 as Seat);
                    model.insert(no, no.0 as Seat);
                }
                for no in 0..numbers.next().0 + 2 {
                    prop_assert_eq!(numbers.get(TransferNo(no)), model.get(&TransferNo(no)).copied());
                }
                let from = TransferNo(which.index(20) as u64);
                let open: Vec<Seat> = model.range(from..).map(|(_, seat)| *seat).collect();
                prop_assert_eq!(numbers.open_from(from).collect::<Vec<_>>(), open);
            }
        }
    }

    #[test]
    fn the_queue_is_bounded_by_moving_old_ones_to_the_map() {
        let mut numbers = Numbers::default();
        (0..RECENT_MAX as Seat + 5).for_each(|seat| numbers.push(seat));
        assert_eq!((numbers.recent.len(), numbers.older.from(TransferNo(0)).count()), (RECENT_MAX, 5));
        assert_eq!((numbers.get(TransferNo(3)), numbers.get(TransferNo(9))), (Some(3), Some(9)));
        numbers.remove(TransferNo(3));
        assert_eq!((numbers.get(TransferNo(3)), numbers.next()), (None, TransferNo(RECENT_MAX as u64 + 5)));
    }
}
