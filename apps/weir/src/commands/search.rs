//! `weir search`: tracks by words, by their meaning, and by their looks, from an engine or from the disk.

use std::collections::BTreeSet;
use std::path::Path;

use comfy_table::{Table, presets};
use serde_json::Value;
use weir_graph::Graph;
use weir_operators::sinks::{SearchFilter, TrackVector};

use super::streams::percent_encoded;
use crate::api_client::Client;
use crate::archives;
use crate::args::Search;
use crate::catalog;
use crate::error::UserError;
use crate::output;
use crate::printable::line;
use crate::search::{self, Question, TextEncoders, Tracks, embed_picture};
use crate::times;
use crate::zoo::Zoo;

/// Prints the tracks that are found.
///
/// # Errors
/// An engine that is not reached, what it refuses, and files that cannot be read.
pub(crate) fn search(args: &Search, zoo: &Zoo) -> anyhow::Result<()> {
    let found = match &args.graph {
        Some(graph) => from_disk(args, graph, zoo)?,
        None => from_engine(args)?,
    };
    if args.json {
        output::say(&serde_json::to_string_pretty(&found)?)?;
        return Ok(());
    }
    remark_unavailable(args, &found)?;
    output::say(&table(&found))?;
    Ok(())
}

fn from_engine(args: &Search) -> anyhow::Result<Value> {
    if let Some(picture) = args.like.as_ref().filter(|like| Path::new(like).is_file()) {
        let message =
            format!("{picture}: a picture is compared with what is on the disk: give --graph GRAPH.toml");
        return Err(UserError::new(message).into());
    }
    let mut query = vec![("limit", args.limit.to_string())];
    let cameras = (!args.cameras.is_empty()).then(|| args.cameras.join(","));
    let texts = [
        ("text", &args.text),
        ("like", &args.like),
        ("cameras", &cameras),
        ("class", &args.class),
    ];
    query.extend(
        texts
            .into_iter()
            .filter_map(|(key, text)| Some((key, text.clone()?))),
    );
    let times = [("from", args.from), ("to", args.to)];
    query.extend(
        times
            .into_iter()
            .filter_map(|(key, time)| Some((key, time?.to_string()))),
    );
    let query: Vec<String> = query
        .iter()
        .map(|(key, text)| format!("{key}={}", percent_encoded(text)))
        .collect();
    let client = Client::new(&args.at, args.token_file.as_deref())?;
    client.ask("GET", &format!("/api/search?{}", query.join("&")), None)
}

fn from_disk(args: &Search, path: &Path, zoo: &Zoo) -> anyhow::Result<Value> {
    let graph = catalog::load(path, zoo)?;
    let none = || {
        let none = search::none_stored();
        let text = |key: &str| none[key].as_str().unwrap_or_default().to_owned();
        UserError::new(format!("{}: {}; {}", path.display(), text("why"), text("hint")))
    };
    let tracks = Tracks::of_graph(&graph).ok_or_else(none)?;
    let filter = SearchFilter {
        visible: None,
        hidden: private_streams(&graph),
        streams: args.cameras.iter().cloned().collect(),
        class: args.class.clone(),
        from_ms: args.from,
        to_ms: args.to,
    };
    let question = match (&args.text, &args.like) {
        (_, Some(like)) => question_like(&tracks, (&graph, zoo), like, &filter)?,
        (Some(text), None) => Question::Text {
            text: text.clone(),
            known: BTreeSet::new(),
        },
        (None, None) => Question::Newest,
    };
    let limit = usize::try_from(args.limit).unwrap_or(search::MAX_LIMIT);
    let found = search::answer(&tracks, (&question, &filter), limit, &TextEncoders::default());
    Ok(found
        .map_err(|error| UserError::new(format!("{}: {}", path.display(), weir_files::io_reason(&error))))?)
}

/// The question for tracks that look like a picture, if there is such a file, or like a track.
fn question_like(
    tracks: &Tracks,
    (graph, zoo): (&Graph, &Zoo),
    like: &str,
    filter: &SearchFilter,
) -> anyhow::Result<Question> {
    if Path::new(like).is_file() {
        let vector = embed_picture(graph, Path::new(like), zoo)?;
        return Ok(Question::Like { vector, track: None });
    }
    let none = |why: &str| UserError::new(format!("{like}: {why}"));
    let track =
        search::parse_id(like).ok_or_else(|| none("this is neither a file nor a track, STREAM/NUMBER"))?;
    if !filter.shows(&track.0) {
        return Err(none("the camera is private").into());
    }
    match tracks.reader.vector_of(&track.0, track.1)? {
        TrackVector::NoTrack => Err(none("there is no such track").into()),
        TrackVector::NoVector => {
            Err(none("the track has no vector, so nothing can be compared with it").into())
        }
        TrackVector::Found(vector) => Ok(Question::Like {
            vector,
            track: Some(track),
        }),
    }
}

fn private_streams(graph: &Graph) -> BTreeSet<String> {
    let names = graph.sources().iter().map(|source| source.name.clone());
    names.filter(|name| archives::is_private(graph, name)).collect()
}

/// Reports ways to search that the question wanted and that do not work.
fn remark_unavailable(args: &Search, found: &Value) -> anyhow::Result<()> {
    let of = |of: &Value| {
        let text = |key: &str| line(of[key].as_str().unwrap_or_default()).to_string();
        format!("{}; {}", text("why"), text("hint"))
    };
    if found["available"] == false {
        return Err(UserError::new(of(found)).into());
    }
    if args.text.is_some() && found["meaning"]["available"] == false {
        output::remark(&format!("only texts are searched: {}", of(&found["meaning"])));
    }
    Ok(())
}

/// The tracks of an answer, a line each.
fn table(found: &Value) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["track", "time", "for", "class", "similarity", "attributes"]);
    for track in found["results"].as_array().into_iter().flatten() {
        let text = |key: &str| line(track[key].as_str().unwrap_or_default()).to_string();
        let time = |key: &str| track[key].as_u64().unwrap_or(0);
        let seconds = time("time_ms").saturating_sub(time("began_ms")) / 1_000;
        let attributes = track["attributes"].as_object().into_iter().flatten();
        let attributes: Vec<String> = attributes
            .map(|(name, value)| format!("{}={}", line(name), line(value.as_str().unwrap_or_default())))
            .collect();
        table.add_row([
            text("id"),
            times::shown(time("began_ms")),
            format!("{seconds} s"),
            text("class"),
            track["similarity"]
                .as_f64()
                .map_or_else(|| "-".to_owned(), |similarity| format!("{similarity:.3}")),
            attributes.join(" "),
        ]);
    }
    format!("{}\n{} tracks compared", table.trim_fmt(), found["compared"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tracks_are_lines_without_characters_that_a_terminal_obeys() {
        let found = json!({
            "compared": 2,
            "results": [
                { "id": "north/7", "class": "car\u{1b}", "began_ms": 0, "time_ms": 2_500, "similarity": 0.25,
                  "attributes": { "plate": "WR 123" } },
                { "id": "north/8", "class": "car", "began_ms": 0, "time_ms": 0, "similarity": null, "attributes": {} },
            ],
        });
        let table = table(&found);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(
            lines[1].contains("1970-01-01T00:00:00") && lines[1].contains("2 s"),
            "{table}"
        );
        assert!(
            lines[1].contains("0.250") && lines[1].contains("plate=WR 123"),
            "{table}"
        );
        assert!(!table.contains('\u{1b}'), "{table}");
    }
}
