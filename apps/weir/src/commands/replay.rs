//! `weir replay`: recorded videos through a graph, each as a camera.

use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_files::io_reason;
use weir_graph::{Graph, SourceMode, SourceNode, Sources};
use weir_policy::Policy;

use crate::args::{Playback, Replay, Speed};
use crate::assemble::DumpInputs;
use crate::error::UserError;
use crate::launch::{LaunchOptions, launch};
use crate::settings::Settings;
use crate::zoo::Zoo;
use crate::{catalog, zoo};

/// Replays videos through a graph.
///
/// # Errors
/// Problems of the graph, videos or models that are not there, and what [`launch`] says.
pub(crate) fn replay(args: Replay, settings: &Settings, zoo: &Zoo) -> anyhow::Result<()> {
    let graph = load_graph(&args.graph, &args.playback, zoo)?;
    let dump_inputs = args.dump_inputs.map(|folder| DumpInputs {
        folder,
        model: args.dump_model,
    });
    if let Some(dump) = &dump_inputs {
        make_folder(&dump.folder)?;
    }
    let options = LaunchOptions {
        dump_inputs,
        ..launch_options(args.playback)
    };
    launch(graph, &options, settings, zoo)
}

/// The graph at `path` as it is to be played, and the folder of its files.
///
/// # Errors
/// As [`replay`].
pub(super) fn load_graph(path: &Path, playback: &Playback, zoo: &Zoo) -> anyhow::Result<Graph> {
    let sources = Sources::replaced_if(!playback.videos.is_empty());
    let graph = catalog::load_for(sources, path, zoo)?;
    let policy = policy(graph.policy(), playback);
    let graph = apply_playback(graph, playback)?.with_policy(policy);
    zoo::require(&graph, zoo)?;
    if playback.repeat && playback.speed == Speed::Max && playback.run_args.duration.is_none() {
        crate::output::remark("this run does not end by itself: stop it with Ctrl-C, or give --duration");
    }
    playback.out.as_deref().map(make_folder).transpose()?;
    Ok(graph)
}

pub(super) fn launch_options(playback: Playback) -> LaunchOptions {
    LaunchOptions {
        run_args: playback.run_args,
        speed: playback.speed,
        out: playback.out,
        dump_inputs: None,
        reads: Vec::new(),
        graph_file: None,
    }
}

fn make_folder(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| {
        UserError::new(format!(
            "cannot make the folder {}: {}",
            folder.display(),
            io_reason(&error)
        ))
        .into()
    })
}

/// The graph's policy with what the command line says instead.
fn policy(of_graph: &Policy, args: &Playback) -> Policy {
    let mut policy = of_graph.clone();
    if let Some(drop) = &args.drop {
        policy.drop = drop.clone();
    }
    if let Some(order) = args.order {
        policy.order = Some(order);
    }
    policy
}

/// The graph on the videos, or on its own sources where none is given.
pub(super) fn replace_sources(graph: Graph, videos: &[PathBuf]) -> anyhow::Result<Graph> {
    if videos.is_empty() {
        return Ok(graph);
    }
    let sources = sources(&graph, videos)?;
    Ok(with_unique_names(graph, sources))
}

/// The videos as sources, or the graph's own where none is given.
fn sources(graph: &Graph, videos: &[PathBuf]) -> anyhow::Result<Vec<SourceNode>> {
    let of_graph = graph.sources();
    if videos.is_empty() {
        return Ok(of_graph.to_vec());
    }
    let of_name = |node: SourceNode| {
        // The view of a camera goes by its name, as its zones do.
        let own = of_graph.iter().find(|own| own.name == node.name);
        own.map_or(node.clone(), |own| SourceNode {
            objects: own.objects.clone(),
            privacy: own.privacy.clone(),
            timezone: own.timezone.clone(),
            ..node
        })
    };
    videos
        .iter()
        .map(|video| source(video, of_graph.first()).map(of_name))
        .collect()
}

/// The graph on these streams, each with a name of its own.
fn with_unique_names(graph: Graph, streams: Vec<SourceNode>) -> Graph {
    let names = unique_names(streams.iter().map(|source| source.name.as_str()));
    let streams = streams.into_iter().zip(names);
    let streams = streams.map(|(source, name)| SourceNode { name, ..source });
    graph.with_streams(streams.collect())
}

/// The graph with as many streams as wanted, played as wanted.
fn apply_playback(graph: Graph, args: &Playback) -> anyhow::Result<Graph> {
    let templates = sources(&graph, &args.videos)?;
    if templates.is_empty() {
        return Err(UserError::new("the graph has no source; give a video").into());
    }
    // As fast as it goes, once: an archive. Nothing is dropped for being late, unless the graph or a rule asks for it.
    let archive = args.speed == Speed::Max && !args.repeat && args.drop.is_none();
    let count = args.streams.map_or(templates.len(), |streams| streams as usize);
    let in_phase = args.in_phase || args.speed == Speed::Max;
    let copies = (0..count).map(|stream| stream / templates.len());
    let streams = templates
        .iter()
        .cycle()
        .zip(copies)
        .map(|(source, copy)| SourceNode {
            joined_at: if in_phase { 0.0 } else { place_of(copy) },
            mode: if archive {
                SourceMode::Lossless
            } else {
                source.mode
            },
            mode_given: archive || source.mode_given,
            repeat: args.repeat,
            ..source.clone()
        });
    let streams = streams.collect();
    Ok(with_unique_names(graph, streams))
}

/// The fraction of a recording that its copy of that number is joined at. Multiples of the golden ratio spread any number of copies
/// evenly; the first begins at the start.
fn place_of(copy: usize) -> f64 {
    (copy as f64 * 0.618_033_988_749_894_9).fract()
}

/// A video as a source; all other keys come from the source that it replaces.
fn source(video: &Path, like: Option<&SourceNode>) -> anyhow::Result<SourceNode> {
    let text = video.to_string_lossy();
    let is_url = text.contains("://");
    if !is_url {
        match video.try_exists() {
            Ok(true) => {}
            Ok(false) => {
                return Err(UserError::new(format!("there is no video {}", video.display())).into());
            }
            Err(error) => {
                let reason = io_reason(&error);
                return Err(
                    UserError::new(format!("cannot read the video {}: {reason}", video.display())).into(),
                );
            }
        }
    }
    let uri = if is_url {
        text.into_owned()
    } else {
        let absolute: PathBuf = std::path::absolute(video).context("the current folder is gone")?;
        absolute.to_string_lossy().into_owned()
    };
    let node = SourceNode::new(stream_name(&uri), uri);
    Ok(match like {
        None => node,
        Some(like) => SourceNode {
            mode: if like.mode_given { like.mode } else { node.mode },
            mode_given: like.mode_given,
            fps: like.fps,
            sample: like.sample,
            decoding: like.decoding,
            slo: like.slo,
            share: like.share,
            ..node
        },
    })
}

/// Name of a stream that plays the video: the last part of the path without its extension. User, password and
/// query of an address are left out, since they may be secrets.
fn stream_name(uri: &str) -> String {
    let masked = weir_flow::mask_credentials(uri);
    let path = match masked.split_once("://") {
        Some((_, rest)) => {
            let rest = rest.split(['?', '#']).next().unwrap_or(rest);
            rest.strip_prefix("***@").unwrap_or(rest)
        }
        None => &masked,
    };
    let stem = Path::new(path).file_stem();
    stem.map_or_else(|| "video".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Names that differ: a second `street` becomes `street-2`.
pub(super) fn unique_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut given: Vec<String> = Vec::new();
    for name in names {
        let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
        let fresh = std::iter::once(name.to_owned())
            .chain(numbered)
            .find(|name| !given.contains(name));
        given.extend(fresh);
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_video_have_names_of_their_own() {
        let names = unique_names(["street", "street", "street-2", "yard"].into_iter());
        assert_eq!(names, ["street", "street-2", "street-2-2", "yard"]);
    }

    #[test]
    fn the_name_of_a_stream_holds_no_credentials() {
        for (uri, name) in [
            ("/videos/street.day.mp4", "street.day"),
            ("rtsp://admin:secret@camera", "camera"),
            ("rtsp://admin:secret@camera/north/1", "1"),
            ("https://host/live/north.m3u8?token=abc", "north"),
            ("rtsp://camera/user=a&password=secret", "user=a&password=***"),
            ("/", "video"),
        ] {
            assert_eq!(stream_name(uri), name, "{uri}");
        }
    }
}
