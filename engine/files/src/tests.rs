use std::io::{BufRead, Cursor, ErrorKind};

use super::*;

#[test]
fn a_file_is_read_up_to_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "12345").unwrap();
    assert_eq!(read_text(&path, 5).unwrap(), "12345");
    assert!(matches!(
        read(&path, 4),
        Err(FileError::TooLarge { max_bytes: 4 })
    ));
    std::fs::write(&path, [0xff, 0xc0]).unwrap();
    assert!(matches!(read_text(&path, 4), Err(FileError::NoText)));
    assert!(matches!(read(folder.path(), 4), Err(FileError::Folder)));
    assert!(matches!(read(&folder.path().join("b"), 4), Err(FileError::Io(_))));
}

#[cfg(unix)]
#[test]
fn a_size_of_zero_in_the_metadata_does_not_hide_content() {
    // Files of /proc have a size of zero although they have content.
    let path = Path::new("/proc/self/status");
    if path.exists() {
        assert_eq!(std::fs::metadata(path).unwrap().len(), 0);
        assert!(matches!(read(path, 16), Err(FileError::TooLarge { .. })));
        assert!(read(path, 1 << 20).unwrap().len() > 16);
    }
}

#[cfg(unix)]
#[test]
fn devices_and_fifos_are_refused_without_being_opened() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&fifo, &link).unwrap();
    for path in [&fifo, &link] {
        assert_eq!(
            read(path, 4).unwrap_err().to_string(),
            "it is a FIFO: give a regular file, or /dev/stdin"
        );
    }
    let zero = read(Path::new("/dev/zero"), 4).unwrap_err().to_string();
    assert!(zero.starts_with("it is a device"), "{zero}");
}

#[test]
fn inherited_handles_are_accepted() {
    for path in ["/dev/stdin", "/dev/fd/63", "/proc/self/fd/0"] {
        assert!(is_inherited(Path::new(path)), "{path}");
    }
    for path in ["/dev/zero", "/dev/fd", "fd/3", "/media/dev/fd.txt"] {
        assert!(!is_inherited(Path::new(path)), "{path}");
    }
}

#[test]
fn lines_are_read_up_to_their_bound() {
    let lines = |text: &str, max_line_bytes, max_bytes| -> Result<Vec<String>, ErrorKind> {
        // A small buffer, so that lines lie over its edges.
        let inner = BufReader::with_capacity(3, Cursor::new(text.to_owned()));
        let lines = Limited::new(inner, max_line_bytes, max_bytes).lines();
        lines
            .collect::<std::io::Result<_>>()
            .map_err(|error| error.kind())
    };
    assert_eq!(lines("abcde\n\nfg", 5, 100).unwrap(), ["abcde", "", "fg"]);
    assert_eq!(lines("abcde\nabcdef\n", 5, 100), Err(ErrorKind::FileTooLarge));
    assert_eq!(lines("abcdef", 5, 100), Err(ErrorKind::FileTooLarge));
    assert_eq!(lines("ab\ncd\n", 5, 6).unwrap(), ["ab", "cd"]);
    assert_eq!(lines("ab\ncd\ne", 5, 6), Err(ErrorKind::FileTooLarge));
}

#[test]
fn permission_errors_are_reported_as_such() {
    let check = |kind: ErrorKind, part: &str| {
        let reason = io_reason(&kind.into());
        assert!(reason.contains(part), "{reason}");
    };
    check(ErrorKind::PermissionDenied, "not permitted");
    check(ErrorKind::IsADirectory, "it is a folder");
    check(ErrorKind::NotFound, "no such file");
}

#[test]
#[cfg(target_os = "linux")]
fn messages_of_the_system_have_no_code() {
    let refused = std::io::Error::from_raw_os_error(111);
    assert!(refused.to_string().ends_with("(os error 111)"), "{refused}");
    assert_eq!(io_reason(&refused), "Connection refused");
}

#[test]
#[cfg(target_os = "linux")]
fn missing_lock_service_is_no_other_failure() {
    let (no_locks, not_supported, failure) = (37, 95, 5);
    for (errno, expected) in [(no_locks, true), (not_supported, true), (failure, false)] {
        let error = std::io::Error::from_raw_os_error(errno);
        assert_eq!(has_no_locks(&error), expected, "{error}");
    }
    assert!(has_no_locks(&ErrorKind::Unsupported.into()));
    assert!(!has_no_locks(&ErrorKind::PermissionDenied.into()));
}

#[test]
fn byte_order_marks_are_stripped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "\u{feff}one\r\n\u{feff}two").unwrap();
    assert_eq!(read_text(&path, 64).unwrap(), "one\r\n\u{feff}two");
    let read: Vec<String> = lines(&path, 64, 64)
        .unwrap()
        .lines()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read, ["one", "\u{feff}two"]);
    std::fs::write(&path, "\u{feff}").unwrap();
    assert_eq!(read_text(&path, 64).unwrap(), "");
    std::fs::write(&path, [0xff, 0xfe, b'a', 0]).unwrap();
    assert_eq!(
        read_text(&path, 64).unwrap_err().to_string(),
        "it is text in UTF-16: save it as UTF-8"
    );
}
