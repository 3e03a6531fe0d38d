//! The log on standard error.

use std::ffi::OsStr;
use std::io::{self, Write};

use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use crate::{output, printable};

/// Format of the log on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// A line of text for each event.
    #[default]
    Text,
    /// An object of JSON on a line for each event, for collectors of logs.
    Json,
}

/// A layer that receives log events in addition to standard error, with a filter of its own.
pub type LogLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Logs to standard error at the levels in `RUST_LOG`, or by default `default`
/// (`error,weir_operators::sinks=warn`).
pub fn log_to_stderr(default: &str) {
    log_to_stderr_beside(default, LogFormat::Text, Vec::new());
}

/// As [`log_to_stderr`], in that format; the layers `others` receive events too, each by its own filter.
pub fn log_to_stderr_beside(default: &str, format: LogFormat, others: Vec<LogLayer>) {
    let filter = match std::env::var_os("RUST_LOG").as_deref() {
        None => EnvFilter::new(default),
        Some(given) if given == OsStr::new("") => EnvFilter::new(default),
        Some(_) => EnvFilter::from_default_env(),
    };
    let shown = filter.max_level_hint();
    // Without colours: what stands in an event could not be distinguished from them.
    let own = fmt::layer().with_writer(LogWriter::default).with_ansi(false);
    let own: LogLayer = match format {
        LogFormat::Text => own.with_filter(filter).boxed(),
        LogFormat::Json => own.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let mut layers: Vec<LogLayer> = vec![own];
    layers.extend(others);
    tracing_subscriber::registry().with(layers).init();
    // Of crates that use `log` the others want nothing. Were these asked for all that the most curious of the others wants of one
    // place, each of their lines would go through all layers: a HTTP client has one for every 16 bytes.
    let level = shown.and_then(|level| level.to_string().parse().ok());
    ::log::set_max_level(level.unwrap_or(::log::LevelFilter::Trace));
}

/// Writer of log events to standard error: one line per event, with line breaks inside it escaped.
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
