//! Progress of long work: drawn on a terminal, silent in a pipe; indicatif detects the difference.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over this many bytes.
#[must_use]
pub fn bytes(label: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(label.to_owned());
    with_style(bar, "{msg:24} {bar:30} {bytes:>10} / {total_bytes} {eta:>4}")
}

/// A bar over this many steps of equal size.
#[must_use]
pub fn steps(label: &str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(label.to_owned());
    with_style(bar, "{msg} {bar:30} {pos} / {len} {elapsed} {eta:>4}")
}

/// A line about work of unknown length; its message may fill the width of the terminal.
#[must_use]
pub fn line() -> ProgressBar {
    with_style(ProgressBar::new_spinner(), "{spinner} {elapsed} {wide_msg}")
}

fn with_style(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
