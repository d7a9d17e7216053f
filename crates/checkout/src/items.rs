//! The lines of an order: which items, and how many of each.

use std::sync::Arc;

use crate::ids::ItemId;
use crate::limits::LINES_MAX;
use crate::number::{TooLarge, Whole};

/// One line: an item and how many of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Line {
    /// The item.
    pub id: ItemId,
    /// How many.
    pub amnt: Whole,
}

/// Lines in their order. Their number is bounded, and so is the sum of each item's quantities. Cheap to clone: an order and
/// its messages share them.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Items(#[serde(serialize_with = "as_list")] Arc<[Line]>);

fn as_list<S: serde::Serializer>(lines: &Arc<[Line]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(lines.iter())
}

/// Why lines cannot stand together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ItemsError {
    /// Too many of them.
    #[error("at most {LINES_MAX} lines of items, not {0}")]
    TooMany(usize),
    /// The quantities of one item add up to too much.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

impl Items {
    /// These lines.
    ///
    /// # Errors
    /// If there are too many, or an item's quantities add up to more than a number may be.
    pub fn new(lines: Vec<Line>) -> Result<Items, ItemsError> {
        if lines.len() > LINES_MAX {
            return Err(ItemsError::TooMany(lines.len()));
        }
        sums(&lines)?;
        Ok(Items(lines.into()))
    }

    /// The lines as they were written.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.0
    }

    /// How many of each item in all, by ascending item.
    #[must_use]
    pub fn sums(&self) -> Vec<(&ItemId, Whole)> {
        sums(&self.0).expect("the sums were checked when the lines were put together")
    }

    /// One line per item, in the order in which the items first appear.
    #[must_use]
    pub fn merged(&self) -> Items {
        let mut sums = self.sums();
        if sums.len() == self.0.len() {
            return self.clone();
        }
        let line = |line: &Line| {
            let at = sums.binary_search_by_key(&&line.id, |(id, _)| *id).ok()?;
            let (_, amnt) = sums.remove(at);
            Some(Line { id: line.id.clone(), amnt })
        };
        Items(self.0.iter().filter_map(line).collect())
    }

    /// Whether both are about as many of the same items, however the lines are cut.
    #[must_use]
    pub fn same_as(&self, other: &Items) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0 || self.sums() == other.sums()
    }
}

fn sums(lines: &[Line]) -> Result<Vec<(&ItemId, Whole)>, TooLarge> {
    let mut sorted: Vec<(&ItemId, Whole)> = lines.iter().map(|line| (&line.id, line.amnt)).collect();
    sorted.sort_unstable_by_key(|(id, _)| *id);
    let mut sums: Vec<(&ItemId, Whole)> = Vec::with_capacity(sorted.len());
    for (id, amnt) in sorted {
        match sums.last_mut() {
            Some((last, sum)) if *last == id => *sum = sum.plus(amnt)?,
            _ => sums.push((id, amnt)),
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[(&str, u64)]) -> Vec<Line> {
        let line =
            |(id, amnt): &(&str, u64)| Line { id: id.parse().unwrap(), amnt: Whole::new(*amnt).unwrap() };
        lines.iter().map(line).collect()
    }

    #[test]
    fn lines_of_one_item_are_summed_where_it_first_stands() {
        let items = Items::new(lines(&[("b", 1), ("a", 2), ("b", 3)])).unwrap();
        assert_eq!(items.merged().lines(), lines(&[("b", 4), ("a", 2)]));
        assert!(items.same_as(&Items::new(lines(&[("a", 2), ("b", 4)])).unwrap()));
        assert!(!items.same_as(&Items::new(lines(&[("a", 2), ("b", 3)])).unwrap()));
    }

    #[test]
    fn bounds_are_kept() {
        let most = lines(&[("a", u64::MAX >> 1)]);
        assert!(Items::new(most.clone()).is_ok());
        assert_eq!(Items::new([most, lines(&[("a", 1)])].concat()), Err(ItemsError::TooLarge(TooLarge)));
        let many = vec![("a", 1); LINES_MAX + 1];
        assert_eq!(Items::new(lines(&many)), Err(ItemsError::TooMany(LINES_MAX + 1)));
    }
}
