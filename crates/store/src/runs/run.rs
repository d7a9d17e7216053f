//! One run: its filter and fences in memory, its entries on the disk.

use std::io;
#[cfg(test)]
use std::mem::size_of_val;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_disk::{BLOCK, File};

use super::bloom::{Filter, Line, Probe};
use super::format::{self, BLOCK_BYTES, ENTRY, FENCE, Header, ITEM_BYTES, LINE, id_of};
use super::read::{BlockReader, read_whole};
use super::{Entry, RunFolder, RunName, hash_id};
use crate::StoreError;

/// An immutable map from id to place. Any thread may ask it.
pub(crate) struct Run {
    pub(super) path: PathBuf,
    file: Arc<dyn File>,
    pub(super) header: Header,
    seed: u32,
    key: u64,
    /// The first id of every data block.
    fences: Vec<u128>,
    pub(super) filter: Filter,
}

impl Run {
    /// Opens a run and reads what it keeps in memory.
    pub(crate) fn open(folder: &RunFolder, name: RunName) -> Result<Run, StoreError> {
        let path = folder.dir.join(name.to_string());
        let file = folder.fs.open_read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::damaged(&path, 0, "the file is not there"),
            _ => StoreError::io("open", &path)(error),
        })?;
        let header = read_header(&*file, &path)?;
        header.expect(&path, name, folder)?;
        let fences = read_fences(&*file, &path, &header)?;
        let filter = read_filter(&*file, &path, &header)?;
        Ok(Run::of_parts(path, file, header, folder.key, fences, filter))
    }

    /// A run that was read or written just now.
    pub(super) fn of_parts(
        path: PathBuf,
        file: Arc<dyn File>,
        header: Header,
        key: u64,
        fences: Vec<u128>,
        filter: Filter,
    ) -> Run {
        Run { path, file, seed: header.seed(), header, key, fences, filter }
    }

    /// The place of an id; `hash` is its [`hash_id`].
    #[cfg(test)]
    pub(crate) fn get(&self, hash: u64, id: u128) -> Result<Option<u64>, StoreError> {
        debug_assert!(self.hashes_to(hash, id), "another id's hash");
        if id < self.header.smallest || id > self.header.largest || !self.filter.may_hold(&Probe::of(hash)) {
            return Ok(None);
        }
        self.look_up(id)
    }

    /// Whether that is the id's hash under the key of this run. Another one would miss what is there.
    pub(super) fn hashes_to(&self, hash: u64, id: u128) -> bool {
        hash == hash_id(self.key, id)
    }

    /// Reads the one block that holds the id if the run does.
    #[inline(never)]
    pub(super) fn look_up(&self, id: u128) -> Result<Option<u64>, StoreError> {
        let Some(index) = self.fences.partition_point(|&fence| fence <= id).checked_sub(1) else {
            return Ok(None);
        };
        let section = self.header.data();
        let number = section.first + index as u64;
        let items = section.items_in(index as u64);
        let mut block = [0; BLOCK];
        read_whole(&*self.file, &self.path, &mut block, number * BLOCK_BYTES)?;
        format::check_block(&self.path, &block, self.seed, number, items)?;
        let entries = &block[..ITEM_BYTES].as_chunks::<ENTRY>().0[..items];
        if id_of(&entries[0]) != self.fences[index] {
            return Err(self.damaged_fence(number));
        }
        Ok(entries.binary_search_by_key(&id, id_of).ok().map(|at| Entry::decode(&entries[at]).place))
    }

    /// How many ids it holds; never 0.
    #[allow(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub(crate) fn len(&self) -> u64 {
        self.header.count
    }

    /// Its name.
    pub(crate) fn name(&self) -> RunName {
        self.header.name
    }

    /// The length of its file.
    #[cfg(test)]
    pub(crate) fn file_bytes(&self) -> u64 {
        self.header.file_bytes()
    }

    /// What it keeps in memory.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> u64 {
        let fences = size_of_val(self.fences.as_slice());
        (size_of_val(self) + fences + size_of_val(self.filter.lines())) as u64
    }

    /// Its entries by id. Ends after an error.
    pub(crate) fn iter(&self) -> Iter<'_> {
        let blocks = BlockReader::new(&*self.file, &self.path, self.seed, self.header.data());
        Iter { run: self, blocks, at: 0, items: 0, last: None, over: false }
    }

    /// Reads the whole file again and tests everything that can be tested. Returns the count of ids.
    pub(crate) fn verify(&self) -> Result<u64, StoreError> {
        if read_header(&*self.file, &self.path)? != self.header {
            return Err(StoreError::damaged(&self.path, 0, "the header is not the one that was opened"));
        }
        let mut count = 0;
        let mut entries = self.iter();
        while let Some(entry) = entries.next() {
            let id = entry?.id;
            if !self.filter.may_hold(&Probe::of(hash_id(self.key, id))) {
                let found = format!("the filter does not know id {id:032x}");
                return Err(StoreError::damaged(&self.path, entries.blocks.position(), found));
            }
            count += 1;
        }
        if read_fences(&*self.file, &self.path, &self.header)? != self.fences {
            return Err(self.changed(self.header.fences().first, "fences"));
        }
        let mut known = self.filter.lines();
        each_lines(&*self.file, &self.path, &self.header, |lines| {
            let (now, later) = known.split_at(lines.len());
            known = later;
            if now.iter().zip(lines).all(|(known, line)| *known == Line::decode(line)) {
                Ok(())
            } else {
                Err(self.changed(self.header.filter().first, "filter"))
            }
        })?;
        Ok(count)
    }

    fn changed(&self, block: u64, what: &str) -> StoreError {
        let found = format!("its {what} changed since it was opened");
        StoreError::damaged(&self.path, block * BLOCK_BYTES, found)
    }

    fn damaged_fence(&self, number: u64) -> StoreError {
        let found = format!("block {number} does not begin with the id that its fence says");
        StoreError::damaged(&self.path, number * BLOCK_BYTES, found)
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("path", &self.path).field("count", &self.header.count).finish()
    }
}

fn read_header(file: &dyn File, path: &Path) -> Result<Header, StoreError> {
    let length = file.len().map_err(StoreError::io("measure", path))?;
    let mut block = [0; BLOCK];
    read_whole(file, path, &mut block, 0)?;
    Header::decode(&block, path, length)
}

fn read_fences(file: &dyn File, path: &Path, header: &Header) -> Result<Vec<u128>, StoreError> {
    let section = header.fences();
    let mut fences = Vec::with_capacity(size(path, section.items)?);
    let mut blocks = BlockReader::new(file, path, header.seed(), section);
    while blocks.advance()?.is_some() {
        fences.extend(blocks.items::<FENCE>().iter().map(|id| u128::from_le_bytes(*id)));
    }
    let rising = fences.windows(2).all(|pair| pair[0] < pair[1]);
    let framed = fences.first() == Some(&header.smallest) && fences.last() <= Some(&header.largest);
    if !rising || !framed {
        return Err(StoreError::damaged(path, section.first * BLOCK_BYTES, "the fences are out of order"));
    }
    Ok(fences)
}

fn read_filter(file: &dyn File, path: &Path, header: &Header) -> Result<Filter, StoreError> {
    let mut filter = Filter::empty(size(path, header.lines)?);
    let mut to = filter.lines_mut().iter_mut();
    each_lines(file, path, header, |lines| {
        // The lines come first: at their end, zip must not have taken one of `to` in vain.
        lines.iter().zip(to.by_ref()).for_each(|(line, to)| *to = Line::decode(line));
        Ok(())
    })?;
    assert!(to.next().is_none(), "the section has as many lines as the filter");
    Ok(filter)
}

/// Shows the lines of the filter, a block at a time.
fn each_lines(
    file: &dyn File,
    path: &Path,
    header: &Header,
    mut show: impl FnMut(&[[u8; LINE]]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut blocks = BlockReader::new(file, path, header.seed(), header.filter());
    while blocks.advance()?.is_some() {
        show(blocks.items())?;
    }
    Ok(())
}

fn size(path: &Path, items: u64) -> Result<usize, StoreError> {
    usize::try_from(items).map_err(|_| StoreError::damaged(path, 0, "it is too large for this machine"))
}

/// The entries of a run by id, each from a verified block.
pub(crate) struct Iter<'a> {
    run: &'a Run,
    blocks: BlockReader<'a>,
    /// Entries of the block shown, and how many it has.
    at: usize,
    items: usize,
    last: Option<u128>,
    over: bool,
}

impl<'a> Iter<'a> {
    fn step(&mut self) -> Result<Option<Entry>, StoreError> {
        if self.at == self.items {
            let Some(items) = self.blocks.advance()? else {
                return if self.last == Some(self.run.header.largest) {
                    Ok(None)
                } else {
                    let found = "the last id is not the largest one of the header";
                    Err(StoreError::damaged(&self.run.path, self.blocks.position(), found))
                };
            };
            (self.at, self.items) = (0, items);
        }
        let entry = Entry::decode(&self.blocks.items::<ENTRY>()[self.at]);
        if self.at == 0 {
            let fence =
                usize::try_from(self.blocks.index()).ok().and_then(|index| self.run.fences.get(index));
            if fence != Some(&entry.id) {
                return Err(self.run.damaged_fence(self.blocks.position() / BLOCK_BYTES));
            }
        }
        if self.last >= Some(entry.id) {
            let found = format!("id {:032x} is out of order", entry.id);
            return Err(StoreError::damaged(&self.run.path, self.block_position(), found));
        }
        self.at += 1;
        self.last = Some(entry.id);
        Ok(Some(entry))
    }

    /// Where the block of the entry shown last begins.
    pub(super) fn block_position(&self) -> u64 {
        self.blocks.position()
    }

    pub(super) fn run(&self) -> &'a Run {
        self.run
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<Entry, StoreError>;

    fn next(&mut self) -> Option<Result<Entry, StoreError>> {
        if self.over {
            return None;
        }
        let step = self.step();
        self.over = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}
