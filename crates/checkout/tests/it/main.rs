//! What the checkout saga promises, handler by handler and all together.

mod coordinator;
mod orders;
mod participants;
mod random_messages;
mod random_worlds;
mod single_tries;
mod world;
