//! What the binary promises at its command line, tested through the binary itself.

mod dry_run_position;
