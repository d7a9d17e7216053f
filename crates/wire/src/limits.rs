//! The bounds of the wire, each with its unit.

/// The longest spender, wallet, token id or other name of a token, in characters.
pub const TOKEN_NAME_CHARS_MAX: usize = 128;
/// Attributes that a token, an output or a filter may have.
pub const ATTRIBUTES_MAX: usize = 16;
/// The longest name of an attribute, in characters.
pub const ATTRIBUTE_NAME_CHARS_MAX: usize = 64;
/// The longest value of an attribute, in characters.
pub const ATTRIBUTE_VALUE_CHARS_MAX: usize = 256;
/// The longest id of a user, item or order, and the longest `Idempotency-Key`, in characters.
pub const SHOP_ID_CHARS_MAX: usize = 128;
/// The largest number of the shop.
pub const SHOP_NUMBER_MAX: u64 = i64::MAX.unsigned_abs();
/// Rows that one call of a `batch_init` makes.
pub const SHOP_INIT_MAX: u64 = 1_000_000;
/// Rows in one page of a view, where the caller does not ask for fewer.
pub const PAGE_ROWS_MAX: usize = 1_000;
