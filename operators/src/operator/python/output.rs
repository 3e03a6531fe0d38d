//! The standard error of a worker process, where its prints go, too: lines for the log.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of a line that are shown.
const MAX_LINE_BYTES: u64 = 1_024;
/// Last lines that are kept: they may say why a process ended.
const MAX_KEPT_LINES: usize = 4;
/// Lines that are logged in each interval; the others are counted.
const MAX_LOGGED_LINES: u32 = 50;
/// Interval of that bound.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Reads what a process writes until its end.
pub(super) struct Output {
    last: Arc<Mutex<VecDeque<String>>>,
    thread: JoinHandle<()>,
}

impl Output {
    /// Reads on a thread of its own.
    pub(super) fn read(operator: &str, stderr: ChildStderr) -> std::io::Result<Self> {
        let last: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let (kept, operator) = (Arc::clone(&last), operator.to_owned());
        let thread = std::thread::Builder::new()
            .name("weir-python".to_owned())
            .spawn(move || log_lines(&operator, BufReader::new(stderr), &kept))?;
        Ok(Self { last, thread })
    }

    /// Whether the process wrote all that it will.
    pub(super) fn is_at_end(&self) -> bool {
        self.thread.is_finished()
    }

    /// The last lines, as one.
    pub(super) fn last_lines(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = last.iter().map(String::as_str).collect();
        lines.join("; ")
    }
}

fn log_lines(operator: &str, mut stderr: impl BufRead, kept: &Mutex<VecDeque<String>>) {
    let mut interval = (now(), 0_u32);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A longer line counts as several.
        match (&mut stderr).take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text: String = text.trim_end().chars().filter(|c| !c.is_control()).collect();
        if text.is_empty() {
            continue;
        }
        if interval.0.elapsed() >= LOG_INTERVAL {
            if interval.1 > MAX_LOGGED_LINES {
                tracing::info!(
                    "{operator}: {} more lines were not logged",
                    interval.1 - MAX_LOGGED_LINES
                );
            }
            interval = (now(), 0);
        }
        interval.1 = interval.1.saturating_add(1);
        if interval.1 <= MAX_LOGGED_LINES {
            tracing::info!("{operator}: {text}");
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MAX_KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(text);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "lines of a process are bounded in real time"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_binary_lines_are_bounded() {
        let mut bytes = vec![b'x'; 3_000];
        bytes.extend(b"\n\xff\x1b[31mred\nlast\n");
        let kept = Mutex::default();
        log_lines("colour", &bytes[..], &kept);
        let kept = kept.into_inner().unwrap();
        assert_eq!(kept.len(), MAX_KEPT_LINES);
        assert!(kept.iter().all(|line| line.len() <= MAX_LINE_BYTES as usize));
        assert_eq!(kept[3], "last");
        assert_eq!(kept[2], "\u{fffd}[31mred");
    }
}
