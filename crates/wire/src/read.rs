//! A shape from the bytes of a body, or from a value that was read before.
//!
//! A body is read straight into its type, without a tree. Only a body that fails is read once more, by a reader that
//! keeps account of the place, so that the failure can name the member: `outputs[2].quantity: must be …`.

use std::fmt::Display;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny};
use serde_json::Value;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

use crate::list::Object;

/// The longest part of serde's own words that is passed on: they repeat what the caller sent.
const WORDS_CHARS_MAX: usize = 300;

/// A shape from all of a body.
///
/// # Errors
/// Names the member that is wrong; says that the body is, where it is no JSON, or has a member twice or too many.
pub fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if let Ok(Object(shape)) = serde_json::from_slice(bytes) {
        return Ok(shape);
    }
    // What is no JSON at all is said before anything about its members.
    serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| format!("the body: {error}"))?;
    read(&mut serde_json::Deserializer::from_slice(bytes)).map_err(|wrong| match wrong {
        Wrong::Member(problem) => problem,
        Wrong::Whole(problem) => format!("the body: {problem}"),
    })
}

/// A shape from a value.
///
/// # Errors
/// As those of [`body`].
pub fn value<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    read(value).map_err(|wrong| match wrong {
        Wrong::Member(problem) | Wrong::Whole(problem) => problem,
    })
}

/// What a failure is about.
enum Wrong {
    Member(String),
    Whole(String),
}

fn read<'de, T, D>(source: D) -> Result<T, Wrong>
where
    T: Deserialize<'de>,
    D: Deserializer<'de, Error = serde_json::Error>,
{
    let read = serde_path_to_error::deserialize::<_, Object<T>>(source);
    read.map(|Object(shape)| shape).map_err(|error| wrong(error.path(), error.inner()))
}

/// Serde's words in ours.
fn wrong(path: &Path, error: &serde_json::Error) -> Wrong {
    let words = error.to_string();
    let plain = words.rsplit_once(" at line ").map_or(words.as_str(), |(plain, _)| plain);
    let of_whole = plain.starts_with("unknown field ") || plain.starts_with("duplicate field ");
    if error.classify() != Category::Data || of_whole {
        return Wrong::Whole(shortened(&words));
    }
    let last = path.iter().next_back();
    if let Some(name) = plain.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let place = if last.is_none() { String::new() } else { format!("{path}.") };
        return Wrong::Member(format!("{place}{name}: is missing"));
    }
    let Some(last) = last else { return Wrong::Whole("must be a JSON object".to_owned()) };
    let problem = match plain.rsplit_once(", expected ") {
        _ if plain.starts_with("invalid type: null,") && matches!(last, Segment::Map { .. }) => {
            "is missing".to_owned()
        }
        Some((_, "a boolean")) => "must be true or false".to_owned(),
        Some((found, kind)) if found.starts_with("invalid ") => format!("must be {kind}"),
        _ => shortened(&plain),
    };
    Wrong::Member(format!("{path}: {problem}"))
}

/// What serde says, cut.
fn shortened(words: &impl Display) -> String {
    let text = words.to_string();
    match text.char_indices().nth(WORDS_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A refusal that begins like this.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_refused<T: std::fmt::Debug>(read: Result<T, String>, problem: &str) {
    let said = read.expect_err(problem);
    assert!(said.starts_with(problem), "'{said}' instead of '{problem}'");
}
