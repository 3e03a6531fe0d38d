//! Completion scripts and manual pages cover every command.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{self, stderr, stdout};

fn weir(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).current_dir(folder).output().unwrap()
}

/// The commands that the help lists.
fn commands(folder: &Path) -> Vec<String> {
    let help = stdout(&weir(folder, &["--help"]));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    let names: Vec<String> = names.filter(|name| name != "help").collect();
    assert!(names.len() >= 15, "{names:?}");
    names
}

#[test]
fn completions_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    // A shell asks for them wherever it starts, whatever stands there.
    std::fs::write(folder.path().join("weir.toml"), "frame_memory = \"much\"\n").unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let printed = weir(folder.path(), &["completions", shell]);
        assert!(printed.status.success(), "{shell}: {}", stderr(&printed));
        let script = stdout(&printed);
        for name in commands(folder.path()) {
            assert!(script.contains(&name), "{shell}: {name}");
        }
    }
    let script = folder.path().join("weir.bash");
    std::fs::write(&script, weir(folder.path(), &["completions", "bash"]).stdout).unwrap();
    let read = Command::new("bash").arg("-n").arg(&script).output().unwrap();
    assert!(read.status.success(), "{}", stderr(&read));

    let unknown = weir(folder.path(), &["completions", "csh"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("bash"), "{}", stderr(&unknown));
}

#[test]
fn manual_pages_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let page = stdout(&weir(folder.path(), &["man"]));
    assert!(page.contains(".TH WEIR 1"), "{page}");
    let written = weir(folder.path(), &["man", "--out", "pages"]);
    assert!(written.status.success(), "{}", stderr(&written));
    for name in commands(folder.path()) {
        assert!(
            page.contains(&format!("weir\\-{}(1)", name.replace("-", "\\-"))),
            "{name}"
        );
        let page = std::fs::read_to_string(folder.path().join(format!("pages/weir-{name}.1"))).unwrap();
        assert!(
            page.contains(&format!(".TH WEIR-{} 1", name.to_uppercase())),
            "{page}"
        );
    }
    let run = std::fs::read_to_string(folder.path().join("pages/weir-run.1")).unwrap();
    assert!(run.contains("goodput"), "the words of the table");
    assert!(folder.path().join("pages/weir-models-pull.1").is_file());

    std::fs::write(folder.path().join("file"), "").unwrap();
    let refused = weir(folder.path(), &["man", "--out", "file/pages"]);
    common::refuses(&refused, &["cannot write file/pages"]);
}

#[test]
fn the_words_of_the_table_are_in_the_help() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["run", "replay", "score"] {
        let help = stdout(&weir(folder.path(), &[command, "--help"]));
        for word in ["arrived", "in flight", "goodput/s", "wasted s", "stream-full"] {
            assert!(help.contains(word), "{command}: {word}");
        }
    }
}
