//! A text that a client edited while its secrets were masked: each mask is replaced by the secret of the file that it stands for.

use std::collections::BTreeMap;
use std::ops::Range;

use weir_graph::text_edit::{line_end, without_line_end};

use super::secrets::{Leaf, MASK, all_comments, leaves, secret_comments, spliced, without_secrets};

/// A text with its secrets.
pub(super) struct Restored {
    pub(super) text: String,
    /// Ends of values that have more lines than their masks, as lines of `text`, with the number of these lines.
    longer: Vec<(usize, usize)>,
}

impl Restored {
    /// The line of the client's text that a line of the whole text is.
    pub(super) fn line(&self, line: usize) -> usize {
        let longer = self.longer.iter().filter(|(end, _)| *end <= line);
        line.saturating_sub(longer.map(|(_, count)| count).sum())
    }
}

/// A mask that stands for no secret of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownMask {
    /// Byte offset into the text of the client.
    pub(super) at: usize,
    /// Key of the value.
    pub(super) key: String,
}

/// Puts the secrets and the line ends of the file into a text that a client made of it. A mask keeps its secret at the same key
/// only, or in the same address at another one: it cannot be sent to another place.
///
/// # Errors
/// Masks without a secret.
pub(super) fn restored(file: &str, text: &str) -> Result<Restored, Vec<UnknownMask>> {
    let ended = with_line_ends(&without_secrets(file), text);
    let (own, _) = leaves(file);
    let (new, _) = leaves(&ended);
    let mut parts = Vec::new();
    let mut unknown = Vec::new();
    for leaf in &new {
        let Some(shown) = leaf.text.as_deref().filter(|shown| shown.contains(MASK)) else {
            continue;
        };
        let there = own.iter().find(|own| own.path == leaf.path);
        let is_as_written = there.is_some_and(|there| there.text.as_deref() == Some(shown));
        match there.filter(|there| there.shown().as_deref() == Some(shown)) {
            Some(there) => parts.push((leaf.at.clone(), file[there.at.clone()].to_owned())),
            None if is_as_written || !(leaf.is_secret || shown.contains("://")) => {}
            None => match moved_address(file, &own, leaf, shown) {
                Some(written) => parts.push((leaf.at.clone(), written)),
                None => unknown.push(UnknownMask {
                    at: leaf.at.start,
                    key: leaf.path.join("."),
                }),
            },
        }
    }
    if !unknown.is_empty() {
        return Err(unknown);
    }
    parts.extend(restored_comments(file, &ended, &new));
    parts.sort_by_key(|(at, _)| at.start);
    let mut longer = Vec::new();
    let mut added = 0;
    for (at, written) in &parts {
        let count = written.matches('\n').count();
        let lines = count.saturating_sub(ended[at.clone()].matches('\n').count());
        if lines > 0 {
            added += lines;
            longer.push((1 + ended[..at.start].matches('\n').count() + added, lines));
        }
    }
    Ok(Restored {
        text: spliced(&ended, parts),
        longer,
    })
}

/// The address of the file that is shown like this at the same key of another table; `None` unless all such are the same.
fn moved_address(file: &str, own: &[Leaf], leaf: &Leaf, shown: &str) -> Option<String> {
    let is_it = |own: &&Leaf| {
        !own.is_secret && own.path.last() == leaf.path.last() && own.shown().as_deref() == Some(shown)
    };
    let mut written = own.iter().filter(is_it).map(|own| &file[own.at.clone()]);
    let first = written.next()?;
    written.all(|other| other == first).then(|| first.to_owned())
}

/// Comments with masks, each with its text in the file, in the order of both.
fn restored_comments(file: &str, text: &str, new: &[Leaf]) -> Vec<(Range<usize>, String)> {
    let mut known: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for comment in secret_comments(file).into_iter().rev() {
        known.entry(comment.shown).or_default().push(&file[comment.at]);
    }
    let comments = all_comments(text, new).into_iter();
    let restored = comments.filter_map(|at| {
        let written = known.get_mut(&text[at.clone()])?.pop()?;
        Some((at, written.to_owned()))
    });
    restored.collect()
}

/// The text with the line ends of the text that it was made of: browsers give texts with `\n` alone.
fn with_line_ends(before: &str, after: &str) -> String {
    if !before.contains('\r') || after.contains('\r') {
        return after.to_owned();
    }
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<&str>>();
    let (old, new) = (lines(before), lines(after));
    let is_same = |(a, b): &(&&str, &&str)| without_line_end(a) == without_line_end(b);
    let start = old.iter().zip(&new).take_while(is_same).count();
    let rest = old.len().min(new.len()) - start;
    let backwards = old.iter().rev().zip(new.iter().rev());
    let end = backwards.take(rest).take_while(is_same).count();
    let mut out = String::with_capacity(before.len().max(after.len()));
    for (index, line) in new.iter().enumerate() {
        let from_end = new.len() - index;
        let same = if index < start {
            Some(old[index])
        } else if from_end <= end {
            Some(old[old.len() - from_end])
        } else {
            None
        };
        match same.filter(|same| same.ends_with('\n') == line.ends_with('\n')) {
            Some(same) => out.push_str(same),
            None => {
                out.push_str(without_line_end(line));
                if line.ends_with('\n') {
                    out.push_str(line_end(before));
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# old: rtsp://admin:SECRET0@a/1\r\n[cameras.door]\r\nuri = 'rtsp://admin:SECRET1@10.0.0.7/main' # main\n\
                        options = { headers = \"SECRET2\" }\r\n[sinks.hook]\r\nsecret = \"\"\"\r\nSECRET3\r\nlong\"\"\"\r\n\
                        number_password = 5312\r\nname = \"*** a ***\"\r\n";

    fn shown() -> String {
        without_secrets(FILE).replace('\r', "")
    }

    #[test]
    fn unchanged_text_comes_back_byte_for_byte() {
        let shown = shown();
        assert!(!shown.contains("SECRET") && !shown.contains("5312"), "{shown}");
        assert_eq!(restored(FILE, &shown).unwrap().text, FILE);
    }

    #[test]
    fn edits_elsewhere_keep_secrets_and_line_ends() {
        let edited = shown().replace(
            "[sinks.hook]\n",
            "zones.a = [[0, 0], [1, 0], [1, 1]]\n[sinks.hook]\n",
        );
        let text = restored(FILE, &edited).unwrap().text;
        let meant = FILE.replace(
            "[sinks.hook]\r\n",
            "zones.a = [[0, 0], [1, 0], [1, 1]]\r\n[sinks.hook]\r\n",
        );
        assert_eq!(text, meant);
    }

    #[test]
    fn lines_of_problems_are_those_of_the_client() {
        let restored = restored(FILE, &shown()).unwrap();
        // The secret of three lines is one line for the client.
        let line_of = |text: &str, what: &str| text.lines().position(|line| line.contains(what)).unwrap() + 1;
        for what in ["[cameras.door]", "secret =", "name ="] {
            let line = line_of(&restored.text, what);
            assert_eq!(restored.line(line), line_of(&shown(), what), "{what}");
        }
    }

    #[test]
    fn masks_reveal_their_secret_to_no_other_place() {
        for (from, to) in [
            ("@10.0.0.7/main", "@elsewhere/main"),
            ("[cameras.door]", "[cameras.front]"),
            ("name =", "other_secret = \"***\"\nname ="),
        ] {
            let edited = shown().replacen(from, to, 1);
            let unknown = restored(FILE, &edited).err().unwrap();
            assert!(!unknown.is_empty(), "{from} by {to}");
        }
        // The whole address may move to another name.
        let only = "[cameras.door]\nuri = \"rtsp://u:p@host/1\"\n";
        let moved = without_secrets(only).replace("door", "front");
        assert_eq!(
            restored(only, &moved).unwrap().text,
            only.replace("door", "front")
        );
    }
}
