//! Streams that exist as arrival times only: `emulated:poisson?rate=100&seed=1&frames=500&size=64x48`.

use crate::spelling;

/// How frames of an emulated stream follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Gaps are exponential: as if by many users.
    Poisson,
    /// Gaps are equal: as a camera.
    Uniform,
}

/// An emulated stream, as its URI says it.
#[derive(Debug, Clone, PartialEq)]
pub struct EmulatedStream {
    /// How frames follow each other.
    pub arrivals: Arrivals,
    /// Mean frames a second, above zero.
    pub rate: f64,
    /// Of the random gaps; 1 by default.
    pub seed: u64,
    /// After how many it ends; `None`: it does not.
    pub frames: Option<u64>,
    /// Width and height of its blank pictures in pixels; 64x48 by default.
    pub size: (u32, u32),
}

/// Why a URI is no emulated stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadEmulatedStream {
    /// What is wrong.
    pub message: String,
    /// What would mend it.
    pub hint: Option<String>,
}

const EXAMPLE: &str = "for example \"emulated:poisson?rate=100&seed=1&frames=500&size=64x48\"";
const KEYS: &[&str] = &["rate", "seed", "frames", "size"];
/// Pictures are made in memory; this side is that of the largest cameras, doubled.
const LARGEST_SIDE: u32 = 16_384;

impl EmulatedStream {
    /// What such URIs begin with.
    pub const SCHEME: &'static str = "emulated:";

    /// Reads a URI.
    ///
    /// # Errors
    /// [`BadEmulatedStream`] for the first thing that is wrong.
    pub fn parse(uri: &str) -> Result<Self, BadEmulatedStream> {
        let rest = uri
            .strip_prefix(Self::SCHEME)
            .ok_or_else(|| bad(format!("\"{uri}\" is no emulated stream")))?;
        let (kind, query) = rest.split_once('?').unwrap_or((rest, ""));
        let arrivals = match kind {
            "poisson" => Arrivals::Poisson,
            "uniform" => Arrivals::Uniform,
            other => {
                let hint = spelling::hint(other, "kinds", ["poisson", "uniform"]);
                return Err(BadEmulatedStream {
                    message: format!("there is no emulated stream \"{other}\""),
                    hint,
                });
            }
        };
        let mut stream = Self {
            arrivals,
            rate: 0.0,
            seed: 1,
            frames: None,
            size: (64, 48),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            stream.set(pair)?;
        }
        if stream.rate == 0.0 {
            return Err(bad(
                "an emulated stream needs its rate in frames a second".to_owned()
            ));
        }
        Ok(stream)
    }

    fn set(&mut self, pair: &str) -> Result<(), BadEmulatedStream> {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "rate" => {
                let rate = value
                    .parse()
                    .ok()
                    .filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
                self.rate = rate.ok_or_else(|| bad(format!("rate \"{value}\" is no number above zero")))?;
            }
            "seed" => {
                self.seed = value
                    .parse()
                    .map_err(|_| bad(format!("seed \"{value}\" is no whole number")))?;
            }
            "frames" => {
                let frames = value.parse().ok().filter(|frames| *frames > 0);
                let frames =
                    frames.ok_or_else(|| bad(format!("frames \"{value}\" is no whole number above zero")))?;
                self.frames = Some(frames);
            }
            "size" => {
                let side = |text: &str| text.parse().ok().filter(|side| (1..=LARGEST_SIDE).contains(side));
                let sides = value
                    .split_once('x')
                    .and_then(|(width, height)| Some((side(width)?, side(height)?)));
                self.size = sides.ok_or_else(|| bad(format!("size \"{value}\" is not as 64x48")))?;
            }
            other => {
                let hint = spelling::hint(other, "keys", KEYS.iter().copied());
                return Err(BadEmulatedStream {
                    message: format!("an emulated stream has no key \"{other}\""),
                    hint,
                });
            }
        }
        Ok(())
    }
}

fn bad(message: String) -> BadEmulatedStream {
    BadEmulatedStream {
        message,
        hint: Some(EXAMPLE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_read_whole() {
        let stream =
            EmulatedStream::parse("emulated:poisson?rate=12.5&seed=7&frames=500&size=32x16").unwrap();
        let expected = EmulatedStream {
            arrivals: Arrivals::Poisson,
            rate: 12.5,
            seed: 7,
            frames: Some(500),
            size: (32, 16),
        };
        assert_eq!(stream, expected);
        let least = EmulatedStream::parse("emulated:uniform?rate=1").unwrap();
        assert_eq!((least.seed, least.frames, least.size), (1, None, (64, 48)));
    }

    #[test]
    fn what_is_wrong_is_said() {
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
    }
}
