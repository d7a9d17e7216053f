//! The cluster's state against a real PostgreSQL; every test has a database of its own.

mod basics;
mod callbacks;
mod connecting;
mod crashes;
mod crowd;
mod expiry;
mod funded;
mod generate;
mod hung;
mod lease;
mod locks;
mod operated;
mod poison;
mod reads;
mod same_as_embedded;
mod speed;
mod stalled;
mod tampering;
mod token_large;
mod token_plans;
mod traces;
mod world;
