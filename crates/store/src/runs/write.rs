//! Writing a run: under a temporary name until all of it is durable.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use holdfast_disk::{AlignedBuf, BLOCK, File, FileSystem};
use holdfast_domain::planted::{self, Bug};

use super::bloom::Filter;
use super::format::{self, BLOCK_BYTES, ENTRIES_PER_BLOCK, Header};
use super::format::{FENCES_PER_BLOCK, ITEM_BYTES, LINES_PER_BLOCK};
use super::{Entry, Run, RunFolder, RunName, hash_id};
use crate::StoreError;

/// Bytes per write.
pub(super) const PIECE: usize = 256 * 1024;

/// After so many bytes the disk may catch its breath: the log's own sync never waits for more than these.
const SYNC_BYTES: u64 = 4 * 1024 * 1024;

/// Entries that are sorted without a pause.
const SORTED_TOGETHER: usize = 16 * 1024;

/// Writes a run of these entries, in any order. Durable when it returns. `pause` is called again and again: whoever is
/// more urgent may run then.
///
/// Panics if an id is there twice or none at all: every id finishes once, and who has none seals nothing.
pub(crate) fn seal(
    folder: &RunFolder,
    name: RunName,
    mut entries: Vec<Entry>,
    pause: &mut dyn FnMut(),
) -> Result<Run, StoreError> {
    sort(&mut entries, pause);
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        panic!("a run without ids");
    };
    let header = Header::new(folder, name, entries.len() as u64, (first.id, last.id));
    write_run(folder, header, pause, |writer, pause| {
        entries.iter().try_for_each(|&entry| writer.push(entry, pause))
    })
}

fn sort(entries: &mut [Entry], pause: &mut dyn FnMut()) {
    if entries.len() > SORTED_TOGETHER {
        let middle = entries.len() / 2;
        let (smaller, _, larger) = entries.select_nth_unstable_by_key(middle, |entry| entry.id);
        pause();
        sort(smaller, pause);
        sort(larger, pause);
    } else {
        entries.sort_unstable_by_key(|entry| entry.id);
        pause();
    }
}

/// Lets `fill` push every entry that the header announces, and gives the file its name.
pub(super) fn write_run(
    folder: &RunFolder,
    header: Header,
    pause: &mut dyn FnMut(),
    fill: impl FnOnce(&mut RunWriter, &mut dyn FnMut()) -> Result<(), StoreError>,
) -> Result<Run, StoreError> {
    let RunFolder { fs, dir, key, .. } = folder;
    let path = dir.join(header.name.to_string());
    if fs.exists(&path).map_err(StoreError::io("look for", &path))? {
        // Its name is in use, and somebody may rely on what it holds.
        return Err(StoreError::io("create", &path)(io::ErrorKind::AlreadyExists.into()));
    }
    let temporary = dir.join(header.name.temporary());
    fs.remove_if_there(&temporary).map_err(StoreError::io("remove", &temporary))?;
    let written = RunWriter::create(&**fs, temporary.clone(), header, *key, pause).and_then(|mut writer| {
        fill(&mut writer, pause)?;
        writer.finish(pause)
    });
    let installed = written.and_then(|(header, fences, filter)| {
        fs.rename(&temporary, &path).map_err(StoreError::io("rename", &temporary))?;
        if !planted::has(Bug::UnsyncedRename) {
            fs.sync_dir(dir).map_err(StoreError::io("sync", dir))?;
        }
        let file = fs.open_read(&path).map_err(StoreError::io("open", &path))?;
        Ok(Run::of_parts(path, file, header, *key, fences, filter))
    });
    if installed.is_err() {
        // It may be large, and the disk full. What went wrong is told already.
        let _ = fs.remove(&temporary);
    }
    installed
}

pub(super) struct RunWriter {
    pieces: Pieces,
    header: Header,
    key: u64,
    /// Ids of the block that is being filled, and its bytes.
    ids: Vec<u128>,
    items: Vec<u8>,
    pushed: u64,
    last: Option<u128>,
    fences: Vec<u128>,
    filter: Filter,
}

impl RunWriter {
    fn create(
        fs: &dyn FileSystem,
        temporary: PathBuf,
        header: Header,
        key: u64,
        pause: &mut dyn FnMut(),
    ) -> Result<RunWriter, StoreError> {
        let file = fs.create_new_uncached(&temporary).map_err(StoreError::io("create", &temporary))?;
        let seed = header.seed();
        let piece = AlignedBuf::with_capacity(PIECE);
        let mut pieces = Pieces { file, path: temporary, seed, piece, written: 0, synced: 0 };
        pieces.add(&header.encode(), pause)?;
        let size = |n: u64| usize::try_from(n).expect("a run of this process fits its memory");
        Ok(RunWriter {
            pieces,
            key,
            ids: Vec::with_capacity(ENTRIES_PER_BLOCK),
            items: Vec::with_capacity(ITEM_BYTES),
            pushed: 0,
            last: None,
            fences: Vec::with_capacity(size(header.data().blocks())),
            filter: Filter::empty(size(header.lines)),
            header,
        })
    }

    /// Adds the entry with the next larger id.
    pub(super) fn push(&mut self, entry: Entry, pause: &mut dyn FnMut()) -> Result<(), StoreError> {
        assert!(self.last < Some(entry.id), "id {:032x} does not follow the one before it", entry.id);
        self.last = Some(entry.id);
        self.pushed += 1;
        self.ids.push(entry.id);
        self.items.extend_from_slice(&entry.encode());
        if self.ids.len() == ENTRIES_PER_BLOCK { self.end_block(pause) } else { Ok(()) }
    }

    fn end_block(&mut self, pause: &mut dyn FnMut()) -> Result<(), StoreError> {
        let Some(&first) = self.ids.first() else { return Ok(()) };
        self.fences.push(first);
        let key = self.key;
        self.filter.add(self.ids.iter().map(|&id| hash_id(key, id)));
        self.pieces.add_block(&self.items, self.ids.len(), pause)?;
        self.ids.clear();
        self.items.clear();
        Ok(())
    }

    fn finish(mut self, pause: &mut dyn FnMut()) -> Result<(Header, Vec<u128>, Filter), StoreError> {
        self.end_block(pause)?;
        let RunWriter { mut pieces, header, mut items, pushed, last, fences, filter, .. } = self;
        assert_eq!(
            (pushed, fences.first(), last),
            (header.count, Some(&header.smallest), Some(header.largest)),
            "the header announced other entries"
        );
        for chunk in fences.chunks(FENCES_PER_BLOCK) {
            items.clear();
            items.extend(chunk.iter().flat_map(|id| id.to_le_bytes()));
            pieces.add_block(&items, chunk.len(), pause)?;
        }
        for chunk in filter.lines().chunks(LINES_PER_BLOCK) {
            items.clear();
            items.extend(chunk.iter().flat_map(|line| line.encode()));
            pieces.add_block(&items, chunk.len(), pause)?;
        }
        let length = pieces.finish()?;
        assert_eq!(length, header.file_bytes(), "the header announced another length");
        Ok((header, fences, filter))
    }
}

/// A file that grows by whole blocks, in few writes.
struct Pieces {
    file: Arc<dyn File>,
    path: PathBuf,
    seed: u32,
    piece: AlignedBuf,
    written: u64,
    synced: u64,
}

impl Pieces {
    /// Adds a block with these items.
    fn add_block(&mut self, items: &[u8], count: usize, pause: &mut dyn FnMut()) -> Result<(), StoreError> {
        let mut block = [0; BLOCK];
        block[..items.len()].copy_from_slice(items);
        let number = (self.written + self.piece.len() as u64) / BLOCK_BYTES;
        format::close_block(&mut block, self.seed, number, count);
        self.add(&block, pause)
    }

    fn add(&mut self, block: &[u8; BLOCK], pause: &mut dyn FnMut()) -> Result<(), StoreError> {
        self.piece.extend_from_slice(block);
        if self.piece.len() < PIECE {
            return Ok(());
        }
        self.write()?;
        if self.written - self.synced >= SYNC_BYTES {
            self.sync()?;
        }
        pause();
        Ok(())
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.file.write_at(&self.piece, self.written).map_err(StoreError::io("write", &self.path))?;
        self.written += self.piece.len() as u64;
        self.piece.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(StoreError::io("sync", &self.path))?;
        self.synced = self.written;
        Ok(())
    }

    /// Makes everything durable; returns the length.
    fn finish(mut self) -> Result<u64, StoreError> {
        if !self.piece.is_empty() {
            self.write()?;
        }
        if self.synced < self.written {
            self.sync()?;
        }
        Ok(self.written)
    }
}
