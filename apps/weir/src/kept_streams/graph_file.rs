//! The file of a graph, as the engine edits it: only while it has the text that was read from it, and in one piece.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use weir_files::{BYTE_ORDER_MARK, io_reason};

use crate::whole_file::write_private;

/// The longest text that a start reads.
const MAX_BYTES: usize = 4 << 20;

/// Checks that the file can be edited, as far as that is known before.
///
/// # Errors
/// The reason why it cannot.
pub(crate) fn check_writable(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let unusable = |error: io::Error| format!("{shown} cannot be written: {}", io_reason(&error));
    let metadata = std::fs::metadata(path).map_err(unusable)?;
    if !metadata.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    // Also for root, who may write it: the owner does not want it changed.
    if metadata.permissions().readonly() {
        return Err(format!("{shown} is read-only"));
    }
    OpenOptions::new().write(true).open(path).map_err(unusable)?;
    Ok(())
}

/// Checks that the file has this text.
///
/// # Errors
/// It has another one, or cannot be read.
pub(crate) fn check_text(path: &Path, text: &str) -> Result<(), String> {
    let shown = path.display();
    match weir_config::read_text(path) {
        Ok(now) if now == text => Ok(()),
        Ok(_) => Err(format!("{shown} has changed since it was read")),
        Err(reason) => Err(format!("{shown} cannot be read: {reason}")),
    }
}

/// Puts another text into the file, in place of `before`.
///
/// # Errors
/// The file has another text, or cannot be written. It is as it was then.
pub(crate) fn replace(path: &Path, before: &str, text: &str) -> Result<(), String> {
    let shown = path.display();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::Interrupted => format!("{shown} has changed since it was read"),
        _ => format!("{shown} cannot be written: {}", io_reason(&error)),
    };
    if text.len() > MAX_BYTES {
        return Err(format!("{shown} would be longer than 4 MiB"));
    }
    check_writable(path)?;
    check_text(path, before)?;
    // A link stays one.
    let file = path.canonicalize().map_err(failed)?;
    let mut start = [0; BYTE_ORDER_MARK.len()];
    let has_mark = std::fs::File::open(&file)
        .and_then(|mut file| io::Read::read_exact(&mut file, &mut start))
        .is_ok_and(|()| start == BYTE_ORDER_MARK.as_bytes());
    let mark = if has_mark { BYTE_ORDER_MARK } else { "" };
    let is_still = || check_text(&file, before).is_ok();
    write_private(&file, format!("{mark}{text}").as_bytes(), is_still).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_replaced_only_while_it_is_as_it_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graph.toml");
        fs::write(&path, "\u{feff}one").unwrap();
        let link = folder.path().join("link.toml");
        std::os::unix::fs::symlink("graph.toml", &link).unwrap();
        replace(&link, "one", "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "\u{feff}two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let error = replace(&path, "one", "three").unwrap_err();
        assert!(error.contains("has changed"), "{error}");
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        let error = replace(&path, "two", "three").unwrap_err();
        assert!(error.contains("is read-only"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "\u{feff}two");
        assert!(
            check_writable(Path::new("/dev/null"))
                .unwrap_err()
                .contains("is not a file")
        );
        let long = "x".repeat(MAX_BYTES + 1);
        assert!(replace(&path, "two", &long).unwrap_err().contains("4 MiB"));
    }
}
