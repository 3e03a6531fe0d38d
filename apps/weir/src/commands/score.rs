//! `weir score`: evaluates the results of a graph against the ground truth of its clip.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::Path;

use serde_json::json;
use weir_truth::Truth;

use super::replay::{launch_options, load_graph};
use crate::args::{self, TruthOf};
use crate::error::UserError;
use crate::launch::{LaunchOptions, Observers, execute, print_result};
use crate::outputs::Files;
use crate::score::{self, Events, PlayedStream, Score, coco};
use crate::settings::Settings;
use crate::tap::Tap;
use crate::threshold_plot;
use crate::whole_file::{ReservedFile, write_whole};
use crate::zoo::Zoo;
use crate::{output, report};

/// Bytes of a file of COCO: the annotations of its training set, its largest, have half of that.
const MAX_COCO_BYTES: u64 = 1 << 30;

/// Scores a run, the events of one, or the results of a data set.
///
/// # Errors
/// Truths and events that cannot be read or are not of the same clip, and what `weir replay` says.
pub(crate) fn score(args: args::Score, settings: &Settings, zoo: &Zoo) -> anyhow::Result<()> {
    if let Some(annotations) = coco_annotations(&args.truth) {
        return score_coco(annotations, &args);
    }
    let truths = Truths::read(&args.truth)?;
    match (&args.events, &args.graph) {
        (Some(events), _) => score_file(events, &args, &truths),
        (None, Some(graph)) => {
            let graph = graph.clone();
            score_run(&graph, args, &truths, settings, zoo)
        }
        // The command line's shape has seen to it.
        (None, None) => Err(UserError::new("give a graph, or --events FILE").into()),
    }
}

/// Plays the graph and scores what it delivers.
fn score_run(
    path: &Path,
    args: args::Score,
    truths: &Truths,
    settings: &Settings,
    zoo: &Zoo,
) -> anyhow::Result<()> {
    let graph = load_graph(path, &args.playback, zoo)?;
    let streams: Vec<String> = graph.sources().iter().map(|source| source.name.clone()).collect();
    truths.check_streams(&streams)?;
    let repeats = args.playback.repeat;
    let curve = args.curve;
    let options = LaunchOptions {
        reads: args.truth.into_iter().map(|truth| truth.path).collect(),
        ..launch_options(args.playback)
    };
    let tap = Tap::default();
    let observers = Observers {
        tap: Some(Box::new(tap.clone())),
        ..Observers::default()
    };
    let ran = execute(graph, &options, observers, settings, zoo)?;
    let events = tap.drain();
    let arrived = |stream: &str| {
        let stream = ran.report.streams.get(stream);
        stream.map_or(0, |stream| stream.requests.arrived)
    };
    let scored = compare(truths, &streams, repeats, &arrived, &events, curve.is_some());
    print_result(ran, scored.as_ref().ok())?;
    draw_curves(&scored?, curve.as_deref())
}

/// Scores event lines.
fn score_file(path: &Path, args: &args::Score, truths: &Truths) -> anyhow::Result<()> {
    let events = score::read_events(lines("events", path)?);
    let (events, runs) = events.map_err(|error| file_error("events", path, error))?;
    if runs > 1 {
        let path = path.display();
        output::remark(&format!("{path} holds {runs} runs; the last one is scored"));
    }
    let named = truths.named.keys();
    let mut streams: BTreeSet<String> = events.keys().chain(named).cloned().collect();
    if streams.is_empty() {
        // Nothing was delivered of whatever was played.
        streams.insert(String::new());
    }
    let streams: Vec<String> = streams.into_iter().collect();
    truths.check_streams(&streams)?;
    let report = reserve_report(path, args)?;
    // How many frames arrived is not in the file: the clip once at least.
    let arrived = |stream: &str| truths.for_stream(stream).map_or(0, |truth| truth.clip.frames);
    let repeats = args.playback.repeat;
    let scored = compare(truths, &streams, repeats, &arrived, &events, args.curve.is_some());
    match (&scored, report) {
        (Ok(score), Some(file)) => report::write(&json!({ "accuracy": score }), file)?,
        (Ok(score), None) => output::say(&score::table(score))?,
        (Err(_), _) => {}
    }
    draw_curves(&scored?, args.curve.as_deref())
}

/// Begins the report of a score of the events in `path`, if one is asked for, once no file is both read and written.
fn reserve_report(path: &Path, args: &args::Score) -> anyhow::Result<Option<ReservedFile>> {
    let report = args.playback.run_args.report.as_deref();
    let mut files = Files::default();
    files.read("the score", path);
    args.truth
        .iter()
        .for_each(|truth| files.read("the score", &truth.path));
    report.into_iter().for_each(|path| files.write("--report", path));
    let curve = args.curve.as_deref();
    curve.into_iter().for_each(|path| files.write("--curve", path));
    files.check()?;
    report.map(report::reserve).transpose()
}

/// The annotations of COCO among truths: the only one, a file `.json`. Truths of clips are lines of JSON, `.jsonl`.
fn coco_annotations(truths: &[TruthOf]) -> Option<&Path> {
    match truths {
        [TruthOf { stream: None, path }] if path.extension().is_some_and(|form| form == "json") => Some(path),
        _ => None,
    }
}

/// Scores the results of a `coco` sink by COCO's rules.
fn score_coco(annotations: &Path, args: &args::Score) -> anyhow::Result<()> {
    let Some(results) = &args.events else {
        let path = annotations.display();
        return Err(UserError::new(format!(
            "{path} has annotations of COCO, which are compared with the file of a `coco` sink: run the graph with one, then give its file by \
             --events FILE"
        ))
        .into());
    };
    if args.curve.is_some() {
        return Err(UserError::new("--curve goes with truths of clips, not with annotations of COCO").into());
    }
    let report = reserve_report(results, args)?;
    let text = |what: &str, path: &Path| {
        weir_files::read_text(path, MAX_COCO_BYTES)
            .map_err(|error| file_error(what, path, format!("cannot be read: {error}")))
    };
    let dataset = coco::read_dataset(&text("annotations", annotations)?)
        .map_err(|error| file_error("annotations", annotations, error))?;
    let scored = coco::read_results(&text("results", results)?, &dataset)
        .and_then(|results| coco::score(&dataset, &results))
        .map_err(|error| file_error("results", results, error))?;
    match report {
        Some(file) => report::write(&json!({ "coco": scored }), file)?,
        None => output::say(&coco::table(&scored))?,
    }
    Ok(())
}

/// Writes the drawing of the curves, where it was asked for.
fn draw_curves(score: &Score, file: Option<&Path>) -> anyhow::Result<()> {
    let Some((path, curves)) = file.zip(score.curves.as_ref()) else {
        return Ok(());
    };
    let drawing = threshold_plot::draw(curves)
        .map_err(|error| UserError::new(format!("the curves cannot be drawn: {error}")))?;
    write_whole(path, &drawing)
        .map_err(|error| file_error("drawing", path, weir_files::io_reason(&error)).into())
}

fn compare(
    truths: &Truths,
    streams: &[String],
    repeats: bool,
    arrived: &dyn Fn(&str) -> u64,
    events: &Events,
    curves: bool,
) -> anyhow::Result<Score> {
    let plays = streams.iter().filter_map(|stream| {
        Some(PlayedStream {
            stream,
            truth: truths.for_stream(stream)?,
            arrived: arrived(stream),
            repeats,
            events: events.get(stream),
        })
    });
    let plays: Vec<PlayedStream<'_>> = plays.collect();
    let frames = score::observe(&plays).map_err(|error| UserError::new(error.to_string()))?;
    let truths: Vec<&Truth> = plays.iter().map(|play| play.truth).collect();
    Ok(score::score(&truths, &frames, curves))
}

/// Ground truth of the streams: by stream name, and for all others.
pub(super) struct Truths {
    named: BTreeMap<String, Truth>,
    default: Option<Truth>,
}

impl Truths {
    pub(super) fn read(files: &[TruthOf]) -> anyhow::Result<Self> {
        let mut truths = Self {
            named: BTreeMap::new(),
            default: None,
        };
        for TruthOf { stream, path } in files {
            let truth =
                Truth::read(lines("truth", path)?).map_err(|error| file_error("truth", path, error))?;
            let (before, of) = match stream {
                Some(stream) => (
                    truths.named.insert(stream.clone(), truth),
                    format!("stream {stream}"),
                ),
                None => (truths.default.replace(truth), "all streams".to_owned()),
            };
            if before.is_some() {
                return Err(UserError::new(format!("--truth is given twice for {of}")).into());
            }
        }
        Ok(truths)
    }

    pub(super) fn for_stream(&self, stream: &str) -> Option<&Truth> {
        self.named.get(stream).or(self.default.as_ref())
    }

    /// Every stream must have a truth, and every named one must be there.
    pub(super) fn check_streams(&self, streams: &[String]) -> anyhow::Result<()> {
        if let Some(stream) = self.named.keys().find(|stream| !streams.contains(stream)) {
            let streams = streams.join(", ");
            let message = format!("--truth names the stream {stream}; the streams are {streams}");
            return Err(UserError::new(message).into());
        }
        match streams.iter().find(|stream| self.for_stream(stream).is_none()) {
            Some(stream) => Err(UserError::new(format!(
                "stream {stream} has no ground truth: give --truth {stream}=FILE, or --truth FILE for all streams"
            ))
            .into()),
            None => Ok(()),
        }
    }
}

/// Lines of a truth or of events: 16 MiB are some hundred thousand objects in one frame, 4 GiB some weeks of video.
pub(super) fn lines(what: &str, path: &Path) -> Result<impl BufRead, UserError> {
    weir_files::lines(path, 16 << 20, 4 << 30)
        .map_err(|error| file_error(what, path, format!("cannot be read: {error}")))
}

pub(super) fn file_error(what: &str, path: &Path, error: impl std::fmt::Display) -> UserError {
    UserError::new(format!("{what} {}: {error}", path.display()))
}
