//! Numbered places that are used again, in pages that never move. The first page grows as a vector does, and is found without
//! a look at the list of pages: most slabs have no other.

const PAGE: usize = 128;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    first: Vec<Option<T>>,
    pages: Vec<Vec<Option<T>>>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { first: Vec::new(), pages: Vec::new(), vacant: Vec::new() }
    }
}

fn place(number: u32) -> (usize, usize) {
    let number = usize::try_from(number).expect("a u32 fits");
    (number / PAGE, number % PAGE)
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.vacant.pop() {
            *self.place_mut(number).expect("a vacant place is there") = Some(value);
            return number;
        }
        if self.first.len() < PAGE {
            self.first.push(Some(value));
            return u32::try_from(self.first.len() - 1).expect("below a page");
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let number = self.pages.len() * PAGE + self.pages.last().map_or(0, Vec::len);
        self.pages.last_mut().expect("a page was just made").push(Some(value));
        u32::try_from(number).expect("the configuration bounds the tokens below 2^32")
    }

    #[inline]
    fn place_mut(&mut self, number: u32) -> Option<&mut Option<T>> {
        match place(number) {
            (0, at) => self.first.get_mut(at),
            (page, at) => self.pages.get_mut(page - 1)?.get_mut(at),
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let place = match place(number) {
            (0, at) => self.first.get(at),
            (page, at) => self.pages.get(page - 1)?.get(at),
        };
        place?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.place_mut(number)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.place_mut(number)?.take()?;
        self.vacant.push(number);
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0).filter_map(|(number, value)| value.map(|value| (number, value)))
    }

    /// All places from `first` on, empty ones too.
    pub(crate) fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, Option<&T>)> {
        let (page, at) = place(first);
        let mut pages = [&self.first].into_iter().chain(&self.pages).skip(page);
        let rest = pages.next().and_then(|page| page.get(at..)).unwrap_or_default();
        let values = rest.iter().chain(pages.flatten());
        (first..).zip(values.map(Option::as_ref))
    }
}
