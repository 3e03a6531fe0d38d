//! Folders of the streams of a recording sink, by a pattern with `{stream}` in it. Each sink removes old files from its own.

use std::path::{Component, Path, PathBuf};

use super::super::target::STREAM;

/// Whether a folder that a recording sink writes to by one pattern may be one that another writes to, or lie in one.
#[must_use]
pub fn recordings_overlap(one: &Path, other: &Path) -> bool {
    let (one, other) = (normal(one), normal(other));
    one.iter().zip(&other).all(|(one, other)| may_be_one(one, other))
}

/// Whether a folder is one of the pattern.
pub(super) fn has(pattern: &Path, folder: &Path) -> bool {
    let names = |path: &Path| -> Vec<String> {
        path.iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    };
    let (pattern, folder) = (names(pattern), names(folder));
    pattern.len() == folder.len()
        && pattern
            .iter()
            .zip(&folder)
            .all(|(part, name)| may_be_one(part, name))
}

/// Names of the folders from the root on. Folders that are there are named as they are, links followed.
fn normal(pattern: &Path) -> Vec<String> {
    let mut path = PathBuf::new();
    let absolute = std::path::absolute(pattern).unwrap_or_else(|_| pattern.to_owned());
    for component in absolute.components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            component => path.push(component),
        }
        if let Ok(real) = path.canonicalize() {
            path = real;
        }
    }
    path.iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// Whether two names can be the same, whatever streams are called.
fn may_be_one(one: &str, other: &str) -> bool {
    match (one.split_once(STREAM), other.split_once(STREAM)) {
        (None, None) => one == other,
        (Some((before, after)), None) => fits(other, before, after),
        (None, Some((before, after))) => fits(one, before, after),
        (Some(one), Some(other)) => {
            let begins = one.0.starts_with(other.0) || other.0.starts_with(one.0);
            begins && (one.1.ends_with(other.1) || other.1.ends_with(one.1))
        }
    }
}

fn fits(name: &str, before: &str, after: &str) -> bool {
    // Behind a second mark anything may stand.
    let after = after.rsplit(STREAM).next().unwrap_or(after);
    name.len() > before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_streams_may_be_one() {
        for (one, other, expected) in [
            ("rec/{stream}", "rec/clips/{stream}", true),
            ("rec/{stream}", "rec/{stream}", true),
            ("rec/{stream}", "rec/{stream}/clips", true),
            ("rec/{stream}/archive", "rec/{stream}/clips", false),
            ("rec/cam-{stream}", "rec/clips/{stream}", false),
            ("rec/cam-{stream}", "rec/cam-1/{stream}", true),
            ("rec/{stream}-a", "rec/{stream}-b", false),
            ("rec/a-{stream}", "rec/{stream}-b", true),
            ("archive/{stream}", "clips/{stream}", false),
            ("./rec/../rec/{stream}", "rec/x", true),
            ("/rec/{stream}", "rec/{stream}", false),
        ] {
            assert_eq!(
                recordings_overlap(Path::new(one), Path::new(other)),
                expected,
                "{one} and {other}"
            );
            assert_eq!(
                recordings_overlap(Path::new(other), Path::new(one)),
                expected,
                "{other} and {one}"
            );
        }
    }

    #[test]
    fn only_folders_of_the_pattern_are_its_own() {
        let pattern = Path::new("rec/cam-{stream}/clips");
        assert!(has(pattern, Path::new("rec/cam-1/clips")));
        for other in [
            "rec/cam-1",
            "rec/cam-/clips",
            "rec/1/clips",
            "rec/cam-1/clips/x",
            "rec/cam-1/archive",
        ] {
            assert!(!has(pattern, Path::new(other)), "{other}");
        }
    }

    #[test]
    fn links_lead_to_the_same_folder() {
        let place = tempfile::tempdir().unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(recordings_overlap(
            &real.join("{stream}"),
            &link.join("clips/{stream}")
        ));
    }
}
