//! What handlers take from the head of a request, with refusals in the standard's form.

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::header::HOST;
use axum::http::request::Parts;
use holdfast_domain::ids::Currency;
use holdfast_wire::Rule;
use holdfast_wire::admin::ShownCurrency;
use holdfast_wire::amount::Amounts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::ApiError;
use crate::server::Encrypted;

/// The variable parts of the path.
pub(crate) struct Place<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Place<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Place<T>, ApiError> {
        let place = Path::from_request_parts(parts, state).await;
        place.map(|Path(place)| Place(place)).map_err(|rejection| {
            let not_a_number = match &rejection {
                PathRejection::FailedToDeserializePathParams(error) => match error.kind() {
                    ErrorKind::ParseErrorAtIndex { value, .. } => Some(super::shortened(value)),
                    _ => None,
                },
                _ => None,
            };
            ApiError::malformed(match not_a_number {
                Some(value) => format!("'{value}' is not the number of an account"),
                None => rejection.body_text(),
            })
        })
    }
}

/// The query of the admin paths. What else stands in it is let through.
#[derive(Default, Deserialize)]
pub(crate) struct Filter {
    currency: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    amounts: Option<String>,
}

impl Filter {
    /// The currency asked for.
    pub(super) fn currency(&self) -> Result<Option<Currency>, ApiError> {
        Ok(read("currency", self.currency.as_deref())?.map(|ShownCurrency(currency)| currency))
    }

    /// How the caller wants amounts to be written.
    pub(super) fn amounts(&self) -> Result<Amounts, ApiError> {
        Ok(read("amounts", self.amounts.as_deref())?.unwrap_or(Amounts::Numbers))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Filter {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Filter, ApiError> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(filter)| filter).map_err(|error| ApiError::malformed(error.body_text()))
    }
}

/// A parameter as its rule reads it.
fn read<T: Rule>(name: &str, value: Option<&str>) -> Result<Option<T>, ApiError> {
    let read = value.map(T::read).transpose();
    read.map_err(|problem| ApiError::malformed(format!("{name}: {problem}")))
}

/// Scheme and host under which the caller reached the hub: what links in answers begin with.
pub(crate) struct Origin(String);

impl Origin {
    /// The address of a participant.
    pub(super) fn of_participant(&self, name: &str) -> String {
        format!("{}/participants/{name}", self.0)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Origin {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Origin, Self::Rejection> {
        let header =
            |name| parts.headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
        // Behind a proxy that ends TLS only the proxy knows the scheme.
        let forwarded = header(axum::http::HeaderName::from_static("x-forwarded-proto"));
        let encrypted = parts.extensions.get::<Encrypted>().is_some();
        let scheme = if encrypted || forwarded == Some("https") { "https" } else { "http" };
        let host = parts.uri.authority().map(|authority| authority.as_str()).or_else(|| header(HOST));
        Ok(Origin(format!("{scheme}://{}", host.unwrap_or("localhost"))))
    }
}
