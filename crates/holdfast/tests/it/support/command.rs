//! What commands say, and how they end.

use std::process::Output;

use serde_json::Value;

/// What a command has written to standard error.
pub(crate) fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command has printed that must end well.
#[track_caller]
pub(crate) fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", complaint(output));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The same of one that prints JSON.
#[track_caller]
pub(crate) fn json_of(output: &Output) -> Value {
    serde_json::from_str(&done(output)).expect("JSON on standard output")
}

/// The same of one that prints JSON line by line.
#[track_caller]
pub(crate) fn json_lines(output: &Output) -> Vec<Value> {
    done(output).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// A command that must end with this code and complain of all this; its complaint.
#[track_caller]
pub(crate) fn refused(output: &Output, code: i32, parts: &[&str]) -> String {
    let said = complaint(output);
    assert_eq!(output.status.code(), Some(code), "{}{said}", String::from_utf8_lossy(&output.stdout));
    assert_says(&said, parts);
    said
}

#[track_caller]
pub(crate) fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}
