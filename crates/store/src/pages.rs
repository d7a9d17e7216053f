//! A growing array in pages of a fixed size. Growing never moves what is there, so no insert pays for a copy of
//! everything before it.

/// Rows in one page.
const PAGE_ROWS: usize = 4096;

/// Rows by number: 0, 1, 2, …
#[derive(Debug)]
pub(crate) struct Pages<T> {
    pages: Vec<Vec<T>>,
    len: usize,
}

impl<T> Pages<T> {
    pub(crate) const fn new() -> Pages<T> {
        Pages { pages: Vec::new(), len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, row: T) {
        if self.len.is_multiple_of(PAGE_ROWS) {
            self.pages.push(Vec::with_capacity(PAGE_ROWS));
        }
        self.pages.last_mut().expect("a page was just made").push(row);
        self.len += 1;
    }

    pub(crate) fn get(&self, at: u64) -> Option<&T> {
        let at = usize::try_from(at).ok()?;
        self.pages.get(at / PAGE_ROWS)?.get(at % PAGE_ROWS)
    }

    pub(crate) fn get_mut(&mut self, at: u64) -> Option<&mut T> {
        let at = usize::try_from(at).ok()?;
        self.pages.get_mut(at / PAGE_ROWS)?.get_mut(at % PAGE_ROWS)
    }

    pub(crate) fn iter_from(&self, from: u64) -> impl Iterator<Item = &T> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        self.pages.iter().skip(from / PAGE_ROWS).flatten().skip(from % PAGE_ROWS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_numbers_over_page_borders() {
        let mut pages = Pages::new();
        (0..10_000_u64).for_each(|row| pages.push(row));
        for at in [0, 1, 4095, 4096, 8191, 8192, 9999] {
            assert_eq!(pages.get(at), Some(&at));
            assert_eq!(pages.iter_from(at).next(), Some(&at));
        }
        assert_eq!((pages.len(), pages.get(10_000), pages.iter_from(10_000).next()), (10_000, None, None));
    }
}
