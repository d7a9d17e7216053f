//! Bodies of the admin paths: a JSON object, read within bounds, whatever its media type says. Every failure is 400/3101
//! and names the member: `limit.value: …`.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use crate::bodies::{self, NoBody, announced};
use crate::error::ApiError;
use crate::limits::ADMIN_BODY_MAX;

/// The body of a request, as one shape.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Body<T>, ApiError> {
        let body = match announced(request.headers()) {
            Some(length) if length > ADMIN_BODY_MAX => Err(NoBody::TooLarge),
            _ => bodies::read(request.into_body(), ADMIN_BODY_MAX).await,
        };
        let body = body.map_err(|error| match error {
            NoBody::TooLarge => {
                ApiError::too_large(format!("a body has at most {ADMIN_BODY_MAX} bytes here"))
            }
            NoBody::Slow => ApiError::slow_body(),
            NoBody::BrokeOff(detail) => ApiError::malformed(detail),
        })?;
        holdfast_wire::read::body(&body).map(Body).map_err(ApiError::malformed)
    }
}
