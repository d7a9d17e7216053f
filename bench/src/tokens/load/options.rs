//! What `load tokens` is asked for, and every bound with its name.

use crate::BenchError;
use crate::options::{LINES_DEFAULT, LINES_MAX, LOAD_SECONDS_MAX, PAYMENTS_MAX, Pace, check_range};

/// Wallets, where none are given.
pub const WALLETS_DEFAULT: u32 = 1_000;
/// The most wallets: their tokens are issued before the clock starts, and each is asked for its balance at the end.
pub const WALLETS_MAX: u32 = 100_000;
/// Tokens of each wallet, where none are given.
pub const TOKENS_DEFAULT: u32 = 100;
/// The most tokens of each wallet.
pub const TOKENS_MAX: u32 = 1_000_000;
/// The most tokens of all wallets together.
pub const TOKENS_TOTAL_MAX: u64 = 10_000_000;
/// The largest amount and the largest issued quantity, where none is given.
pub const AMOUNT_MAX_DEFAULT: u64 = 1_000;
/// The longest wait for funds that others hold, in milliseconds.
pub const WAIT_MS_MAX: u32 = 60_000;

/// What follows each selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// It is spent, with its fence, to another wallet of the run.
    Spend,
    /// It is given back.
    Release,
}

/// What `load tokens` is asked for.
#[derive(Debug, Clone)]
pub struct TokenLoadOptions {
    /// Host and port of the hub.
    pub address: String,
    /// An operator's key, where the hub asks for one.
    pub api_key: Option<String>,
    /// When rounds begin.
    pub pace: Pace,
    /// Rounds under way at once, at most; each has a connection of its own.
    pub in_flight: usize,
    /// How long to go on.
    pub seconds: Option<u64>,
    /// How many rounds to make.
    pub rounds: Option<u64>,
    /// What follows each selection.
    pub ending: Ending,
    /// Wallets, made for this run.
    pub wallets: u32,
    /// Tokens issued to each of them.
    pub tokens: u32,
    /// Amounts and issued quantities are drawn from 1 up to this.
    pub amount_max: u64,
    /// How long a selection may wait for funds that others hold.
    pub wait_ms: u32,
    /// From where names and amounts come; other runs on the same hub need another one.
    pub seed: u64,
    /// Show a progress bar.
    pub progress: bool,
}

impl TokenLoadOptions {
    /// A closed loop of select and spend with the defaults.
    #[must_use]
    pub fn to(address: &str, seed: u64) -> TokenLoadOptions {
        TokenLoadOptions {
            address: address.to_owned(),
            api_key: None,
            pace: Pace::Closed,
            in_flight: LINES_DEFAULT,
            seconds: None,
            rounds: None,
            ending: Ending::Spend,
            wallets: WALLETS_DEFAULT,
            tokens: TOKENS_DEFAULT,
            amount_max: AMOUNT_MAX_DEFAULT,
            wait_ms: 0,
            seed,
            progress: false,
        }
    }

    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self) -> Result<(), BenchError> {
        check_range("--rounds", self.rounds.unwrap_or(1), 1, PAYMENTS_MAX * 1_000)?;
        check_range("--seconds", self.seconds.unwrap_or(1), 1, LOAD_SECONDS_MAX)?;
        check_range("--in-flight", self.in_flight as u64, 1, LINES_MAX as u64)?;
        check_range("--wallets", self.wallets.into(), 1, WALLETS_MAX.into())?;
        check_range("--tokens", self.tokens.into(), 1, TOKENS_MAX.into())?;
        let total = u64::from(self.wallets) * u64::from(self.tokens);
        check_range("--wallets times --tokens", total, 1, TOKENS_TOTAL_MAX)?;
        check_range("--amount-max", self.amount_max, 1, u64::MAX / TOKENS_TOTAL_MAX)?;
        check_range("--wait-ms", self.wait_ms.into(), 0, WAIT_MS_MAX.into())?;
        self.pace.check()
    }
}
