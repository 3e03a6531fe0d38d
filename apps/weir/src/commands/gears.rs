//! `weir gears`: samples of the models of cascades, and what a cascade would be at every certainty.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use weir_graph::{Graph, ModuleNode};
use weir_policy::Report;
use weir_policy::gears::Settle;
use weir_runtime::{Sampler, StageAnswer};
use weir_sim::gears::{CurvePoint, SampledItem};
use weir_types::Span;

use super::replay::{launch_options, load_graph};
use super::score::{Truths, file_error};
use super::session_memory;
use crate::args::{GearsCurve, GearsSample, Playback, RunArgs, Speed};
use crate::curve_plot;
use crate::error::UserError;
use crate::launch::{LaunchOptions, Observers, execute};
use crate::output;
use crate::report::plain_table;
use crate::samples::{self, SampleLine, SamplesHeader};
use crate::score::{AttributeValue, Detection, rate_frame, rate_objects};
use crate::settings::Settings;
use crate::whole_file::ReservedFile;
use crate::zoo::Zoo;

/// `--truth names`: each image is called after its text or class.
const NAMES: &str = "names";

/// Runs the graph with all stages answering all items, and writes how right each is.
///
/// # Errors
/// A graph without cascades, truths that are not of the clip, and what `weir replay` says.
pub(crate) fn sample(args: GearsSample, settings: &Settings, zoo: &Zoo) -> anyhow::Result<()> {
    let by_name = args.truth.iter().any(|truth| truth.path == Path::new(NAMES));
    let truths = if by_name {
        None
    } else {
        Some(Truths::read(&args.truth)?)
    };
    let playback = Playback {
        videos: args.videos,
        streams: None,
        in_phase: true,
        speed: Speed::Max,
        repeat: false,
        out: None,
        run_args: RunArgs {
            duration: args.duration,
            ..RunArgs::default()
        },
        drop: None,
        order: None,
    };
    let graph = load_graph(&args.graph, &playback, zoo)?.without_sinks();
    let cascades = cascades(&graph);
    if cascades.is_empty() {
        let message = format!("{} has no module with a `cascade`", args.graph.display());
        return Err(UserError::new(message).into());
    }
    let in_tiles = |module: &&ModuleNode| module.stage.is_some() && module.tiling().is_some();
    if let Some(module) = graph.modules().iter().find(in_tiles) {
        let message = format!(
            "module {} reads tiles, and ground truth is of whole frames: sample it without `tiles`",
            module.label()
        );
        return Err(UserError::new(message).into());
    }
    if let Some(truths) = &truths {
        let streams: Vec<String> = graph.sources().iter().map(|source| source.name.clone()).collect();
        truths.check_streams(&streams)?;
    }
    let not_written = |error: std::io::Error| file_error("samples", &args.out, weir_files::io_reason(&error));
    let file = ReservedFile::new(&args.out).map_err(not_written)?;
    let name = graph.name().to_owned();
    let collected: Arc<Collected> = Arc::default();
    let options = LaunchOptions {
        reads: args
            .truth
            .into_iter()
            .map(|truth| truth.path)
            .filter(|path| path != Path::new(NAMES))
            .collect(),
        ..launch_options(playback)
    };
    let observers = Observers {
        sampler: Some(Arc::clone(&collected) as Arc<dyn Sampler>),
        ..Observers::default()
    };
    let session_bytes = session_memory::measure(&graph, zoo)?;
    let modules = module_names(&graph);
    let ran = execute(graph, &options, observers, settings, zoo)?;
    let (durations, frames) = collected.take();
    let header = SamplesHeader {
        samples: samples::VERSION,
        graph: name,
        cascades,
        durations_ms: durations,
        items: items_per_request(&ran.report, &modules),
        session_bytes,
    };
    let mut lines = Vec::new();
    let mut unjudged = 0;
    for ((cascade, stream, _), answers) in &frames {
        let stages = header.cascades.get(&**cascade).map_or(0, Vec::len);
        let rated = match &truths {
            None => rate_by_name(answers, stages),
            Some(truths) => rate(answers, stages, truths, stream)?,
        };
        unjudged += answers.iter().filter(|answer| answer.stage == 0).count() - rated.len();
        lines.extend(rated);
    }
    if lines.is_empty() {
        let message = "no item matches the ground truth: does it belong to this clip, and does it have the attribute that the cascade reads?";
        return Err(UserError::new(message).into());
    }
    file.write(&samples::text(&header, &lines)?)
        .map_err(not_written)?;
    output::remark(&format!(
        "{} items of {} frames are in {}{}",
        lines.len(),
        frames.len(),
        args.out.display(),
        if unjudged > 0 {
            format!("; {unjudged} match no object of the ground truth and are left out")
        } else {
            String::new()
        }
    ));
    Ok(())
}

/// The models of each cascade.
fn cascades(graph: &Graph) -> BTreeMap<String, Vec<String>> {
    let mut cascades: BTreeMap<String, Vec<(u32, String)>> = BTreeMap::new();
    for module in graph.modules() {
        if let Some(stage) = &module.stage {
            let model = graph.models()[module.model].name.clone();
            cascades
                .entry(stage.cascade.clone())
                .or_default()
                .push((stage.index, model));
        }
    }
    let sorted = cascades.into_iter().map(|(name, mut stages)| {
        stages.sort_unstable();
        (name, stages.into_iter().map(|(_, model)| model).collect())
    });
    sorted.collect()
}

/// Names of modules that take items as they come, and what samples call them: of a cascade its first stage.
fn module_names(graph: &Graph) -> Vec<(String, String)> {
    let name = |module: &ModuleNode| match &module.stage {
        None => Some((module.name.clone(), module.name.clone())),
        Some(stage) => (stage.index == 0).then(|| (module.name.clone(), stage.cascade.clone())),
    };
    graph.modules().iter().filter_map(name).collect()
}

/// Items of a request on average, by what samples call the module.
fn items_per_request(report: &Report, modules: &[(String, String)]) -> BTreeMap<String, f64> {
    let requests = (report.requests.delivered + report.requests.late).max(1) as f64;
    let items = |(name, called): &(String, String)| {
        let items = report.modules.get(name)?.items as f64;
        Some((called.clone(), items / requests))
    };
    modules.iter().filter_map(items).collect()
}

/// Durations in milliseconds, by model and batch size.
type Durations = BTreeMap<String, BTreeMap<u32, f64>>;

/// Answers by cascade, stream and frame.
type Frames = BTreeMap<(Arc<str>, Arc<str>, u64), Vec<StageAnswer>>;

/// Samples of a run: model durations, and the answers of cascade stages.
#[derive(Debug, Default)]
struct Collected(Mutex<(Durations, Frames)>);

impl Collected {
    fn take(&self) -> (Durations, Frames) {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sampler for Collected {
    fn on_model(&self, model: &str, durations: &[(u32, Span)]) {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let in_ms = |(size, span): &(u32, Span)| (*size, span.as_secs_f64() * 1e3);
        collected
            .0
            .insert(model.to_owned(), durations.iter().map(in_ms).collect());
    }

    fn on_answer(&self, answer: StageAnswer) {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (
            Arc::clone(&answer.cascade),
            Arc::clone(&answer.stream),
            answer.frame,
        );
        collected.1.entry(key).or_default().push(answer);
    }
}

/// The answers of a frame that all stages gave, by item.
fn by_item(answers: &[StageAnswer], stages: usize) -> BTreeMap<u32, Vec<&StageAnswer>> {
    let mut items: BTreeMap<u32, Vec<&StageAnswer>> = BTreeMap::new();
    for answer in answers {
        items.entry(answer.item).or_default().push(answer);
    }
    items.retain(|_, of| {
        of.sort_by_key(|answer| answer.stage);
        of.len() == stages
    });
    items
}

fn line(answers: &[&StageAnswer], right: Vec<f64>) -> Option<SampleLine> {
    let first = answers.first()?;
    Some(SampleLine {
        cascade: first.cascade.to_string(),
        stream: first.stream.to_string(),
        frame: first.frame,
        item: first.item,
        stages: SampledItem {
            certainty: answers.iter().map(|answer| answer.certainty).collect(),
            right,
        },
        answer: answers.iter().map(|answer| said(answer)).collect(),
    })
}

/// The answer as a reader sees it in the samples: a text, a class, a name (`-` without a match), or the
/// number of found objects.
fn said(answer: &StageAnswer) -> String {
    match value(answer) {
        Some(AttributeValue::Text(text) | AttributeValue::Class(text)) => text,
        Some(AttributeValue::Match { name, .. }) => name.unwrap_or_else(|| "-".to_owned()),
        Some(_) => "?".to_owned(),
        None => format!("{} found", answer.found.len()),
    }
}

fn value(answer: &StageAnswer) -> Option<AttributeValue> {
    let (_, attribute) = answer.attribute.as_ref()?;
    serde_json::to_value(attribute)
        .ok()
        .map(|value: Value| AttributeValue::from(value))
}

/// Compares answers with the names of the images up to a `_`, so that several images may show the same text.
fn rate_by_name(answers: &[StageAnswer], stages: usize) -> Vec<SampleLine> {
    let rated = by_item(answers, stages).into_values().filter_map(|answers| {
        let file = answers.first()?.file.clone()?;
        let stem = Path::new(&*file).file_stem()?.to_str()?.to_owned();
        let expected = stem.split('_').next().unwrap_or_default();
        let is_right = |answer: &&StageAnswer| f64::from(u8::from(said(answer) == expected));
        let right = answers.iter().map(is_right).collect();
        line(&answers, right)
    });
    rated.collect()
}

/// Compares answers with the ground truth of the frame: each item with its object, or all found objects with
/// the whole frame.
fn rate(
    answers: &[StageAnswer],
    stages: usize,
    truths: &Truths,
    stream: &str,
) -> anyhow::Result<Vec<SampleLine>> {
    let Some(first) = answers.first() else {
        return Ok(Vec::new());
    };
    let truth = truths
        .for_stream(stream)
        .and_then(|truth| truth.frames.iter().find(|frame| frame.frame == first.frame));
    let Some(truth) = truth else {
        let message = format!(
            "the ground truth of stream {stream} has no frame {}: does it belong to this clip?",
            first.frame
        );
        return Err(UserError::new(message).into());
    };
    let items = by_item(answers, stages);
    if first.object.is_none() {
        let rated = items.into_values().filter_map(|answers| {
            let rate = |answer: &&StageAnswer| rate_frame(truth, &found(answer));
            let right = answers.iter().map(rate).collect();
            line(&answers, right)
        });
        return Ok(rated.collect());
    }
    let attribute = answers
        .iter()
        .find_map(|answer| answer.attribute.as_ref().map(|(name, _)| name));
    let Some(attribute) = attribute else {
        return Ok(Vec::new());
    };
    // Which item is of which thing is the same for all stages.
    let places: Vec<u32> = items.keys().copied().collect();
    let rated: Vec<BTreeMap<usize, f64>> = (0..stages)
        .map(|stage| {
            let detections: Vec<Detection> =
                items.values().map(|of| detection(of[stage], attribute)).collect();
            rate_objects(truth, &detections, attribute).into_iter().collect()
        })
        .collect();
    let lines = places.iter().enumerate().filter_map(|(index, place)| {
        let right: Option<Vec<f64>> = rated.iter().map(|stage| stage.get(&index).copied()).collect();
        line(items.get(place)?, right?)
    });
    Ok(lines.collect())
}

fn detection(answer: &StageAnswer, attribute: &str) -> Detection {
    let (class, rect) = answer
        .object
        .clone()
        .unwrap_or_else(|| ("".into(), weir_flow::Rect::new(0.0, 0.0, 0.0, 0.0)));
    Detection {
        class: class.to_string(),
        score: 1.0,
        r#box: [rect.x0, rect.y0, rect.x1, rect.y1],
        track: None,
        candidate: false,
        attributes: value(answer)
            .map(|value| (attribute.to_owned(), value))
            .into_iter()
            .collect(),
    }
}

fn found(answer: &StageAnswer) -> Vec<Detection> {
    let detection = |object: &weir_flow::Object| Detection {
        class: object.class.to_string(),
        score: object.score,
        r#box: [object.rect.x0, object.rect.y0, object.rect.x1, object.rect.y1],
        track: None,
        candidate: false,
        attributes: BTreeMap::new(),
    };
    answer.found.iter().map(detection).collect()
}

/// Prints the curve of a cascade.
///
/// # Errors
/// Samples that cannot be read, a cascade that they do not have, a file that cannot be written.
pub(crate) fn curve(args: &GearsCurve) -> anyhow::Result<()> {
    let (header, lines) = samples::read(&args.samples)?;
    let names: Vec<&str> = header.cascades.keys().map(String::as_str).collect();
    let name = match (&args.cascade, &names[..]) {
        (Some(name), _) if names.contains(&name.as_str()) => name.as_str(),
        (None, [only]) => only,
        _ => {
            let message = format!(
                "name a cascade by --cascade: the samples have {}",
                names.join(", ")
            );
            return Err(UserError::new(message).into());
        }
    };
    let models = &header.cascades[name];
    let items = lines.into_iter().filter(|line| line.cascade == name);
    let items: Vec<SampledItem> = items.map(|line| line.stages).collect();
    let work: Option<Vec<f64>> = models
        .iter()
        .map(|model| header.durations_ms.get(model)?.get(&1).copied())
        .collect();
    let Some(work) = work else {
        let message = format!(
            "the samples have no duration of a batch of one for each of {}",
            models.join(", ")
        );
        return Err(UserError::new(message).into());
    };
    let settle = if args.settle == "surest" {
        Settle::Surest
    } else {
        Settle::Last
    };
    let points = weir_sim::gears::curve(&items, &work, settle);
    let kept = weir_sim::gears::pareto(&points);
    let shown: Vec<&CurvePoint> = if args.all {
        points.iter().collect()
    } else {
        kept.clone()
    };
    output::say(&table(name, models, &items, &work, &shown))?;
    if let Some(path) = &args.out {
        let alone = alone(&items, &work);
        let drawing = curve_plot::draw(name, models, &points, &kept, &alone)
            .map_err(|error| UserError::new(format!("the curve cannot be drawn: {error}")))?;
        std::fs::write(path, drawing)
            .map_err(|error| file_error("drawing", path, weir_files::io_reason(&error)))?;
    }
    Ok(())
}

/// Accuracy and work of each model alone.
fn alone(items: &[SampledItem], work: &[f64]) -> Vec<(f64, f64)> {
    let of_stage = |(stage, work): (usize, &f64)| {
        let right: f64 = items.iter().filter_map(|item| item.right.get(stage)).sum();
        (right / items.len().max(1) as f64, *work)
    };
    work.iter().enumerate().map(of_stage).collect()
}

fn table(
    name: &str,
    models: &[String],
    items: &[SampledItem],
    work: &[f64],
    shown: &[&CurvePoint],
) -> String {
    let mut table = plain_table(&["certainty", "handed on", "accuracy", "ms an item"]);
    for (model, (accuracy, work)) in models.iter().zip(alone(items, work)) {
        table.add_row([
            format!("{model} alone"),
            String::new(),
            format!("{accuracy:.4}"),
            format!("{work:.3}"),
        ]);
    }
    for point in shown {
        let joined = |numbers: Vec<String>| numbers.join(" ");
        table.add_row([
            joined(
                point
                    .certainty
                    .iter()
                    .map(|certainty| format!("{certainty:.4}"))
                    .collect(),
            ),
            joined(
                point
                    .asked
                    .iter()
                    .skip(1)
                    .map(|asked| format!("{asked:.3}"))
                    .collect(),
            ),
            format!("{:.4}", point.accuracy),
            format!("{:.3}", point.work),
        ]);
    }
    format!(
        "{name}: {} over {} items\n{table}",
        models.join(", then "),
        items.len()
    )
}
