//! A branch as the rows of its table, one per (order, tr#, rollback).

use super::{Branch, Forward};

/// One row. Its key is that of the branch, and whether it is the rollback's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row<V> {
    /// What became of the forward message.
    Forward(Forward<V>),
    /// The rollback was carried out, with the forward value that was recorded then; `None` if it came first.
    Rollback(Option<V>),
}

/// Why rows do not go together. None of these can come of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    /// The same row again.
    #[error("the same row is there twice")]
    Twice,
    /// A rollback has a forward value, and there is no forward row to have it from.
    #[error("a rollback row without its forward row came first, so its value is null")]
    ValueFromNowhere,
    /// Something was taken after its rollback.
    #[error("the rollback came first, so nothing was taken: the forward row's outcome is a failure")]
    TakenAfterRollback,
    /// Two rows of one try record different forward values.
    #[error("the rollback row's value is not that of the forward row")]
    ValuesDiffer,
}

impl<V: Clone> Branch<V> {
    /// The rows: the forward one first.
    #[must_use]
    pub fn rows(&self) -> Vec<Row<V>> {
        match self {
            Branch::Done(forward) => vec![Row::Forward(forward.clone())],
            Branch::Undone(forward) => {
                vec![Row::Forward(forward.clone()), Row::Rollback(Some(forward.value().clone()))]
            }
            Branch::CancelledFirst => vec![Row::Rollback(None)],
            Branch::CancelledThenRefused(late) => {
                vec![Row::Forward(Forward::Refused(late.clone())), Row::Rollback(None)]
            }
        }
    }

    /// The branch with a row more, as it is read from its table. `same` says whether two values move the
    /// same.
    ///
    /// # Errors
    /// If the rows do not go together. The forward row comes before the rollback row that has its value.
    pub fn with_row(
        branch: Option<Branch<V>>,
        row: Row<V>,
        same: impl Fn(&V, &V) -> bool,
    ) -> Result<Branch<V>, RowsError> {
        match (branch, row) {
            (None, Row::Forward(forward)) => Ok(Branch::Done(forward)),
            (None, Row::Rollback(None)) => Ok(Branch::CancelledFirst),
            (None, Row::Rollback(Some(_))) => Err(RowsError::ValueFromNowhere),
            (Some(Branch::Done(forward)), Row::Rollback(Some(value))) => {
                if same(forward.value(), &value) {
                    Ok(Branch::Undone(forward))
                } else {
                    Err(RowsError::ValuesDiffer)
                }
            }
            (Some(Branch::Done(Forward::Refused(late))), Row::Rollback(None))
            | (Some(Branch::CancelledFirst), Row::Forward(Forward::Refused(late))) => {
                Ok(Branch::CancelledThenRefused(late))
            }
            (Some(Branch::Done(Forward::Taken(_))), Row::Rollback(None))
            | (Some(Branch::CancelledFirst), Row::Forward(Forward::Taken(_))) => {
                Err(RowsError::TakenAfterRollback)
            }
            (Some(Branch::Done(_)), Row::Forward(_))
            | (Some(Branch::CancelledFirst), Row::Rollback(_))
            | (Some(Branch::Undone(_) | Branch::CancelledThenRefused(_)), _) => Err(RowsError::Twice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: impl IntoIterator<Item = Row<u8>>) -> Result<Option<Branch<u8>>, RowsError> {
        rows.into_iter().try_fold(None, |branch, row| Branch::with_row(branch, row, u8::eq).map(Some))
    }

    #[test]
    fn rows_and_branches_are_the_same_thing() {
        for branch in [
            Branch::Done(Forward::Taken(1)),
            Branch::Done(Forward::Refused(1)),
            Branch::Undone(Forward::Taken(1)),
            Branch::Undone(Forward::Refused(1)),
            Branch::CancelledFirst,
            Branch::CancelledThenRefused(1),
        ] {
            assert_eq!(read(branch.rows()), Ok(Some(branch)));
        }
        let other_way_round = [Row::Rollback(None), Row::Forward(Forward::Refused(1))];
        assert_eq!(read(other_way_round), Ok(Some(Branch::CancelledThenRefused(1))));
    }

    #[test]
    fn rows_that_no_messages_leave_are_refused() {
        let taken = || Row::Forward(Forward::Taken(1));
        assert_eq!(read([taken(), taken()]), Err(RowsError::Twice));
        assert_eq!(read([Row::Rollback(None), Row::Rollback(None)]), Err(RowsError::Twice));
        assert_eq!(read([taken(), Row::Rollback(Some(1)), taken()]), Err(RowsError::Twice));
        assert_eq!(read([Row::Rollback(Some(1))]), Err(RowsError::ValueFromNowhere));
        assert_eq!(read([taken(), Row::Rollback(None)]), Err(RowsError::TakenAfterRollback));
        assert_eq!(read([Row::Rollback(None), taken()]), Err(RowsError::TakenAfterRollback));
        assert_eq!(read([taken(), Row::Rollback(Some(2))]), Err(RowsError::ValuesDiffer));
    }
}
