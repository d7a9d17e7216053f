//! Ids of finished transfers in sorted runs on the disk.
