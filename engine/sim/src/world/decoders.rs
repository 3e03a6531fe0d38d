//! Cost of decoding: frames of cameras are decoded on the cores that run batches, or left out by the same
//! rule as live.
//!
//! Decoding slows batches down by the part of the cores that it takes. Decoders get a part of each core that
//! runs a batch, and all of an idle core; if that is too little, pictures are late.

use std::collections::VecDeque;

use weir_policy::{CatchUp, DecodeEffect, DecodeEvent, DecodeLevels, DecodeObservation};
use weir_types::{DecodeLevel, FrameSkip, Span, StreamId, Timestamp};

use super::scene::Scene;
use crate::spec::DecodingSpec;

/// Time between two observations, as live.
pub(super) const OBSERVE_INTERVAL: Span = Span::from_millis(250);

/// Part of a core that decoders have while it runs a batch: their threads have a lower priority.
const CONTENDED_PART: f64 = 0.25;

/// State of one camera's decoder.
#[derive(Debug, Clone)]
struct Camera {
    level: DecodeLevel,
    /// Position of the next frame in its group of pictures; 0 is the key frame.
    in_group: u32,
    groups: u64,
    /// True if the rest of the current group is left out.
    cut: bool,
    catch_up: CatchUp,
    last_frame: Option<Timestamp>,
    observed: DecodeObservation,
    /// Scene of a camera with a motion gate.
    scene: Option<Scene>,
}

/// Decision on the next frame in the queue. It is made when the frame's turn comes, so that a new decode
/// level also applies to frames that were waiting.
#[derive(Debug, Clone, Copy)]
pub(super) enum Turn {
    /// The frame is not decoded.
    LeaveOut(StreamId),
    /// The frame is not decoded, since nothing moves in it.
    HoldBack(StreamId),
    /// The frame is decoded, which takes `took`.
    Decode {
        stream: StreamId,
        sent_at: Timestamp,
        took: Span,
    },
}

/// The decoders of a world.
#[derive(Debug)]
pub(super) struct Decoders {
    spec: DecodingSpec,
    cameras: Vec<Camera>,
    levels: DecodeLevels,
    /// Frames that wait for their turn, and when they were sent. Cores decode one picture together.
    waiting: VecDeque<(StreamId, Timestamp)>,
    is_decoding: bool,
    slo: Span,
    /// Processor time of decoding since the last observation, and cores that it took before that.
    busy: Span,
    load: f64,
}

impl Decoders {
    pub(super) fn new(spec: DecodingSpec, streams: u32, slo: Span) -> Self {
        let group = spec.group.max(1);
        // Their key frames come at different moments.
        let camera = |stream: u32| Camera {
            level: DecodeLevel::ALL,
            in_group: (u64::from(stream) * u64::from(group) / u64::from(streams)) as u32,
            groups: 0,
            cut: false,
            catch_up: CatchUp::default(),
            last_frame: None,
            observed: in_groups(StreamId(stream), group),
            scene: spec.scene.map(|scene| Scene::new(scene, stream, streams)),
        };
        let mut levels = DecodeLevels::default();
        let started = DecodeEvent::Started {
            cores: spec.cores,
            slo,
        };
        levels.step([started], Timestamp::ZERO, &mut Vec::new());
        Self {
            cameras: (0..streams).map(camera).collect(),
            levels,
            waiting: VecDeque::new(),
            is_decoding: false,
            slo,
            busy: Span::ZERO,
            load: 0.0,
            spec,
        }
    }

    /// A frame of a stream was sent, and waits for its turn.
    pub(super) fn on_frame(&mut self, stream: StreamId, now: Timestamp) {
        if let Some(camera) = self.cameras.get_mut(stream.index()) {
            if let Some(before) = camera.last_frame.replace(now) {
                camera.observed.interval = now.since(before);
            }
            self.waiting.push_back((stream, now));
        }
    }

    /// Decides on the next frame while `running` batches run; `None` if no frame waits, or all cores are
    /// busy.
    pub(super) fn next(&mut self, running: usize) -> Option<Turn> {
        if self.is_decoding {
            return None;
        }
        let (stream, sent_at) = self.waiting.pop_front()?;
        let spec = &self.spec;
        let camera = self.cameras.get_mut(stream.index())?;
        let key = camera.is_key_next(spec);
        let pictures = match &mut camera.scene {
            Some(scene) => scene.on_packet(key, sent_at),
            None => Some(1),
        };
        let is_taken = camera.takes_next(spec);
        let Some(pictures) = pictures else {
            return Some(Turn::HoldBack(stream));
        };
        if !is_taken {
            return Some(Turn::LeaveOut(stream));
        }
        let took = spec.picture * u64::from(pictures);
        (camera.observed.groups, camera.observed.in_group) = (camera.groups, camera.in_group);
        camera.observed.pictures += 1;
        camera.observed.processor += took;
        self.busy += took;
        self.is_decoding = true;
        let cores = f64::from(spec.cores.max(1));
        let contended = (running as f64).min(cores);
        let speed = cores - contended + CONTENDED_PART * contended;
        Some(Turn::Decode {
            stream,
            sent_at,
            took: Span::from_secs_f64(took.as_secs_f64() / speed),
        })
    }

    /// The turn has ended; says whether nothing changed in the picture.
    pub(super) fn on_decoded(&mut self, stream: StreamId, sent_at: Timestamp, now: Timestamp) -> bool {
        self.is_decoding = false;
        let Some(camera) = self.cameras.get_mut(stream.index()) else {
            return false;
        };
        if self.spec.as_needed {
            camera.cut |= camera.catch_up.on_frame(now.since(sent_at), self.slo, now);
        }
        let is_still = camera.scene.as_mut().is_some_and(|scene| scene.is_still(sent_at));
        camera.observed.used += u32::from(is_still);
        is_still
    }

    /// True if frames wait or are being decoded.
    pub(super) fn is_busy(&self) -> bool {
        self.is_decoding || !self.waiting.is_empty()
    }

    /// Streams that are observed.
    pub(super) fn streams(&self) -> usize {
        self.cameras.len()
    }

    /// Factor by which decoding on the same cores lengthens a batch, at least 1.
    pub(super) fn slowdown(&self) -> f64 {
        let cores = f64::from(self.spec.cores.max(1));
        1.0 / (1.0 - (self.load / cores).min(0.9))
    }

    pub(super) fn on_request_ended(
        &mut self,
        (stream, sent_at): (StreamId, Timestamp),
        delivered: bool,
        unused: bool,
    ) {
        if let Some(camera) = self.cameras.get_mut(stream.index()) {
            if let Some(scene) = &mut camera.scene {
                scene.on_request_ended(sent_at, delivered);
            }
            camera.observed.used += u32::from(!unused);
            camera.observed.unused += u32::from(unused);
        }
    }

    pub(super) fn observe(&mut self, now: Timestamp) {
        self.load = self.busy.as_secs_f64() / OBSERVE_INTERVAL.as_secs_f64();
        self.busy = Span::ZERO;
        if !self.spec.as_needed {
            return;
        }
        let mut events = Vec::with_capacity(self.cameras.len());
        for camera in &mut self.cameras {
            let stream = camera.observed.stream;
            let empty = in_groups(stream, self.spec.group);
            let before = std::mem::replace(&mut camera.observed, empty);
            camera.observed.interval = before.interval;
            events.push(DecodeEvent::Observed(before));
        }
        let mut effects = Vec::new();
        self.levels.step(events, now, &mut effects);
        for DecodeEffect::SetLevel { stream, level } in effects {
            if let Some(camera) = self.cameras.get_mut(stream.index()) {
                camera.level = level;
            }
        }
    }
}

impl Camera {
    fn is_key_next(&self, spec: &DecodingSpec) -> bool {
        self.in_group == 0 || self.in_group >= spec.group.max(1)
    }

    /// True if the camera's next frame is decoded at its level.
    fn takes_next(&mut self, spec: &DecodingSpec) -> bool {
        let group = spec.group.max(1);
        if self.in_group >= group {
            self.in_group = 0;
        }
        let place = self.in_group;
        self.in_group += 1;
        if place == 0 {
            self.groups += 1;
            self.cut = false;
        }
        self.cut |= place >= self.level.frames_of(self.groups);
        if self.cut {
            return false;
        }
        // Non-reference frames are spread evenly; a key frame is never one of them.
        let before = |frames: u32| (f64::from(frames) * spec.non_reference) as u32;
        let is_non_reference = before(place) < before(place + 1) && place > 0;
        if self.level == DecodeLevel::ALL {
            self.observed.full += 1;
            self.observed.bidirectional += u32::from(is_non_reference);
        }
        if self.level.skip == FrameSkip::Nothing {
            return true;
        }
        self.observed.offered += 1;
        self.observed.left_out += u32::from(is_non_reference);
        !is_non_reference
    }
}

/// Observation that only states the length of the groups of pictures, `group` frames.
fn in_groups(stream: StreamId, group: u32) -> DecodeObservation {
    DecodeObservation {
        group,
        longest_group: group,
        ..DecodeObservation::empty(stream)
    }
}
