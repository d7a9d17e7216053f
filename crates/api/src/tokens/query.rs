//! What stands in the query of a token path: known names, each once, and the scope that they make up.

use holdfast_tokens::{Name, Owner, Scope};
use holdfast_wire::{Rule, tokens};

use super::refusal::Problem;
use crate::views::filters::{self, Parameters};

/// The values of these parameters, in the order of their names.
pub(super) fn values<const N: usize>(
    parameters: Parameters,
    names: [&str; N],
) -> Result<[Option<String>; N], Problem> {
    filters::filters(parameters, names).map_err(|error| Problem::invalid(error.detail))
}

/// A parameter as its rule reads it.
pub(super) fn read<T: Rule>(name: &str, value: Option<String>) -> Result<Option<T>, Problem> {
    let read = value.map(|text| T::read(&text)).transpose();
    read.map_err(|problem| Problem::invalid(format!("{name}: {problem}")))
}

/// A parameter that is a name.
pub(super) fn name(name: &str, value: Option<String>) -> Result<Option<Name>, Problem> {
    Ok(read::<holdfast_wire::Name>(name, value)?.map(holdfast_wire::Name::shared))
}

/// Whose tokens: wallet, external id or public key; exactly one of them.
pub(super) fn owner([wallet, external_id, public_key]: [Option<String>; 3]) -> Result<Owner, Problem> {
    let owner = tokens::owner(
        read("wallet", wallet)?,
        read("externalId", external_id)?,
        read("publicKey", public_key)?,
    );
    match owner.map_err(Problem::invalid)? {
        // Nobody's would be a look at every token there is.
        Owner::Any => {
            Err(Problem::invalid("wallet: is missing; or name the owner by externalId or publicKey"))
        }
        owner => Ok(owner),
    }
}

/// The tokens of an owner.
pub(super) fn scope(
    owner: Owner,
    currency: Option<String>,
    token_type: Option<String>,
) -> Result<Scope, Problem> {
    let currency = read("currency", currency)?.ok_or_else(|| Problem::invalid("currency: is missing"))?;
    Ok(tokens::scope(owner, currency, read("type", token_type)?))
}

/// The rows of a page that were asked for.
pub(super) fn limit(text: Option<&str>) -> Result<usize, Problem> {
    filters::rows(text).map_err(|error| Problem::invalid(error.detail))
}
