//! What the binary promises, tested through the binary itself: at its command line, over HTTP, and under kill -9.

mod dry_run_position;
mod fulfil_races_expiry;
mod kill_nine;
mod measuring;
mod serve;
mod support;
