//! The mark in a data directory that says that callers need keys.
//!
//! The keys lie in a file of their own, which no backup holds. The mark goes into each backup, so that a restored hub does not
//! run open because its keys were forgotten. Only that the file is there counts.

use std::io::{Error, ErrorKind};
use std::path::Path;

use holdfast_disk::FileSystem;

/// The file in the data directory.
pub const KEYS_MARK: &str = "keys.required";

/// The keys themselves, where the settings name no other file.
pub const KEYS_FILE: &str = "keys.toml";

const TEXT: &[u8] = b"This hub asks for API keys. Without keys `holdfast serve` does not start here.\n";

/// Whether callers of this directory's hub need keys: it has the mark, or keys that no hub has been started with yet.
///
/// # Errors
/// If the directory cannot be read.
pub fn is_set(fs: &dyn FileSystem, data: &Path) -> Result<bool, Error> {
    Ok(fs.exists(&data.join(KEYS_MARK))? || fs.exists(&data.join(KEYS_FILE))?)
}

/// Has callers need keys from now on. Durable when it returns.
///
/// # Errors
/// If the file cannot be written.
pub fn set(fs: &dyn FileSystem, data: &Path) -> Result<(), Error> {
    match fs.create_new(&data.join(KEYS_MARK)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => {
            let file = made?;
            file.write_at(TEXT, 0)?;
            file.sync_data()?;
        }
    }
    fs.sync_dir(data)
}

/// Callers need no keys any more. Durable when it returns.
///
/// # Errors
/// If the file cannot be removed.
pub fn take_away(fs: &dyn FileSystem, data: &Path) -> Result<(), Error> {
    match fs.remove(&data.join(KEYS_MARK)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        removed => removed?,
    }
    fs.sync_dir(data)
}
