//! Requests with their tokens: when each comes, how long its prompt is, and how much is generated.
//!
//! As CSV: lines beginning with `#` are comments, the header is `t_s,in,out`, and each row is a request: seconds, tokens of its
//! prompt, tokens that are generated.

use std::path::Path;
use std::sync::Arc;

use weir_graph::{TraceError, read_trace_text, trace_rows};
use weir_policy::uniform_hash;
use weir_types::Span;

use super::read::requests_azure_llm;
use super::{RecordingError, RequestRecording};

const HEADER: [&str; 3] = ["t_s", "in", "out"];
/// Most tokens of a prompt, and of what is generated.
const MAX_TOKENS: u32 = 1 << 20;
/// Latest time of a row, in seconds: a hundred years.
const MAX_SECONDS: f64 = 3.2e9;

/// Request with its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRequest {
    /// Arrival time since the start of the trace.
    pub at: Span,
    /// Number of prompt tokens, at least one.
    pub prompt: u32,
    /// Number of generated tokens, at least one.
    pub output: u32,
}

/// Requests in order of time, at least one. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenTrace {
    requests: Arc<[TokenRequest]>,
}

impl TokenTrace {
    /// Reads a CSV file; `None` if it has no requests with tokens. The header decides: it then has three
    /// columns, while a trace of rates has two.
    ///
    /// # Errors
    /// [`TraceError::Unreadable`], or [`TraceError::Line`] for the first line that is wrong.
    pub fn read(path: &Path) -> Result<Option<Self>, TraceError> {
        let text = read_trace_text(path)?;
        let header = trace_rows(&text).next();
        if header.is_none_or(|(_, header)| header.split(',').count() != HEADER.len()) {
            return Ok(None);
        }
        Self::parse(&text, path).map(Some)
    }

    /// Reads text; errors name it by `path`.
    ///
    /// # Errors
    /// [`TraceError::Line`] for the first line that is wrong.
    pub fn parse(text: &str, path: &Path) -> Result<Self, TraceError> {
        let wrong = |line, message, hint| TraceError::at_line(path, line, message, hint);
        let mut rows = trace_rows(text);
        let (first, header) = rows.next().unwrap_or((1, ""));
        if !header.split(',').map(str::trim).eq(HEADER) {
            let message = "these are no requests: the first row is not \"t_s,in,out\"".to_owned();
            return Err(wrong(first, message, "begin with the header t_s,in,out"));
        }
        let mut requests: Vec<TokenRequest> = Vec::new();
        for (line, row) in rows {
            let request = request(row).ok_or_else(|| {
                let row: String = row.chars().take(40).collect();
                let message = format!("\"{}\" is no request", row.escape_debug());
                let hint = "give seconds from 0, tokens of the prompt and tokens that are generated, such as 1.5,120,300: whole \
                            numbers from 1 to 1048576";
                wrong(line, message, hint)
            })?;
            if let Some(before) = requests.last().filter(|before| request.at < before.at) {
                let (at, before) = (request.at.as_secs_f64(), before.at.as_secs_f64());
                let message = format!("the request at {at} s does not come after that at {before} s");
                return Err(wrong(line, message, "rows are in the order of time"));
            }
            requests.push(request);
        }
        if requests.is_empty() {
            let hint = "give a row for each request, such as 1.5,120,300";
            return Err(wrong(first, "there are no requests".to_owned(), hint));
        }
        Ok(Self {
            requests: requests.into(),
        })
    }

    /// Reads a recording from the asset pack in the folder `assets`.
    ///
    /// # Errors
    /// [`RecordingError`] where it is not there, or a line of it cannot be read.
    pub fn recorded(recording: RequestRecording, assets: Option<&Path>) -> Result<Self, RecordingError> {
        let path = assets.map(|assets| assets.join(recording.file()));
        let path = path.filter(|path| path.is_file());
        let path = path.ok_or(RecordingError::NotThere(recording.name()))?;
        let read = requests_azure_llm(&path)?.into_iter();
        let requests: Arc<[TokenRequest]> = read
            .map(|(at, [prompt, output])| TokenRequest { at, prompt, output })
            .collect();
        if requests.is_empty() {
            let length = Span::MAX;
            return Err(RecordingError::NoRequests { length });
        }
        Ok(Self { requests })
    }

    /// The requests, in order of time.
    #[must_use]
    pub fn requests(&self) -> &[TokenRequest] {
        &self.requests
    }

    /// Tokens of a prompt, and tokens that are generated, in the mean.
    #[must_use]
    pub fn mean_tokens(&self) -> [f64; 2] {
        let mean = |of: fn(&TokenRequest) -> u32| {
            let sum: u64 = self.requests.iter().map(|request| u64::from(of(request))).sum();
            sum as f64 / self.requests.len() as f64
        };
        [mean(|request| request.prompt), mean(|request| request.output)]
    }

    /// Scales the gaps between the requests to a mean rate of `rate` requests per second; their order stays.
    ///
    /// # Errors
    /// [`TraceError`] if all requests arrive at once, or `rate` is not a valid rate.
    pub fn scale_to(&self, rate: f64) -> Result<Self, TraceError> {
        if !(rate.is_finite() && rate > 0.0) {
            let (what, value) = ("the mean rate", rate.to_string());
            return Err(TraceError::Factor { what, value });
        }
        let (first, last) = (self.requests[0].at, self.requests[self.requests.len() - 1].at);
        if first == last {
            let (what, value) = (
                "the time from the first request to the last, where a rate is given,",
                "0".to_owned(),
            );
            return Err(TraceError::Factor { what, value });
        }
        let own = (self.requests.len() - 1) as f64 / last.saturating_sub(first).as_secs_f64();
        let scaled = self.requests.iter().map(|request| TokenRequest {
            at: request.at.scale(own / rate),
            ..*request
        });
        Ok(Self {
            requests: scaled.collect(),
        })
    }

    /// Requests that arrive before `length`.
    ///
    /// # Errors
    /// [`RecordingError::NoRequests`] if there are none.
    pub fn cut(&self, length: Span) -> Result<Self, RecordingError> {
        self.part(Span::ZERO, length)
    }

    /// A stretch of this length, whose start is drawn by `seed`.
    ///
    /// # Errors
    /// [`RecordingError::NoRequests`] if no request arrives within it.
    pub fn stretch(&self, length: Span, seed: u64) -> Result<Self, RecordingError> {
        let last = self.requests[self.requests.len() - 1].at;
        let most = last.saturating_sub(length);
        self.part(most.scale(uniform_hash(seed)), length)
    }

    fn part(&self, from: Span, length: Span) -> Result<Self, RecordingError> {
        let within = self.requests.iter().filter_map(|request| {
            let at = request.at.saturating_sub(from);
            (request.at >= from && at < length).then_some(TokenRequest { at, ..*request })
        });
        let requests: Arc<[TokenRequest]> = within.collect();
        if requests.is_empty() {
            return Err(RecordingError::NoRequests { length });
        }
        Ok(Self { requests })
    }
}

fn request(row: &str) -> Option<TokenRequest> {
    let mut fields = row.split(',').map(str::trim);
    let at: f64 = fields.next()?.parse().ok()?;
    let mut tokens = || {
        let tokens: u32 = fields.next()?.parse().ok()?;
        (1..=MAX_TOKENS).contains(&tokens).then_some(tokens)
    };
    let (prompt, output) = (tokens()?, tokens()?);
    if !(0.0..=MAX_SECONDS).contains(&at) || fields.next().is_some() {
        return None;
    }
    Some(TokenRequest {
        at: Span::from_secs_f64(at),
        prompt,
        output,
    })
}
