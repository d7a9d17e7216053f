//! FSPIOP transfers, versions 1.0 and 1.1: the paths that participants call.
//!
//! A message is tested for its form here, and refused at once with nothing stored; its sense is for the rules to
//! judge, and what they say goes out by callback. `docs/fspiop.md` has the tables.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `receive` | the tests that all verbs share, in their order, up to a body in memory |
//! | `headers` | which headers must be there, and which travel on |
//! | `media_type` | versions in Content-Type and Accept |
//! | `prefer` | `Prefer: wait=N` |
//! | `body` | JSON: what is there, what is missing, what is of the wrong kind |
//! | `fields`, `ilp`, `dates` | the types of the standard |
//! | `names` | participants by name |
//! | `prepare`, `fulfil`, `abort`, `lookup` | one verb each |
//! | `answer` | the acknowledgement, or the outcome for those who wait |

mod abort;
mod answer;
mod body;
mod dates;
mod fields;
mod fulfil;
mod funding;
mod headers;
mod ilp;
mod lookup;
mod media_type;
mod names;
mod prefer;
mod prepare;
mod receive;

pub(crate) use abort::put_error;
pub(crate) use fulfil::put;
pub(crate) use lookup::get;
pub(crate) use names::{Names, participant};
pub(crate) use prepare::post;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use holdfast_domain::ids::TransferId;

use crate::error::ApiError;

/// The id in a path, or why there is none.
type PathId = Result<Path<String>, PathRejection>;

/// The id in a path, and as the caller wrote it.
fn id_in_path(path: &PathId) -> Result<(TransferId, &str), ApiError> {
    let Path(text) = path.as_ref().map_err(|error| ApiError::malformed(error.body_text()))?;
    let id = fields::written_id(text);
    id.map(|id| (id, text.as_str())).map_err(|must| ApiError::malformed(format!("the id in the path {must}")))
}

/// `PATCH /transfers/{id}` goes from a hub to a payee, never the other way.
pub(crate) async fn patch() -> ApiError {
    ApiError::new(StatusCode::NOT_IMPLEMENTED, 2002, "a hub sends PATCH and does not take it")
}
