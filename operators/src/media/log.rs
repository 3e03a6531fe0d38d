//! FFmpeg's log: events of `tracing` with the target `ffmpeg`, by level, with addresses masked. And what it says of an
//! address that does not open, which its error codes do not tell apart.

use std::cell::{Cell, RefCell};

use weir_flow::mask_credentials;

const TARGET: &str = "ffmpeg";

/// FFmpeg's levels. Those beyond [`VERBOSE`] show requests with what authorises them, and are never passed on.
const ERROR: i32 = 16;
const WARNING: i32 = 24;
const INFO: i32 = 32;
const VERBOSE: i32 = 40;

/// Beginning of what a decoder of H.265 says where a picture that one refers to is missing. It marks no picture by that.
const MISSING_REFERENCE: &str = "Could not find ref";

thread_local! {
    /// Whether this thread misses a reference, where that is being watched.
    static MISSES_REFERENCE: Cell<Option<bool>> = const { Cell::new(None) };
    /// The last error of this thread, where it is being waited for.
    static LAST_ERROR: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`; also gives the last error that FFmpeg logged meanwhile on this thread, without the address of its object.
pub(super) fn with_last_error<T>(work: impl FnOnce() -> T) -> (T, Option<String>) {
    LAST_ERROR.set(Some(String::new()));
    let result = work();
    (result, LAST_ERROR.take().filter(|line| !line.is_empty()))
}

/// Runs `work`; also says whether a decoder on this thread missed a reference meanwhile.
pub(super) fn watching_references<T>(work: impl FnOnce() -> T) -> (T, bool) {
    MISSES_REFERENCE.set(Some(false));
    let result = work();
    (result, MISSES_REFERENCE.take() == Some(true))
}

/// Whether a message of `level` goes anywhere: most do not, and are not even formatted.
pub(super) fn is_wanted(level: i32) -> bool {
    let is_shown = if level <= ERROR {
        tracing::enabled!(target: TARGET, tracing::Level::ERROR)
    } else if level <= WARNING {
        tracing::enabled!(target: TARGET, tracing::Level::WARN)
    } else if level <= INFO {
        tracing::enabled!(target: TARGET, tracing::Level::INFO)
    } else {
        level <= VERBOSE && tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
    };
    let is_watched = || LAST_ERROR.with_borrow(Option::is_some) || MISSES_REFERENCE.get().is_some();
    is_shown || level <= ERROR && is_watched()
}

/// FFmpeg says `line`.
pub(super) fn on_message(level: i32, line: &str) {
    let line = mask_credentials(line.trim());
    if line.is_empty() {
        return;
    }
    if level <= ERROR {
        tracing::error!(target: TARGET, "{line}");
    } else if level <= WARNING {
        tracing::warn!(target: TARGET, "{line}");
    } else if level <= INFO {
        tracing::info!(target: TARGET, "{line}");
    } else if level <= VERBOSE {
        tracing::debug!(target: TARGET, "{line}");
    }
    if level <= ERROR {
        if MISSES_REFERENCE.get().is_some() && line.contains(MISSING_REFERENCE) {
            MISSES_REFERENCE.set(Some(true));
        }
        LAST_ERROR.with_borrow_mut(|last| {
            if let Some(last) = last {
                *last = without_added_options(without_object(&line));
            }
        });
    }
}

/// `[tcp @ 0x5587] Connection refused` without what is in brackets.
fn without_object(line: &str) -> &str {
    let rest = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    rest.map_or(line, |(_, said)| without_object(said))
}

/// Words on a failed connection without the options that FFmpeg adds to the address, as in `tcp://HOST:554?timeout=10000000`.
fn without_added_options(said: &str) -> String {
    let parts = said
        .strip_prefix("Connection to ")
        .and_then(|rest| rest.split_once(" failed"));
    let Some((address, why)) = parts else {
        return said.to_owned();
    };
    let address = address.split_once('?').map_or(address, |(address, _)| address);
    format!("Connection to {address} failed{why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_that_of_the_work_and_masked() {
        on_message(ERROR, "[tcp @ 0x1] before");
        let ((), last) = with_last_error(|| {
            on_message(ERROR, "[rtsp @ 0x1] [tcp @ 0x2] first\n");
            assert!(is_wanted(ERROR));
            on_message(
                ERROR,
                "[rtsp @ 0x55] cannot reach rtsp://admin:secret@camera/1?token=abc\n",
            );
            on_message(WARNING, "a warning");
            on_message(ERROR, " \n");
        });
        assert_eq!(
            last.as_deref(),
            Some("cannot reach rtsp://***@camera/1?token=***")
        );
        assert_eq!(with_last_error(|| on_message(INFO, "said")).1, None);
        // Requests with their headers.
        assert!(!is_wanted(48));
    }

    #[test]
    fn failed_connection_is_reported_without_ffmpegs_options() {
        for (line, expected) in [
            (
                "[tcp @ 0x1] Connection to tcp://camera:554?timeout=10000000 failed: Connection refused",
                "Connection to tcp://camera:554 failed: Connection refused",
            ),
            (
                "[tcp @ 0x1] Connection to tcp://camera:554 failed: No route to host",
                "Connection to tcp://camera:554 failed: No route to host",
            ),
            (
                "method DESCRIBE failed: 404 Not Found?",
                "method DESCRIBE failed: 404 Not Found?",
            ),
        ] {
            let ((), last) = with_last_error(|| on_message(ERROR, line));
            assert_eq!(last.as_deref(), Some(expected), "{line}");
        }
    }
}
