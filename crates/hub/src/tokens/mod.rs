//! The vault: tokens chosen in memory, judged in the log.
//!
//! A select claims tokens in an index on the caller's thread, then has the claim decided. The index follows the log: what a
//! frame did to tokens is applied to it once the frame is durable, before anybody is answered. A claim that was refused, that
//! was never written, or whose asker has gone is undone.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `index` | the selector in memory, following the log |
//! | `hub_vault` | claims on their way to the log, and what the index shows |
//! | `calls` | what callers ask, as the port has it |
//! | `claims` | a claim on its way: set aside, decided, undone |
//! | `consolidation` | shattered wallets, brought together in the background |
//! | `timer` | wakes those who wait when a lease or their patience ends |
//! | `meters` | what `/metrics` shows |

mod calls;
mod claims;
mod consolidation;
mod hub_vault;
mod index;
mod meters;
mod timer;

pub use claims::FundingClaim;
pub use holdfast_tokens::ConsolidationOptions;
pub use hub_vault::HubVault;
pub use index::TokenIndex;
pub(crate) use timer::Timer;

use holdfast_tokens::OwnerKind;

/// The bounds of the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenOptions {
    /// Most tokens that live at a time (`tokens.max`).
    pub max: usize,
    /// How often a select chooses anew when others were faster (`tokens.claim_attempts`).
    pub claim_attempts: usize,
    /// Most selects that wait at a time (`tokens.waiters_max`).
    pub waiters_max: usize,
    /// Indexes that are kept from the start besides the one by wallet (`tokens.indexes`).
    pub indexes: TokenIndexes,
}

/// Index kinds besides the one by wallet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TokenIndexes {
    pub external_id: bool,
    pub public_key: bool,
    pub token_only: bool,
}

impl TokenIndexes {
    /// The same as a list, with the one by wallet.
    #[must_use]
    pub fn kinds(self) -> Vec<OwnerKind> {
        let kinds = [
            (true, OwnerKind::Wallet),
            (self.external_id, OwnerKind::ExternalId),
            (self.public_key, OwnerKind::PublicKey),
            (self.token_only, OwnerKind::TokenOnly),
        ];
        kinds.into_iter().filter_map(|(kept, kind)| kept.then_some(kind)).collect()
    }
}

impl Default for TokenOptions {
    fn default() -> TokenOptions {
        TokenOptions {
            max: limits::MAX,
            claim_attempts: limits::CLAIM_ATTEMPTS,
            waiters_max: limits::WAITERS_MAX,
            indexes: TokenIndexes::default(),
        }
    }
}

/// The defaults.
pub mod limits {
    /// Tokens that live at a time.
    pub const MAX: usize = 5_000_000;
    /// How often a select chooses anew.
    pub const CLAIM_ATTEMPTS: usize = 64;
    /// Selects that wait at a time.
    pub const WAITERS_MAX: usize = 10_000;
    /// Wallets that one look for shattered ones brings together at most.
    pub const WALLETS_PER_STEP: usize = 16;
}
