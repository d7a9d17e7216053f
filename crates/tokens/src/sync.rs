//! The locks and atomics of the selector, in one place: the shuttle tests compile the same rooms with shuttle's.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
