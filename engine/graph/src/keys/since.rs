//! Releases in which keys came. Each release lists its keys in a file, so a new key needs no version in its row: it is of the next
//! release until that has a list of its own.

/// The oldest release with a list. Versions before it had no release notes, so its keys may be older.
pub const FIRST_RELEASE: &str = "0.2.0";

/// The release that new keys will be in.
const NEXT_RELEASE: &str = "0.3.0";

/// Releases with their keys, the oldest first. A line has the owner of keys, a colon and their names.
const RELEASES: &[(&str, &str)] = &[(FIRST_RELEASE, include_str!("releases/0.2.0.txt"))];

/// Returns the first release with a key of a section, such as `source`, or of an entry of the catalog, such as `sink mqtt`.
#[must_use]
pub fn since(owner: &str, key: &str) -> &'static str {
    first(|name, mut keys| name == owner && keys.any(|known| known == key))
}

/// Returns the first release with an entry of the catalog.
#[must_use]
pub fn entry_since(owner: &str) -> &'static str {
    first(|name, _| name == owner)
}

/// True if there is a list of the keys of a release.
#[must_use]
pub fn is_listed(version: &str) -> bool {
    RELEASES.iter().any(|(listed, _)| *listed == version)
}

/// The first release one of whose lines fits, or the next release.
fn first(fits: impl Fn(&str, std::str::Split<'_, char>) -> bool) -> &'static str {
    let has = |list: &str| {
        let mut lines = list.lines().filter_map(|line| line.split_once(':'));
        lines.any(|(name, keys)| fits(name, keys.trim().split(' ')))
    };
    let release = RELEASES.iter().find(|(_, list)| has(list));
    release.map_or(NEXT_RELEASE, |(version, _)| *version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_no_list_are_of_the_next_release() {
        assert_eq!(since("source", "uri"), FIRST_RELEASE);
        assert_eq!(since("sink mqtt", "discovery"), FIRST_RELEASE);
        // `discovery` is a key of `sink mqtt` only.
        assert_eq!(since("source", "discovery"), NEXT_RELEASE);
        assert_eq!(since("source", "key-of-tomorrow"), NEXT_RELEASE);
        assert_eq!(entry_since("operator emulate"), FIRST_RELEASE);
        assert_eq!(entry_since("operator of-tomorrow"), NEXT_RELEASE);
    }

    #[test]
    fn lists_are_those_of_past_releases_in_order() {
        for (version, list) in RELEASES {
            assert_ne!(*version, NEXT_RELEASE);
            for line in list.lines() {
                assert!(line.contains(':'), "{version}: {line}");
            }
        }
        assert_eq!(RELEASES.first().map(|(version, _)| *version), Some(FIRST_RELEASE));
    }
}
