//! The bounds of the wire, each with its unit.

/// The longest spender, wallet, token id or other name of a token, in characters.
pub const TOKEN_NAME_CHARS_MAX: usize = 128;
/// Attributes that a token, an output or a filter may have.
pub const ATTRIBUTES_MAX: usize = 16;
/// The longest name of an attribute, in characters.
pub const ATTRIBUTE_NAME_CHARS_MAX: usize = 64;
/// The longest value of an attribute, in characters.
pub const ATTRIBUTE_VALUE_CHARS_MAX: usize = 256;
/// Rows in one page of a view, where the caller does not ask for fewer.
pub const PAGE_ROWS_MAX: usize = 1_000;
