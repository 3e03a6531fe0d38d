//! What the program said, as text, and how it refuses.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::process::Output;

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The program must fail as the user's mistake, with a complaint that has these words, which is given back.
pub(crate) fn refuses(output: &Output, words: &[&str]) -> String {
    let complaint = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    for word in words {
        assert!(complaint.contains(word), "\"{word}\" is not in\n{complaint}");
    }
    complaint
}
