//! Scenarios as data, put to `holdfast dry-run` by the real binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;

use super::server::{binary, folder, path};

/// The scenarios of one kind of dry run, and the runs of it.
pub(crate) struct Scenarios {
    kind: &'static str,
}

impl Scenarios {
    pub(crate) const fn of(kind: &'static str) -> Scenarios {
        Scenarios { kind }
    }

    fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(self.kind)
    }

    /// The cases with their answers, by name.
    pub(crate) fn good(&self) -> Vec<(String, Value)> {
        files(&self.folder())
    }

    /// The cases that are refused, by name.
    pub(crate) fn bad(&self) -> Vec<(String, Value)> {
        files(&self.folder().join("bad"))
    }

    pub(crate) fn named(&self, name: &str) -> Value {
        let found = self.good().into_iter().find(|(file, _)| file == name);
        found.unwrap_or_else(|| panic!("there is no scenario {name}")).1
    }

    /// Runs a file, or with `-` what is given as input.
    pub(crate) fn run(&self, file: &str, input: &str) -> Output {
        holdfast(&["dry-run", self.kind, file], input)
    }

    /// The answer to a scenario's case without white space: from a file, and the same byte for byte from standard input. A file that
    /// is not there is refused.
    pub(crate) fn one_answer(&self, name: &str) -> String {
        let (folder, case) = (folder(), self.named(name)["case"].to_string());
        let file = folder.path().join("case.json");
        std::fs::write(&file, &case).unwrap();
        let first = self.run(path(&file), "");
        for _ in 0..5 {
            assert_eq!(self.run("-", &case).stdout, first.stdout);
        }
        let missing = self.run(path(&folder.path().join("missing.json")), "");
        assert_refused("missing", &missing, "missing.json");
        String::from_utf8(first.stdout).unwrap().split_whitespace().collect()
    }

    /// Every scenario says why it is there and comes out as it is written.
    pub(crate) fn assert_good(&self, at_least: usize) {
        let scenarios = self.good();
        assert!(scenarios.len() >= at_least, "only {} scenarios were found", scenarios.len());
        let mut wrong = Vec::new();
        for (name, file) in &scenarios {
            assert!(file["why"].as_str().is_some_and(|why| !why.is_empty()), "{name} does not say why");
            let output = self.run("-", &file["case"].to_string());
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
            if output.status.code() != Some(0) || answer != file["expect"] {
                let (why, expect) = (&file["why"], &file["expect"]);
                let stderr = String::from_utf8_lossy(&output.stderr);
                wrong.push(format!("{name}: {why}\n  was {answer}\n  not {expect}\n{stderr}"));
            }
        }
        assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), scenarios.len(), wrong.join("\n"));
    }

    /// Every bad case is refused with its reason.
    pub(crate) fn assert_bad(&self, at_least: usize) {
        let cases = self.bad();
        assert!(cases.len() >= at_least, "only {} bad cases were found", cases.len());
        for (name, file) in &cases {
            let input = match file["input_text"].as_str() {
                Some(text) => text.to_owned(),
                None => file["case"].to_string(),
            };
            assert_refused(name, &self.run("-", &input), file["stderr_contains"].as_str().unwrap());
        }
    }
}

/// The binary with that on its standard input.
pub(crate) fn holdfast(arguments: &[&str], input: &str) -> Output {
    let mut child = binary()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A run that does not get as far as its input closes the pipe; its exit code and output tell.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Nothing on standard output, a reason on standard error, exit code 2.
pub(crate) fn assert_refused(name: &str, output: &Output, reason: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
    assert_eq!(output.stdout, b"", "{name}");
    assert!(stderr.contains(reason), "{name}: '{reason}' is not in: {stderr}");
}

/// The JSON files of a folder, by name.
fn files(folder: &Path) -> Vec<(String, Value)> {
    let mut files: Vec<(String, Value)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let file = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, file)
        })
        .collect();
    files.sort_by(|left, right| left.0.cmp(&right.0));
    files
}
