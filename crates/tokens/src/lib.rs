#![doc = include_str!("../README.md")]

mod answer;
mod choose;
pub mod conformance;
mod consolidate;
mod contract;
mod fingerprint;
pub mod limits;
mod memory;
mod random;
mod refusal;
mod request;
mod sync;
mod token;
mod vault;

pub use answer::{
    Balance, Counters, Fragmentation, Lease, LockRecord, LockSummary, LockView, Restored, Selection,
    Transaction,
};
pub use consolidate::{
    Consolidation, ConsolidationJob, ConsolidationOptions, ConsolidationReport, ConsolidationRequest,
};
pub use contract::TokenSelector;
pub use fingerprint::Fingerprint;
pub use limits::Config;
pub use memory::{
    Claim, ClaimAnswer, Claimed, MemorySelector, SelectAnswer, Selecting, Ticket, TokenPage, TokenState,
    check_spend, plan_spend,
};
pub use random::{Draws, Random, Share};
pub use refusal::{Funds, Holder, NOT_DECIDED, Refusal};
pub use request::{
    DustSweep, Filter, Output, Owner, OwnerKind, Policy, Predicate, Scope, SelectRequest, SpendRequest,
    check_lease,
};
pub use token::{DEFAULT_TYPE, Kind, Name, Token, TokenId, check_name};
pub use vault::Vault;
