//! What exists as a profile only: models that take their declared time and say nothing, and sources that send blank
//! frames at chosen times. Whole clusters can be exercised with them, without a device.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_flow::{
    Batching, DeviceKind, Evidence, Finding, Frame, Image, Inference, Item, Layout, Model, Operator,
    OwnedPlanes, Region, Session, SessionError, Source, SourceError, SourceFactory, SourceInfo, Step,
    StopFlag,
};
use weir_policy::Profile;

use crate::clock::duration;

/// A model that takes the time of its profile.
#[derive(Debug)]
pub(crate) struct EmulatedModel {
    pub(crate) profile: Profile,
}

impl Model for EmulatedModel {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(EmulatedSession {
            profile: self.profile.clone(),
        }))
    }
}

struct EmulatedSession {
    profile: Profile,
}

impl Session for EmulatedSession {
    fn run(&mut self, items: &[Item], lap: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        let size = u32::try_from(items.len()).unwrap_or(u32::MAX);
        std::thread::sleep(duration(self.profile.duration(size)));
        lap(Step::Inferred);
        Ok(vec![Inference::default(); items.len()])
    }

    fn warm(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

/// Whole frames in, nothing out.
#[derive(Debug)]
pub(crate) struct EmulatedOperator;

impl Operator for EmulatedOperator {
    fn items(&self, frame: &Arc<Frame>, _evidence: &Evidence) -> Vec<Item> {
        vec![Item {
            frame: Arc::clone(frame),
            region: Region::Whole,
            object: None,
        }]
    }

    fn finding(&self, _module: u32, _items: &[Item], _inferences: Vec<Inference>) -> Finding {
        Finding::default()
    }
}

/// How frames of an emulated source follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Arrivals {
    Uniform,
    Poisson,
}

/// A source of blank frames: `emulated:poisson?rate=100&seed=1&frames=500&size=64x48`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EmulatedSource {
    arrivals: Arrivals,
    rate: f64,
    seed: u64,
    frames: Option<u64>,
    width: u32,
    height: u32,
}

impl EmulatedSource {
    /// Reads the part of the uri behind `emulated:`; `stream` keeps sources of one text apart.
    pub(crate) fn parse(uri: &str, stream: u64) -> Result<Self, SourceError> {
        let bad = |reason: &str| SourceError::Open {
            uri: uri.to_owned(),
            reason: reason.to_owned(),
        };
        let text = uri
            .strip_prefix("emulated:")
            .ok_or_else(|| bad("no emulated source"))?;
        let (kind, keys) = text.split_once('?').unwrap_or((text, ""));
        let arrivals = match kind {
            "uniform" => Arrivals::Uniform,
            "poisson" => Arrivals::Poisson,
            _ => return Err(bad("use emulated:uniform or emulated:poisson")),
        };
        let mut source = Self {
            arrivals,
            rate: 25.0,
            seed: 0,
            frames: None,
            width: 64,
            height: 48,
        };
        for pair in keys.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = || {
                value
                    .parse::<u64>()
                    .map_err(|_| bad(&format!("{key} wants a whole number")))
            };
            match key {
                "rate" => source.rate = value.parse().map_err(|_| bad("rate wants a number"))?,
                "seed" => source.seed = number()?,
                "frames" => source.frames = Some(number()?),
                "size" => {
                    let size = value
                        .split_once('x')
                        .and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
                    (source.width, source.height) = size.ok_or_else(|| bad("size wants WIDTHxHEIGHT"))?;
                }
                _ => {
                    return Err(bad(&format!(
                        "no key \"{key}\"; there are rate, seed, frames and size"
                    )));
                }
            }
        }
        let fits = source.rate > 0.0 && source.rate.is_finite() && source.width > 0 && source.height > 0;
        source.seed ^= stream << 32;
        if fits {
            Ok(source)
        } else {
            Err(bad("rate and size must be above zero"))
        }
    }
}

impl SourceFactory for EmulatedSource {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        let pixels = self.width as usize * self.height as usize;
        let image = Image {
            width: self.width,
            height: self.height,
            layout: Layout::Gray8,
            matrix: weir_flow::ColorMatrix::Bt601,
            full_range: true,
            planes: Arc::new(OwnedPlanes {
                planes: vec![(vec![128; pixels], self.width as usize)],
            }),
        };
        let random = Pcg64Mcg::seed_from_u64(self.seed);
        Ok(Box::new(BlankFrames {
            source: self.clone(),
            image,
            random,
            next: 0,
            pts_ms: 0.0,
            stop: stop.clone(),
        }))
    }
}

struct BlankFrames {
    source: EmulatedSource,
    image: Image,
    random: Pcg64Mcg,
    next: u64,
    pts_ms: f64,
    stop: StopFlag,
}

impl Source for BlankFrames {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            width: self.source.width,
            height: self.source.height,
            fps: Some(self.source.rate),
            frames: self.source.frames,
            live: false,
        }
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        if self.source.frames.is_some_and(|frames| self.next >= frames) || self.stop.raised() {
            return Ok(None);
        }
        let mean_ms = 1e3 / self.source.rate;
        if self.next > 0 {
            self.pts_ms += match self.source.arrivals {
                Arrivals::Uniform => mean_ms,
                Arrivals::Poisson => -mean_ms * (1.0 - self.random.random::<f64>()).ln(),
            };
        }
        let frame = Frame::new(self.next, self.pts_ms, self.image.clone());
        self.next += 1;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_source_keeps_its_rate_and_repeats_by_seed() {
        let times = |uri: &str| {
            let mut source = EmulatedSource::parse(uri, 0)
                .unwrap()
                .open(&StopFlag::default())
                .unwrap();
            let mut times = Vec::new();
            while let Some(frame) = source.next().unwrap() {
                times.push(frame.pts_ms);
            }
            times
        };
        let poisson = times("emulated:poisson?rate=100&frames=5000&seed=3");
        let mean = poisson[4999] / 4999.0;
        assert!((mean - 10.0).abs() < 0.5, "mean interval {mean} ms (seed 3)");
        assert_eq!(poisson, times("emulated:poisson?rate=100&frames=5000&seed=3"));
        assert_eq!(times("emulated:uniform?rate=100&frames=3"), [0.0, 10.0, 20.0]);
    }

    #[test]
    fn a_wrong_uri_says_what_is_wrong() {
        let error = |uri| EmulatedSource::parse(uri, 0).unwrap_err().to_string();
        assert!(error("emulated:bursty").contains("poisson"));
        assert!(error("emulated:poisson?rate=-1").contains("above zero"));
        assert!(error("emulated:poisson?speed=1").contains("no key \"speed\""));
    }
}
