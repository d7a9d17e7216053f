//! The cluster's state against a real PostgreSQL; every test has a database of its own.

mod basics;
mod same_as_embedded;
mod world;
