//! Append-only records in blocks on the disk.
