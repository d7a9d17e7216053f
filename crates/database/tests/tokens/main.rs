//! Tokens that all nodes select from: nodes in this process on one real database, without Kafka.

mod adversary;
mod conformance;
mod contention;
mod feed;
mod funding;
mod house;
mod world;
