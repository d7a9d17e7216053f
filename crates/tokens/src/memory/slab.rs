//! Numbered places that are used again, in pages that never move. The first page grows as a vector does.

const PAGE: usize = 128;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    pages: Vec<Vec<Option<T>>>,
    vacant: Vec<u32>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { pages: Vec::new(), vacant: Vec::new(), len: 0 }
    }
}

fn place(number: u32) -> (usize, usize) {
    let number = usize::try_from(number).expect("a u32 fits");
    (number / PAGE, number % PAGE)
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if let Some(number) = self.vacant.pop() {
            let (page, at) = place(number);
            self.pages[page][at] = Some(value);
            return number;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            let capacity = if self.pages.is_empty() { 0 } else { PAGE };
            self.pages.push(Vec::with_capacity(capacity));
        }
        let number = (self.pages.len() - 1) * PAGE + self.pages.last().map_or(0, Vec::len);
        self.pages.last_mut().expect("a page was just made").push(Some(value));
        u32::try_from(number).expect("the configuration bounds the tokens below 2^32")
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let (page, at) = place(number);
        self.pages.get(page)?.get(at)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (page, at) = place(number);
        self.pages.get_mut(page)?.get_mut(at)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let (page, at) = place(number);
        let value = self.pages.get_mut(page)?.get_mut(at)?.take()?;
        self.vacant.push(number);
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0).filter_map(|(number, value)| value.map(|value| (number, value)))
    }

    /// All places from `first` on, empty ones too.
    pub(crate) fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, Option<&T>)> {
        let (page, at) = place(first);
        let pages = self.pages.get(page..).unwrap_or_default();
        let rest = pages.first().and_then(|page| page.get(at..)).unwrap_or_default();
        let values = rest.iter().chain(pages.iter().skip(1).flatten());
        (first..).zip(values.map(Option::as_ref))
    }
}
