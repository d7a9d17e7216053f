//! What the running hub promises, one file per promise.

mod clock_jumps;
mod expiry_needs_no_request;
mod full_intake_is_busy;
mod log_failure_stops_for_good;
mod replay_keeps_the_bounds_of_frames;
mod rules_change_is_noticed;
mod running_hub;
mod support;
