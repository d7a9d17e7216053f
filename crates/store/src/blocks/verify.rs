//! The blocks of a directory held against those of files that are known to be right. Reads only.

use std::path::PathBuf;

use holdfast_disk::BLOCK;

use super::files::Files;
use super::format::Records;
use super::{BlockFiles, CHUNK_BLOCKS};
use crate::StoreError;

/// Something about a block that is not as it should be.
pub(crate) enum Mismatch {
    /// It cannot be read, or is not what was written.
    Damaged(StoreError),
    /// It is sound, and holds another record than it should: where, what is there, what should be.
    Differs { error: StoreError, ours: Option<Vec<u8>>, right: Option<Vec<u8>> },
}

impl Files {
    /// The first block that is there; `None` if there is no file.
    pub(crate) fn start(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.list()?.first().copied())
    }

    /// The files that hold the blocks before `end` and are there: each with the bytes of it that do.
    pub(crate) fn files_before(&self, end: u64) -> Result<Vec<(PathBuf, u64)>, StoreError> {
        let found = self.list()?;
        let held = found.into_iter().filter(|file| *file < end);
        Ok(held.map(|file| (self.path_of(file), (end - file).min(self.file_blocks) * BLOCK as u64)).collect())
    }

    /// Compares the blocks `from..to` with those of `right`, all of which are written. Shows what is wrong.
    pub(crate) fn compare(&self, from: u64, to: u64, right: &BlockFiles, show: &mut dyn FnMut(Mismatch)) {
        let right = &right.shared.files;
        let mut next = from;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        while next < to {
            let file_end = self.file_of(next) + self.file_blocks;
            let after = to.min(next + CHUNK_BLOCKS as u64).min(file_end);
            let bytes = super::shared::offset_in(after - next);
            ours.resize(bytes, 0);
            theirs.resize(bytes, 0);
            if let Err(error) = self.read(next, &mut ours) {
                // One word about a file that is missing or short, not one for every chunk of it.
                show(Mismatch::Damaged(error));
                next = file_end;
                continue;
            }
            if let Err(error) = right.read(next, &mut theirs) {
                show(Mismatch::Damaged(error));
                return;
            }
            for ((number, ours), right) in (next..).zip(ours.chunks(BLOCK)).zip(theirs.chunks(BLOCK)) {
                self.compare_block(number, ours, right, show);
            }
            next = after;
        }
    }

    fn compare_block(&self, number: u64, ours: &[u8], right: &[u8], show: &mut dyn FnMut(Mismatch)) {
        let used = match self.check(ours, number) {
            Ok(used) => used,
            Err(error) => return show(Mismatch::Damaged(error)),
        };
        if ours == right {
            return;
        }
        let mut right = Records::new(right, super::format::used(right));
        let mut records = Records::new(ours, used);
        loop {
            match (records.next(), right.next()) {
                (None, None) => {
                    let error = self.damaged(number, used, "the rest of the block is not zero");
                    return show(Mismatch::Damaged(error));
                }
                (ours, right) if ours != right => {
                    let at = ours.or(right).map_or(used, |(at, _)| at);
                    let error = self.damaged(number, at, "another record stands there");
                    let own = |record: Option<(usize, &[u8])>| record.map(|(_, bytes)| bytes.to_vec());
                    return show(Mismatch::Differs { error, ours: own(ours), right: own(right) });
                }
                _ => {}
            }
        }
    }
}
