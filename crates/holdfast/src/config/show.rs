//! Settings for the eye: what is in force and why, and a file of all defaults to begin with.

use std::fmt::Write;

use serde_json::json;

use super::layers::InForce;
use super::table::SETTINGS;
use super::value::{Kind, Value};

/// How wide a comment of the file may be.
const COMMENT_CHARS_MAX: usize = 100;

/// The value without the password that an address may carry.
fn without_password(value: &Value) -> Value {
    let Value::Text(text) = value else { return value.clone() };
    let hidden = text.split_once("://").and_then(|(scheme, rest)| {
        let (who, place) = rest.split_once('@')?;
        let (user, _) = who.split_once(':')?;
        Some(Value::Text(format!("{scheme}://{user}:***@{place}")))
    });
    hidden.unwrap_or_else(|| value.clone())
}

/// One line per setting: key, value, where it came from.
pub(crate) fn as_text(all: &InForce) -> String {
    let width = SETTINGS.iter().map(|setting| setting.key.len()).max().unwrap_or(0);
    let rows: Vec<(&str, String, String)> = all
        .iter()
        .map(|(setting, value, origin)| {
            (setting.key, without_password(value).to_string(), origin.to_string())
        })
        .collect();
    let value_width = rows.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or(0);
    rows.iter().fold(String::new(), |mut text, (key, value, origin)| {
        let _ = writeln!(text, "{key:<width$}  {value:<value_width$}  {origin}");
        text
    })
}

/// One object: key to value and where it came from.
pub(crate) fn as_json(all: &InForce) -> serde_json::Value {
    all.iter()
        .map(|(setting, value, origin)| {
            let value = serde_json::Value::from(&without_password(value));
            (setting.key.to_owned(), json!({"value": value, "from": origin.to_string()}))
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// A TOML file of all settings with their defaults, each with what it does.
pub(crate) fn defaults() -> String {
    let mut text = String::from("# All settings of Holdfast with their defaults.\n");
    let mut table = "";
    for setting in &SETTINGS {
        let (above, name) = setting.key.rsplit_once('.').unwrap_or(("", setting.key));
        text.push('\n');
        if above != table {
            let _ = writeln!(text, "[{above}]");
            table = above;
        }
        let mut what = setting.what.to_owned();
        if matches!(setting.kind, Kind::Choice(_) | Kind::Number { .. }) {
            let words = setting.kind.words();
            let _ = write!(what, " ({words})");
        }
        for line in wrap(&what) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = match setting.default() {
            Value::Unset => writeln!(text, "#{name} = \"…\""),
            value => writeln!(text, "{name} = {value}"),
        };
    }
    text
}

fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("never empty");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > COMMENT_CHARS_MAX {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = |text: &str| without_password(&Value::Text(text.to_owned())).to_string();
        assert_eq!(shown("postgres://hub:se:cret@db:5432/x"), "\"postgres://hub:***@db:5432/x\"");
        for plain in ["postgres://hub@db/x", "kafka://a:1,b:2", "./data"] {
            assert_eq!(shown(plain), format!("\"{plain}\""));
        }
    }

    #[test]
    fn the_file_of_defaults_says_what_is_in_force_without_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), defaults()).unwrap();
        let with = InForce::load(Some(file.path()), std::iter::empty(), &[]).unwrap();
        let without = InForce::load(None, std::iter::empty(), &[]).unwrap();
        let values = |all: &InForce| all.iter().map(|(_, value, _)| value.clone()).collect::<Vec<_>>();
        assert_eq!(values(&with), values(&without));
    }

    #[test]
    fn every_table_is_opened_once_and_every_setting_said_once() {
        let text = defaults();
        let mut headings: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
        let all = headings.len();
        headings.sort_unstable();
        headings.dedup();
        assert_eq!(headings.len(), all);
        let variables: std::collections::BTreeSet<String> =
            SETTINGS.iter().map(super::super::table::Setting::variable).collect();
        assert_eq!(variables.len(), SETTINGS.len(), "no two settings share a variable");
    }
}
