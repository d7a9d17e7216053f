//! Rows of what is open, by seat. A seat is free again when its row is gone. Pages stay for the next crowd: what
//! one thread has made and another gives back, the allocator seldom gives back to the system.
//!
//! Rows lie in small pages that a checkpoint shares: it takes the pointers and writes them out at leisure, and a
//! page that changes meanwhile is copied first. The pages are small, since a frame may touch many of them.

use std::sync::Arc;

use crate::hold_index::Seat;

/// Rows in one page: about 16 KiB of transfers, a few microseconds to copy.
const PAGE_ROWS: usize = 64;

pub(crate) type Page<T> = Vec<Option<T>>;

/// The rows.
pub(crate) struct Slab<T> {
    pages: Vec<Arc<Page<T>>>,
    free: Vec<Seat>,
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
        Slab { pages: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// How many seats are taken.
    pub(crate) fn len(&self) -> usize {
        let full = self.pages.len().saturating_sub(1) * PAGE_ROWS;
        full + self.pages.last().map_or(0, |page| page.len()) - self.free.len()
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
        if let Some(seat) = self.free.pop() {
            let (page, at) = split(seat);
            Arc::make_mut(&mut self.pages[page])[at] = Some(row);
            return seat;
        }
        let full = self.pages.last().is_none_or(|page| page.len() == PAGE_ROWS);
        if full {
            self.pages.push(Arc::new(Vec::with_capacity(PAGE_ROWS)));
        }
        let last = self.pages.len() - 1;
        let page = Arc::make_mut(&mut self.pages[last]);
        page.push(Some(row));
        Seat::try_from(last * PAGE_ROWS + page.len() - 1).expect("fewer than 2^32 rows")
    }

    /// Takes a row off its seat.
    pub(crate) fn remove(&mut self, seat: Seat) -> T {
        let (page, at) = split(seat);
        let row = Arc::make_mut(&mut self.pages[page])[at].take().expect("the seat is taken");
        self.free.push(seat);
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

impl<T> SlabSnapshot<T> {
    /// The rows, giving each page back as soon as it has been shown, so that the writer need not copy it any more.
    pub(crate) fn into_pages(self) -> impl Iterator<Item = Arc<Page<T>>> {
        self.pages.into_iter()
    }
}
