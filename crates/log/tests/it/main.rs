//! The promises of the segment log, one module each.

mod allocation;
mod conforms;
mod corruption_in_the_middle;
mod crash_at_every_sync;
mod fsync_error_stops;
mod golden;
mod lost_end;
mod mutated_bytes;
mod open_from;
mod read_only;
mod retention;
mod rotation;
mod spare;
mod support;
mod torn_tail;
