//! The real binary, started, killed and started again; and a little world of participants on it.

pub(crate) mod command;
pub(crate) mod fspiop;
pub(crate) mod funding;
pub(crate) mod http;
pub(crate) mod keys;
pub(crate) mod scenarios;
pub(crate) mod server;
pub(crate) mod shop;
pub(crate) mod sink;
pub(crate) mod wait;
pub(crate) mod world;
