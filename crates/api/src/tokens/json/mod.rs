//! Tokens as JSON, in and out, apart from HTTP: the edge and `holdfast dry-run tokens` read and write the same.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `given` | fields of a body: there or not, of the right kind, within their bounds |
//! | `requests` | each body, and what it asks for |
//! | `answers` | each answer |
//! | `problem` | refusals |

mod answers;
mod given;
mod problem;
mod requests;
#[cfg(test)]
mod tests;

use holdfast_tokens::{
    ConsolidationRequest, Name, SelectRequest, Selection, SpendRequest, Token, TokenId, Transaction,
};
use serde::de::Deserialize;
use serde_json::{Value, json};

pub(super) use answers::{Holdings, Issued, Listed, LockPage, Released, Renewed, Selected, Spent, Updated};
pub(super) use given::{name, public_key, whole};
pub(super) use problem::members;
pub use problem::{problem, status};
pub(crate) use requests::POLICIES;
pub(super) use requests::{owner, scope};

/// A request to select, and for how many milliseconds it waits. A failure names its field.
pub fn select_request(value: &Value) -> Result<(SelectRequest, i64), String> {
    given::object::<requests::Select<'_>, _>(value)?.read()
}

/// A token with all its fields, its id among them. A failure names its field.
pub fn token(value: &Value) -> Result<Token, String> {
    given::object::<requests::NewToken<'_>, _>(value)?.read(given::Place::Body, &mut || None)
}

/// What a select answers.
#[must_use]
pub fn selection(selection: &Selection) -> Value {
    json!(Selected(selection))
}

/// What a spend answers.
#[must_use]
pub fn transaction(transaction: &Transaction) -> Value {
    json!(Spent(Some(transaction)))
}

/// The fields of a body, all of it.
fn body<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let fields = given::object(&mut source).map_err(|problem| format!("the body: {problem}"))?;
    source.end().map_err(|error| format!("the body: {error}"))?;
    Ok(fields)
}

pub(super) fn read_select(bytes: &[u8]) -> Result<(SelectRequest, i64), String> {
    body::<requests::Select<'_>>(bytes)?.read()
}

pub(super) fn read_issue(bytes: &[u8], new_id: impl FnMut() -> TokenId) -> Result<Vec<Token>, String> {
    body::<requests::Issue<'_>>(bytes)?.read(new_id)
}

pub(super) fn read_spend(bytes: &[u8]) -> Result<SpendRequest, String> {
    body::<requests::Spend<'_>>(bytes)?.read()
}

pub(super) fn read_redeem(bytes: &[u8]) -> Result<SpendRequest, String> {
    body::<requests::Redeem<'_>>(bytes)?.read()
}

pub(super) fn read_updates(bytes: &[u8]) -> Result<(Vec<TokenId>, Vec<Token>), String> {
    body::<requests::Updates<'_>>(bytes)?.read()
}

pub(super) fn read_consolidate(
    bytes: &[u8],
    new_spender: impl FnOnce() -> Name,
) -> Result<ConsolidationRequest, String> {
    body::<requests::Consolidate<'_>>(bytes)?.read(new_spender)
}

pub(super) fn read_renew(bytes: &[u8]) -> Result<(i64, Option<u64>), String> {
    body::<requests::Renew<'_>>(bytes)?.read()
}
