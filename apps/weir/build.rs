//! Says which commit and which features this build is of. The commit is `WEIR_COMMIT` where that is set; release builds of a
//! checkout read it from the files of Git, which need no program. Debug builds do not: they would be built anew after each
//! commit. Without either there is none.
#![allow(clippy::print_stdout, reason = "this is how a build script speaks")]

use std::path::{Path, PathBuf};

/// Digits of a commit that are shown.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WEIR_COMMIT");
    let given = variable("WEIR_COMMIT").filter(|commit| !commit.is_empty());
    let is_release = variable("PROFILE").is_some_and(|profile| profile == "release");
    let commit = given.or_else(|| is_release.then(checked_out).flatten());
    let version = variable("CARGO_PKG_VERSION").unwrap_or_default();
    let short = match commit {
        // Variables are others' texts, and `cargo` takes lines.
        Some(commit)
            if commit
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c)) =>
        {
            let digits = commit
                .char_indices()
                .nth(DIGITS)
                .map_or(commit.len(), |(at, _)| at);
            format!("{version} ({})", &commit[..digits])
        }
        _ => version,
    };
    println!("cargo::rustc-env=WEIR_SHORT_VERSION={short}");
    println!("cargo::rustc-env=WEIR_FEATURES={}", features());
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The features of this build, `none` where there are none.
fn features() -> String {
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut features: Vec<String> = variables
        .filter_map(|name| {
            Some(
                name.strip_prefix("CARGO_FEATURE_")?
                    .to_lowercase()
                    .replace('_', "-"),
            )
        })
        .filter(|feature| feature != "default")
        .collect();
    features.sort();
    if features.is_empty() {
        return "none".to_owned();
    }
    features.join(", ")
}

/// The commit that is checked out in the repository of this file, and of no other that may lie around it.
fn checked_out() -> Option<String> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("../..");
    let git = root.join(".git");
    let folder = if git.is_dir() {
        git
    } else {
        // A worktree: a file that names the folder.
        root.join(read(&git)?.strip_prefix("gitdir:")?.trim())
    };
    let head = watched(&folder.join("HEAD"))?;
    let Some(branch) = head.strip_prefix("ref:").map(str::trim) else {
        return Some(head.trim().to_owned());
    };
    let common = read(&folder.join("commondir")).map_or(folder.clone(), |common| folder.join(common.trim()));
    if let Some(commit) = watched(&common.join(branch)) {
        return Some(commit.trim().to_owned());
    }
    let packed = watched(&common.join("packed-refs"))?;
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    let (commit, _) = lines.find(|(_, name)| *name == branch)?;
    Some(commit.to_owned())
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Reads a file, and makes cargo run this script again when the file changes.
fn watched(path: &Path) -> Option<String> {
    let text = read(path)?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text)
}
