//! What the program said, as text, how it refuses, and signals to it.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod place;

use std::process::{Child, Command, Output};

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

/// Sends a process a signal, such as `-INT`.
pub(crate) fn signal(run: &Child, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &run.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}
