//! What the decisions promise, one file per promise. Effects are compared as data.

mod alarms;
mod bins_match_a_naive_model;
mod callbacks_follow_the_table;
mod callbacks_of_random_frames;
mod endpoints;
mod expiry;
mod frame_bounds_matter;
mod fulfil_checks;
mod funds_and_limits;
mod golden_batches;
mod golden_digest;
mod golden_records;
mod limits_hold_inside_a_bin;
mod lookup;
mod memory;
mod prepare_checks;
mod random_frames;
mod random_records;
mod second_command_sees_the_first;
mod world;
