#![doc = include_str!("../README.md")]

mod answer;
mod choose;
pub mod conformance;
mod consolidate;
mod contract;
pub mod limits;
mod memory;
mod random;
mod refusal;
mod request;
mod sync;
mod token;
mod vault;

pub use answer::{
    Balance, Counters, Fragmentation, Lease, LockRecord, LockView, Restored, Selection, Transaction,
};
pub use consolidate::{Consolidation, ConsolidationJob, ConsolidationReport, ConsolidationRequest};
pub use contract::TokenSelector;
pub use limits::Config;
pub use memory::{Claim, ClaimAnswer, Claimed, MemorySelector, SelectAnswer, Ticket, TokenState};
pub use random::Random;
pub use refusal::{Funds, Holder, Refusal};
pub use request::{
    DustSweep, Filter, Fingerprint, Output, Owner, OwnerKind, Policy, Predicate, Scope, SelectRequest,
    SpendRequest,
};
pub use token::{DEFAULT_TYPE, Kind, Name, Token, TokenId};
pub use vault::Vault;
