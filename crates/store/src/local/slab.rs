//! Rows of what is open, by seat. A seat is free again when its row is gone, and a page without rows is given back, except a
//! few: what a crowd has taken is there for whatever comes next.
//!
//! Rows lie in small pages that a checkpoint shares: it takes the pointers and writes them out at leisure, and a
//! page that changes meanwhile is copied first. The pages are small, since a frame may touch many of them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::hold_index::Seat;

/// Rows in one page: 12 KiB of transfers, a few microseconds to copy.
const PAGE_ROWS: usize = 64;

/// Pages without rows that are kept, so that the daily coming and going makes none anew.
const SPARE_PAGES_MAX: usize = 64;

/// As many rows as a page has, or none at all if it was given back.
type Page<T> = Vec<Option<T>>;

/// The rows.
pub(crate) struct Slab<T> {
    pages: Vec<Arc<Page<T>>>,
    /// How many rows each page has.
    taken: Vec<u8>,
    free: Vec<Seat>,
    /// Pages without rows that are still there, the last to become so at the end: its seats are the next to be taken.
    spare: VecDeque<usize>,
}

/// The rows as they stood at one moment.
pub(crate) struct SlabSnapshot<T> {
    pages: Vec<Arc<Page<T>>>,
}

const fn split(seat: Seat) -> (usize, usize) {
    (seat as usize / PAGE_ROWS, seat as usize % PAGE_ROWS)
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { pages: Vec::new(), taken: Vec::new(), free: Vec::new(), spare: VecDeque::new() }
    }
}

impl<T> Slab<T> {
    /// How many seats are taken.
    pub(crate) fn len(&self) -> usize {
        self.pages.len() * PAGE_ROWS - self.free.len()
    }
}

impl<T: Clone> Slab<T> {
    pub(crate) fn get(&self, seat: Seat) -> &T {
        let (page, at) = split(seat);
        self.pages[page][at].as_ref().expect("the seat is taken")
    }

    pub(crate) fn get_mut(&mut self, seat: Seat) -> &mut T {
        let (page, at) = split(seat);
        Arc::make_mut(&mut self.pages[page])[at].as_mut().expect("the seat is taken")
    }

    /// Gives a row a seat.
    pub(crate) fn insert(&mut self, row: T) -> Seat {
        let seat = self.free.pop().unwrap_or_else(|| self.add_page());
        let (page, at) = split(seat);
        if self.pages[page].is_empty() {
            self.pages[page] = Arc::new(empty_page());
        } else if self.taken[page] == 0
            && let Some(at) = self.spare.iter().rposition(|spare| *spare == page)
        {
            self.spare.remove(at);
        }
        self.taken[page] += 1;
        Arc::make_mut(&mut self.pages[page])[at] = Some(row);
        seat
    }

    /// The first seat of a new page; the others are free.
    fn add_page(&mut self) -> Seat {
        let seat = |at: usize| Seat::try_from(at).expect("fewer than 2^32 rows");
        let first = self.pages.len() * PAGE_ROWS;
        self.pages.push(Arc::default());
        self.taken.push(0);
        self.free.extend((first + 1..first + PAGE_ROWS).rev().map(seat));
        seat(first)
    }

    /// Takes a row off its seat.
    pub(crate) fn remove(&mut self, seat: Seat) -> T {
        let (page, at) = split(seat);
        let row = Arc::make_mut(&mut self.pages[page])[at].take().expect("the seat is taken");
        self.free.push(seat);
        self.taken[page] -= 1;
        if self.taken[page] == 0 {
            self.spare.push_back(page);
            if self.spare.len() > SPARE_PAGES_MAX
                && let Some(oldest) = self.spare.pop_front()
            {
                self.pages[oldest] = Arc::default();
            }
        }
        row
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|page| page.iter().flatten())
    }

    /// The rows as they stand, for as long as anybody wants them.
    pub(crate) fn snapshot(&self) -> SlabSnapshot<T> {
        SlabSnapshot { pages: self.pages.clone() }
    }
}

fn empty_page<T>() -> Page<T> {
    std::iter::repeat_with(|| None).take(PAGE_ROWS).collect()
}

impl<T> SlabSnapshot<T> {
    /// Shows the rows, giving each page back as soon as it has been shown, so that the writer need not copy it any more.
    pub(crate) fn try_each<E>(self, mut show: impl FnMut(&T) -> Result<(), E>) -> Result<(), E> {
        self.pages.into_iter().try_for_each(|page| page.iter().flatten().try_for_each(&mut show))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(slab: &Slab<u32>) -> Vec<u32> {
        let mut rows: Vec<u32> = slab.iter().copied().collect();
        rows.sort_unstable();
        rows
    }

    #[test]
    fn a_crowd_that_has_gone_leaves_few_pages_and_its_seats_are_used_again() {
        let mut slab = Slab::default();
        let crowd: Vec<Seat> = (0..10_000).map(|row| slab.insert(row)).collect();
        let pages = slab.pages.len();
        let shown = slab.snapshot();
        assert_eq!(crowd.iter().map(|seat| slab.remove(*seat)).max(), Some(9_999));
        assert_eq!(slab.len(), 0);
        let kept = slab.pages.iter().filter(|page| !page.is_empty()).count();
        assert_eq!(kept, SPARE_PAGES_MAX);
        let mut count = 0;
        let shown: Result<(), ()> = shown.try_each(|_| {
            count += 1;
            Ok(())
        });
        assert_eq!((shown, count), (Ok(()), 10_000), "as it stood");
        let again: Vec<Seat> = (0..10_000).map(|row| slab.insert(row)).collect();
        assert_eq!((slab.pages.len(), slab.len(), slab.spare.len()), (pages, 10_000, 0));
        assert!(again.iter().zip(0..).all(|(seat, row)| *slab.get(*seat) == row));
    }

    #[test]
    fn the_page_that_is_used_next_is_one_that_was_kept() {
        let mut slab = Slab::default();
        let crowd: Vec<Seat> = (0..10_000).map(|row| slab.insert(row)).collect();
        crowd.iter().for_each(|seat| assert!(slab.remove(*seat) < 10_000));
        for row in 0..1_000 {
            let (page, _) = split(*slab.free.last().unwrap());
            assert!(!slab.pages[page].is_empty(), "no page is made for one row");
            let seat = slab.insert(row);
            assert_eq!(slab.remove(seat), row);
        }
    }

    proptest! {
        #[test]
        fn rows_come_and_go(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..3_000)) {
            let mut slab = Slab::default();
            let mut model: Vec<(Seat, u32)> = Vec::new();
            for ((comes, which), number) in steps.into_iter().zip(0_u32..) {
                if comes || model.is_empty() {
                    model.push((slab.insert(number), number));
                } else {
                    let (seat, row) = model.swap_remove(which.index(model.len()));
                    prop_assert_eq!(slab.remove(seat), row);
                }
                prop_assert_eq!(slab.len(), model.len());
            }
            let mut expected: Vec<u32> = model.iter().map(|(_, row)| *row).collect();
            expected.sort_unstable();
            prop_assert_eq!(rows(&slab), expected);
            let empty = |page: &usize| slab.taken[*page] == 0 && !slab.pages[*page].is_empty();
            let mut spare: Vec<usize> = slab.spare.iter().copied().collect();
            spare.sort_unstable();
            prop_assert_eq!(spare, (0..slab.pages.len()).filter(empty).collect::<Vec<_>>());
        }
    }
}
