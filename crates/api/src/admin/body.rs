//! Bodies of the admin paths: a JSON object, read within bounds, whatever its media type says. Every failure is 400/3101
//! and names the member: `limit.value: …`.

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::error::ApiError;
use crate::limits::{ADMIN_BODY_MAX, BODY_READ_MAX};

/// The body of a request, as one shape.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Body<T>, ApiError> {
        let too_large = || ApiError::too_large(format!("a body has at most {ADMIN_BODY_MAX} bytes here"));
        let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let announced: Option<usize> = announced.and_then(|text| text.parse().ok());
        if announced.is_some_and(|length| length > ADMIN_BODY_MAX) {
            return Err(too_large());
        }
        let body = Limited::new(request.into_body(), ADMIN_BODY_MAX).collect();
        match timeout(BODY_READ_MAX, body).await {
            Err(_) => Err(ApiError::slow_body()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(error)) => Err(ApiError::malformed(format!("the body broke off: {error}"))),
            Ok(Ok(body)) => {
                holdfast_wire::read::body(&body.to_bytes()).map(Body).map_err(ApiError::malformed)
            }
        }
    }
}
