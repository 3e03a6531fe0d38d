//! The words that code, documents and tests do not use, and what they say instead: each thing has one name, and it is the
//! one that the field has for it.

use super::{assert_none, files, read, root};

/// A word or several, what to write, and folders where it has its plain meaning. Words are found in prose and as parts of
/// names, in any case: `let go` is in `let_go` and in `LetGo`. One with an underscore is found as it stands.
struct Forbidden {
    words: &'static str,
    instead: &'static str,
    except: &'static [&'static str],
}

const fn forbidden(words: &'static str, instead: &'static str) -> Forbidden {
    Forbidden {
        words,
        instead,
        except: &[],
    }
}

const WORDS: &[Forbidden] = &[
    forbidden("_MOST", "MAX_..."),
    forbidden("_LEAST", "MIN_..."),
    forbidden(
        "told",
        "reported, published or notified; of two things: distinguished",
    ),
    forbidden(
        "let go",
        "drop or dropped of requests; unload, remove or close of others",
    ),
    forbidden("lets go", "drops, unloads, removes or closes"),
    forbidden("letting go", "dropping, unloading, removing or closing"),
    forbidden("under way", "in flight"),
    forbidden("in vain", "wasted"),
    forbidden("vain", "profile reset, of a policy; wasted, of time"),
    forbidden("dear", "costly; of requests over the cost limit: deprioritized"),
    forbidden("spare", "slack of time; unused or idle of resources"),
    forbidden("owed", "overdue"),
    forbidden("foresight", "prediction, or branch shedding"),
    forbidden("foresee", "predict"),
    forbidden("foresees", "predicts, or is_predictive"),
    forbidden("outlook", "estimate, or downstream"),
    forbidden("lately", "recent"),
    forbidden("afresh", "again, or reset"),
    forbidden("glimpse", "peek"),
    forbidden("untold", "unreported"),
    forbidden("struck out", "removed"),
    forbidden("strikes out", "removes"),
    forbidden("agenda", "event queue"),
    forbidden("trail", "timeline"),
    forbidden("keeper", "connection manager"),
    forbidden("desk", "state of the worker"),
    forbidden("parcel", "branch of a request"),
    forbidden("journey", "request state"),
    Forbidden {
        words: "somebody",
        instead: "it: requests, batches, slots and streams are no persons",
        except: &["videos"],
    },
];

/// Files that name old words: this list itself, and what says how things were called before.
const EXEMPT: &[&str] = &["tests/tests/house/words.rs", "CHANGELOG.md"];

/// The words of a line in lower case, also those that a name is made of.
fn split(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut within, mut lower) = (false, false);
    for c in line.chars() {
        if !c.is_alphabetic() {
            within = false;
        } else {
            if !within || (lower && c.is_uppercase()) {
                words.push(String::new());
            }
            within = true;
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        lower = c.is_lowercase();
    }
    words
}

/// Whether the name of a constant ends or begins with the marker: `_MOST` is in `X_MOST` and in `MOST_X`.
fn has_affix(line: &str, marker: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    line.split(|c| !word(c))
        .any(|name| name.ends_with(marker) || name.starts_with(&format!("{}_", &marker[1..])))
}

fn uses(line: &str, words: &[String], forbidden: &str) -> bool {
    if forbidden.starts_with('_') {
        return has_affix(line, forbidden);
    }
    let parts: Vec<&str> = forbidden.split(' ').collect();
    words.windows(parts.len()).any(|window| window == parts)
}

/// Forbidden words in a text, as lines of file, line number, word and replacement.
fn complaints(file: &str, text: &str) -> Vec<String> {
    let here = |list: &[&str]| list.iter().any(|folder| file.starts_with(folder));
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = split(line);
        let used = WORDS
            .iter()
            .filter(|entry| !here(entry.except) && uses(line, &words, entry.words));
        found.extend(
            used.map(|entry| format!("{file}:{number}: not \"{}\" but {}", entry.words, entry.instead)),
        );
    }
    found
}

#[test]
fn the_field_s_words_are_used() {
    let root = root();
    let mut broken = Vec::new();
    for path in files(&root, &[".rs", ".toml", ".md", ".py", ".sh", "Makefile"]) {
        let file = path
            .strip_prefix(&root)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned();
        if !EXEMPT.contains(&file.as_str()) {
            broken.extend(complaints(&file, &read(&path)));
        }
    }
    assert_none(&broken);
}

#[test]
fn words_are_found_in_prose_and_in_names() {
    let check = |line: &str, found: &[&str]| {
        let words: Vec<String> = complaints("engine/a.rs", line)
            .iter()
            .filter_map(|complaint| Some(complaint.split('"').nth(1)?.to_owned()))
            .collect();
        assert_eq!(words, found, "{line}");
    };
    check("/// A request that is let go of.", &["let go"]);
    check("fn let_go(self) -> LetGo", &["let go"]);
    check("const BATCHES_MOST: u32 = MOST_SLOTS;", &["_MOST"]);
    check("struct UnderWay; // Told", &["told", "under way"]);
    check(
        "the most of them; workers_most; a sparse, transparent letter; let gone = underway;",
        &[],
    );
    assert_eq!(complaints("videos/a.rs", "somebody"), [""; 0]);
    assert_eq!(
        complaints("engine/a.rs", "fine\nowed"),
        ["engine/a.rs:2: not \"owed\" but overdue"]
    );
}
