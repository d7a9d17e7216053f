//! The layers: defaults, then the file, then the environment, then the command line. A later one wins.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};

use super::table::{SETTINGS, Setting};
use super::value::Value;

/// What every variable of ours begins with.
pub(crate) const PREFIX: &str = "HOLDFAST_";
/// The file that is read if it is there and no other is named.
pub(crate) const FILE: &str = "holdfast.toml";
/// Names the file in the environment.
const CONFIG_VARIABLE: &str = "CONFIG";
/// Variables that begin like ours and are not settings: what the commands that call a hub read, how tests run, and
/// what Kubernetes puts into every container of a namespace with a service called holdfast.
const NOT_SETTINGS: [&str; 5] = ["URL", "KEY", "BLESS", "KILLS", "PORT"];
const NOT_SETTINGS_BEGIN: [&str; 4] = ["DFSP_", "PORT_", "SERVICE_", "TEST_"];
/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Environment(variable) => write!(f, "environment {variable}"),
            Origin::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// A setting given on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    /// Its key.
    pub(crate) key: String,
    pub(crate) value: String,
    /// As the user wrote it, for messages.
    pub(crate) flag: String,
}

/// Every setting with its value and where that came from.
#[derive(Debug, Clone)]
pub(crate) struct InForce {
    values: BTreeMap<&'static str, (Value, Origin)>,
}

impl InForce {
    /// Lays all layers over each other. `file`: the one that was asked for; without it [`FILE`] is read if it is
    /// there.
    pub(crate) fn load(
        file: Option<&Path>,
        variables: impl Iterator<Item = (String, String)>,
        given: &[Given],
    ) -> anyhow::Result<InForce> {
        let mut variables: BTreeMap<String, String> = variables.collect();
        let values = SETTINGS.iter().map(|setting| (setting.key, (setting.default(), Origin::Default)));
        let mut all = InForce { values: values.collect() };
        let from_variable = variables.remove(CONFIG_VARIABLE).map(PathBuf::from);
        let named = file.map(Path::to_owned).or(from_variable);
        match named {
            Some(file) => all.lay_file(&file)?,
            None if Path::new(FILE).exists() => all.lay_file(Path::new(FILE))?,
            None => {}
        }
        all.lay_environment(&variables)?;
        for Given { key, value, flag } in given {
            let setting = find(key).map_err(|reason| anyhow!("{flag}: {reason}"))?;
            let value = setting.kind.read(value).map_err(|reason| anyhow!("{flag}: {reason}"))?;
            all.values.insert(setting.key, (value, Origin::Flag(flag.clone())));
        }
        Ok(all)
    }

    fn lay_file(&mut self, file: &Path) -> anyhow::Result<()> {
        let shown = file.display();
        let length = std::fs::metadata(file).with_context(|| format!("cannot read {shown}"))?.len();
        if length > FILE_BYTES_MAX {
            bail!("{shown} has more than {FILE_BYTES_MAX} bytes");
        }
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
        let table: toml::Table = text.parse().map_err(|error| anyhow!("{shown} is not TOML: {error}"))?;
        let mut leaves = Vec::new();
        flatten(&table, "", &mut leaves);
        for (key, value) in leaves {
            let setting = find(&key).map_err(|reason| anyhow!("{shown}: {reason}"))?;
            let value = setting.kind.take(value).map_err(|reason| anyhow!("{shown}: {key}: {reason}"))?;
            self.values.insert(setting.key, (value, Origin::File(file.to_owned())));
        }
        Ok(())
    }

    /// `variables` come without [`PREFIX`].
    fn lay_environment(&mut self, variables: &BTreeMap<String, String>) -> anyhow::Result<()> {
        for (name, value) in variables {
            if NOT_SETTINGS.contains(&name.as_str())
                || NOT_SETTINGS_BEGIN.iter().any(|beginning| name.starts_with(beginning))
            {
                continue;
            }
            let variable = format!("{PREFIX}{name}");
            let Some(setting) = SETTINGS.iter().find(|setting| setting.variable() == variable) else {
                let names: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
                let nearest = nearest(&variable, names.iter().map(String::as_str));
                bail!("the environment has {variable}, which is no setting; the nearest is {nearest}");
            };
            let value = setting.kind.read(value).map_err(|reason| anyhow!("{variable}: {reason}"))?;
            self.values.insert(setting.key, (value, Origin::Environment(variable)));
        }
        Ok(())
    }

    /// The value of a setting that is in the table.
    pub(super) fn value(&self, key: &str) -> &Value {
        &self.values.get(key).unwrap_or_else(|| panic!("{key} is not in the table of settings")).0
    }

    /// The settings in the order of the table.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static Setting, &Value, &Origin)> {
        SETTINGS.iter().map(|setting| {
            let (value, origin) = &self.values[setting.key];
            (setting, value, origin)
        })
    }
}

/// The variables of this process that begin with [`PREFIX`], without it. One that is not UTF-8 cannot be ours.
pub(crate) fn our_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?.strip_prefix(PREFIX)?.to_owned();
        Some((name, value.to_str()?.to_owned()))
    })
}

fn flatten<'a>(table: &'a toml::Table, above: &str, leaves: &mut Vec<(String, &'a toml::Value)>) {
    for (name, value) in table {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            toml::Value::Table(table) => flatten(table, &key, leaves),
            value => leaves.push((key, value)),
        }
    }
}

fn find(key: &str) -> Result<&'static Setting, String> {
    SETTINGS.iter().find(|setting| setting.key == key).ok_or_else(|| {
        let nearest = nearest(key, SETTINGS.iter().map(|setting| setting.key));
        format!("there is no setting '{key}'; the nearest is '{nearest}'")
    })
}

/// The known name with the fewest changes of one character; a name that was cut short counts as one change.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> &'a str {
    let changes = |known: &&str| if known.starts_with(name) { 1 } else { distance(name, known) };
    known.min_by_key(changes).unwrap_or_default()
}

/// How many characters must be put in, taken out or replaced to make one text the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, of_one) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, of_other) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(of_one != *of_other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_with(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn given(key: &str, value: &str) -> Given {
        Given { key: key.to_owned(), value: value.to_owned(), flag: format!("--set {key}={value}") }
    }

    fn variables(pairs: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
        let pairs: Vec<_> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        pairs.into_iter()
    }

    #[test]
    fn a_later_layer_wins() {
        let file = file_with(
            "listen = '127.0.0.1:1'\ndata = 'f'\n[clock]\njump_max = 11\n[expiry]\nholds_max = 1\n",
        );
        let environment =
            [("LISTEN", "127.0.0.1:2"), ("CLOCK_JUMP_MAX", "1_2"), ("SERVICE_HOST", "x"), ("KEY", "")];
        let all = InForce::load(Some(file.path()), variables(&environment), &[given("clock.jump_max", "13")]);
        let all = all.unwrap();
        let of = |key: &str| &all.values[key];
        assert_eq!(
            of("clock.jump_max"),
            &(Value::Number(13), Origin::Flag("--set clock.jump_max=13".into()))
        );
        let variable = Origin::Environment("HOLDFAST_LISTEN".into());
        assert_eq!(of("listen"), &(Value::Text("127.0.0.1:2".into()), variable));
        assert_eq!(of("data"), &(Value::Text("f".into()), Origin::File(file.path().into())));
        assert_eq!(of("expiry.holds_max").0, Value::Number(1));
        assert_eq!(of("trace"), &(Value::Text("info".into()), Origin::Default));
    }

    #[test]
    fn the_environment_can_name_the_file() {
        let file = file_with("data = 'elsewhere'");
        let path = file.path().to_str().unwrap();
        let all = InForce::load(None, variables(&[("CONFIG", path)]), &[]).unwrap();
        assert_eq!(all.value("data"), &Value::Text("elsewhere".into()));
        assert!(InForce::load(Some(Path::new("/does/not/exist.toml")), variables(&[]), &[]).is_err());
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest_known_one() {
        let refused = |result: anyhow::Result<InForce>| format!("{:#}", result.unwrap_err());
        let file = file_with("[clock]\njumpmax = 1");
        let error = refused(InForce::load(Some(file.path()), variables(&[]), &[]));
        assert!(error.contains("'clock.jumpmax'") && error.contains("'clock.jump_max'"), "{error}");
        let error = refused(InForce::load(None, variables(&[("LISTE", "x")]), &[]));
        assert!(error.contains("HOLDFAST_LISTE,") && error.contains("HOLDFAST_LISTEN"), "{error}");
        let error = refused(InForce::load(None, variables(&[]), &[given("tls.cert", "x")]));
        assert!(error.contains("--set tls.cert=x") && error.contains("'tls.certificate'"), "{error}");
    }

    #[test]
    fn values_of_the_wrong_kind_are_refused() {
        for text in [
            "listen = 4000",
            "listen = 'localhost'",
            "[clock]\njump_max = -1",
            "[clock]\njump_max = 0",
            "[clock]\njump_max = '10'",
            "[clock]\njump_max = 1.5",
            "[intake]\nbytes_max = 10",
            "[position]\norder = 'largest'",
            "[metrics]\nopen = 'yes'",
            "data = ''",
            "data = ['a']",
            "clock = 7",
            "data",
        ] {
            let file = file_with(text);
            assert!(InForce::load(Some(file.path()), variables(&[]), &[]).is_err(), "{text}");
        }
        for (key, value) in
            [("clock.jump_max", "ten"), ("metrics.open", "1"), ("listen", ""), ("listen", "4000")]
        {
            assert!(InForce::load(None, variables(&[]), &[given(key, value)]).is_err(), "{key}={value}");
        }
    }

    #[test]
    fn distances_are_counted_in_characters() {
        assert_eq!([distance("", "abc"), distance("abc", "abc"), distance("kitten", "sitting")], [3, 0, 3]);
    }
}
