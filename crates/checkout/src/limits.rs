//! Every bound of a checkout, with its unit in its name.

/// The largest credit, stock, price, quantity or amount: what a signed 64-bit column holds.
pub const NUMBER_MAX: u64 = i64::MAX as u64;
/// The longest id of an order, user or item, in characters.
pub const ID_CHARS_MAX: usize = 128;
/// The most lines that one order or message may have.
pub const LINES_MAX: usize = 1_000;
