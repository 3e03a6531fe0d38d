//! Links of pages lead to files and headings that exist, and paths in their text to files of the repository.

use super::pages::{Page, root};

/// Folders whose files are in the repository; a path that begins with another one is the reader's.
const FOLDERS: [&str; 11] = [
    "apps",
    "benches",
    "config",
    "deploy",
    "docs",
    "engine",
    "models",
    "operators",
    "scripts",
    "tests",
    "videos",
];

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) links: usize,
    pub(super) anchors: usize,
    pub(super) external: usize,
    pub(super) paths: usize,
}

/// Links that lead nowhere. Addresses of other sites are counted and not opened.
pub(super) fn problems(page: &Page, counts: &mut Counts) -> Vec<String> {
    let mut problems = Vec::new();
    for (line, link) in page.links() {
        if link.contains("://") || link.starts_with("mailto:") {
            counts.external += 1;
            continue;
        }
        counts.links += 1;
        let (path, anchor) = match link.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor)),
            None => (link.as_str(), None),
        };
        let folder = root().join(&page.name);
        let target = match path {
            "" => folder,
            path => folder.parent().unwrap().join(path),
        };
        if !target.exists() {
            problems.push(page.at(line, format!("the link {link} leads to no file")));
            continue;
        }
        let Some(anchor) = anchor else { continue };
        counts.anchors += 1;
        let has_anchor = if path.is_empty() {
            page.anchors().iter().any(|name| name == anchor)
        } else {
            let text = std::fs::read_to_string(&target).unwrap_or_default();
            Page::new(path, &text).anchors().iter().any(|name| name == anchor)
        };
        if !has_anchor {
            problems.push(page.at(line, format!("the link {link} leads to no heading")));
        }
    }
    for (line, code) in page.inline_code() {
        for word in code.split_whitespace() {
            problems.extend(missing_path(word, counts).map(|problem| page.at(line, problem)));
        }
    }
    problems
}

/// The complaint about a word that is a path into a folder of the repository where nothing is.
pub(super) fn missing_path(word: &str, counts: &mut Counts) -> Option<String> {
    let word = word.trim_end_matches([',', '.', ';', ':']);
    let word = word.strip_prefix("./").unwrap_or(word);
    let (folder, rest) = word.split_once('/')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    // `NAME` and the like stand for a name of the reader.
    let stands_for = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
    let is_path = FOLDERS.contains(&folder) && rest.chars().all(is_plain) && !rest.contains("...");
    if !is_path || word.split(['/', '.']).any(stands_for) && !root().join(word).exists() {
        return None;
    }
    counts.paths += 1;
    (!root().join(word).exists()).then(|| format!("{word} is not in the repository"))
}
