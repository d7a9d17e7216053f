//! The keys file: TOML, hashes only, replaced in one step so that a reader never sees half of it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use holdfast_domain::participants::Name;
use serde::{Deserialize, Serialize};

use super::{KEYS_MAX, KeptKey, KeyId, Keyring, Role, read_hex, write_hex};
use crate::times;

/// The largest keys file that is read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

const OPENING: &str = "# API keys of a Holdfast hub, made by `holdfast keys create`.
# There are only hashes here: a key that is lost cannot be read back, revoke it and make another.
";

/// Why keys cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file system says no.
    #[error("{action} the keys file {file}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Which file.
        file: PathBuf,
        /// What came of it.
        #[source]
        source: std::io::Error,
    },
    /// It is not TOML of the right shape.
    #[error("the keys file {file} is not one: {reason}")]
    Shape {
        /// Which file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    #[serde(default)]
    keys: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: String,
    role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    participant: Option<String>,
    created: String,
    sha256: String,
}

/// A keys file, whether it is there yet or not.
#[derive(Debug, Clone)]
pub struct KeysFile {
    path: PathBuf,
}

impl KeysFile {
    /// The file at a path.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> KeysFile {
        KeysFile { path: path.into() }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The keys in it; `None` if there is no such file.
    ///
    /// # Errors
    /// If it cannot be read, or is not a keys file.
    pub fn read(&self) -> Result<Option<Keyring>, KeyFileError> {
        let length = match fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| self.io("cannot read", error))?.len(),
        };
        if length > FILE_BYTES_MAX {
            return Err(self.shape(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        let text = fs::read_to_string(&self.path).map_err(|error| self.io("cannot read", error))?;
        // The message of a TOML error quotes the line; a line of this file holds a hash, which is no secret.
        let lines: Lines = toml::from_str(&text).map_err(|error| self.shape(error.message().to_owned()))?;
        let mut ring = Keyring::default();
        for line in lines.keys {
            let key = read_line(&line).map_err(|reason| self.shape(format!("key {}: {reason}", line.id)))?;
            if !ring.add(key) {
                return Err(self.shape(format!(
                    "key {}: the id is there twice, or there are more than {KEYS_MAX} keys",
                    line.id
                )));
            }
        }
        Ok(Some(ring))
    }

    /// Changes the keys and writes them. Others who change them at the same time wait.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn change<R>(&self, change: impl FnOnce(&mut Keyring) -> R) -> Result<R, KeyFileError> {
        fs::create_dir_all(self.folder()).map_err(|error| self.io("cannot make the folder of", error))?;
        // The folder is locked, since the file itself is replaced. The lock ends with `folder`.
        let folder = File::open(self.folder()).map_err(|error| self.io("cannot lock", error))?;
        folder.lock().map_err(|error| self.io("cannot lock", error))?;
        let mut ring = self.read()?.unwrap_or_default();
        let before = ring.clone();
        let answer = change(&mut ring);
        if ring != before {
            self.write(&ring)?;
        }
        Ok(answer)
    }

    fn folder(&self) -> &Path {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or_else(|| Path::new("."))
    }

    /// Replaces the file. Only its owner may read it.
    ///
    /// # Errors
    /// If it cannot be written; the file that was there is then still there.
    fn write(&self, ring: &Keyring) -> Result<(), KeyFileError> {
        let lines = Lines { keys: ring.iter().map(write_line).collect() };
        let text = toml::to_string(&lines).map_err(|error| self.shape(error.to_string()))?;
        let folder = self.folder();
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)
            .and_then(|mut file| {
                file.write_all(OPENING.as_bytes())?;
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&beside, &self.path))
            .and_then(|()| File::open(folder)?.sync_all());
        written.map_err(|error| self.io("cannot write", error))
    }

    fn io(&self, action: &'static str, source: std::io::Error) -> KeyFileError {
        KeyFileError::Io { action, file: self.path.clone(), source }
    }

    fn shape(&self, reason: String) -> KeyFileError {
        KeyFileError::Shape { file: self.path.clone(), reason }
    }
}

fn write_line(key: &KeptKey) -> Line {
    let (role, participant) = match key.role {
        Role::Operator => ("operator", None),
        Role::Participant(name) => ("participant", Some(name.to_string())),
    };
    Line {
        id: key.id.to_string(),
        role: role.to_owned(),
        participant,
        created: times::format(key.created),
        sha256: write_hex(&key.hash),
    }
}

fn read_line(line: &Line) -> Result<KeptKey, &'static str> {
    let role = match (line.role.as_str(), line.participant.as_deref()) {
        ("operator", None) => Role::Operator,
        ("participant", Some(name)) => {
            Role::Participant(Name::new(name).ok_or("'participant' is not a participant's name")?)
        }
        _ => return Err("'role' is operator, or participant with the name in 'participant'"),
    };
    Ok(KeptKey {
        id: KeyId::parse(&line.id).ok_or("'id' has eight hexadecimal digits")?,
        role,
        created: times::parse(&line.created).ok_or("'created' is not a time")?,
        hash: read_hex(&line.sha256).ok_or("'sha256' has 64 hexadecimal digits")?,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_come_back_and_the_secret_is_not_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeysFile::at(folder.path().join("deep/keys.toml"));
        assert_eq!(file.read().unwrap(), None);
        let (secret, kept) = KeptKey::make(Role::Operator, 1_763_195_076_120, [1; 4], &[7; 32]);
        let fsp = Role::Participant(Name::new("Fsp.1").unwrap());
        let (_, other) = KeptKey::make(fsp, 5, [2; 4], &[8; 32]);
        assert!(file.change(|ring| ring.add(kept) && ring.add(other)).unwrap());
        let ring = file.read().unwrap().unwrap();
        assert_eq!(ring.iter().copied().collect::<Vec<_>>(), [kept, other]);
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains(&secret.reveal()[12..]));
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_bad_file_is_refused_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeysFile::at(folder.path().join("keys.toml"));
        let line = |id: &str, role: &str, hash: &str| {
            format!(
                "[[keys]]\nid = \"{id}\"\nrole = \"{role}\"\ncreated = \"2026-01-01T00:00:00Z\"\nsha256 = \"{hash}\"\n"
            )
        };
        let hash = "a".repeat(64);
        let good = line("01010101", "operator", &hash);
        for (text, reason) in [
            (line("1", "operator", &hash), "eight hexadecimal"),
            (line("01010101", "king", &hash), "'role' is"),
            (line("01010101", "participant", &hash), "'role' is"),
            (line("01010101", "operator", "abc"), "64 hexadecimal"),
            (format!("{good}{good}"), "twice"),
            (format!("{good}colour = 1\n"), "unknown field"),
            ("keys = 7".to_owned(), "invalid type"),
        ] {
            fs::write(file.path(), &text).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
