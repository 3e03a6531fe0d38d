//! The motion gate of a source: its thread asks it for each packet and picture, and the egress says what became of those that
//! were looked at.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_flow::{Frame, Image, Inference, Item, PacketGate, PixelFormat, RequestResults};
use weir_policy::{
    AreaChanges, CameraSignal, GateDecision, GateEvent, LumaGrid, Region, SceneChange, StreamGate,
};
use weir_types::{ModuleId, StreamId};

use crate::picture_part::part_of;
use crate::routes::Route;
use crate::tile_memory::TileMemory;

/// Steps that wait for the event log at most: a second of hundreds of frames.
const MAX_STEPS: usize = 4_096;

/// An event of a gate, and its decision.
pub(crate) type GateStep = (GateEvent, Option<GateDecision>);

/// Times at which a gate applies.
pub(crate) struct GateTimes(Box<dyn Fn() -> bool + Send + Sync>);

impl GateTimes {
    /// `apply` says whether it is one of them at present.
    pub(crate) fn new(apply: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Box::new(apply))
    }

    fn apply(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for GateTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GateTimes").field(&self.apply()).finish()
    }
}

/// The gates whose steps go into the event log.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedGates(Arc<Mutex<Vec<(StreamId, SharedMotionGate)>>>);

impl RecordedGates {
    fn lock(&self) -> MutexGuard<'_, Vec<(StreamId, SharedMotionGate)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the steps of the gate of a stream from now on.
    pub(crate) fn add(&self, stream: StreamId, gate: &SharedMotionGate) {
        gate.lock().steps = Some(Vec::new());
        self.lock().push((stream, gate.clone()));
    }

    /// Steps since they were taken last, by stream, with the hold time of gates by the camera. Streams that ended are not there
    /// afterwards.
    pub(crate) fn take_steps(&self) -> Vec<(StreamId, Option<f64>, Vec<GateStep>)> {
        let mut gates = self.lock();
        let steps = gates.iter().filter_map(|(stream, gate)| {
            let mut gate = gate.lock();
            let taken = std::mem::take(gate.steps.as_mut()?);
            (!taken.is_empty()).then_some((*stream, gate.hold_ms, taken))
        });
        let steps = steps.collect();
        gates.retain(|(_, gate)| !gate.lock().ended);
        steps
    }
}

/// The gate of one stream, as its source and the egress share it.
#[derive(Debug, Clone)]
pub(crate) struct SharedMotionGate(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    policy: StreamGate,
    /// Milliseconds for which a gate by the camera stays open; `None`: it goes by motion.
    hold_ms: Option<f64>,
    /// Times at which it applies; `None`: always.
    times: Option<GateTimes>,
    /// Whether it applied at the last packet or picture.
    applies: bool,
    scene: SceneChange,
    /// Media time of the last picture in milliseconds.
    scene_ms: f64,
    /// Number of the graph by which pictures were looked at last.
    graph: Option<u32>,
    /// Steps for the event log; `None`: they are not recorded.
    steps: Option<Vec<GateStep>>,
    ended: bool,
    /// Last changes up to the last picture, by its parts.
    changes: Option<Arc<AreaChanges>>,
    tiles: TileMemory,
}

impl Shared {
    fn on(&mut self, event: GateEvent) -> Option<GateDecision> {
        let decision = self.policy.on(event);
        if let Some(steps) = &mut self.steps {
            steps.push((event, decision));
            if steps.len() > MAX_STEPS {
                // A log with a gap could not be decided again; one that ends early can.
                tracing::warn!("the event log has no further steps of a motion gate: too many came at once");
                self.steps = None;
            }
        }
        decision
    }

    /// Whether the gate applies now. Outside its schedule pictures are not compared, so what is known of them ends.
    fn applies_now(&mut self) -> bool {
        let applies = self.times.as_ref().is_none_or(GateTimes::apply);
        if std::mem::replace(&mut self.applies, applies) != applies {
            self.on(GateEvent::Schedule { applies });
            (self.changes, self.tiles) = (None, TileMemory::default());
        }
        applies
    }
}

impl SharedMotionGate {
    /// Changes within the polygons `ignored`, in fractions of the width and height of a picture, do not count. With `hold_ms` the
    /// camera says what moves.
    pub(crate) fn new(ignored: Vec<Vec<(f32, f32)>>, hold_ms: Option<f64>, times: Option<GateTimes>) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            policy: StreamGate::new(hold_ms),
            hold_ms,
            times,
            applies: true,
            scene: SceneChange::new(ignored),
            scene_ms: 0.0,
            graph: None,
            steps: None,
            ended: false,
            changes: None,
            tiles: TileMemory::default(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // The gate is valid at any moment, so also after a panic of another thread that used it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source was opened.
    pub(crate) fn on_begun(&self) {
        let mut shared = self.lock();
        shared.on(GateEvent::Begun);
        (shared.changes, shared.tiles) = (None, TileMemory::default());
    }

    /// Whether nothing changed in the next picture, which would go along that route.
    pub(crate) fn is_still(&self, frame: &Frame, route: &Route) -> bool {
        if !self.lock().applies_now() {
            return false;
        }
        // Pictures of a camera that says what moves are not compared, and so need not be copied from a GPU.
        let is_by_camera = self.is_by_camera();
        let grid = if is_by_camera {
            None
        } else {
            luma_grid(&frame.image)
        };
        let mut shared = self.lock();
        if grid.is_none() && !is_by_camera {
            shared.changes = None;
            return false;
        }
        let graph = route.graph;
        if shared.graph.replace(graph).is_some_and(|before| before != graph) {
            shared.on(GateEvent::Begun);
        }
        let before_ms = std::mem::replace(&mut shared.scene_ms, frame.pts_ms);
        let seconds = (frame.pts_ms - before_ms) / 1e3;
        let changed = grid
            .as_ref()
            .map_or(0, |grid| shared.scene.observe(grid, seconds));
        let event = GateEvent::Picture {
            frame: frame.index,
            changed,
            at_ms: frame.pts_ms,
        };
        let changes = (grid.is_some() && route.keeps_tiles).then(|| shared.scene.changes(frame.pts_ms));
        shared.changes = changes.map(Arc::new);
        let is_still = shared.on(event) == Some(GateDecision::Still);
        if !is_still {
            shared.scene.on_look();
        }
        is_still
    }

    /// Last changes by the parts of the picture that [`Self::is_still`] was asked about last; `None` where the gate does not
    /// compare pictures, or no module keeps tiles.
    pub(crate) fn changes(&self) -> Option<Arc<AreaChanges>> {
        self.lock().changes.clone()
    }

    /// Takes out of `items`, which are tiles that a module of a graph reads, those in which nothing changed since they were read.
    /// Gives them with the findings of that reading.
    pub(crate) fn take_known_tiles(
        &self,
        of: (u32, ModuleId),
        changes: &AreaChanges,
        items: &mut Vec<Item>,
    ) -> Vec<(Item, Inference)> {
        let mut known = Vec::new();
        let shared = self.lock();
        items.retain(|item| match shared.tiles.known(of, item, changes) {
            Some(inference) => {
                known.push((item.clone(), inference));
                false
            }
            None => true,
        });
        known
    }

    /// Tiles were read, all but those without an inference.
    pub(crate) fn on_tiles_read(
        &self,
        of: (u32, ModuleId),
        items: &[Item],
        inferences: &[Option<Inference>],
    ) {
        let mut shared = self.lock();
        for (item, inference) in items.iter().zip(inferences) {
            if let Some(inference) = inference {
                shared.tiles.on_read(of, item, inference);
            }
        }
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
        let regions = results.objects().filter(|(_, object)| !object.candidate);
        let regions = regions.map(|(_, object)| part_of(&object.rect, &frame.image));
        let regions: Vec<Region> = regions.collect();
        let mut shared = self.lock();
        shared.scene.on_objects(&regions);
        shared.on(GateEvent::Result {
            frame: frame.index,
            delivered: true,
        });
    }

    /// Whether the camera says what moves.
    pub(crate) fn is_by_camera(&self) -> bool {
        self.lock().hold_ms.is_some()
    }

    /// The camera said whether something moves.
    pub(crate) fn on_camera(&self, signal: CameraSignal) {
        let mut shared = self.lock();
        if shared.hold_ms.is_some() {
            shared.on(GateEvent::Camera { signal });
        }
    }

    /// The stream sends no more frames.
    pub(crate) fn on_ended(&self) {
        self.lock().ended = true;
    }
}

impl PacketGate for SharedMotionGate {
    fn wants(&self, bytes: u64, key: bool, at_ms: f64) -> bool {
        let mut shared = self.lock();
        shared.applies_now();
        shared.on(GateEvent::Packet { bytes, key, at_ms }) != Some(GateDecision::Hold)
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
