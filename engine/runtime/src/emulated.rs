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
use weir_graph::{Arrivals, EmulatedStream};
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

/// A source of blank frames; `stream` keeps sources of one uri apart.
pub(crate) struct EmulatedSource {
    stream: EmulatedStream,
    seed: u64,
}

impl EmulatedSource {
    pub(crate) fn parse(uri: &str, stream: u64) -> Result<Self, SourceError> {
        let parsed = EmulatedStream::parse(uri);
        let parsed = parsed.map_err(|bad| SourceError::Open {
            uri: uri.to_owned(),
            reason: bad.to_string(),
        })?;
        Ok(Self {
            seed: parsed.seed ^ (stream << 32),
            stream: parsed,
        })
    }
}

impl SourceFactory for EmulatedSource {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        let (width, height) = self.stream.size;
        let pixels = width as usize * height as usize;
        let image = Image {
            width,
            height,
            layout: Layout::Gray8,
            matrix: weir_flow::ColorMatrix::Bt601,
            full_range: true,
            planes: Arc::new(OwnedPlanes {
                planes: vec![(vec![128; pixels], width as usize)],
            }),
        };
        let random = Pcg64Mcg::seed_from_u64(self.seed);
        Ok(Box::new(BlankFrames {
            of: self.stream.clone(),
            image,
            random,
            next: 0,
            pts_ms: 0.0,
            stop: stop.clone(),
        }))
    }
}

struct BlankFrames {
    of: EmulatedStream,
    image: Image,
    random: Pcg64Mcg,
    next: u64,
    pts_ms: f64,
    stop: StopFlag,
}

impl Source for BlankFrames {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            width: self.of.size.0,
            height: self.of.size.1,
            fps: Some(self.of.rate),
            frames: self.of.frames,
            live: false,
        }
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        if self.of.frames.is_some_and(|frames| self.next >= frames) || self.stop.raised() {
            return Ok(None);
        }
        let mean_ms = 1e3 / self.of.rate;
        if self.next > 0 {
            self.pts_ms += match self.of.arrivals {
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
}
