//! The motion gate of a source: its thread asks it for each packet and picture, and the egress says what became of those that
//! were looked at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_flow::{Frame, Image, PacketGate, PixelFormat, RequestResults};
use weir_policy::{GateDecision, GateEvent, LumaGrid, MotionGate, Region, SceneChange};
use weir_types::StreamId;

/// Steps that are kept for the event log until they are taken: a second of hundreds of frames.
const MAX_STEPS: usize = 4_096;

/// An event of a gate, and its decision.
pub(crate) type GateStep = (GateEvent, Option<GateDecision>);

/// The gates of all streams that have one.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedMotionGates(Arc<Mutex<BTreeMap<StreamId, SharedMotionGate>>>);

impl SharedMotionGates {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<StreamId, SharedMotionGate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a stream; `recorded`: its steps are kept for the event log.
    pub(crate) fn add(&self, stream: StreamId, recorded: bool) -> SharedMotionGate {
        let gate = SharedMotionGate(Arc::new(Mutex::new(Shared {
            policy: MotionGate::default(),
            objects: None,
            steps: recorded.then(Vec::new),
            ended: false,
        })));
        self.lock().insert(stream, gate.clone());
        gate
    }

    pub(crate) fn get(&self, stream: StreamId) -> Option<SharedMotionGate> {
        self.lock().get(&stream).cloned()
    }

    /// Steps since they were taken last, by stream. Streams that ended are not there afterwards.
    pub(crate) fn take_steps(&self) -> Vec<(StreamId, Vec<GateStep>)> {
        let mut gates = self.lock();
        let steps = gates.iter().filter_map(|(stream, gate)| {
            let taken = std::mem::take(gate.lock().steps.as_mut()?);
            (!taken.is_empty()).then_some((*stream, taken))
        });
        let steps = steps.collect();
        gates.retain(|_, gate| !gate.lock().ended);
        steps
    }
}

/// The gate of one stream.
#[derive(Debug, Clone)]
pub(crate) struct SharedMotionGate(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    policy: MotionGate,
    /// Objects of the last result, until the next picture.
    objects: Option<Vec<Region>>,
    steps: Option<Vec<GateStep>>,
    ended: bool,
}

impl Shared {
    fn on(&mut self, event: GateEvent) -> Option<GateDecision> {
        let decision = self.policy.on(event);
        if let Some(steps) = self.steps.as_mut().filter(|steps| steps.len() < MAX_STEPS) {
            steps.push((event, decision));
        }
        decision
    }
}

impl SharedMotionGate {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        // The gate is valid at any moment, so also after a panic of another thread that used it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source was opened, or another graph is in force.
    pub(crate) fn on_begun(&self) {
        self.lock().on(GateEvent::Begun);
    }

    /// Whether nothing changed in a picture that came `seconds` after the one before.
    pub(crate) fn is_still(&self, frame: &Frame, seconds: f64, change: &mut SceneChange) -> bool {
        let Some(grid) = luma_grid(&frame.image) else {
            return false;
        };
        if let Some(objects) = self.lock().objects.take() {
            change.on_objects(&objects);
        }
        let event = GateEvent::Picture {
            frame: frame.index,
            changed: change.observe(&grid, seconds),
            at_ms: frame.pts_ms,
        };
        if self.lock().on(event) == Some(GateDecision::Still) {
            return true;
        }
        change.on_look();
        false
    }

    /// A frame that was looked at has no result.
    pub(crate) fn on_lost(&self, frame: u64) {
        self.lock().on(GateEvent::Result {
            frame,
            delivered: false,
        });
    }

    /// A frame that was looked at is delivered.
    pub(crate) fn on_delivered(&self, frame: &Frame, results: &RequestResults) {
        let (width, height) = (frame.image.width.max(1) as f32, frame.image.height.max(1) as f32);
        let regions = results.objects().filter(|(_, object)| !object.candidate);
        let regions = regions.map(|(_, object)| {
            let rect = object.rect;
            Region {
                left: rect.x0 / width,
                top: rect.y0 / height,
                right: rect.x1 / width,
                bottom: rect.y1 / height,
            }
        });
        let mut shared = self.lock();
        shared.objects = Some(regions.collect());
        shared.on(GateEvent::Result {
            frame: frame.index,
            delivered: true,
        });
    }

    /// The stream sends no more frames.
    pub(crate) fn on_ended(&self) {
        self.lock().ended = true;
    }
}

impl PacketGate for SharedMotionGate {
    fn wants(&self, bytes: u64, key: bool, at_ms: f64) -> bool {
        self.lock().on(GateEvent::Packet { bytes, key, at_ms }) != Some(GateDecision::Hold)
    }
}

/// The luma of a picture on a grid; of colours, their green.
fn luma_grid(image: &Image) -> Option<LumaGrid> {
    let (samples, stride) = image.planes.plane(0);
    let size = (image.width as usize, image.height as usize);
    if image.format != PixelFormat::Rgb24 {
        return LumaGrid::new(samples, stride, size);
    }
    let rows = samples.chunks(stride.max(1)).take(size.1);
    let green = rows.flat_map(|row| row.chunks(3).take(size.0).filter_map(|pixel| pixel.get(1)));
    LumaGrid::new(&green.copied().collect::<Vec<u8>>(), size.0, size)
}
