//! Readers of recordings as their publishers have them, packed by gzip or plain. They are read in place.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use weir_graph::Trace;
use weir_types::Span;

use super::RecordingError;

/// Unpacked; the largest of these recordings has some 10 MiB.
const MAX_TEXT_BYTES: u64 = 1 << 30;
/// Events a trace is made of may lie this many slots apart at most, which bounds its memory.
const MAX_SLOTS: u64 = 1 << 27;

/// Reads a file as text, and unpacks it if it begins with the magic bytes of gzip.
fn text(path: &Path) -> Result<String, RecordingError> {
    let unreadable = |reason: String| RecordingError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let bytes = weir_files::read(path, MAX_TEXT_BYTES).map_err(|error| unreadable(error.to_string()))?;
    let mut text = String::new();
    let read = if bytes.starts_with(&[0x1f, 0x8b]) {
        MultiGzDecoder::new(&bytes[..])
            .take(MAX_TEXT_BYTES + 1)
            .read_to_string(&mut text)
    } else {
        (&bytes[..]).take(MAX_TEXT_BYTES + 1).read_to_string(&mut text)
    };
    let size = read.map_err(|error| unreadable(error.to_string()))?;
    if size as u64 > MAX_TEXT_BYTES {
        return Err(unreadable(format!(
            "it holds more than {} MiB",
            MAX_TEXT_BYTES >> 20
        )));
    }
    if text.starts_with(weir_files::BYTE_ORDER_MARK) {
        text.drain(..weir_files::BYTE_ORDER_MARK.len());
    }
    Ok(text)
}

/// Reads each line that is not empty by `read`; the first `skip` lines are headers.
fn lines<T>(
    path: &Path,
    skip: usize,
    expected: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, RecordingError> {
    let text = text(path)?;
    let rows = (1..)
        .zip(text.lines())
        .skip(skip)
        .map(|(line, row)| (line, row.trim()))
        .filter(|(_, row)| !row.is_empty());
    let rows = rows.map(|(line, row)| {
        read(row).ok_or_else(|| RecordingError::Line {
            path: path.to_owned(),
            line,
            expected,
        })
    });
    rows.collect()
}

fn count(text: &str) -> Option<f64> {
    text.trim()
        .parse::<f64>()
        .ok()
        .filter(|count| count.is_finite() && *count >= 0.0)
}

/// Reads one count of requests per line, one line per second: Twitter, NASA. In the former, runs of zeros are
/// missing data.
///
/// # Errors
/// [`RecordingError`] where the file or a line of it cannot be read.
pub fn counts_per_second(path: &Path) -> Result<Trace, RecordingError> {
    let rates = lines(path, 0, "count of requests", count)?;
    Ok(Trace::new(Span::from_secs(1), rates)?)
}

/// Invocations of each function in each minute.
#[derive(Debug, Clone, PartialEq)]
pub struct Functions {
    /// A row a function, a column a minute; all equally long.
    minutes: Vec<Vec<f64>>,
}

/// Reads a day of Azure Functions 2019: `HashFunction,HashOwner,HashApp,`, then perhaps `Trigger,`, then a
/// column per minute.
///
/// # Errors
/// [`RecordingError`] where the file or a line of it cannot be read, or lines are not equally long.
pub fn functions_azure_2019(path: &Path) -> Result<Functions, RecordingError> {
    let expected = "row of a function by minutes";
    let header = text(path)?.lines().next().unwrap_or_default().to_owned();
    let named = header
        .split(',')
        .take_while(|name| !name.trim().ends_with("_minute") && *name != "1")
        .count();
    let width = header.split(',').count();
    let minutes = lines(path, 1, expected, |row| {
        let row: Option<Vec<f64>> = row.split(',').skip(named).map(count).collect();
        row.filter(|row| !row.is_empty() && row.len() + named == width)
    })?;
    if minutes.is_empty() {
        let path = path.to_owned();
        return Err(RecordingError::Line {
            path,
            line: 1,
            expected,
        });
    }
    Ok(Functions { minutes })
}

impl Functions {
    /// Number of functions in the recording.
    #[must_use]
    pub fn count(&self) -> usize {
        self.minutes.len()
    }

    /// Number of minutes that the recording covers.
    #[must_use]
    pub fn minutes(&self) -> usize {
        self.minutes.first().map_or(0, Vec::len)
    }

    /// Sum of all functions.
    ///
    /// # Errors
    /// None where the functions were read.
    pub fn total(&self) -> Result<Trace, RecordingError> {
        self.sum(0..self.minutes.len())
    }

    /// The functions that are invoked at least once a minute in the mean, the burstiest first: by their coefficient of
    /// variation, ties in the order of the file.
    #[must_use]
    pub fn indices_by_burstiness(&self) -> Vec<usize> {
        let spread = |row: &[f64]| {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let square = row.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / row.len() as f64;
            (mean >= 1.0).then(|| square.sqrt() / mean)
        };
        let mut order: Vec<(usize, f64)> = (0..)
            .zip(&self.minutes)
            .filter_map(|(index, row)| Some((index, spread(row)?)))
            .collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        order.into_iter().map(|(index, _)| index).collect()
    }

    /// Sum of some functions; indices beyond the end are ignored.
    ///
    /// # Errors
    /// None where the functions were read.
    pub fn sum(&self, of: impl IntoIterator<Item = usize>) -> Result<Trace, RecordingError> {
        let rates = self.sums(of).last();
        let rates = rates.unwrap_or_else(|| vec![0.0; self.minutes()]);
        Ok(Trace::new(Span::from_secs(60), rates)?)
    }

    /// Rates by the minute of the first of some functions, of the first two together, and so on.
    pub(super) fn sums(&self, of: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Vec<f64>> {
        let rows = of.into_iter().filter_map(|index| self.minutes.get(index));
        rows.scan(Vec::new(), |rates, row| {
            rates.resize(row.len(), 0.0);
            for (rate, count) in rates.iter_mut().zip(row) {
                *rate += count / 60.0;
            }
            Some(rates.clone())
        })
    }
}

/// Reads Azure Functions 2021: `app,func,end_timestamp,duration` in seconds. Returns the start times of
/// invocations, in order, relative to the first.
///
/// # Errors
/// [`RecordingError`] where the file or a line of it cannot be read.
pub fn events_azure_2021(path: &Path) -> Result<Vec<Span>, RecordingError> {
    let begins = lines(path, 1, "row of app, function, end and duration", |row| {
        let mut fields = row.split(',').skip(2);
        let (end, duration) = (count(fields.next()?)?, count(fields.next()?)?);
        Some(end - duration)
    })?;
    Ok(from_first(begins))
}

/// Reads Azure LLM inference: `TIMESTAMP,ContextTokens,GeneratedTokens` with `2023-11-16 18:15:46.6805900`.
/// Returns the arrival times of requests, in order, relative to the first.
///
/// # Errors
/// [`RecordingError`] where the file or a line of it cannot be read.
pub fn events_azure_llm(path: &Path) -> Result<Vec<Span>, RecordingError> {
    let times = lines(path, 1, "row of a time stamp and tokens", |row| {
        seconds_of(row.split(',').next()?)
    })?;
    Ok(from_first(times))
}

/// Reads the same file as [`events_azure_llm`]: prompt tokens and generated tokens of each request.
///
/// # Errors
/// [`RecordingError`] where the file or a line of it cannot be read.
pub fn lengths_azure_llm(path: &Path) -> Result<Vec<[u32; 2]>, RecordingError> {
    lines(path, 1, "row of a time stamp and tokens", |row| {
        let mut fields = row.split(',').skip(1);
        let mut tokens = || fields.next()?.trim().parse::<u32>().ok();
        Some([tokens()?, tokens()?])
    })
}

/// Azure LLM inference, as [`events_azure_llm`]: requests in order of time, from the first, with tokens of their prompts and tokens
/// that were generated, at least one.
pub(super) fn requests_azure_llm(path: &Path) -> Result<Vec<(Span, [u32; 2])>, RecordingError> {
    let mut rows = lines(path, 1, "row of a time stamp and tokens", |row| {
        let mut fields = row.split(',');
        let at = seconds_of(fields.next()?)?;
        let mut tokens = || fields.next()?.trim().parse::<u32>().ok();
        Some((at, tokens()?.max(1), tokens()?.max(1)))
    })?;
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = rows.first().map_or(0.0, |(at, ..)| *at);
    let requests = rows.into_iter();
    let requests = requests.map(|(at, prompt, output)| (Span::from_secs_f64(at - first), [prompt, output]));
    Ok(requests.collect())
}

fn from_first(mut times: Vec<f64>) -> Vec<Span> {
    times.sort_by(f64::total_cmp);
    let first = times.first().copied().unwrap_or(0.0);
    times
        .into_iter()
        .map(|time| Span::from_secs_f64(time - first))
        .collect()
}

/// Seconds since the year 0 of a time stamp, on the calendar's own clock.
fn seconds_of(stamp: &str) -> Option<f64> {
    let (date, time) = stamp.trim().split_once([' ', 'T'])?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    if !(0..=9_999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let time = time.split(['+', 'Z']).next()?;
    let mut time = time.split(':').map(count);
    let (hours, minutes, seconds) = (time.next()??, time.next()??, time.next()??);
    // Days of the proleptic Gregorian calendar, with years that begin in March so that leap days come last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day;
    Some(days as f64 * 86_400.0 + hours * 3_600.0 + minutes * 60.0 + seconds)
}

/// Converts events to rates: the number of events in each slot, from zero to the last event.
///
/// # Errors
/// [`RecordingError::Trace`] where there are no events, the slot has no length, or the trace would not fit into memory.
pub fn bin_events(events: &[Span], slot: Span) -> Result<Trace, RecordingError> {
    use weir_graph::TraceError;
    let last = events.iter().max().ok_or(TraceError::Empty)?;
    let bin = |event: &Span| event.micros().checked_div(slot.micros());
    let slots = bin(last)
        .filter(|slots| *slots < MAX_SLOTS)
        .ok_or(TraceError::NoSlot)?;
    let mut rates = vec![0.0; slots as usize + 1];
    for index in events.iter().filter_map(bin) {
        rates[index as usize] += 1.0 / slot.as_secs_f64();
    }
    Ok(Trace::new(slot, rates)?)
}
