//! The files against a naive model, through crashes, damage and readers beside the writer.

mod crash;
mod damage;
mod model;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_disk::{FileSystem, LogId, SimFs};

use super::*;
use crate::StoreError;

const LOG: LogId = LogId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
const SMALL: Options = Options { file_blocks: 4, chunk_blocks: 2, needed_from: 0 };

fn dir() -> PathBuf {
    PathBuf::from("/data/outcomes")
}

fn folder(fs: &SimFs) -> BlockFolder {
    BlockFolder { fs: fs.shared(), dir: dir(), log_id: LOG, kind: Kind::Outcomes }
}

fn open_with(fs: &SimFs, end: Option<End>, options: Options) -> Result<BlockFiles, StoreError> {
    BlockFiles::create_or_open(folder(fs), end, options)
}

fn open(fs: &SimFs, end: Option<End>) -> BlockFiles {
    open_with(fs, end, SMALL).unwrap()
}

/// The record of that number, in the length that the golden file has too.
fn record(number: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((number * 7 + at) % 256).unwrap();
    (0..(number * 131) % 700).map(byte).collect()
}

fn append(files: &mut BlockFiles, numbers: std::ops::Range<usize>) -> Vec<u64> {
    let positions = numbers.map(|number| files.append(&record(number))).collect();
    files.publish();
    positions
}

/// Writes every whole block.
fn flush(files: &mut BlockFiles) {
    while let Some(job) = files.flush_job() {
        job.run().unwrap();
    }
}

fn names(fs: &SimFs) -> Vec<String> {
    fs.list(&dir()).unwrap()
}

fn file(first: u64) -> PathBuf {
    dir().join(format!("{first:020}.blk"))
}

fn is_damaged<T>(result: &Result<T, StoreError>, at: &Path) -> bool {
    matches!(result, Err(StoreError::Damaged { file, .. }) if file == at)
}
