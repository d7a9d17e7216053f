//! Arbitrary bytes as a segment of the log: no panic, and reader and writer agree.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| holdfast_log::fuzz_read_segment(bytes));
