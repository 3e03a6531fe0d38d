//! Streams that exist as arrival times only: `emulated:poisson?rate=100&seed=1&frames=500&size=64x48`, or
//! `emulated:trace?file=day.csv&rate=100&process=gamma&cv=2`.

use std::iter::Take;
use std::path::PathBuf;

use weir_config::spelling;
use weir_types::Span;

use crate::trace::{ArrivalProcess, Arrivals, MAX_CV, Trace, TraceError};

/// The load of an emulated stream, in frames a second.
#[derive(Debug, Clone, PartialEq)]
pub enum EmulatedLoad {
    /// A constant mean rate, without end.
    Constant {
        /// Mean frames a second, above zero.
        rate: f64,
    },
    /// The load of a trace, until its end.
    Trace {
        /// The CSV file of the trace; in a checked graph it is absolute.
        file: PathBuf,
        /// Mean rate that the trace is scaled to, in frames a second; `None`: as in the file.
        rate: Option<f64>,
    },
}

/// An emulated stream, as described by its URI.
#[derive(Debug, Clone, PartialEq)]
pub struct EmulatedStream {
    /// Frames a second.
    pub load: EmulatedLoad,
    /// The arrival process of frames.
    pub process: ArrivalProcess,
    /// Seed of the random gaps; 1 by default.
    pub seed: u64,
    /// Number of frames after which it ends; `None`: with its load.
    pub frames: Option<u64>,
    /// Width and height of its blank frames in pixels; 64x48 by default.
    pub size: (u32, u32),
}

/// Fault of the URI of an emulated stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EmulatedStreamError {
    /// Description of the problem.
    pub message: String,
    /// Advice on how to fix it, if there is any.
    pub hint: Option<String>,
}

const EXAMPLE: &str = "for example \"emulated:poisson?rate=100&seed=1&frames=500&size=64x48\"";
const TRACE_EXAMPLE: &str = "for example \"emulated:trace?file=day.csv&rate=100&process=gamma&cv=2\"";
const KINDS: [&str; 4] = ["poisson", "gamma", "uniform", "trace"];
const PROCESSES: [&str; 3] = ["poisson", "gamma", "uniform"];
/// Frames are made in memory; this is twice the side of the largest cameras' frames.
const MAX_SIDE_PX: u32 = 16_384;

impl EmulatedStream {
    /// Prefix of such URIs.
    pub const SCHEME: &'static str = "emulated:";

    /// Parses a URI. Files need not exist.
    ///
    /// # Errors
    /// [`EmulatedStreamError`] for the first problem.
    pub fn parse(uri: &str) -> Result<Self, EmulatedStreamError> {
        let rest = uri
            .strip_prefix(Self::SCHEME)
            .ok_or_else(|| bad(format!("\"{uri}\" is not an emulated stream")))?;
        let (kind, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !KINDS.contains(&kind) {
            return Err(EmulatedStreamError {
                message: format!("there is no emulated stream \"{kind}\""),
                hint: spelling::hint(kind, "kinds", KINDS),
            });
        }
        let mut query_keys = Query::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            query_keys.set(kind, pair)?;
        }
        query_keys.stream(kind)
    }

    /// Arrival times of its frames, since its start; `stream` distinguishes streams of one URI. The live engine and the
    /// simulator both use these times. At a constant rate the first frame is at 0.
    ///
    /// # Errors
    /// [`TraceError`] where the file of a trace cannot be used.
    pub fn arrivals(&self, stream: u64) -> Result<Take<Arrivals>, TraceError> {
        let seed = self.seed ^ (stream << 32);
        let arrivals = match &self.load {
            EmulatedLoad::Constant { rate } => {
                let trace = Trace::constant(*rate, Span::MAX)?;
                Arrivals::starting_at_zero(&trace, self.process, seed)
            }
            EmulatedLoad::Trace { .. } => Arrivals::new(&self.trace()?, self.process, seed),
        };
        let frames = self.frames.and_then(|frames| usize::try_from(frames).ok());
        Ok(arrivals.take(frames.unwrap_or(usize::MAX)))
    }

    /// Its load as a trace, read from its file and scaled to its rate; a constant load never ends.
    ///
    /// # Errors
    /// As [`EmulatedStream::arrivals`].
    pub fn trace(&self) -> Result<Trace, TraceError> {
        match &self.load {
            EmulatedLoad::Constant { rate } => Trace::constant(*rate, Span::MAX),
            EmulatedLoad::Trace { file, rate: None } => Trace::read(file),
            EmulatedLoad::Trace {
                file,
                rate: Some(rate),
            } => Trace::read(file)?.scale_to(*rate),
        }
    }
}

/// The keys of a URI.
#[derive(Default)]
struct Query {
    rate: Option<f64>,
    file: Option<String>,
    process: Option<String>,
    cv: Option<f64>,
    seed: Option<u64>,
    frames: Option<u64>,
    size: Option<(u32, u32)>,
}

impl Query {
    fn set(&mut self, kind: &str, pair: &str) -> Result<(), EmulatedStreamError> {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "rate" => self.rate = Some(above_zero(key, value)?),
            "seed" => {
                let seed = value.parse();
                self.seed = Some(seed.map_err(|_| bad(format!("seed \"{value}\" is not a whole number")))?);
            }
            "frames" => {
                let frames = value.parse().ok().filter(|frames| *frames > 0);
                let frames =
                    frames.ok_or_else(|| bad(format!("frames \"{value}\" is not a whole number above zero")));
                self.frames = Some(frames?);
            }
            "size" => {
                let side = |text: &str| text.parse().ok().filter(|side| (1..=MAX_SIDE_PX).contains(side));
                let sides = value
                    .split_once('x')
                    .and_then(|(width, height)| Some((side(width)?, side(height)?)));
                self.size = Some(sides.ok_or_else(|| bad(format!("size \"{value}\" is not as 64x48")))?);
            }
            "file" if kind == "trace" => self.file = Some(decoded(value)),
            "process" if kind == "trace" => self.process = Some(value.to_owned()),
            "cv" if kind != "poisson" && kind != "uniform" => {
                let cv = above_zero(key, value)?;
                if cv > MAX_CV {
                    return Err(bad(format!("cv \"{value}\" is above {MAX_CV}")));
                }
                self.cv = Some(cv);
            }
            other => {
                let kind_keys: &[&str] = match kind {
                    "trace" => &["file", "process", "cv"],
                    "gamma" => &["cv"],
                    _ => &[],
                };
                let keys = ["rate", "seed", "frames", "size"]
                    .iter()
                    .chain(kind_keys)
                    .copied();
                return Err(EmulatedStreamError {
                    message: format!("an emulated stream \"{kind}\" has no key \"{other}\""),
                    hint: spelling::hint(other, "keys", keys),
                });
            }
        }
        Ok(())
    }

    fn stream(self, kind: &str) -> Result<EmulatedStream, EmulatedStreamError> {
        let (load, process) = if kind == "trace" {
            let file = self.file.as_deref().filter(|file| !file.trim().is_empty());
            let file = file.ok_or_else(|| EmulatedStreamError {
                message: "an emulated stream of a trace needs its file".to_owned(),
                hint: Some(TRACE_EXAMPLE.to_owned()),
            })?;
            let (file, rate) = (PathBuf::from(file), self.rate);
            (
                EmulatedLoad::Trace { file, rate },
                self.process.as_deref().unwrap_or("poisson"),
            )
        } else {
            let rate = self.rate;
            let rate =
                rate.ok_or_else(|| bad("an emulated stream needs its rate in frames a second".to_owned()))?;
            (EmulatedLoad::Constant { rate }, kind)
        };
        Ok(EmulatedStream {
            load,
            process: process_of(process, self.cv)?,
            seed: self.seed.unwrap_or(1),
            frames: self.frames,
            size: self.size.unwrap_or((64, 48)),
        })
    }
}

fn process_of(word: &str, cv: Option<f64>) -> Result<ArrivalProcess, EmulatedStreamError> {
    let wrong = |message: &str| EmulatedStreamError {
        message: message.to_owned(),
        hint: Some(TRACE_EXAMPLE.to_owned()),
    };
    match (word, cv) {
        ("poisson", None) => Ok(ArrivalProcess::Poisson),
        ("uniform", None) => Ok(ArrivalProcess::Uniform),
        ("gamma", Some(cv)) => Ok(ArrivalProcess::Gamma { cv }),
        ("gamma", None) => Err(wrong("gamma gaps need their coefficient of variation `cv`")),
        ("poisson" | "uniform", Some(_)) => {
            Err(wrong("only gamma gaps have a coefficient of variation `cv`"))
        }
        (other, _) => Err(EmulatedStreamError {
            message: format!("there is no process \"{other}\""),
            hint: spelling::hint(other, "processes", PROCESSES),
        }),
    }
}

/// The URI of a trace with its file replaced.
pub(crate) fn with_file(uri: &str, file: &str) -> String {
    let (head, query) = uri.split_once('?').unwrap_or((uri, ""));
    let file = format!("file={}", encoded(file));
    let pairs = query.split('&').map(|pair| {
        if pair.starts_with("file=") {
            file.as_str()
        } else {
            pair
        }
    });
    format!("{head}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// A path may contain the character that ends a value.
fn encoded(path: &str) -> String {
    path.replace('%', "%25").replace('&', "%26")
}

fn decoded(value: &str) -> String {
    value.replace("%26", "&").replace("%25", "%")
}

fn above_zero(key: &str, value: &str) -> Result<f64, EmulatedStreamError> {
    let number = value
        .parse()
        .ok()
        .filter(|number: &f64| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| bad(format!("{key} \"{value}\" is not a number above zero")))
}

fn bad(message: String) -> EmulatedStreamError {
    EmulatedStreamError {
        message,
        hint: Some(EXAMPLE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_stream_are_read() {
        let stream =
            EmulatedStream::parse("emulated:poisson?rate=12.5&seed=7&frames=500&size=32x16").unwrap();
        let expected = EmulatedStream {
            load: EmulatedLoad::Constant { rate: 12.5 },
            process: ArrivalProcess::Poisson,
            seed: 7,
            frames: Some(500),
            size: (32, 16),
        };
        assert_eq!(stream, expected);
        let least = EmulatedStream::parse("emulated:uniform?rate=1").unwrap();
        assert_eq!((least.seed, least.frames, least.size), (1, None, (64, 48)));
        let gamma = EmulatedStream::parse("emulated:gamma?rate=1&cv=2").unwrap();
        assert_eq!(gamma.process, ArrivalProcess::Gamma { cv: 2.0 });
    }

    #[test]
    fn a_trace_file_may_have_any_name() {
        for name in ["day.csv", "R&D/100%.csv", "a?b=%2526.csv"] {
            let uri = with_file("emulated:trace?seed=2&file=x&rate=3", name);
            let stream = EmulatedStream::parse(&uri).unwrap();
            let load = EmulatedLoad::Trace {
                file: PathBuf::from(name),
                rate: Some(3.0),
            };
            assert_eq!((stream.load, stream.seed), (load, 2), "{uri}");
        }
    }

    #[test]
    fn arrivals_start_at_zero_end_with_the_frames_and_differ_by_stream() {
        for kind in ["poisson?rate=100", "uniform?rate=100", "gamma?rate=100&cv=2"] {
            let stream = EmulatedStream::parse(&format!("emulated:{kind}&frames=400")).unwrap();
            let times: Vec<Span> = stream.arrivals(0).unwrap().collect();
            assert_eq!((times.len(), times[0]), (400, Span::ZERO), "{kind}");
            assert_eq!(times, stream.arrivals(0).unwrap().collect::<Vec<_>>());
            let other: Vec<Span> = stream.arrivals(1).unwrap().collect();
            assert_eq!(
                times == other,
                stream.process == ArrivalProcess::Uniform,
                "{kind}"
            );
        }
    }

    #[test]
    fn invalid_uris_are_reported_with_a_hint() {
        let check = |rest: &str, part: &str| {
            let error = EmulatedStream::parse(&format!("emulated:{rest}")).unwrap_err();
            assert!(error.message.contains(part), "{rest}: {error}");
            assert!(error.hint.is_some());
        };
        check("poison?rate=1", "no emulated stream \"poison\"");
        check("poisson", "needs its rate");
        check("poisson?rate=0", "rate \"0\"");
        check("poisson?rate=inf", "rate \"inf\"");
        check("poisson?rate=1&sed=1", "no key \"sed\"");
        check("poisson?rate=1&size=0x3", "size \"0x3\"");
        check("poisson?rate=1&frames=-1", "frames \"-1\"");
        check("poisson?rate=1&file=x", "no key \"file\"");
        check("poisson?rate=1&cv=2", "no key \"cv\"");
        check("gamma?rate=1", "need their coefficient");
        check("trace?rate=1", "needs its file");
        check("trace?file=x&process=gama", "no process \"gama\"");
        check("trace?file=x&cv=2", "only gamma");
        check("trace?file=x&process=gamma&cv=-2", "cv \"-2\"");
        check("trace?file=x&process=gamma&cv=11", "above 10");
    }
}
