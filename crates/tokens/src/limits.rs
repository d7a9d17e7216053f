//! Every bound of the selector, with its name and unit.

/// Longest spender, wallet, external id, public key, type, currency, issuer, notary or token id, in bytes. Four times the
/// 128 characters that the edges allow, since a character has at most four bytes.
pub const NAME_BYTES_MAX: usize = 512;
/// Lease of a selection that names none.
pub const LEASE_MS_DEFAULT: i64 = 60_000;
/// For how long a consolidation that nobody asked for locks its inputs.
pub const CONSOLIDATE_LEASE_MS: i64 = 5_000;
/// Longest lease.
pub const LEASE_MS_MAX: i64 = 86_400_000;
/// Longest wait.
pub const WAIT_MS_MAX: i64 = 60_000;
/// The end of a lock that has none: a hold that something else ends.
pub const NO_END: i64 = i64::MAX;
/// Most inputs of one selection that names no number of its own.
pub const INPUTS_DEFAULT: usize = 1_000;
/// Most inputs of one selection, whatever it asks for.
pub const INPUTS_MAX: usize = 10_000;
/// Inputs that the policy `consolidate` gathers if the request names no number.
pub const CONSOLIDATE_INPUTS_DEFAULT: usize = 64;
/// Largest number of tokens one call may issue, update or produce.
pub const BATCH_TOKENS_MAX: usize = 10_000;
/// Inputs beyond which the default policy rather gives change than searches for an exact sum.
pub const EXACT_INPUTS_MAX: usize = 4;
/// Tokens that the search for an exact sum looks at under the default policy.
pub const EXACT_CANDIDATES: usize = 24;
/// Tokens that the search for an exact sum looks at under the policy `no-change`.
pub const EXACT_CANDIDATES_NO_CHANGE: usize = 64;
/// Steps of the search for an exact sum under the default policy.
pub const EXACT_TRIES: usize = 128;
/// Steps of the search for an exact sum under the policy `no-change`.
pub const EXACT_TRIES_NO_CHANGE: usize = 100_000;
/// Amounts whose missing half is looked up directly.
pub const PAIR_PROBES: usize = 8;
/// Tokens from which the policy `random` draws.
pub const RANDOM_CANDIDATES_MAX: usize = 1_024;
/// Tokens a filter by attributes or predicate may look at in one request.
pub const SCAN_TOKENS_MAX: usize = 2_000_000;
/// Places that one page of a listing looks at.
pub const LIST_TOKENS_MAX: usize = 100_000;
/// How often a claim over several wallets chooses anew when others were faster.
pub const CLAIM_ATTEMPTS: usize = 64;
/// Holders named in a refusal.
pub const HOLDERS_SHOWN: usize = 8;
/// What one token costs, by measurement with some air: slot, free set, id table. An id that is not short costs more.
pub const TOKEN_BYTES: usize = 160;
/// What one more kind of token (same owner, issuer, notary, attributes) costs besides its strings.
pub const KIND_BYTES: usize = 320;
/// What one more index kind costs per token.
pub const MIRROR_BYTES: usize = 170;

use crate::request::OwnerKind;

/// How large the selector may grow and what it keeps ready. A vault larger than that belongs on the shared selector.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most tokens held.
    pub tokens_max: usize,
    /// Most bytes held, as estimated from [`TOKEN_BYTES`], [`KIND_BYTES`], [`MIRROR_BYTES`] and the strings.
    pub bytes_max: usize,
    /// Most requests that wait at a time.
    pub waiters_max: usize,
    /// Consumed ids remembered, so that a late or repeated produce does not bring them back.
    pub tombstones_max: usize,
    /// Spends remembered, so that a repeated spend gets its stored transaction.
    pub spends_max: usize,
    /// Inputs of one selection that names no number.
    pub inputs_default: usize,
    /// Indexes kept from the start. Another is built when it is first asked for.
    pub indexes: Vec<OwnerKind>,
    /// Locks the tokens are spread over, rounded up to a power of two. Wallets on different stripes never meet.
    pub stripes: usize,
    /// Seed of the hash tables; `None` draws one. A fixed seed makes a run repeatable.
    pub hash_seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            tokens_max: 10_000_000,
            bytes_max: 4 << 30,
            waiters_max: 10_000,
            tombstones_max: 1 << 18,
            spends_max: 1 << 16,
            inputs_default: INPUTS_DEFAULT,
            indexes: vec![OwnerKind::Wallet],
            stripes: 512,
            hash_seed: None,
        }
    }
}
