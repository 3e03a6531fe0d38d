//! The house rules that no compiler knows: which names may stand where, and how large a file may grow.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod circles;
mod dependencies;
mod encoders;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a source file may have.
const LINES: usize = 700;

/// Files that may name what is forbidden in their folder, each for one reason: clients of brokers that have no other form than an async
/// one run on the thread of their sink; mails are sent over a connection that bounds what a server may send.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("operators/src/sinks/local_runtime.rs", "tokio"),
    ("operators/src/sinks/mail/connect.rs", "tokio"),
    ("operators/src/sinks/mail/smtp.rs", "tokio"),
];

/// Names that must not stand in the sources of a folder; programs beside a library (`bin`) have entries of their own.
/// They are whole paths or words: `ort` is not in `sort`.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "engine/policy/src",
        &[
            "actix",
            "tokio",
            "ffmpeg",
            "ffmpeg_next",
            "ort",
            "image",
            "tracing",
            "std::fs",
            "std::net",
            "std::thread",
            "std::time",
            "Instant::now",
            "SystemTime",
            "HashMap",
            "HashSet",
            "async",
        ],
    ),
    (
        "engine/control/src",
        &[
            "actix",
            "tokio",
            "ffmpeg",
            "ffmpeg_next",
            "ort",
            "image",
            "tracing",
            "std::fs",
            "std::net",
            "std::thread",
            "std::time",
            "Instant::now",
            "SystemTime",
            "HashMap",
            "HashSet",
            "async",
        ],
    ),
    (
        "engine/types/src",
        &[
            "actix",
            "tokio",
            "ffmpeg",
            "ffmpeg_next",
            "ort",
            "image",
            "tracing",
            "std::fs",
            "std::net",
            "std::thread",
            "std::time",
            "Instant::now",
            "SystemTime",
            "HashMap",
            "HashSet",
            "async",
        ],
    ),
    (
        "engine/analytics/src",
        &[
            "actix",
            "tokio",
            "ffmpeg",
            "ffmpeg_next",
            "ort",
            "image",
            "tracing",
            "std::fs",
            "std::net",
            "std::thread",
            "std::time",
            "Instant::now",
            "SystemTime",
            "HashMap",
            "HashSet",
            "async",
        ],
    ),
    (
        "engine/planner/src",
        &[
            "actix",
            "tokio",
            "ffmpeg",
            "ffmpeg_next",
            "ort",
            "image",
            "tracing",
            "std::fs",
            "std::net",
            "std::thread",
            "std::time",
            "Instant::now",
            "SystemTime",
            "HashMap",
            "HashSet",
            "async",
        ],
    ),
    (
        "engine/config/src",
        &[
            "weir_graph",
            "weir_policy",
            "weir_planner",
            "Catalog",
            "actix",
            "tokio",
            "ffmpeg_next",
            "ort",
            "std::thread",
            "std::time",
            "Instant::now",
            "SystemTime",
        ],
    ),
    (
        "engine/graph/src",
        &[
            "actix",
            "tokio",
            "ffmpeg_next",
            "ort",
            "std::thread",
            "std::time",
            "Instant::now",
            "SystemTime",
        ],
    ),
    (
        "engine/flow/src",
        &[
            "actix",
            "tokio",
            "ffmpeg_next",
            "ort",
            "std::fs",
            "std::net",
            "Instant",
            "SystemTime",
        ],
    ),
    (
        "engine/sim/src",
        &[
            "weir_runtime",
            "weir_operators",
            "actix",
            "tokio",
            "Instant",
            "SystemTime",
        ],
    ),
    ("engine/tunnel/src", &["actix", "zenoh", "ort", "ffmpeg_next"]),
    (
        "engine/fabric/src",
        &["actix", "tokio", "ort", "ffmpeg_next", "Instant"],
    ),
    (
        "engine/partition/src",
        &[
            "actix",
            "tokio",
            "ort",
            "ffmpeg_next",
            "weir_runtime",
            "weir_operators",
            "Instant",
            "SystemTime",
        ],
    ),
    (
        "engine/runtime/src",
        &["ort", "ffmpeg", "ffmpeg_next", "weir_operators"],
    ),
    (
        "operators/src",
        &["actix", "tokio", "weir_runtime", "weir_graph", "weir_policy"],
    ),
    (
        "videos/src",
        &[
            "weir_flow",
            "weir_files",
            "weir_operators",
            "weir_terminal",
            "anyhow",
            "clap",
            "tokio",
            "ort",
            "ffmpeg_next",
            "std::fs",
            "std::net",
            "std::time",
            "Instant",
            "SystemTime",
            "HashMap",
            "HashSet",
        ],
    ),
    (
        "videos/src/bin",
        &[
            "tokio",
            "ort",
            "ffmpeg_next",
            "std::net",
            "std::time",
            "Instant",
            "SystemTime",
            "HashMap",
            "HashSet",
        ],
    ),
    (
        "videos/truth/src",
        &[
            "tokio",
            "ort",
            "ffmpeg_next",
            "std::fs",
            "std::net",
            "std::time",
            "Instant",
            "SystemTime",
        ],
    ),
];

/// Crates of the workspace, each with the crates of the workspace that it may depend on.
const DIRECTIONS: &[(&str, &[&str])] = &[
    ("engine/types", &[]),
    ("engine/planner", &["weir-types"]),
    ("engine/policy", &["weir-types"]),
    ("engine/control", &["weir-types", "weir-policy"]),
    ("engine/files", &[]),
    ("engine/config", &["weir-types", "weir-files", "weir-flow"]),
    ("engine/tunnel", &[]),
    ("engine/fabric", &["weir-tunnel"]),
    ("engine/flow", &["weir-types"]),
    (
        "engine/graph",
        &[
            "weir-types",
            "weir-analytics",
            "weir-planner",
            "weir-policy",
            "weir-flow",
            "weir-files",
            "weir-config",
        ],
    ),
    (
        "engine/sim",
        &[
            "weir-types",
            "weir-control",
            "weir-planner",
            "weir-policy",
            "weir-graph",
            "weir-flow",
            "weir-files",
            "weir-config",
        ],
    ),
    ("engine/analytics", &["weir-types", "weir-flow"]),
    ("engine/partition", &["weir-types", "weir-flow"]),
    (
        "engine/runtime",
        &[
            "weir-types",
            "weir-control",
            "weir-planner",
            "weir-policy",
            "weir-graph",
            "weir-flow",
            "weir-files",
            "weir-partition",
            "weir-analytics",
        ],
    ),
    ("engine/kserve", &[]),
    ("engine/serve", &["weir-kserve"]),
    ("engine/nats", &["weir-files"]),
    ("engine/jobs", &["weir-files", "weir-nats"]),
    (
        "operators",
        &[
            "weir-analytics",
            "weir-flow",
            "weir-files",
            "weir-kserve",
            "weir-nats",
        ],
    ),
    ("apps/terminal", &["weir-flow", "weir-files"]),
    (
        "videos",
        &[
            "weir-truth",
            "weir-flow",
            "weir-files",
            "weir-operators",
            "weir-terminal",
        ],
    ),
    ("videos/truth", &[]),
    ("models", &["weir-flow"]),
];

/// Libraries with a program beside them, and the only crates that the library itself needs of ours and of those behind
/// doors. All others of these are the program's, and optional: the library builds without.
const LIBRARIES: &[(&str, &[&str])] = &[("videos", &["weir-truth"])];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below `folder` that are part of the project, by what their names end with.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let ignored = ["target", ".git", ".runtime", "out", "node_modules"];
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("a readable folder").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_symlink() || ignored.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text without its comments, lines kept. A `//` within a string, as in a URL, is not taken for one: it follows a
/// colon.
fn code(text: &str) -> String {
    let line = |line: &str| {
        let mut starts = line.match_indices("//").map(|(at, _)| at);
        let comment = starts.find(|at| !line[..*at].ends_with(':'));
        line[..comment.unwrap_or(line.len())].to_owned()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The code without its texts between quotes: a name in a message is not a use.
fn without_texts(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let (mut within, mut escaped) = (false, false);
    let mut before = ' ';
    for c in code.chars() {
        match c {
            // A quotation mark as a character: '"'.
            '"' if !within && before == '\'' => {}
            '"' if !escaped => within = !within,
            _ if within => escaped = c == '\\' && !escaped,
            _ => {}
        }
        if c != '\\' {
            escaped = false;
        }
        if !within || c == '\n' {
            out.push(c);
        }
        before = c;
    }
    out
}

/// Whether `name` stands in the code as a whole word or path, also as `std::{fs, io}`.
fn names(code: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let word = |code: &str, name: &str| {
        code.match_indices(name).any(|(at, _)| {
            let before = code[..at].chars().next_back().is_none_or(|c| !part(c));
            let after = code[at + name.len()..].chars().next().is_none_or(|c| !part(c));
            before && after
        })
    };
    let grouped = || {
        let inner = name.strip_prefix("std::")?;
        let groups = code
            .match_indices("std::{")
            .map(|(at, _)| code[at..].split(';').next().unwrap_or_default());
        groups.into_iter().find(|group| word(group, inner))
    };
    word(code, name) || grouped().is_some()
}

/// The crates that a manifest's table of dependencies names; those for tests are free.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut within = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[') {
            within = table.starts_with("dependencies") || table.contains(".dependencies");
            if let Some(name) = table.strip_prefix("dependencies.") {
                found.insert(name.trim_end_matches(']').to_owned());
            }
        } else if within && !line.starts_with('#') {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            if !name.is_empty() {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

/// Manifests of the workspace's crates, by their folders.
fn crates() -> Vec<(String, String)> {
    let root = root();
    let crates = files(&root, &["Cargo.toml"]).into_iter().filter_map(|path| {
        let folder = path
            .parent()?
            .strip_prefix(&root)
            .ok()?
            .to_string_lossy()
            .into_owned();
        let manifest = read(&path);
        manifest.contains("[package]").then_some((folder, manifest))
    });
    crates.collect()
}

fn assert_none(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn forbidden_names_are_not_in_the_sources() {
    let mut broken = Vec::new();
    for (folder, forbidden) in FORBIDDEN {
        let folder = root().join(folder);
        let sources = files(&folder, &[".rs"]).into_iter();
        for path in sources.filter(|path| !path.starts_with(folder.join("bin"))) {
            let code = without_texts(&code(&read(&path)));
            let may = |name: &str| {
                let excepted = EXCEPTIONS.iter();
                excepted
                    .filter(|(file, _)| path == root().join(file))
                    .any(|(_, known)| *known == name)
            };
            let used = forbidden.iter().filter(|name| names(&code, name) && !may(name));
            broken.extend(used.map(|name| format!("{} names {name}", path.display())));
        }
    }
    assert_none(&broken);
}

#[test]
fn crates_depend_in_one_direction() {
    let crates = crates();
    let mut broken = Vec::new();
    for (folder, manifest) in &crates {
        let ours: Vec<String> = dependencies(manifest)
            .into_iter()
            .filter(|name| name.starts_with("weir-"))
            .collect();
        if let Some((_, allowed)) = DIRECTIONS.iter().find(|(of, _)| of == folder) {
            let wrong = ours.iter().filter(|name| !allowed.contains(&name.as_str()));
            broken.extend(wrong.map(|name| format!("{folder} depends on {name}")));
        }
    }
    assert!(crates.len() >= 7, "the manifests were not found");
    assert_none(&broken);
}

#[test]
fn a_library_builds_without_what_its_program_needs() {
    let mut broken = Vec::new();
    let doors = dependencies::doors(&dependencies::rules());
    for (folder, own) in LIBRARIES {
        let manifest = read(&root().join(folder).join("Cargo.toml"));
        let guarded = dependencies(&manifest)
            .into_iter()
            .filter(|name| name.starts_with("weir-") || doors.contains_key(name.as_str()));
        for name in guarded.filter(|name| !own.contains(&name.as_str())) {
            let optional = format!("{name} = {{ workspace = true, optional = true }}");
            if !manifest.contains(&optional) {
                broken.push(format!(
                    "{folder} needs {name}, which is its program's: write {optional}"
                ));
            }
        }
    }
    assert_none(&broken);
}

/// Files and folders in the tests of a crate that neither its manifest nor their `main.rs` names.
fn forgotten_tests(manifest: &str, main: &str, entries: &[String]) -> Vec<String> {
    let is_named = |name: &str| {
        name == "main"
            || manifest.contains(&format!("name = \"{name}\""))
            || main.lines().any(|line| line == format!("mod {name};"))
    };
    let names = entries
        .iter()
        .map(|entry| entry.trim_end_matches(".rs").trim_end_matches("/mod"));
    names.filter(|name| !is_named(name)).map(str::to_owned).collect()
}

#[test]
fn no_file_of_tests_is_forgotten() {
    let mut broken = Vec::new();
    for (folder, manifest) in crates() {
        if !manifest.contains("autotests = false") {
            continue;
        }
        let tests = root().join(&folder).join("tests");
        let entries = files(&tests, &[".rs"]).into_iter().filter_map(|path| {
            let entry = path.strip_prefix(&tests).ok()?.to_string_lossy().into_owned();
            (!entry.contains('/') || entry.ends_with("/mod.rs")).then_some(entry)
        });
        let entries: Vec<String> = entries.collect();
        let forgotten = forgotten_tests(&manifest, &read(&tests.join("main.rs")), &entries);
        broken.extend(
            forgotten
                .into_iter()
                .map(|name| format!("{folder}/tests/main.rs has no mod {name}")),
        );
    }
    assert_none(&broken);
    let entries = ["main.rs", "a.rs", "b.rs", "c/mod.rs", "d.rs"].map(str::to_owned);
    assert_eq!(forgotten_tests("name = \"b\"", "mod a;\n", &entries), ["c", "d"]);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let without = crates()
        .into_iter()
        .filter(|(_, manifest)| !manifest.contains("[lints]\nworkspace = true"));
    assert_none(
        &without
            .map(|(folder, _)| format!("{folder} has no lints.workspace"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn no_file_is_too_long_to_be_read() {
    let mut broken = Vec::new();
    for path in files(&root(), &[".rs", ".py", ".sh", ".js", ".css", ".html"]) {
        let lines = read(&path).lines().count();
        if lines > LINES {
            broken.push(format!("{}: {lines} lines, {LINES} are allowed", path.display()));
        }
    }
    assert_none(&broken);
}

#[test]
fn no_path_of_one_machine_is_in_the_tree() {
    // Put together here, so that this file does not find itself.
    let homes = ["/wo", "rk/", " /ho", "me/", "/ro", "ot/", "/Us", "ers/"];
    let homes: Vec<String> = homes.chunks(2).map(|halves| halves.concat()).collect();
    let mut broken = Vec::new();
    let endings = [
        ".rs", ".toml", ".md", ".sh", ".py", ".yml", "Makefile", "run", ".txt",
    ];
    for path in files(&root(), &endings) {
        let text = read(&path);
        for home in &homes {
            let at = text.lines().position(|line| starts_a_path(line, home.trim()));
            broken.extend(at.map(|line| format!("{}:{}: {home}", path.display(), line + 1)));
        }
    }
    assert_none(&broken);
}

/// Whether an absolute path in the line begins so: not in a URL, nor behind another folder.
fn starts_a_path(line: &str, home: &str) -> bool {
    line.match_indices(home).any(|(at, _)| {
        line[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '-' | '_' | '}' | '*'))
    })
}

#[test]
fn the_readers_of_this_test_read_what_they_should() {
    assert!(names("use ort::session;", "ort"));
    assert!(!names("list.sort(); import; short_ort", "ort"));
    assert!(names("std::fs::read(path)", "std::fs"));
    assert!(names("use std::{io, fs::File};", "std::fs"));
    assert!(!names("use std::{io, fmt}; let fs = 1;", "std::fs"));
    assert_eq!(code("a // b\nhttp://c // d"), "a \nhttp://c ");
    assert_eq!(without_texts("a \"HashMap \\\" ort\" b '\"' c"), "a \" b '\"' c");
    let manifest = "[dependencies]\nweir-flow.workspace = true\nort = { version = \"1\" }\n[dev-dependencies]\nx = \"1\"\n";
    assert_eq!(
        dependencies(manifest),
        ["ort".to_owned(), "weir-flow".to_owned()].into()
    );
    assert!(starts_a_path("see /somewhere/else", "/somewhere/"));
    assert!(!starts_a_path("a/somewhere/else", "/somewhere/"));
}
