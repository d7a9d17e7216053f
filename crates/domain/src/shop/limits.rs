//! Every bound of the shop, with its unit in its name. They are rules: a change of one makes old frames decide differently.

/// The longest that a checkout may stay undecided: a day.
pub const DEADLINE_MS_MAX: u32 = 86_400_000;
/// How long it may unless somebody says otherwise.
pub const DEADLINE_MS_DEFAULT: u32 = 10_000;
/// The longest idempotency key.
pub const KEY_BYTES_MAX: usize = 255;
/// How long the answer is kept under an idempotency key: a day.
pub const KEY_MS: i64 = 86_400_000;
/// Rows that one init record makes at most; an edge that wants more sends several.
pub const INIT_ROWS_MAX: u32 = 4_096;
/// Users at most.
pub const USERS_MAX: usize = 10_000_000;
/// Items at most.
pub const ITEMS_MAX: usize = 10_000_000;
/// Orders that are not paid, at most. Paid ones are not counted: they lie on the disk.
pub const ORDERS_MAX: usize = 10_000_000;
/// Checkouts that are open at a time.
pub const CHECKOUTS_MAX: usize = 1_000_000;
/// Idempotency keys that are kept at a time.
pub const KEYS_MAX: usize = 5_000_000;
/// Keys under which callers join one open checkout.
pub const KEYS_PER_CHECKOUT_MAX: usize = 16;
