//! Search of the tracks that a sink of the type `search` stored: for the API while the engine runs, and for `weir search` from the disk.

mod embedder;
mod model;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};
use weir_graph::{Graph, SinkNode};
use weir_operators::TextEncoder;
use weir_operators::sinks::{
    Findings, FoundTrack, QueryVector, SearchBy, SearchFilter, SearchReader, SearchWords, TextEncoderFiles,
};

use crate::lock::lock;
pub(crate) use embedder::embed_picture;
pub(crate) use model::add_model;

/// Type of the sinks that store tracks.
pub(crate) const SINK: &str = "search";

/// Tracks of a search that names no number, on the command line as of clients.
pub(crate) const USUAL_LIMIT: usize = weir_serve::DEFAULT_FOUND_TRACKS;

/// Tracks of a search at most.
pub(crate) const MAX_LIMIT: usize = weir_serve::MAX_FOUND_TRACKS;

/// The sink of a graph that stores tracks.
pub(crate) fn sink_of(graph: &Graph) -> Option<&SinkNode> {
    graph.sinks().iter().find(|sink| sink.kind == SINK)
}

/// The stored tracks of a graph, and the text encoder that belongs to their pictures.
#[derive(Debug, Clone)]
pub(crate) struct Tracks {
    pub(crate) reader: SearchReader,
    /// Name of the sink.
    name: String,
    /// Whether tracks have vectors.
    has_vectors: bool,
    text: Option<TextEncoderFiles>,
}

impl Tracks {
    /// Those of a graph; `None` if it has no such sink.
    pub(crate) fn of_graph(graph: &Graph) -> Option<Self> {
        let sink = sink_of(graph)?;
        Some(Self {
            reader: SearchReader::new(Path::new(sink.settings.text("path")?)),
            name: sink.name.clone(),
            has_vectors: sink.settings.text(weir_operators::sinks::EMBED).is_some(),
            text: TextEncoderFiles::of_sink(&sink.settings),
        })
    }

    /// Reason why tracks have no vectors, and what to do; `None` if they have.
    fn no_vectors(&self) -> Option<Unavailable> {
        (!self.has_vectors).then(|| Unavailable {
            why: format!(
                "the sink \"{}\" names no module whose embeddings it stores",
                self.name
            ),
            hint: "add embed = \"MODULE\" to it, a module with operator = \"embed\" and vector = true"
                .to_owned(),
        })
    }

    /// Reason why words have no meaning, and what to do; `None` if they may have.
    fn no_meaning(&self) -> Option<Unavailable> {
        self.no_vectors().or_else(|| {
            self.text.is_none().then(|| Unavailable {
                why: format!("the sink \"{}\" names no text encoder", self.name),
                hint: "add text_model and tokenizer to it, of the model whose pictures are embedded"
                    .to_owned(),
            })
        })
    }
}

/// A way to search that does not work.
#[derive(Debug, Clone)]
struct Unavailable {
    why: String,
    hint: String,
}

impl Unavailable {
    fn json(unavailable: Option<&Self>) -> Value {
        match unavailable {
            None => json!({ "available": true }),
            Some(Self { why, hint }) => json!({ "available": false, "why": why, "hint": hint }),
        }
    }
}

/// The answer for a graph without a sink that stores tracks.
pub(crate) fn none_stored() -> Value {
    let none = Unavailable {
        why: "the graph has no sink of the type search".to_owned(),
        hint: "add [sinks.search] with type = \"search\", path = \"FOLDER\" and inputs = [\"TRACKS\", \"PICTURES\"]"
            .to_owned(),
    };
    let way = || Unavailable::json(Some(&none));
    json!({
        "available": false,
        "why": none.why,
        "hint": none.hint,
        "words": way(),
        "meaning": way(),
        "like": way(),
        "results": [],
        "compared": 0,
        "other_model": 0,
        "kept": { "tracks": 0, "bytes": 0 },
        "names": { "streams": [], "classes": [] },
    })
}

/// The question of a search.
pub(crate) enum Question {
    /// The newest tracks.
    Newest,
    /// Tracks with words in their texts, and tracks whose pictures look as a text says. `known`: tracks with the words in other texts.
    Text {
        text: String,
        known: BTreeSet<(String, u64)>,
    },
    /// Tracks that look like a vector, without the track that it is of.
    Like {
        vector: QueryVector,
        track: Option<(String, u64)>,
    },
}

/// The open text encoder, with the files that it was opened from.
#[derive(Default)]
pub(crate) struct TextEncoders(Mutex<Option<(TextEncoderFiles, TextEncoder)>>);

impl TextEncoders {
    /// The vector of a text. The encoder is opened by its first text, and stays open.
    fn encode(&self, files: &TextEncoderFiles, text: &str) -> Result<Vec<f32>, String> {
        let mut open = lock(&self.0);
        if open.as_ref().is_none_or(|(of, _)| of != files) {
            *open = None;
            let encoder = TextEncoder::open(&files.model, &files.tokenizer, files.length)?;
            *open = Some((files.clone(), encoder));
        }
        match open.as_mut() {
            Some((_, encoder)) => encoder.encode(text),
            None => Err("the text encoder is not open".to_owned()),
        }
    }
}

/// Answers a question about the tracks of a filter, as clients get it.
///
/// # Errors
/// The files cannot be read.
pub(crate) fn answer(
    tracks: &Tracks,
    (question, filter): (&Question, &SearchFilter),
    limit: usize,
    encoders: &TextEncoders,
) -> io::Result<Value> {
    let mut no_meaning = tracks.no_meaning();
    let (findings, results) = match question {
        Question::Newest => {
            let findings = tracks.reader.search(filter, SearchBy::Time, limit)?;
            let results = shown(&findings.tracks, "newest");
            (findings, results)
        }
        Question::Like { vector, track } => {
            // One more: the track itself is the most similar.
            let mut findings = tracks
                .reader
                .search(filter, SearchBy::Vector(vector), limit + 1)?;
            findings
                .tracks
                .retain(|found| track.as_ref() != Some(&key(found)));
            findings.tracks.truncate(limit);
            let results = shown(&findings.tracks, "picture");
            (findings, results)
        }
        Question::Text { text, known } => {
            let words = SearchWords {
                tracks: known.clone(),
                ..SearchWords::of(text)
            };
            let mut findings = tracks.reader.search(filter, SearchBy::Words(&words), limit)?;
            let mut results = shown(&findings.tracks, "words");
            let vector = tracks.text.as_ref().filter(|_| no_meaning.is_none());
            if let Some(files) = vector {
                match by_meaning(tracks, (files, encoders), text, (filter, limit))? {
                    Ok(found) => {
                        let by_words: BTreeSet<(String, u64)> = findings.tracks.iter().map(key).collect();
                        let others = found
                            .tracks
                            .iter()
                            .filter(|found| !by_words.contains(&key(found)));
                        let others: Vec<FoundTrack> = others.cloned().collect();
                        results.extend(shown(&others, "picture"));
                        results.truncate(limit);
                        findings.compared = findings.compared.max(found.compared);
                        findings.other_model = found.other_model;
                    }
                    Err(why) => {
                        let hint = "check text_model, tokenizer and text_length of the sink".to_owned();
                        no_meaning = Some(Unavailable { why, hint });
                    }
                }
            }
            (findings, results)
        }
    };
    let mut kept = json!({ "tracks": findings.visible, "bytes": findings.bytes });
    if let Some((from_ms, to_ms)) = findings.extent_ms {
        kept["from_ms"] = from_ms.into();
        kept["to_ms"] = to_ms.into();
    }
    Ok(json!({
        "available": true,
        "words": Unavailable::json(None),
        "meaning": Unavailable::json(no_meaning.as_ref()),
        "like": Unavailable::json(tracks.no_vectors().as_ref()),
        "results": results,
        "compared": findings.compared,
        "other_model": findings.other_model,
        "kept": kept,
        "names": { "streams": findings.streams, "classes": findings.classes },
    }))
}

/// Tracks whose pictures look as a text says; or the reason why that cannot be found out.
fn by_meaning(
    tracks: &Tracks,
    (files, encoders): (&TextEncoderFiles, &TextEncoders),
    text: &str,
    (filter, limit): (&SearchFilter, usize),
) -> io::Result<Result<Findings, String>> {
    let Some(model) = tracks.reader.newest_model()? else {
        return Ok(Err("no track has been stored with a vector".to_owned()));
    };
    let numbers = match encoders.encode(files, text) {
        Ok(numbers) => numbers,
        Err(why) => return Ok(Err(why)),
    };
    let count = numbers.len();
    let vector = QueryVector { numbers, model };
    let found = tracks.reader.search(filter, SearchBy::Vector(&vector), limit)?;
    if found.compared == 0 && found.other_model > 0 {
        let why = format!(
            "the text encoder gives {count} numbers, and the vectors of the pictures have another length: it belongs to another model"
        );
        return Ok(Err(why));
    }
    Ok(Ok(found))
}

fn key(found: &FoundTrack) -> (String, u64) {
    (found.record.stream.clone(), found.record.track)
}

/// Tracks as clients see them, each once.
fn shown(tracks: &[FoundTrack], by: &str) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let tracks = tracks.iter().filter(|found| seen.insert(key(found)));
    tracks
        .map(|found| {
            let mut shown = json!(found.record);
            shown["id"] = id(&found.record.stream, found.record.track).into();
            shown["picture_ms"] = json!(found.record.picture_ms);
            shown["incidents"] = json!([]);
            shown["has_picture"] = found.has_picture.into();
            shown["by"] = by.into();
            shown["similarity"] = json!(found.similarity);
            shown
        })
        .collect()
}

/// Id of a track.
fn id(stream: &str, track: u64) -> String {
    format!("{stream}/{track}")
}

/// The stream and the number in the id of a track; `None` if it is none.
pub(crate) fn parse_id(id: &str) -> Option<(String, u64)> {
    let (stream, track) = id.rsplit_once('/')?;
    Some((stream.to_owned(), track.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_a_track_is_its_stream_and_number() {
        assert_eq!(parse_id(&id("north", 7)), Some(("north".to_owned(), 7)));
        assert_eq!(parse_id("a/b/7"), Some(("a/b".to_owned(), 7)));
        for wrong in [
            "",
            "north",
            "north/",
            "north/x",
            "north/-1",
            "north/99999999999999999999",
        ] {
            assert_eq!(parse_id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_graph_without_a_store_says_what_to_add() {
        let none = none_stored();
        assert_eq!(
            (&none["available"], &none["results"]),
            (&json!(false), &json!([]))
        );
        assert!(
            none["hint"].as_str().unwrap().contains("type = \"search\""),
            "{none}"
        );
    }
}
