//! Nodes against a real Kafka and a real PostgreSQL; every test has topics and a database of its own.

mod expiry;
mod health;
mod losing;
mod payments;
mod upgrade;
mod world;
