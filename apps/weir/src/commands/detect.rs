//! `weir detect`: what the models of a graph find in single pictures, as event lines.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{Delivery, Sink, SinkError, SinkFactory, StopFlag, StreamNames};
use weir_graph::{Graph, SourceMode, SourceNode, Sources, WhenSlow};
use weir_operators::PythonTransforms;
use weir_operators::media::{image_list, images_at};
use weir_operators::sinks::{annotated_png, event_line};
use weir_runtime::{Pace, RunOptions};

use super::replay::unique_names;
use crate::args::{Detect, RunArgs};
use crate::assemble::assemble_showing;
use crate::error::{ErrorList, UserError};
use crate::launch::{LaunchOptions, STOPPING, failures, mendable, run_options};
use crate::outputs::Files;
use crate::progress::RunLine;
use crate::settings::Settings;
use crate::whole_file::write_whole;
use crate::zoo::Zoo;
use crate::{catalog, interrupt, zoo};

/// Name of the stream that the pictures are.
const STREAM: &str = "images";
/// Name of the sink that prints; no sink of a graph can have it.
const SINK: &str = "(detect)";

/// Runs the pictures through the graph, and prints a line for each.
///
/// # Errors
/// Problems of the graph, models and pictures that are not there, and pictures that cannot be read, after all others.
pub(crate) fn detect(args: &Detect, settings: &Settings, zoo: &Zoo) -> anyhow::Result<()> {
    let graph = catalog::load_for(Sources::Replaced, &args.graph, zoo)?;
    zoo::require(&graph, zoo)?;
    let files = pictures(&args.images)?;
    let drawings = args
        .draw
        .as_deref()
        .map(|folder| drawings(&graph, folder, &files));
    let drawings = drawings.transpose()?;
    let source = SourceNode {
        mode: SourceMode::Lossless,
        mode_given: true,
        ..SourceNode::new(STREAM, args.images[0].to_string_lossy())
    };
    let graph = graph.for_pictures().with_streams(vec![source]);
    let options = run_options(
        &LaunchOptions::for_graph(RunArgs::default()),
        settings,
        Arc::default(),
    );
    let shown = RunLine::start(Arc::clone(&options.progress), None, true)?;
    let programs = Arc::<PythonTransforms>::default();
    let mut assembly = assemble_showing(graph, zoo, None, None, &options.progress, &programs)?;
    assembly.sources = vec![Some(image_list(files))];
    assembly.graph = assembly
        .graph
        .with_observer(SINK, "detect", WhenSlow::Wait, StreamNames::default());
    assembly.sinks.push(Box::new(Printer { drawings }));
    let options = RunOptions {
        pace: Pace::Max,
        programs: Some(programs),
        ..options
    };
    let stop = StopFlag::default();
    interrupt::watch(&stop, STOPPING)?;
    let report = weir_runtime::run(assembly, &options, &stop).map_err(mendable);
    drop(shown);
    let failures = failures(&report?);
    if failures.is_empty() {
        Ok(())
    } else {
        Err(UserError::new(failures.join("; ")).into())
    }
}

/// All pictures that were named, in that order.
fn pictures(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut errors = ErrorList::default();
    let found = named.iter().filter_map(|path| {
        let images = images_at(path).map_err(|error| UserError::new(error.to_string()).into());
        errors.take(images)
    });
    let found = found.flatten().collect();
    errors.finish()?;
    Ok(found)
}

/// A file in the folder for each picture, none of which is read.
fn drawings(graph: &Graph, folder: &Path, pictures: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let failed = |error: io::Error| {
        let reason = weir_files::io_reason(&error);
        UserError::new(format!("cannot make the folder {}: {reason}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let stems: Vec<String> = pictures
        .iter()
        .map(|path| {
            path.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let names = unique_names(stems.iter().map(String::as_str)).into_iter();
    let drawings: Vec<PathBuf> = names.map(|name| folder.join(format!("{name}.png"))).collect();
    let mut files = Files::default();
    graph
        .files()
        .iter()
        .for_each(|path| files.read("the graph", path));
    pictures.iter().for_each(|path| files.read("the pictures", path));
    drawings.iter().for_each(|path| files.write("--draw", path));
    files.check()?;
    Ok(drawings)
}

/// Prints event lines, and draws pictures where there are files for them.
#[derive(Clone)]
struct Printer {
    drawings: Option<Vec<PathBuf>>,
}

impl SinkFactory for Printer {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Printing {
            drawings: self.drawings.clone(),
            reader_gone: false,
        }))
    }
}

struct Printing {
    drawings: Option<Vec<PathBuf>>,
    reader_gone: bool,
}

impl Printing {
    fn draw(&self, delivery: &Delivery) -> Result<(), SinkError> {
        let file = self.drawings.as_ref().and_then(|files| {
            let number = usize::try_from(delivery.frame.index).ok()?;
            files.get(number)
        });
        let Some(file) = file else { return Ok(()) };
        let failed = |reason| SinkError {
            target: file.display().to_string(),
            reason,
        };
        let png = annotated_png(delivery).map_err(failed)?;
        write_whole(file, &png).map_err(|error| failed(weir_files::io_reason(&error)))
    }
}

impl Sink for Printing {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        writeln!(io::stdout(), "{}", event_line(delivery)).map_err(|error| {
            self.reader_gone = error.kind() == io::ErrorKind::BrokenPipe;
            SinkError {
                target: "standard output".to_owned(),
                reason: weir_files::io_reason(&error),
            }
        })?;
        self.draw(delivery)
    }

    fn is_reader_gone(&self) -> bool {
        self.reader_gone
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
