//! What callers of the shop may ask for, in whichever profile. These bounds decide nothing, so they may change at any time.

/// How long a caller waits for a checkout that stays open, unless it says otherwise.
pub const WAIT_MS_DEFAULT: u32 = 15_000;
/// The longest that a caller may ask to wait.
pub const WAIT_MS_MAX: u32 = 60_000;
/// Open checkouts that one page shows at most.
pub const PAGE_MAX: usize = 1_000;
