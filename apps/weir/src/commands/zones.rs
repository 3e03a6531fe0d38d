//! `weir zones`: a frame of a clip with a grid, to take points of zones and lines from, and those that a graph has of a stream.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_analytics::transforms::{GroundMap, Outline, Position};
use weir_flow::{Frame, Overlay, Point, PrivacyMask, StopFlag, mask_credentials};
use weir_graph::{Graph, SourceNode};
use weir_operators::ShownPicture;
use weir_operators::media::source;
use weir_operators::sinks::grid_png;
use weir_types::Span;

use crate::args::Zones;
use crate::assemble::source_options;
use crate::catalog;
use crate::error::UserError;
use crate::output;
use crate::outputs::Files;
use crate::whole_file::write_whole;
use crate::zoo::Zoo;

/// Height of the sticks that show heights on the ground, in metres.
const PERSON_M: f64 = 1.8;

/// Writes the picture, and says where.
///
/// # Errors
/// A [`UserError`] where the clip cannot be read or the picture cannot be written.
pub(crate) fn zones(args: &Zones, zoo: &Zoo) -> anyhow::Result<()> {
    let at = args.at.unwrap_or(Span::ZERO);
    let is_graph = Path::new(&args.clip)
        .extension()
        .is_some_and(|extension| extension == "toml");
    let graph = is_graph
        .then(|| catalog::load(Path::new(&args.clip), zoo))
        .transpose()?;
    let node = match (&graph, &args.stream) {
        (Some(graph), name) => stream_of(graph, name.as_deref())?.clone(),
        (None, None) => SourceNode::new("clip", args.clip.as_str()),
        (None, Some(_)) => {
            let hint = "`--stream` names a stream of a graph: weir zones GRAPH.toml --stream NAME";
            return Err(UserError::new(hint).into());
        }
    };
    let shown = graph.as_ref().map_or(&args.clip, |_| &node.name);
    let out = args.out.clone().unwrap_or_else(|| beside(shown));
    let mut files = Files::default();
    files.read_source("the clip", node.frames_uri());
    if is_graph {
        files.read_source("the graph", &args.clip);
    }
    files.write("--out", &out);
    files.check()?;
    let mut frame = frame(&node, at)?;
    if let Some(graph) = &graph {
        let privacy = graph.privacy_of(&node, None);
        if let Some(class) = privacy.classes.keys().next() {
            return Err(UserError::new(format!(
                "no picture of {} is written: its pictures hide objects such as \"{class}\", which a single frame does not \
                 show; name its clip or address in place of the graph",
                node.name
            ))
            .into());
        }
        frame.privacy = PrivacyMask::settled(privacy.regions_of(frame.size()));
    }
    let overlays = graph.map_or_else(Vec::new, |graph| {
        overlays(&graph, &node, (frame.image.width, frame.image.height))
    });
    let failed = |reason: String| UserError::new(format!("{}: {reason}", out.display()));
    let png = grid_png(&ShownPicture::of(&frame), &overlays).map_err(failed)?;
    write_whole(&out, &png).map_err(|error| failed(error.to_string()))?;
    let (width, height) = (frame.image.width, frame.image.height);
    output::say(&format!(
        "{}: frame {} at {:.1} s, {width} x {height}",
        out.display(),
        frame.index,
        frame.pts_ms / 1e3
    ))?;
    Ok(())
}

/// The stream of that name, or the only one.
fn stream_of<'g>(graph: &'g Graph, name: Option<&str>) -> Result<&'g SourceNode, UserError> {
    let known: Vec<&str> = graph.sources().iter().map(|source| &*source.name).collect();
    let found = match (name, graph.sources()) {
        (None, [one]) => Some(one),
        (None, _) => None,
        (Some(name), sources) => sources.iter().find(|source| source.name == name),
    };
    found.ok_or_else(|| {
        let message = match name {
            Some(name) => format!("the graph has no stream {name}"),
            None => "the graph has several streams: name one by `--stream`".to_owned(),
        };
        UserError::new(format!("{message}; it has {}", known.join(", ")))
    })
}

/// Zones, lines and masks of a stream, and its ground.
fn overlays(graph: &Graph, node: &SourceNode, (width, height): (u32, u32)) -> Vec<Overlay> {
    let points = &|outline: &Outline| -> Vec<Point> {
        let points = outline.in_pixels(f64::from(width), f64::from(height));
        points.into_iter().map(point).collect()
    };
    let own = graph.transforms().iter();
    let own = own.filter(|transform| transform.streams.contains(&node.name));
    let transforms = own.flat_map(|transform| {
        let outlines = transform.spec.outlines();
        outlines.map(move |outline| Overlay {
            transform: transform.name.as_str().into(),
            kind: transform.spec.kind.name(),
            points: points(outline),
            is_closed: outline.points.len() > 2,
            text: "".into(),
            tags: Vec::new(),
        })
    });
    let masks = node.objects.masks().map(|(class, outline, is_kept)| Overlay {
        transform: if is_kept { "only" } else { "ignore" }.into(),
        kind: Overlay::MASK,
        points: points(outline),
        is_closed: true,
        text: class.map_or_else(|| "".into(), Arc::clone),
        tags: Vec::new(),
    });
    let ground = node.objects.ground.as_ref();
    let ground = ground.map_or_else(Vec::new, |ground| ground_overlays(ground, (width, height)));
    masks.chain(transforms).chain(ground).collect()
}

/// The quadrilateral of the ground, and sticks on it that are as high as a person.
fn ground_overlays(ground: &GroundMap, size: (u32, u32)) -> Vec<Overlay> {
    let overlay = |points: Vec<Position>, is_closed: bool, text: String| Overlay {
        transform: "ground".into(),
        kind: Overlay::MASK,
        points: points.into_iter().map(point).collect(),
        is_closed,
        text: text.into(),
        tags: Vec::new(),
    };
    let corners = ground.outline().in_pixels(f64::from(size.0), f64::from(size.1));
    let middle = |from: Position, to: Position| from.towards(to, 0.5);
    let mut feet = corners.clone();
    if let [a, b, c, d] = corners[..] {
        feet.push(middle(middle(a, b), middle(c, d)));
    }
    let view = ground.view(size);
    let sticks = feet.into_iter().filter_map(|foot| {
        let head = view.as_ref()?.above(foot, PERSON_M)?;
        Some(overlay(vec![foot, head], false, format!("{PERSON_M} m")))
    });
    let sticks: Vec<Overlay> = sticks.collect();
    std::iter::once(overlay(corners, true, String::new()))
        .chain(sticks)
        .collect()
}

fn point(at: Position) -> Point {
    Point {
        x: at.x as f32,
        y: at.y as f32,
    }
}

/// The picture's place where none is given: `crossing.zones.png` in the current folder.
fn beside(clip: &str) -> PathBuf {
    let stem = Path::new(clip).file_stem();
    let stem = stem.map_or_else(|| "clip".to_owned(), |stem| stem.to_string_lossy().into_owned());
    PathBuf::from(format!("{stem}.zones.png"))
}

/// The first frame of the clip that is not before `at`.
fn frame(node: &SourceNode, at: Span) -> Result<Frame, UserError> {
    let clip = node.frames_uri();
    let failed = |reason: String| UserError::new(format!("{}: {reason}", mask_credentials(clip)));
    let factory = source(clip, source_options(node));
    let mut source = factory
        .open(&StopFlag::default())
        .map_err(|error| UserError::new(error.to_string()))?;
    let mut last = None;
    // Errors of sources name the source.
    while let Some(frame) = source.next().map_err(|error| UserError::new(error.to_string()))? {
        if frame.pts_ms >= at.as_millis_f64() {
            return Ok(frame);
        }
        last = Some(frame.pts_ms);
    }
    Err(failed(match last {
        Some(pts_ms) => format!("it ends at {:.1} s, before {at}", pts_ms / 1e3),
        None => "it has no frame".to_owned(),
    }))
}
