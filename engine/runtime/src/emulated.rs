//! Emulated models, which take their declared time and find nothing, and emulated sources, which send blank frames at
//! chosen times. Whole clusters can be tested with them, without a device.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_flow::{
    Batching, DeviceKind, Frame, Image, Infer, Inference, Item, Model, ModuleOutput, Operator, OwnedPlanes,
    PixelFormat, Points, Prepare, PreparedModel, ReadOut, Rect, Region, RequestResults, Session,
    SessionError, SessionSteps, Settings, Source, SourceError, SourceFactory, SourceInfo, SplitAnswer, Step,
    StepData, StopFlag, TileGrid, Tiling, step_data,
};
use weir_graph::{EmulatedLoad, EmulatedStream, ModelNode};
use weir_policy::gears::{emulated_certainty, emulated_regions};
use weir_types::{Profile, SleepCompensator, Span};

use crate::clock::{Clock, duration};

/// A model that takes the time of its profile.
#[derive(Debug)]
pub(crate) struct EmulatedModel {
    name: String,
    profile: Profile,
    /// Time to prepare the inputs of a batch, by its size; `None` takes no time.
    preparation: Option<Profile>,
    /// Each such batch fails.
    fail_every: Option<u32>,
    /// Times to open the model: first from its file, then from host memory.
    opening: [Span; 2],
    /// Of all its sessions, those that come after they were closed included, and of opening them.
    sleep: Sleep,
    /// Batches of all its sessions, those that failed included.
    batches: Arc<AtomicU64>,
}

impl EmulatedModel {
    /// The model of `node`, with the profile that it runs by.
    pub(crate) fn new(node: &ModelNode, profile: Profile) -> Self {
        Self {
            name: node.name.clone(),
            profile,
            preparation: Profile::new(node.preparation.clone()),
            fail_every: node.fail_every,
            opening: node.opening_times(),
            sleep: Sleep::new(),
            batches: Arc::default(),
        }
    }
}

impl Model for EmulatedModel {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(self.session()))
    }

    fn open_cold(
        &self,
        _device: DeviceKind,
    ) -> Result<(Box<dyn Session>, Option<PreparedModel>), SessionError> {
        self.sleep.pass(self.opening[0]);
        let prepared = PreparedModel {
            bytes: 0,
            data: Arc::new(()),
        };
        Ok((Box::new(self.session()), Some(prepared)))
    }

    fn open_warm(
        &self,
        _device: DeviceKind,
        _prepared: &PreparedModel,
    ) -> Result<Box<dyn Session>, SessionError> {
        self.sleep.pass(self.opening[1]);
        Ok(Box::new(self.session()))
    }

    fn open_steps(&self, _device: DeviceKind) -> Result<SessionSteps, SessionError> {
        let session = self.session();
        Ok(SessionSteps {
            prepare: Box::new(session.preparation.clone()),
            infer: Box::new(session),
            read_out: Box::new(EmulatedReadOut),
        })
    }
}

impl EmulatedModel {
    fn session(&self) -> EmulatedSession {
        EmulatedSession {
            name: self.name.clone(),
            preparation: EmulatedTime::new(self.preparation.clone(), &self.sleep),
            run: EmulatedTime::new(Some(self.profile.clone()), &self.sleep),
            fail_every: self.fail_every,
            batches: Arc::clone(&self.batches),
        }
    }
}

/// Declared times that pass, right in the mean over all that share it.
#[derive(Debug, Clone)]
struct Sleep {
    clock: Clock,
    compensator: Arc<Mutex<SleepCompensator>>,
}

impl Sleep {
    fn new() -> Self {
        Self {
            clock: Clock::start(),
            compensator: Arc::default(),
        }
    }

    fn pass(&self, declared: Span) {
        let compensator = || self.compensator.lock().unwrap_or_else(PoisonError::into_inner);
        let began = self.clock.now();
        let slept = compensator().sleep_duration(declared);
        std::thread::sleep(duration(slept));
        compensator().on_slept(declared, self.clock.now().since(began));
    }
}

/// Time that a step takes by a profile; `None`: no time.
#[derive(Clone)]
struct EmulatedTime {
    profile: Option<Profile>,
    sleep: Sleep,
}

impl EmulatedTime {
    fn new(profile: Option<Profile>, sleep: &Sleep) -> Self {
        Self {
            profile,
            sleep: sleep.clone(),
        }
    }

    fn pass(&mut self, items: &[Item]) {
        let Some(profile) = &self.profile else { return };
        let size = u32::try_from(items.len()).unwrap_or(u32::MAX);
        self.sleep.pass(profile.duration(size));
    }
}

struct EmulatedSession {
    name: String,
    preparation: EmulatedTime,
    run: EmulatedTime,
    fail_every: Option<u32>,
    batches: Arc<AtomicU64>,
}

impl EmulatedSession {
    /// Takes the time of a run; fails where its turn has come.
    fn run_batch(&mut self, items: &[Item]) -> Result<(), SessionError> {
        self.run.pass(items);
        let number = self.batches.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(every) = self.fail_every
            && number.is_multiple_of(u64::from(every))
        {
            return Err(SessionError::Run {
                model: self.name.clone(),
                batch: items.len(),
                reason: format!("it is number {number}, and fail_every is {every}"),
            });
        }
        Ok(())
    }
}

/// Inferences without objects or attributes. Their certainty depends only on the frame index and the place of
/// the item in the frame.
fn inferences(items: &[Item]) -> Vec<Inference> {
    let inference = |item: &Item| Inference {
        certainty: Some(emulated_certainty(item.frame.index, place(item))),
        ..Inference::default()
    };
    items.iter().map(inference).collect()
}

impl Session for EmulatedSession {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        self.preparation.pass(items);
        on_step(Step::Preprocessed);
        let ran = self.run_batch(items);
        on_step(Step::Inferred);
        ran.map(|()| inferences(items))
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

/// The place of an item among those of its frame: regions of emulated modules begin at theirs.
fn place(item: &Item) -> u32 {
    match &item.region {
        Region::Crop { rect, .. } => rect.x0 as u32,
        Region::Whole => 0,
    }
}

impl Prepare for EmulatedTime {
    fn prepare(&mut self, items: &[Item]) -> Result<StepData, SessionError> {
        self.pass(items);
        Ok(Box::new(()))
    }
}

impl Infer for EmulatedSession {
    fn infer(&mut self, items: &[Item], _prepared: StepData) -> Result<StepData, SessionError> {
        self.run_batch(items)?;
        Ok(Box::new(inferences(items)))
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

struct EmulatedReadOut;

impl ReadOut for EmulatedReadOut {
    fn read_out(&mut self, items: &[Item], outputs: StepData) -> Result<Vec<Inference>, SessionError> {
        Ok(*step_data(outputs, items.len())?)
    }
}

/// Takes whole frames, or their tiles, and finds nothing.
#[derive(Debug, Default)]
pub(crate) struct EmulatedOperator {
    /// `None`: the whole frame is its item.
    tiling: Option<Tiling>,
}

impl EmulatedOperator {
    /// By the settings of the module.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            tiling: Tiling::of(settings),
        }
    }
}

impl Operator for EmulatedOperator {
    fn items(&self, frame: &Arc<Frame>, _results: &RequestResults) -> Vec<Item> {
        match &self.tiling {
            Some(tiling) => tiling.items_of(frame),
            None => vec![Item::of_frame(frame, Region::Whole)],
        }
    }

    fn tiled_items(&self, frame: &Arc<Frame>, results: &RequestResults, grid: TileGrid) -> Vec<Item> {
        let tiling = self.tiling.map(|tiling| Tiling { grid, ..tiling });
        Self { tiling }.items(frame, results)
    }

    fn regions(&self, item: &Item, inference: &Inference, _least: f32) -> Option<SplitAnswer> {
        if item.region != Region::Whole {
            return None;
        }
        let region = |place: u32| {
            let item = Item {
                region: Region::Crop {
                    rect: Rect::new(place as f32, 0.0, place as f32 + 1.0, 1.0),
                    points: Points::None,
                },
                ..item.clone()
            };
            (item, inference.clone())
        };
        Some(SplitAnswer {
            rest: inference.clone(),
            regions: (1..=emulated_regions(item.frame.index)).map(region).collect(),
        })
    }

    fn output(&self, _module: u32, _items: &[Item], _inferences: Vec<Inference>) -> ModuleOutput {
        ModuleOutput::default()
    }
}

/// A source of blank frames; sources of one URI differ by `index`.
pub(crate) struct EmulatedSource {
    uri: String,
    stream: EmulatedStream,
    index: u64,
}

impl EmulatedSource {
    pub(crate) fn parse(uri: &str, index: u64) -> Result<Self, SourceError> {
        let stream = EmulatedStream::parse(uri).map_err(|bad| open_error(uri, &bad))?;
        let uri = uri.to_owned();
        Ok(Self { uri, stream, index })
    }
}

fn open_error(uri: &str, reason: &dyn std::error::Error) -> SourceError {
    SourceError::Open {
        uri: uri.to_owned(),
        reason: reason.to_string(),
    }
}

impl SourceFactory for EmulatedSource {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        let (width, height) = self.stream.size;
        let pixels = width as usize * height as usize;
        let image = Image {
            width,
            height,
            format: PixelFormat::Gray8,
            matrix: weir_flow::ColorMatrix::Bt601,
            full_range: true,
            planes: Arc::new(OwnedPlanes {
                planes: vec![(vec![128; pixels], width as usize)],
            }),
        };
        let arrivals = self.stream.arrivals(self.index);
        let arrivals = arrivals.map_err(|error| open_error(&self.uri, &error))?;
        let fps = match self.stream.load {
            EmulatedLoad::Constant { rate } => Some(rate),
            EmulatedLoad::Trace { rate, .. } => rate,
        };
        Ok(Box::new(BlankFrames {
            info: SourceInfo {
                width,
                height,
                fps,
                codec: None,
                frames: self.stream.frames,
                live: false,
                stamped: false,
            },
            image,
            arrivals: Box::new(arrivals),
            next: 0,
            stop: stop.clone(),
        }))
    }
}

struct BlankFrames {
    info: SourceInfo,
    image: Image,
    arrivals: Box<dyn Iterator<Item = Span> + Send>,
    next: u64,
    stop: StopFlag,
}

impl Source for BlankFrames {
    fn info(&self) -> SourceInfo {
        self.info.clone()
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        if self.stop.is_raised() {
            return Ok(None);
        }
        let Some(at) = self.arrivals.next() else {
            return Ok(None);
        };
        let frame = Frame::new(self.next, at.as_millis_f64(), self.image.clone());
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
        let stream = EmulatedStream::parse("emulated:poisson?rate=100&frames=5000&seed=3").unwrap();
        let drawn = stream.arrivals(0).unwrap().map(Span::as_millis_f64);
        assert_eq!(poisson, drawn.collect::<Vec<_>>(), "what the simulator sees");
    }
}
