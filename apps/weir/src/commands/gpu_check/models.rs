//! Each model on the device against the CPU, and how long it takes there by batch size.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use weir_flow::{DeviceKind, Frame, Inference, Item, Model, Object, Region, Settings, Step, StopFlag};
use weir_operators::{LoadRequest, ModelFile, OnnxModel, OutputDifference};
use weir_runtime::{Clock, measure_profile};

use crate::args::GpuCheck;
use crate::error::UserError;
use crate::output;
use crate::zoo::Zoo;

/// Outputs of full precision may differ by so much of their largest magnitude.
pub(super) const MAX_RELATIVE_DIFFERENCE: f32 = 1e-3;
/// Boxes that overlap by so much are the same box.
const SAME_IOU: f32 = 0.99;
/// So many of the objects of the CPU must be found on the device.
pub(super) const MIN_SAME_OBJECTS: f64 = 0.999;
/// Batches that are measured.
const BATCHES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Runs by which a batch is measured.
const RUNS: usize = 15;
/// Frames that both devices look at, taken evenly from the beginning of the clip.
const FRAMES: usize = 32;
/// From one of them to the next.
const FRAME_STEP: usize = 8;

/// Results of one model.
#[derive(Debug, Serialize)]
pub(super) struct ModelCheck {
    /// Name as in graphs: `embedded:NAME` or `zoo:NAME`.
    pub(super) name: String,
    /// The reason if the model was not checked.
    pub(super) error: Option<String>,
    pub(super) difference: Option<OutputDifference>,
    /// Objects that the CPU found in frames of the clip, and how many of them the device found.
    pub(super) objects: usize,
    pub(super) same_objects: usize,
    /// Milliseconds by batch size, the session alone, its input in pinned memory of the host.
    pub(super) profile: Vec<(u32, f64)>,
    /// Items a second at the best batch of the profile.
    pub(super) best_items_per_second: f64,
    pub(super) best_batch: u32,
    /// Milliseconds an item at the best batch: inputs prepared, run with its copies, outputs read.
    pub(super) parts: Option<Parts>,
    /// True if the model finds objects in whole frames.
    pub(super) is_detector: bool,
}

/// Milliseconds of an item by step.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Parts {
    pub(super) prepare_ms: f64,
    pub(super) run_ms: f64,
    pub(super) read_out_ms: f64,
}

impl ModelCheck {
    /// Messages about failed checks: an error, outputs that differ, or objects that the device did not find.
    pub(super) fn failures(&self) -> Vec<String> {
        let name = &self.name;
        let mut failures: Vec<String> = self
            .error
            .iter()
            .map(|error| format!("{name}: {error}"))
            .collect();
        if let Some(difference) = self.difference
            && (difference.relative > MAX_RELATIVE_DIFFERENCE || difference.unlike > 0)
        {
            let OutputDifference { relative, unlike, .. } = difference;
            failures.push(format!(
                "{name}: outputs differ by {relative:.1e} of their size, {unlike} are unlike"
            ));
        }
        if self.objects > 0 && (self.same_objects as f64) < MIN_SAME_OBJECTS * self.objects as f64 {
            failures.push(format!(
                "{name}: {} of {} objects are the same",
                self.same_objects, self.objects
            ));
        }
        failures
    }
}

/// A model as it is loaded.
struct Candidate {
    name: String,
    file: ModelFile,
    head: String,
    settings: Settings,
}

/// Checks all models that ship and those of the zoo that are here, or those that are asked for.
///
/// # Errors
/// A model that is asked for is not there, or the clip cannot be read.
pub(super) fn check(args: &GpuCheck, zoo: &Zoo) -> anyhow::Result<Vec<ModelCheck>> {
    let candidates = candidates(zoo)?;
    if let Some(unknown) = args
        .models
        .iter()
        .find(|name| candidates.iter().all(|known| known.name != **name))
    {
        let is_it = |name: &str| unknown.strip_prefix("zoo:") == Some(name);
        if zoo
            .entries()
            .any(|(name, entry)| is_it(name) && entry.head.is_none())
        {
            return Err(UserError::new(format!(
                "{unknown} has no head: no operator runs it, and it is not checked"
            ))
            .into());
        }
        let known: Vec<&str> = candidates.iter().map(|known| &*known.name).collect();
        return Err(UserError::new(format!(
            "no model {unknown} is here; there are {}",
            known.join(", ")
        ))
        .into());
    }
    let frames = args.clip.as_deref().map(frames).transpose()?.unwrap_or_default();
    let wanted = |candidate: &&Candidate| args.models.is_empty() || args.models.contains(&candidate.name);
    let mut checks = Vec::new();
    for candidate in candidates.iter().filter(wanted) {
        output::remark(&format!("checking {}", candidate.name));
        let mut check = ModelCheck {
            name: candidate.name.clone(),
            error: None,
            difference: None,
            objects: 0,
            same_objects: 0,
            profile: Vec::new(),
            best_items_per_second: 0.0,
            best_batch: 1,
            parts: None,
            is_detector: false,
        };
        check.error = check.fill(candidate, args, &frames).err();
        checks.push(check);
    }
    Ok(checks)
}

fn candidates(zoo: &Zoo) -> anyhow::Result<Vec<Candidate>> {
    let mut all = Vec::new();
    // What generates text is run by another kind of session.
    for model in weir_models::shipped().iter().filter(|model| !model.generates()) {
        all.push(Candidate {
            name: format!("embedded:{}", model.name),
            file: ModelFile::Bytes(model.onnx.into()),
            head: model.head.clone(),
            settings: model.settings.clone(),
        });
    }
    for (name, entry) in zoo.entries() {
        if let (Some(path), Some(head)) = (zoo.find(entry), &entry.head) {
            let Ok(settings) = zoo.resolve_keys(&entry.settings) else {
                output::remark(&format!(
                    "zoo:{name} is left out: a file that it needs is not here"
                ));
                continue;
            };
            all.push(Candidate {
                name: format!("zoo:{name}"),
                file: ModelFile::Path(path),
                head: head.clone(),
                settings,
            });
        }
    }
    Ok(all)
}

impl ModelCheck {
    fn fill(&mut self, candidate: &Candidate, args: &GpuCheck, frames: &[Arc<Frame>]) -> Result<(), String> {
        let device = args.device;
        let model = OnnxModel::load(&LoadRequest {
            name: &candidate.name,
            file: candidate.file.clone(),
            head: &candidate.head,
            settings: &candidate.settings,
            max_batch: BATCHES[2],
            dump: None,
        });
        let model = Arc::new(model.map_err(|error| error.to_string())?);
        let difference = model
            .compare_outputs(device, 2)
            .map_err(|error| error.to_string())?;
        self.difference = Some(difference);
        self.is_detector = !model.classes().is_empty();
        let max = model.batching().max.unwrap_or(u32::MAX);
        let batches: Vec<u32> = BATCHES
            .into_iter()
            .filter(|&size| size <= max && size <= args.max_batch)
            .collect();
        let opened: Arc<dyn Model> = model;
        self.compare_objects(&opened, device, frames)?;
        for &size in &batches {
            // The largest that a device has memory for ends the list.
            let Ok(measured) = measure_profile(&opened, device, &[size], RUNS) else {
                break;
            };
            let points = measured.points.iter();
            self.profile
                .extend(points.map(|(size, span)| (*size, span.as_millis_f64())));
        }
        let rate = |&(size, ms): &(u32, f64)| f64::from(size) * 1e3 / ms.max(1e-3);
        let best = self.profile.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        let best = best.ok_or("no batch could be measured")?;
        (self.best_batch, self.best_items_per_second) = (best.0, rate(best));
        self.parts = parts(&opened, device, frames, self.best_batch)?;
        Ok(())
    }

    fn compare_objects(
        &mut self,
        model: &Arc<dyn Model>,
        device: DeviceKind,
        frames: &[Arc<Frame>],
    ) -> Result<(), String> {
        let found = |device| -> Result<Vec<Inference>, String> {
            let mut session = model.open(device).map_err(|error| error.to_string())?;
            let mut inferences = Vec::new();
            for frame in frames {
                let ran = session.run(&[whole(frame)], &mut |_| ());
                inferences.extend(ran.map_err(|error| error.to_string())?);
            }
            Ok(inferences)
        };
        for (expected, found) in found(DeviceKind::Cpu)?.iter().zip(found(device)?) {
            self.objects += expected.objects.len();
            self.same_objects += same(&expected.objects, &found.objects);
        }
        Ok(())
    }
}

/// Number of `expected` objects that are among `found`; each found object counts once.
fn same(expected: &[Object], found: &[Object]) -> usize {
    let mut left: Vec<&Object> = found.iter().collect();
    let is_found = |object: &&Object| {
        let at = left
            .iter()
            .position(|other| other.class == object.class && other.rect.iou(&object.rect) >= SAME_IOU);
        at.map(|at| left.swap_remove(at)).is_some()
    };
    expected.iter().filter(is_found).count()
}

/// Steps of a batch of real frames, an item each.
fn parts(
    model: &Arc<dyn Model>,
    device: DeviceKind,
    frames: &[Arc<Frame>],
    batch: u32,
) -> Result<Option<Parts>, String> {
    let items: Vec<Item> = frames.iter().cycle().take(batch as usize).map(whole).collect();
    if items.is_empty() {
        return Ok(None);
    }
    let mut session = model.open(device).map_err(|error| error.to_string())?;
    let clock = Clock::start();
    let mut runs: Vec<Parts> = Vec::new();
    for _ in 0..=RUNS {
        let mut parts = Parts::default();
        let mut last = clock.now();
        let ran = session.run(&items, &mut |step| {
            let now = clock.now();
            let ms = now.since(last).as_millis_f64() / items.len() as f64;
            last = now;
            match step {
                Step::Preprocessed => parts.prepare_ms += ms,
                Step::Inferred => parts.run_ms += ms,
                Step::Postprocessed => parts.read_out_ms += ms,
            }
        });
        ran.map_err(|error| error.to_string())?;
        runs.push(parts);
    }
    // The first opens what opens late.
    let median = |part: fn(&Parts) -> f64| {
        let mut all: Vec<f64> = runs[1..].iter().map(part).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Ok(Some(Parts {
        prepare_ms: median(|parts| parts.prepare_ms),
        run_ms: median(|parts| parts.run_ms),
        read_out_ms: median(|parts| parts.read_out_ms),
    }))
}

fn whole(frame: &Arc<Frame>) -> Item {
    Item {
        frame: Arc::clone(frame),
        region: Region::Whole,
        object: None,
        class: None,
    }
}

/// Some frames of a clip.
fn frames(clip: &Path) -> anyhow::Result<Vec<Arc<Frame>>> {
    let failed = |error: weir_flow::SourceError| UserError::new(error.to_string());
    let uri = clip.to_string_lossy();
    let factory = weir_operators::media::source(&uri, weir_operators::media::SourceOptions::default());
    let mut source = factory.open(&StopFlag::default()).map_err(failed)?;
    let mut frames = Vec::new();
    let mut index = 0;
    while frames.len() < FRAMES
        && let Some(frame) = source.next().map_err(failed)?
    {
        if index % FRAME_STEP == 0 {
            frames.push(Arc::new(frame));
        }
        index += 1;
    }
    Ok(frames)
}
