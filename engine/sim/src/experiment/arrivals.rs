//! When the requests of a run come.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_graph::{Arrivals, EmulatedStream};
use weir_policy::{Span, Timestamp};

/// Where requests come from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// One process at a rate in requests a second.
    Constant { rate: f64, process: Arrivals, seed: u64 },
    /// The streams of a graph, merged.
    Streams(Vec<EmulatedStream>),
}

impl Source {
    /// The same with other draws; streams of a graph keep their own seeds.
    pub(super) fn seeded(&self, seed: u64) -> Self {
        match self.clone() {
            Self::Constant { rate, process, .. } => Self::Constant { rate, process, seed },
            streams @ Self::Streams(_) => streams,
        }
    }

    /// The rate in the beginning.
    pub(super) fn first_rate(&self) -> f64 {
        match self {
            Self::Constant { rate, .. } => *rate,
            Self::Streams(streams) => streams.iter().map(|stream| stream.rate).sum(),
        }
    }

    /// The times in order, before `length` is over.
    pub(super) fn times(&self, length: Span) -> Vec<Timestamp> {
        let mut times = match self {
            Self::Constant { rate, process, seed } => drawn(*rate, *process, *seed, length, u64::MAX),
            Self::Streams(streams) => {
                let of = |(number, stream): (u64, &EmulatedStream)| {
                    let frames = stream.frames.unwrap_or(u64::MAX);
                    drawn(
                        stream.rate,
                        stream.arrivals,
                        stream.seed ^ (number << 32),
                        length,
                        frames,
                    )
                };
                (0..).zip(streams).flat_map(of).collect()
            }
        };
        times.sort_unstable();
        times
    }
}

fn drawn(rate: f64, process: Arrivals, seed: u64, length: Span, most: u64) -> Vec<Timestamp> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let (mut at, mut times) = (0.0, Vec::new());
    while at < length.as_secs_f64() && (times.len() as u64) < most {
        times.push(Timestamp::ZERO + Span::from_secs_f64(at));
        at += match process {
            Arrivals::Uniform => 1.0 / rate,
            Arrivals::Poisson => -(1.0 - random.random::<f64>()).ln() / rate,
        };
    }
    times
}
