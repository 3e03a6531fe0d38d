//! The log on standard error.

use std::ffi::OsStr;
use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

use crate::{output, printable};

/// Logs to standard error what `RUST_LOG` asks for, else what `default` does (`error,weir_operators::sinks=warn`).
pub fn log_to_stderr(default: &str) {
    let filter = match std::env::var_os("RUST_LOG").as_deref() {
        None => EnvFilter::new(default),
        Some(given) if given == OsStr::new("") => EnvFilter::new(default),
        Some(_) => EnvFilter::from_default_env(),
    };
    // Without colours: what stands in an event could not be distinguished from them.
    tracing_subscriber::fmt()
        .with_writer(LogWriter::default)
        .with_ansi(false)
        .with_env_filter(filter)
        .init();
}

/// Standard error for log events, each in one line whatever is in it.
#[derive(Debug, Clone, Copy, Default)]
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let (body, end) = match text.strip_suffix('\n') {
            Some(body) => (body, "\n"),
            None => (&*text, ""),
        };
        // One write for one event: events of several threads do not mix.
        output::to_stderr(&format!("{}{end}", printable::line(body)))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
