//! What the running hub promises, one file per promise.

mod backups;
mod checkpoint_file;
mod clock_jumps;
mod evidence_of_the_log;
mod expiry_needs_no_request;
mod full_intake_is_busy;
mod golden_directory;
mod history;
mod log_failure_stops_for_good;
mod log_is_kept_for_days;
mod replay_keeps_the_bounds_of_frames;
mod rules_change_is_noticed;
mod running_hub;
mod shop;
mod shop_speed;
mod shop_tokens;
mod support;
mod token_conformance;
mod token_waiting;
mod verify_finds_damage;
