//! Traces as CSV: lines beginning with `#` are comments, the header is `t_s,rate_rps`, and each row is the start of a slot in
//! seconds and its mean rate in requests a second. Slots are equally long; the first two rows give the length.

use std::path::Path;

use weir_types::Span;

use super::{Trace, TraceError, is_rate};

const HEADER: [&str; 2] = ["t_s", "rate_rps"];
/// A year of seconds takes some 500 MiB; a larger file was named by mistake.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Times are written with few digits; a row may deviate from its slot by this fraction of one.
const SLOT_TOLERANCE: f64 = 1e-2;

/// The text of the file of a trace.
///
/// # Errors
/// [`TraceError::Unreadable`].
pub fn read_trace_text(path: &Path) -> Result<String, TraceError> {
    weir_files::read_text(path, MAX_FILE_BYTES).map_err(|error| TraceError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Rows with the numbers of their lines, without those that are empty or comments. The first is the header.
pub fn trace_rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines()).map(|(line, text)| (line, text.trim()));
    lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#'))
}

impl Trace {
    /// Reads a trace from a CSV file.
    ///
    /// # Errors
    /// [`TraceError::Unreadable`], or [`TraceError::Line`] for the first invalid line.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        Self::parse(&read_trace_text(path)?, path)
    }

    /// Reads a trace from text; errors name it by `path`.
    ///
    /// # Errors
    /// [`TraceError::Line`] for the first invalid line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, TraceError> {
        let wrong = |line, message, hint| TraceError::at_line(path, line, message, hint);
        let mut rows = trace_rows(text);
        let (line, header) = rows.next().unwrap_or((1, ""));
        if !header.split(',').map(str::trim).eq(HEADER) {
            let message = "this is not a trace: its first row is not \"t_s,rate_rps\"".to_owned();
            return Err(wrong(line, message, "begin with the header t_s,rate_rps"));
        }
        let mut slots = RowSlots::default();
        let mut rates = Vec::new();
        let mut last = line;
        for (line, row) in rows {
            let numbers = row.split_once(',').and_then(|(at, rate)| {
                let number = |text: &str| {
                    text.trim()
                        .parse::<f64>()
                        .ok()
                        .filter(|number| number.is_finite())
                };
                Some((number(at)?, number(rate)?))
            });
            let (at, rate) = numbers.ok_or_else(|| {
                let row: String = row.chars().take(40).collect();
                let message = format!("\"{}\" is not a row of a trace", row.escape_debug());
                wrong(
                    line,
                    message,
                    "give seconds and requests a second, such as 60,12.5",
                )
            })?;
            if !is_rate(rate) {
                return Err(wrong(
                    line,
                    format!("rate {rate} is below zero"),
                    "0 where nothing arrives",
                ));
            }
            slots
                .on_row(at)
                .map_err(|(message, hint)| wrong(line, message, hint))?;
            rates.push(rate);
            last = line;
        }
        let hint =
            "slots are as long as the first two rows are apart; for a constant rate give the row twice";
        let slot = slots.slot.filter(|_| rates.len() > 1);
        let slot =
            slot.ok_or_else(|| wrong(last, format!("a trace needs two rows, not {}", rates.len()), hint))?;
        Self::new(Span::from_secs_f64(slot), rates)
    }
}

/// Checks that rows are equally spaced.
#[derive(Default)]
struct RowSlots {
    first: f64,
    /// Length of a slot in seconds.
    slot: Option<f64>,
    rows: u64,
}

impl RowSlots {
    fn on_row(&mut self, at: f64) -> Result<(), (String, &'static str)> {
        match (self.rows, self.slot) {
            (0, _) => self.first = at,
            (_, None) => {
                let slot = at - self.first;
                if Span::from_secs_f64(slot) == Span::ZERO {
                    return Err((
                        format!("the row at {at} s does not come after that at {} s", self.first),
                        "rows are in the order of time, in seconds",
                    ));
                }
                self.slot = Some(slot);
            }
            (rows, Some(slot)) => {
                let due = self.first + slot * rows as f64;
                if (at - due).abs() > slot * SLOT_TOLERANCE {
                    return Err((
                        format!("a row at {at} s where one at {due} s is due"),
                        "slots are equally long: give each its row, with rate 0 where nothing arrives",
                    ));
                }
            }
        }
        self.rows += 1;
        Ok(())
    }
}
