//! The interface of the engine that the API calls, with the bodies of its requests.

use std::any::Any;
use std::fs::File;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::archive::{ArchiveExport, ArchiveRange, ArchiveSegment};
use crate::error::{ApiError, Refusal};
use crate::incidents::{IncidentChange, IncidentQuery};
use crate::infer::{PictureRequest, PictureSender};
use crate::kept::Kept;
use crate::limits::{MAX_HOST_BYTES, MAX_LOGIN_BYTES};
use crate::live_queue::{LiveQueue, LiveView};
use crate::search::SearchQuery;

/// A stream as a client describes it, by some of the keys of `[sources.NAME]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    /// Name of the stream, unique in the engine.
    pub name: String,
    /// Address of the camera or recording, as `uri` of a source in a graph file.
    pub uri: String,
    /// The address of a smaller stream of the same pictures that its frames come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detect_uri: Option<String>,
    /// `live` or `lossless`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Frames a second of a source that does not carry its rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fps: Option<f64>,
    /// Frames a second that are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<FrameRate>,
    /// Whether a recording begins again at its end.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub repeat: Option<bool>,
    /// Share of the frames that is decoded under overload: `all` or `as-needed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode: Option<String>,
    /// Gate of its frames, as in a graph file: `motion` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Device that decodes it, as in a graph file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoder: Option<String>,
    /// Transport of a camera at an `rtsp://` address: `tcp` or `udp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// User of the camera or the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// File of the engine with the password of the user: one that the graph names itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,
    /// Its own latency objective, with its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<String>,
    /// Its weight under overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Frames a second that are reserved for it under overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<f64>,
    /// Group of cameras that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The source of the graph whose inputs it shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
}

/// A rate of frames: a number of frames a second, or a text with its unit, as in a graph file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FrameRate {
    /// Frames a second.
    PerSecond(f64),
    /// A rate with its unit, such as `"5fps"`.
    Text(String),
}

/// A search for cameras.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoverRequest {
    /// Host of one device, with its port if it is not the usual one; absent: the networks of the engine are searched.
    #[serde(default)]
    pub address: Option<String>,
    /// User of the cameras; given with `password` only.
    #[serde(default)]
    pub user: Option<String>,
    /// Password of the user; given with `user` only.
    #[serde(default)]
    pub password: Option<String>,
}

impl DiscoverRequest {
    /// Checks the lengths of the address and the login.
    ///
    /// # Errors
    /// [`ApiError`] that names the key which is too long.
    pub(crate) fn check_lengths(&self) -> Result<(), ApiError> {
        let texts = [
            ("address", &self.address, MAX_HOST_BYTES),
            ("user", &self.user, MAX_LOGIN_BYTES),
            ("password", &self.password, MAX_LOGIN_BYTES),
        ];
        for (key, text, max) in texts {
            if text.as_ref().is_some_and(|text| text.len() > max) {
                let what = format!("`{key}` is longer than {max} bytes");
                return Err(ApiError::new(Refusal::Invalid, what));
            }
        }
        Ok(())
    }
}

/// Change of a stream by a client. Absent keys keep their values; `null` removes a value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamPatch {
    /// Its own latency objective, with its unit; `null`: the graph's.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub slo: Option<Option<String>>,
    /// Its weight under overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Frames a second that are reserved for it under overload; `null`: none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub reserve: Option<Option<f64>>,
}

/// The text of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphRequest {
    /// Text of the graph, as in a graph file.
    pub(crate) text: String,
}

/// A text of a graph that is checked, with edits that are made in it before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphCheck {
    /// Text of the graph, as in a graph file. Secrets that are masked in it stand for those of the file.
    pub text: String,
    /// Edits of single keys, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<GraphEdit>,
}

/// Edit of one key in the text of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphEdit {
    /// Names from the top-level table to the key, such as `["cameras", "door", "zones", "porch"]`.
    pub path: Vec<String>,
    /// Value of the key; absent or `null`: the key is removed.
    #[serde(default)]
    pub value: Value,
}

/// A text for the graph file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSave {
    /// The whole text. Secrets that are masked in it keep their values.
    pub text: String,
    /// Version of the file that was edited.
    pub version: String,
}

/// Version of the graph file that a client has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphUndo {
    pub(crate) version: String,
}

/// A key that is there, even if it is `null`.
#[expect(clippy::option_option, reason = "not given, taken away, and set are three")]
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// A component that keeps the engine from being ready, or that fails while the engine is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotReady {
    /// Name of the part that is not ready: the engine, a stream, or a sink.
    pub what: String,
    /// Reason, as a text for people.
    pub why: String,
}

/// Ends what is shown to a watcher when it is dropped.
pub type Watching = Box<dyn Any + Send>;

/// The engine, as the API sees it. Methods may block: each call runs on a thread for blocking work.
pub trait Backend: Send + Sync + 'static {
    /// Returns the components that are not ready; the list is empty if the engine is ready.
    fn not_ready(&self) -> Vec<NotReady>;
    /// Parts that fail while the engine is ready, such as a camera that is dark, or a sink whose disk is full.
    fn degraded(&self) -> Vec<NotReady> {
        Vec::new()
    }
    /// The state of the engine, an object of JSON.
    ///
    /// # Errors
    /// Where the engine does not run.
    fn state(&self) -> Result<Arc<str>, ApiError>;
    /// The streams, a list of objects.
    ///
    /// # Errors
    /// As [`Backend::state`].
    fn streams(&self) -> Result<Value, ApiError>;
    /// Drops by module and reason, a list of objects.
    ///
    /// # Errors
    /// As [`Backend::state`].
    fn drops(&self) -> Result<Value, ApiError>;
    /// Frames of a stream that were not delivered, the newest first, a list of objects.
    ///
    /// # Errors
    /// There is no such stream.
    fn stream_drops(&self, name: &str) -> Result<Value, ApiError>;
    /// Returns the work of slots and the bookings of shares and links over the last seconds, as an object.
    ///
    /// # Errors
    /// As [`Backend::state`].
    fn timeline(&self) -> Result<Value, ApiError>;
    /// The fleet that shares the streams of the graph, an object.
    ///
    /// # Errors
    /// As [`Backend::state`], and where the engine is in none.
    fn fleet(&self) -> Result<Value, ApiError>;
    /// Adds a stream; gives where it is kept for the next start.
    ///
    /// # Errors
    /// The stream is invalid, its name is taken, or the engine cannot take it now.
    fn add_stream(&self, stream: StreamRequest) -> Result<Kept, ApiError>;
    /// Searches for cameras; gives the devices that answered with the addresses of their streams, an object.
    ///
    /// # Errors
    /// Clients may not search, another search runs, the login is incomplete, or the search cannot be sent.
    fn discover(&self, _request: &DiscoverRequest) -> Result<Value, ApiError> {
        Err(ApiError::new(
            Refusal::Unavailable,
            "this engine searches for no cameras",
        ))
    }
    /// Removes a stream; gives what it came to, with where that is kept as `kept`.
    ///
    /// # Errors
    /// There is no such stream, or it may not be removed.
    fn remove_stream(&self, name: &str) -> Result<Value, ApiError>;
    /// Pauses a stream; gives where that is kept.
    ///
    /// # Errors
    /// There is no such stream, or it may not be paused.
    fn pause_stream(&self, name: &str) -> Result<Kept, ApiError>;
    /// Resumes a stream; gives where that is kept, unless it was not kept that the stream was paused.
    ///
    /// # Errors
    /// There is no such stream, or it may not be resumed.
    fn resume_stream(&self, name: &str) -> Result<Option<Kept>, ApiError>;
    /// Changes the objective or the share of a stream; gives where that is kept.
    ///
    /// # Errors
    /// There is no such stream, or the change is invalid.
    fn change_stream(&self, name: &str, change: StreamPatch) -> Result<Kept, ApiError>;
    /// Shows a stream as it is now: messages enter the queue until what this gives is dropped.
    ///
    /// # Errors
    /// There is no such stream.
    fn watch(&self, name: &str, view: LiveView, queue: Arc<LiveQueue>) -> Result<Watching, ApiError>;
    /// Returns incidents by filters, the newest first, as an object with the list `incidents`.
    ///
    /// # Errors
    /// As [`Backend::state`], and of a value of the query that cannot be read.
    fn incidents(&self, query: &IncidentQuery) -> Result<Value, ApiError>;
    /// Returns the incident of that id, an object.
    ///
    /// # Errors
    /// There is no such incident.
    fn incident(&self, id: &str) -> Result<Value, ApiError>;
    /// Marks an incident as seen or pinned, or as neither; gives the incident.
    ///
    /// # Errors
    /// There is no such incident, or too many are pinned.
    fn change_incident(&self, id: &str, change: IncidentChange) -> Result<Value, ApiError>;
    /// The picture of the incident of that id, a JPEG.
    ///
    /// # Errors
    /// There is no such incident, or it has no picture.
    fn incident_picture(&self, id: &str) -> Result<Vec<u8>, ApiError>;
    /// Returns the clip of the incident `id`: video of its camera from around the incident, as an MP4 file.
    ///
    /// # Errors
    /// There is no such incident, or no clip of it; the clip cannot be read.
    fn incident_clip(&self, id: &str) -> Result<File, ApiError>;
    /// Returns tracks that a query finds, as an object with the list `results`. Without a store of tracks, the object says why.
    ///
    /// # Errors
    /// As [`Backend::state`], of a value of the query that cannot be read, and of a track that is not there or has no vector.
    fn search(&self, query: &SearchQuery) -> Result<Value, ApiError>;
    /// The picture of a track by its id `STREAM/NUMBER`, a JPEG.
    ///
    /// # Errors
    /// There is no such track, it has no picture, or its camera is private.
    fn track_picture(&self, id: &str) -> Result<Vec<u8>, ApiError>;
    /// Returns the cameras of archives and the times that they were recorded, as an object with the list `cameras`.
    ///
    /// # Errors
    /// As [`Backend::state`]; the archives cannot be read.
    fn archive_cameras(&self) -> Result<Value, ApiError>;
    /// Returns the segments and the gaps of a camera in a range of time, as an object.
    ///
    /// # Errors
    /// There is no such camera, its video is withheld, or nothing was recorded in the range; the range is invalid.
    fn archive_segments(&self, stream: &str, range: &ArchiveRange) -> Result<Value, ApiError>;
    /// Returns the file of the segment of that id of a camera.
    ///
    /// # Errors
    /// There is no such camera or segment, or the video of the camera is withheld.
    fn archive_segment(&self, stream: &str, segment: &str) -> Result<ArchiveSegment, ApiError>;
    /// Returns a range of time of a camera as one MP4.
    ///
    /// # Errors
    /// As [`Backend::archive_segments`]; the range is too long, or the camera sent several sizes in it.
    fn archive_export(&self, stream: &str, range: &ArchiveRange) -> Result<ArchiveExport, ApiError>;
    /// Returns the stream of the incident `id`; `None` if there is no such incident.
    fn incident_stream(&self, id: &str) -> Option<String>;
    /// The policy in force, an object.
    ///
    /// # Errors
    /// As [`Backend::state`].
    fn policy(&self) -> Result<Value, ApiError>;
    /// Puts another policy into force, by the keys of `[policy]`.
    ///
    /// # Errors
    /// The keys are invalid, or the policy cannot be changed while the engine runs.
    fn apply_policy(&self, keys: Value) -> Result<(), ApiError>;
    /// The graph in force, an object.
    ///
    /// # Errors
    /// As [`Backend::state`].
    fn graph(&self) -> Result<Value, ApiError>;
    /// Puts the graph of a text into force; gives what was changed.
    ///
    /// # Errors
    /// Everything that is wrong with it; nothing was changed then.
    fn apply_graph(&self, text: String) -> Result<Value, ApiError>;
    /// The text of the graph file with its secrets masked, its version, and whether it can be saved, as an object.
    ///
    /// # Errors
    /// The graph has no file, or the file cannot be read.
    fn read_graph_file(&self) -> Result<Value, ApiError>;
    /// Checks a text for the graph file without opening anything; gives the edited text and all problems, as an object.
    ///
    /// # Errors
    /// An edit cannot be made.
    fn check_graph(&self, check: GraphCheck) -> Result<Value, ApiError>;
    /// Puts a text into force and into the graph file; gives what was changed and the new version.
    ///
    /// # Errors
    /// The file has changed since `version`, cannot be written, or the text is refused; the file is as it was then.
    fn save_graph(&self, save: GraphSave) -> Result<Value, ApiError>;
    /// Puts the text before the last save into force and into the file, if the file still has that `version`.
    ///
    /// # Errors
    /// As [`Backend::save_graph`], and where nothing was saved.
    fn undo_graph(&self, version: &str) -> Result<Value, ApiError>;
    /// The newest picture of a stream, a JPEG. It waits for a frame if none was shown in the last second.
    ///
    /// # Errors
    /// There is no such stream, or no picture of it may be shown or arrives.
    fn stream_picture(&self, name: &str) -> Result<Vec<u8>, ApiError>;
    /// Takes a picture through the modules of the graph. `answer` receives its objects, which may be after this
    /// returned.
    ///
    /// # Errors
    /// There is no such picture or source, or too much waits.
    fn infer(&self, picture: PictureRequest, answer: PictureSender) -> Result<(), ApiError>;
    /// Returns the names of the modules that take frames, which clients of the KServe protocol know as models.
    ///
    /// # Errors
    /// As [`Backend::state`].
    fn models(&self) -> Result<Vec<String>, ApiError>;
    /// Returns the reason why pictures cannot pass one of [`Backend::models`] now; `None` if they can.
    fn model_trouble(&self, name: &str) -> Option<String>;
    /// Metrics in the text format of Prometheus.
    fn metrics(&self) -> String;
}
