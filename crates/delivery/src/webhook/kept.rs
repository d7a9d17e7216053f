//! Outcomes that a clean stop leaves undelivered, in a file: a line that says what it is, then one outcome per line.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use holdfast_domain::ids::Millis;
use serde::{Deserialize, Serialize};

/// The folder of the file, inside a data directory.
const FOLDER: &str = "shop";
const FILE: &str = "outcomes.jsonl";
const UNFINISHED: &str = "outcomes.jsonl.new";
/// The first line.
const HEAD: &str = r#"{"holdfast":"outcomes to be told","version":1}"#;

/// The end of a checkout, to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outcome {
    pub(super) order: String,
    pub(super) tr: u32,
    /// `paid` or `not_paid`.
    pub(super) state: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) why: Option<String>,
    /// When the hub saw it end.
    pub(super) at: Millis,
}

/// The file.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    folder: PathBuf,
}

impl Kept {
    pub(super) fn of(data: &Path) -> Kept {
        Kept { folder: data.join(FOLDER) }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// What the last clean stop left. The file stays until these are told, so that a crash does not lose them.
    pub(super) fn read(&self) -> io::Result<Vec<Outcome>> {
        let path = self.path();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text?,
        };
        let bad = |reason: String| {
            let path = path.display();
            let help = "remove it to start without telling these outcomes";
            io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {reason}; {help}"))
        };
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(bad("it is not a file of outcomes of this version".to_owned()));
        }
        let read = |line: &str| serde_json::from_str(line).map_err(|error| bad(error.to_string()));
        lines.map(read).collect()
    }

    /// Replaces the file, durably. Without outcomes there is none.
    pub(super) fn write(&self, outcomes: &[Outcome]) -> io::Result<()> {
        if outcomes.is_empty() {
            return match fs::remove_file(self.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
                Ok(()) => File::open(&self.folder)?.sync_all(),
            };
        }
        fs::create_dir_all(&self.folder)?;
        let unfinished = self.folder.join(UNFINISHED);
        let mut file = io::BufWriter::new(File::create(&unfinished)?);
        writeln!(file, "{HEAD}")?;
        for outcome in outcomes {
            serde_json::to_writer(&mut file, outcome)?;
            writeln!(file)?;
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(unfinished, self.path())?;
        File::open(&self.folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> [Outcome; 2] {
        let outcome = |order: &str, tr, state: &str, why: Option<&str>| Outcome {
            order: order.to_owned(),
            tr,
            state: state.to_owned(),
            why: why.map(str::to_owned),
            at: 1_700_000_000_000,
        };
        [outcome("o \"1\"\n", 1, "paid", None), outcome("p", 3, "not_paid", Some("stock"))]
    }

    /// A newer hub reads what an older one left: it does not change.
    const GOLDEN: &str = concat!(
        r#"{"holdfast":"outcomes to be told","version":1}"#,
        "\n",
        r#"{"order":"o \"1\"\n","tr":1,"state":"paid","at":1700000000000}"#,
        "\n",
        r#"{"order":"p","tr":3,"state":"not_paid","why":"stock","at":1700000000000}"#,
        "\n",
    );

    #[test]
    fn what_is_written_is_read_and_looks_as_ever() {
        let data = tempfile::tempdir().unwrap();
        let kept = Kept::of(data.path());
        assert_eq!(kept.read().unwrap(), []);
        kept.write(&[]).unwrap();
        kept.write(&outcomes()).unwrap();
        assert_eq!(fs::read_to_string(kept.path()).unwrap(), GOLDEN);
        assert_eq!(kept.read().unwrap(), outcomes());
        kept.write(&outcomes()[..1]).unwrap();
        assert_eq!(kept.read().unwrap(), outcomes()[..1]);
        kept.write(&[]).unwrap();
        assert!(!kept.path().exists());
    }

    #[test]
    fn another_file_is_named_and_not_taken_for_none() {
        let data = tempfile::tempdir().unwrap();
        let kept = Kept::of(data.path());
        kept.write(&outcomes()).unwrap();
        let cut = &GOLDEN[..GOLDEN.len() - 9];
        for text in ["", "{}\n", "{\"holdfast\":\"outcomes to be told\",\"version\":2}\n", cut] {
            fs::write(kept.path(), text).unwrap();
            let said = kept.read().unwrap_err().to_string();
            assert!(said.contains("outcomes.jsonl") && said.contains("remove it"), "{said}");
        }
    }
}
