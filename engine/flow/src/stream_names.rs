//! The streams that a part of a graph is for, by patterns of their names.

/// Names of streams, with `*` for any number of characters. Empty: all streams.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamNames(Vec<String>);

/// Beginning of the name of a stream whose pictures do not follow each other, as clients send them one at a time. No source of
/// a graph has such a name.
pub const SINGLE_PICTURES: &str = "(pictures";

/// True for a stream whose pictures do not follow each other.
#[must_use]
pub fn is_of_single_pictures(stream: &str) -> bool {
    stream.starts_with(SINGLE_PICTURES)
}

impl StreamNames {
    /// Selects streams with one of these names; an empty list selects all.
    #[must_use]
    pub fn new(names: Vec<String>) -> Self {
        Self(names)
    }

    /// True if all streams are selected, whatever their names.
    #[must_use]
    pub fn are_all(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the stream of that name is selected.
    #[must_use]
    pub fn contains(&self, stream: &str) -> bool {
        self.are_all() || self.0.iter().any(|name| matches(name, stream))
    }

    /// True if the stream is selected by a tracker, a transform or a sink: those select a stream of single pictures only where one
    /// of their names is of such streams, as nothing can be followed in it.
    #[must_use]
    pub fn follow(&self, stream: &str) -> bool {
        let named = || self.0.iter().any(|name| is_of_single_pictures(name));
        self.contains(stream) && (!is_of_single_pictures(stream) || named())
    }

    /// The names, as they were given.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

/// True if a name matches a pattern, in which `*` stands for any number of characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    // The leftmost match of each part leaves the most text for the parts after it.
    for part in parts {
        let Some(at) = name.find(part) else {
            return false;
        };
        name = &name[at + part.len()..];
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_or_with_any_characters_for_a_star() {
        let is = |pattern: &str, name: &str| StreamNames::new(vec![pattern.to_owned()]).contains(name);
        assert!(is("door", "door") && !is("door", "door-2") && !is("door", "Door"));
        assert!(is("yard-*", "yard-1") && is("yard-*", "yard-") && !is("yard-*", "yard"));
        assert!(is("*", "") && is("*", "any") && is("*-in", "gate-in") && !is("*-in", "gate-in-2"));
        assert!(is("a*b*c", "a-b-c") && is("a*b*c", "abbc") && !is("a*b*c", "acb"));
        // The end is not one that the middle has used.
        assert!(!is("a*ba", "aba-") && is("a*ba", "aaba") && !is("ab*b", "ab"));
        assert!(is("straße*", "straße-ost"));
    }

    #[test]
    fn single_pictures_are_followed_only_where_they_are_named() {
        let pictures = format!("{SINGLE_PICTURES}:door)");
        assert!(StreamNames::default().contains(&pictures) && !StreamNames::default().follow(&pictures));
        assert!(!StreamNames::new(vec!["*".to_owned()]).follow(&pictures));
        assert!(StreamNames::new(vec![format!("{SINGLE_PICTURES}*")]).follow(&pictures));
        assert!(StreamNames::default().follow("door"));
    }

    #[test]
    fn without_names_they_are_all() {
        assert!(StreamNames::default().contains("any"));
        let two = StreamNames::new(vec!["a".to_owned(), "b*".to_owned()]);
        assert!(two.contains("a") && two.contains("bc") && !two.contains("c"));
    }
}
