//! The client against a hub that misbehaves on command.

mod coalescing;
mod deadlines;
mod hub;
mod retries;
