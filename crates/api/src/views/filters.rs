//! The filters of a list: the parameters of its query, each by a name that is known there and at most once.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;

use crate::admin::shortened;
use crate::error::ApiError;
use crate::limits::PAGE_ROWS_MAX;

/// A query as it came.
pub(crate) type Parameters = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// The values of these parameters, in the order of their names.
pub(crate) fn filters<const N: usize>(
    parameters: Parameters,
    names: [&str; N],
) -> Result<[Option<String>; N], ApiError> {
    let Query(parameters) = parameters.map_err(|error| ApiError::malformed(error.body_text()))?;
    let mut values = [const { None }; N];
    for (name, value) in parameters {
        let Some(at) = names.iter().position(|known| *known == name) else {
            let (name, names) = (shortened(&name), names.join(", "));
            return Err(ApiError::malformed(format!("{name} is not a parameter here; there are {names}")));
        };
        if values[at].replace(value).is_some() {
            return Err(ApiError::malformed(format!("{name} stands there twice")));
        }
    }
    Ok(values)
}

/// The rows of a page that were asked for.
pub(crate) fn limit(text: Option<&str>) -> Result<usize, ApiError> {
    let Some(text) = text else { return Ok(PAGE_ROWS_MAX) };
    text.parse().map_err(|_| {
        ApiError::malformed(format!("limit: '{}' is not a number from 1 to {PAGE_ROWS_MAX}", shortened(text)))
    })
}

/// The same where more than a page may have is refused.
pub(crate) fn rows(text: Option<&str>) -> Result<usize, ApiError> {
    match limit(text)? {
        rows @ 1..=PAGE_ROWS_MAX => Ok(rows),
        rows => Err(ApiError::malformed(format!("limit: {rows} is not from 1 to {PAGE_ROWS_MAX}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_known_and_stand_there_once() {
        let read = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            filters(Ok(Query(pairs.collect())), ["state", "after"]).map_err(|error| error.detail)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read(&[]), Ok([None, None]));
        assert_eq!(read(&[("after", "7"), ("state", "")]), Ok([some(""), some("7")]));
        assert_eq!(
            read(&[("state", "a"), ("foo", "1")]),
            Err("foo is not a parameter here; there are state, after".to_owned())
        );
        assert_eq!(read(&[("after", "1"), ("after", "1")]), Err("after stands there twice".to_owned()));
        assert_eq!((limit(None), limit(Some("7"))), (Ok(PAGE_ROWS_MAX), Ok(7)));
        for bad in ["", "-1", "ten", "99999999999999999999"] {
            assert_eq!(limit(Some(bad)).map_err(|error| error.code), Err(3101), "{bad}");
        }
    }
}
