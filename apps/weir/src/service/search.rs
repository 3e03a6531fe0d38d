//! Search of the tracks that the graph stores, as clients ask for it.

use std::collections::BTreeSet;
use std::io;

use serde_json::{Value, json};
use weir_operators::sinks::{SearchFilter, TrackVector};
use weir_serve::{ApiError, Refusal, SearchQuery};

use super::Service;
use super::archives::time;
use super::incidents::bounded;
use super::refusals::pictures_private;
use crate::archives;
use crate::live::Filter;
use crate::lock::lock;
use crate::search::{self, MAX_LIMIT, Question, Tracks, USUAL_LIMIT};

impl Service {
    pub(super) fn search_tracks(&self, query: &SearchQuery) -> Result<Value, ApiError> {
        self.control()?;
        let limit = bounded("limit", query.limit.as_deref(), MAX_LIMIT)?.unwrap_or(USUAL_LIMIT);
        let cameras = query.cameras.as_deref().unwrap_or_default().split(',');
        let cameras = cameras.map(str::trim).filter(|camera| !camera.is_empty());
        let filter = SearchFilter {
            visible: query.visible.clone(),
            hidden: self.private_streams(None),
            streams: cameras.map(str::to_owned).collect(),
            class: query.class.clone(),
            from_ms: time("from", query.from.as_deref())?,
            to_ms: time("to", query.to.as_deref())?,
        };
        let Some(tracks) = self.stored_tracks() else {
            return Ok(search::none_stored());
        };
        let question = match (&query.text, &query.like) {
            (_, Some(like)) => self.question_like(&tracks, like, &filter)?,
            (Some(text), None) if !text.trim().is_empty() => Question::Text {
                text: text.clone(),
                known: self.tracks_with_text(text, &filter),
            },
            _ => Question::Newest,
        };
        let found = search::answer(&tracks, (&question, &filter), limit, &self.text_encoders);
        let mut found = found.map_err(|error| unreadable(&error))?;
        self.add_incidents(&mut found);
        Ok(found)
    }

    pub(super) fn picture_of_track(&self, id: &str) -> Result<Vec<u8>, ApiError> {
        self.control()?;
        let (stream, track) = search::parse_id(id).ok_or_else(no_track)?;
        if self.private_streams(Some(&stream)).contains(&stream) {
            return Err(pictures_private(&stream));
        }
        let picture = self
            .stored_tracks()
            .map(|tracks| tracks.reader.picture(&stream, track));
        let picture = picture.transpose().map_err(|error| unreadable(&error))?;
        picture.flatten().ok_or_else(no_track)
    }

    fn stored_tracks(&self) -> Option<Tracks> {
        Tracks::of_graph(&lock(&self.loaded).as_ref()?.graph)
    }

    /// Cameras whose tracks no client is shown, or the one of that name if it is such a camera.
    fn private_streams(&self, only: Option<&str>) -> BTreeSet<String> {
        let streams = self.snapshot().map(|snapshot| {
            let names = snapshot.streams.iter().map(|stream| stream.name.clone());
            names.collect::<BTreeSet<String>>()
        });
        let mut names = streams.unwrap_or_default();
        let loaded = lock(&self.loaded);
        let Some(loaded) = &*loaded else { return names };
        names.extend(loaded.graph.sources().iter().map(|source| source.name.clone()));
        names
            .retain(|name| only.is_none_or(|only| only == name) && archives::is_private(&loaded.graph, name));
        names
    }

    /// The question for tracks that look like a track, or like the track of an incident.
    fn question_like(
        &self,
        tracks: &Tracks,
        like: &str,
        filter: &SearchFilter,
    ) -> Result<Question, ApiError> {
        let of_incident = self.live.incidents.track(like);
        let track = of_incident
            .or_else(|| search::parse_id(like))
            .ok_or_else(no_track)?;
        if !filter.shows(&track.0) {
            return Err(match filter.hidden.contains(&track.0) {
                true => pictures_private(&track.0),
                false => ApiError::new(
                    Refusal::Forbidden,
                    format!("the camera {} is not shown to this client", track.0),
                ),
            });
        }
        let vector = tracks.reader.vector_of(&track.0, track.1);
        match vector.map_err(|error| unreadable(&error))? {
            TrackVector::NoTrack => Err(no_track()),
            TrackVector::NoVector => {
                let error = ApiError::new(
                    Refusal::NotFound,
                    "the track has no vector, so nothing can be compared with it",
                );
                Err(error
                    .hint("the module that `embed` of the sink names embeds the classes of its `regions`"))
            }
            TrackVector::Found(vector) => Ok(Question::Like {
                vector,
                track: Some(track),
            }),
        }
    }

    /// Tracks of incidents that have a text.
    fn tracks_with_text(&self, text: &str, filter: &SearchFilter) -> BTreeSet<(String, u64)> {
        self.live.incidents.tracks(&Filter {
            cameras: filter.visible.clone(),
            text: Some(text.trim().to_owned()),
            ..Filter::default()
        })
    }

    /// Adds the ids of the incidents of each track.
    fn add_incidents(&self, found: &mut Value) {
        let Some(results) = found["results"].as_array_mut() else {
            return;
        };
        let key = |result: &Value| Some((result["stream"].as_str()?.to_owned(), result["track"].as_u64()?));
        let tracks: BTreeSet<(String, u64)> = results.iter().filter_map(key).collect();
        let incidents = self.live.incidents.of_tracks(&tracks);
        for result in results {
            if let Some(ids) = key(result).and_then(|track| incidents.get(&track)) {
                result["incidents"] = json!(ids);
            }
        }
    }
}

fn no_track() -> ApiError {
    let error = ApiError::new(Refusal::NotFound, "there is no such track, or it has no picture");
    error.hint("GET /api/search lists tracks with their ids, STREAM/NUMBER; one that goes on is stored after a minute")
}

fn unreadable(error: &io::Error) -> ApiError {
    tracing::warn!("the stored tracks cannot be read: {error}");
    let what = format!(
        "the stored tracks cannot be read: {}",
        weir_files::io_reason(error)
    );
    ApiError::new(Refusal::Failed, what)
}
