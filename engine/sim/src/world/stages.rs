//! Stages of a world's cascades: the items that each stage gets, and the use of its answers, as in the live
//! engine.
//!
//! The certainty of an answer follows from the number of its frame, as on emulated devices, so that the same
//! items are handed on in live and simulated runs. With samples it is that of a sampled item, drawn by the
//! same number.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_graph::Escalate;
use weir_policy::gears::{
    Settle, StageRule, StageSetting, StageSettings, emulated_certainty, emulated_regions,
};
use weir_policy::{BatchSlice, StageCounts};
use weir_types::{BatchId, DropReason, ModuleId, RequestId, StreamId};

use crate::cascades::CascadeSpec;
use crate::gears::SampledItem;

/// Best answer so far for one item of a cascade.
#[derive(Debug, Clone, Copy)]
struct Answer {
    /// Module whose answer counts, and the certainty of that answer.
    by: Option<(usize, f32)>,
    is_accepted: bool,
    /// For a frame that was handed on as regions: the number of regions, which stand for it.
    regions: u32,
    /// Weight of the answer: 1, or the region's share of its frame.
    weight: f64,
    is_region: bool,
}

impl Answer {
    fn new() -> Self {
        Self {
            by: None,
            is_accepted: false,
            regions: 0,
            weight: 1.0,
            is_region: false,
        }
    }
}

/// Item that a stage gets: its index among those of the cascade, and whether its answer has arrived.
#[derive(Debug, Clone, Copy)]
struct Asked {
    place: usize,
    is_answered: bool,
}

#[derive(Debug)]
struct Stage {
    cascade: usize,
    /// Index of the stage in its cascade.
    index: usize,
    is_first: bool,
    is_last: bool,
    settle: Settle,
    escalate: Escalate,
    settings: StageSettings,
    asked: BTreeMap<RequestId, Vec<Asked>>,
    running: BTreeMap<BatchId, Vec<BatchSlice>>,
}

/// Stages of all cascades of a world.
#[derive(Debug)]
pub(super) struct Stages {
    by_module: Vec<Option<Stage>>,
    /// Answers of requests in flight, by cascade.
    answers: Vec<BTreeMap<RequestId, Vec<Answer>>>,
    /// Samples of each cascade; `None` without samples.
    samples: Vec<Option<Arc<[SampledItem]>>>,
    accuracy: BTreeMap<usize, f64>,
    /// Number of frames by stream; all in the first entry if the streams of requests are unknown.
    frames: Vec<u64>,
    frame_of: Vec<u64>,
    stream_of: Vec<StreamId>,
    /// Number of answers delivered in time by modules with a declared accuracy, and the expected number of
    /// right ones.
    delivered: (f64, f64),
}

impl Stages {
    /// `None` if the world has neither cascades nor accuracies.
    pub(super) fn new(spec: &CascadeSpec, modules: usize, streams: u32) -> Option<Self> {
        if spec.stages.is_empty() && spec.accuracy.is_empty() {
            return None;
        }
        let mut cascades: Vec<&str> = Vec::new();
        let mut stage = |module: usize| {
            let node = spec.stages.get(&module)?;
            let known = cascades.iter().position(|name| *name == node.cascade);
            let cascade = known.unwrap_or_else(|| {
                cascades.push(&node.cascade);
                cascades.len() - 1
            });
            Some(Stage {
                cascade,
                index: node.index as usize,
                is_first: node.index == 0,
                is_last: node.is_last(),
                settle: node.settle,
                escalate: node.escalate,
                settings: StageSettings::new(StageSetting::asked(node.certainty)),
                asked: BTreeMap::new(),
                running: BTreeMap::new(),
            })
        };
        let by_module: Vec<Option<Stage>> = (0..modules).map(&mut stage).collect();
        Some(Self {
            by_module,
            answers: vec![BTreeMap::new(); cascades.len()],
            samples: (cascades.iter())
                .map(|name| spec.samples.get(*name).filter(|items| !items.is_empty()).cloned())
                .collect(),
            accuracy: spec.accuracy.clone(),
            frames: vec![0; streams.max(1) as usize],
            frame_of: Vec::new(),
            stream_of: Vec::new(),
            delivered: (0.0, 0.0),
        })
    }

    /// Handles a new request. If its stream is `known`, and not just its turn, the request gets the next
    /// frame number of that stream, as a live source counts.
    pub(super) fn on_request(&mut self, stream: StreamId, known: bool) {
        self.stream_of.push(stream);
        let count = self.frames.get_mut(if known { stream.index() } else { 0 });
        let number = count.map_or(0, |count| std::mem::replace(count, *count + 1));
        self.frame_of.push(number);
    }

    /// Handles the arrival of a request at a module with the world's items; returns the number of items that
    /// the module gets.
    pub(super) fn on_arrived(&mut self, module: ModuleId, request: RequestId, items: u8) -> u8 {
        let Some(stage) = self.by_module.get_mut(module.index()).and_then(Option::as_mut) else {
            return items;
        };
        let stream = self.stream_of[request.index()];
        let answers = &mut self.answers[stage.cascade];
        if stage.is_first {
            answers.insert(request, vec![Answer::new(); usize::from(items)]);
        }
        let is_asked = stage.is_last || stage.settings.of(stream).is_used;
        let open = answers.get(&request).into_iter().flatten().enumerate();
        let open = open.filter(|(_, answer)| is_asked && !answer.is_accepted);
        let asked: Vec<Asked> = open
            .map(|(place, _)| Asked {
                place,
                is_answered: false,
            })
            .collect();
        let items = asked.len();
        stage.asked.insert(request, asked);
        u8::try_from(items).unwrap_or(u8::MAX)
    }

    /// A batch runs.
    pub(super) fn on_run(&mut self, module: ModuleId, batch: BatchId, slices: &[BatchSlice]) {
        if let Some(stage) = self.by_module.get_mut(module.index()).and_then(Option::as_mut) {
            stage.running.insert(batch, slices.to_vec());
        }
    }

    /// A batch came back, or was lost.
    pub(super) fn on_batch_end(&mut self, module: ModuleId, batch: BatchId, failed: bool) {
        let Some(stage) = self.by_module.get_mut(module.index()).and_then(Option::as_mut) else {
            return;
        };
        for slice in stage.running.remove(&batch).into_iter().flatten() {
            let asked = stage.asked.get_mut(&slice.request);
            let items = asked.into_iter().flatten().skip(slice.first as usize);
            for item in items.take(slice.count as usize) {
                item.is_answered |= !failed;
            }
        }
    }

    /// Handles a request that leaves a module, either answered or by `fallback` with the answers so far.
    /// `None` if the module is no stage.
    pub(super) fn settle(
        &mut self,
        module: ModuleId,
        request: RequestId,
        fallback: Option<DropReason>,
    ) -> Option<StageCounts> {
        let stage = self.by_module.get_mut(module.index())?.as_mut()?;
        let asked = stage.asked.remove(&request)?;
        let stream = self.stream_of[request.index()];
        let answers = self.answers[stage.cascade].get_mut(&request)?;
        let frame = self.frame_of.get(request.index()).copied().unwrap_or_default();
        let mut counts = StageCounts::default();
        let rule = StageRule {
            is_last: stage.is_last,
            settle: stage.settle,
            certainty: stage.settings.of(stream).certainty,
        };
        for Asked { place, is_answered } in asked {
            let Some(answer) = answers.get_mut(place) else {
                continue;
            };
            if !is_answered {
                answer.is_accepted = rule.on_unanswered(fallback, &mut counts);
                continue;
            }
            let drawn = emulated_certainty(frame, u32::try_from(place).unwrap_or(u32::MAX));
            let later = match &self.samples[stage.cascade] {
                Some(samples) => of_stage(&sampled(samples, drawn).certainty, stage.index),
                None => drawn,
            };
            let earlier = answer.by.map(|(_, certainty)| certainty);
            let verdict = rule.on_answer(earlier, later, &mut counts);
            if verdict.replaces {
                answer.by = Some((module.index(), later));
            }
            answer.is_accepted = verdict.is_accepted;
            if !verdict.is_accepted && stage.escalate == Escalate::Regions && !answer.is_region {
                split(answers, place, emulated_regions(frame));
            }
        }
        Some(counts)
    }

    /// A request has ended. `items`: those that it brought, by module.
    pub(super) fn on_ended(&mut self, request: RequestId, is_delivered: bool, items: &[u8]) {
        for (module, stage) in self.by_module.iter_mut().enumerate() {
            if let Some(stage) = stage {
                stage.asked.remove(&request);
            } else if let Some(accuracy) = self.accuracy.get(&module).filter(|_| is_delivered) {
                let items = f64::from(items.get(module).copied().unwrap_or_default());
                self.delivered.0 += items;
                self.delivered.1 += items * accuracy;
            }
        }
        let frame = self.frame_of.get(request.index()).copied().unwrap_or_default();
        for (answers, samples) in self.answers.iter_mut().zip(&self.samples) {
            let answers = answers.remove(&request).filter(|_| is_delivered);
            for (place, answer) in (0..).zip(answers.into_iter().flatten()) {
                let Some((by, _)) = answer.by.filter(|_| answer.regions == 0) else {
                    continue;
                };
                let stage = self.by_module.get(by).and_then(Option::as_ref);
                let right = match (samples, stage) {
                    (Some(samples), Some(stage)) => {
                        let sampled = sampled(samples, emulated_certainty(frame, place));
                        Some(of_stage(&sampled.right, stage.index))
                    }
                    _ => self.accuracy.get(&by).copied(),
                };
                if let Some(right) = right {
                    self.delivered.0 += answer.weight;
                    self.delivered.1 += answer.weight * right;
                }
            }
        }
    }

    /// Sets a stage, for a stream or for all that have no setting of their own.
    pub(super) fn set(&mut self, module: ModuleId, stream: Option<StreamId>, setting: StageSetting) {
        if let Some(stage) = self.by_module.get_mut(module.index()).and_then(Option::as_mut) {
            stage.settings.set(stream, setting);
        }
    }

    /// Expected share of right answers among those delivered in time; `None` if no accuracy is declared, or
    /// nothing was delivered.
    pub(super) fn accuracy(&self) -> Option<f64> {
        let (answers, right) = self.delivered;
        (answers > 0.0).then(|| right / answers)
    }
}

/// Splits a frame into regions: each becomes an item of its own, with the frame's answer so far.
fn split(answers: &mut Vec<Answer>, place: usize, regions: u32) {
    let Some(whole) = answers.get_mut(place) else {
        return;
    };
    (whole.is_accepted, whole.regions) = (true, regions);
    let region = Answer {
        is_accepted: false,
        regions: 0,
        weight: whole.weight / f64::from(regions.max(1)),
        is_region: true,
        ..*whole
    };
    answers.extend((0..regions).map(|_| region));
}

/// Selects a sample by a number from 0 to 1.
fn sampled(samples: &[SampledItem], drawn: f32) -> &SampledItem {
    let place = (f64::from(drawn) * samples.len() as f64) as usize;
    &samples[place.min(samples.len() - 1)]
}

/// Sampled value of a stage; the default (0) if the stage was not sampled.
fn of_stage<T: Copy + Default>(by_stage: &[T], stage: usize) -> T {
    by_stage.get(stage).copied().unwrap_or_default()
}
