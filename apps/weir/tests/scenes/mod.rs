//! Sites of cameras as the page sees them, without an engine: a backend of the API whose answers are data. Pictures are those of
//! sample videos, so thirty-two cameras cost no decoding.

mod answers;
mod clips;
mod state;

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use weir_serve::{
    AccessOptions, ApiError, ArchiveExport, ArchiveRange, ArchiveSegment, Backend, BasePath, GraphCheck,
    GraphSave, IncidentChange, IncidentQuery, Kept, LiveKind, LiveMessage, LiveQueue, LiveView,
    MAX_CONNECTIONS, NotReady, PictureRequest, PictureSender, Refusal, SearchQuery, ServeOptions, Server,
    StreamPatch, StreamRequest, Watching,
};

use clips::{Clip, clips};

/// Condition of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// All cameras are live.
    Healthy,
    /// More frames arrive than the machine can process.
    Overloaded,
    /// Half of the cameras are not reached.
    HalfGone,
    /// Nothing can be recorded.
    DiskFull,
    /// The graph file was edited and refused.
    BadFile,
}

/// Names of cameras, short and long ones.
const NAMES: [&str; 32] = [
    "north-gate",
    "south-gate",
    "Parkplatz Einfahrt Süd, hintere Schranke",
    "loading-bay-2",
    "ramp",
    "yard",
    "reception",
    "server-room",
    "dock-1",
    "dock-2",
    "dock-3",
    "crane-east",
    "crane-west",
    "fence-01",
    "fence-02",
    "fence-03",
    "fence-04",
    "fence-05",
    "warehouse-a-aisle-17-upper-level-towards-exit",
    "warehouse-b",
    "warehouse-c",
    "canteen",
    "stairs-1",
    "stairs-2",
    "lift",
    "roof",
    "bicycles",
    "waste",
    "pump-house",
    "quay-left",
    "quay-right",
    "lighthouse",
];

/// Line of the file that [`Condition::BadFile`] refuses.
pub(crate) const BAD_LINE: usize = 12;

const HEAD: &str = r#"[app]
name = "Hafen West"
slo = "1s"

[models.detector]
model = "embedded:street-detector"

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["*"]
"#;

/// See the module.
pub(crate) struct Scene {
    condition: Condition,
    names: Vec<String>,
    incidents: Vec<Value>,
    began: Instant,
    began_ms: u64,
    text: String,
}

#[expect(
    clippy::disallowed_methods,
    reason = "incidents and recordings are of the hours before now"
)]
fn now() -> (Instant, u64) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (Instant::now(), u64::try_from(since.as_millis()).unwrap())
}

impl Scene {
    /// Serves a site with so many cameras on loopback.
    pub(crate) fn serve(condition: Condition, cameras: usize) -> Server {
        let options = ServeOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            access: AccessOptions::default(),
            base_path: BasePath::default(),
            tls: None,
            max_connections: MAX_CONNECTIONS,
        };
        Server::start(
            options,
            Arc::new(Self::new(condition, cameras)) as Arc<dyn Backend>,
        )
        .unwrap()
    }

    fn new(condition: Condition, cameras: usize) -> Self {
        let names: Vec<String> = NAMES[..cameras].iter().map(|name| (*name).to_owned()).collect();
        let (began, began_ms) = now();
        let incidents = answers::incidents(&names, began_ms);
        let text = HEAD.to_owned() + &names.iter().map(|name| answers::table(name)).collect::<String>();
        Self {
            condition,
            names,
            incidents,
            began,
            began_ms,
            text,
        }
    }

    fn is_lost(&self, name: &str) -> bool {
        let index = self.names.iter().position(|other| other == name);
        self.condition == Condition::HalfGone && index.is_some_and(|index| index % 2 == 0)
    }

    fn modules(&self) -> Vec<&'static str> {
        if self.names.is_empty() {
            Vec::new()
        } else {
            vec!["objects", "plates"]
        }
    }

    fn sinks(&self) -> &'static [(&'static str, &'static str)] {
        const ALL: [(&str, &str); 4] = [
            ("events", "jsonl"),
            ("clips", "clips"),
            ("archive", "archive"),
            ("search", "search"),
        ];
        &ALL[..if self.names.is_empty() { 1 } else { ALL.len() }]
    }

    /// Clip that stands for a camera.
    fn clip(&self, name: &str) -> Result<&'static Clip, ApiError> {
        let index = self.names.iter().position(|other| other == name);
        let index = index.ok_or_else(|| refused(Refusal::NotFound, "there is no such stream"))?;
        Ok(&clips()[index % clips().len()])
    }

    /// Picture of an object, by the id `STREAM/...`.
    fn part(&self, id: &str) -> Result<Vec<u8>, ApiError> {
        let stream = id.split('/').next().unwrap_or_default();
        let number: usize = id.bytes().map(usize::from).sum();
        let parts = &self.clip(stream)?.parts;
        Ok(parts[number % parts.len()].clone())
    }
}

fn refused(refusal: Refusal, what: &str) -> ApiError {
    ApiError::new(refusal, what)
}

/// Answer to what pictures of the page do not ask for.
fn unused<T>() -> Result<T, ApiError> {
    Err(refused(Refusal::Unavailable, "a scene has no engine"))
}

impl Backend for Scene {
    fn not_ready(&self) -> Vec<NotReady> {
        Vec::new()
    }

    fn state(&self) -> Result<Arc<str>, ApiError> {
        let state = state::state(self, self.began.elapsed().as_secs_f64());
        Ok(state.to_string().into())
    }

    fn streams(&self) -> Result<Value, ApiError> {
        unused()
    }

    fn drops(&self) -> Result<Value, ApiError> {
        unused()
    }

    fn stream_drops(&self, _name: &str) -> Result<Value, ApiError> {
        Ok(state::drops(self, now().1))
    }

    fn timeline(&self) -> Result<Value, ApiError> {
        Ok(state::timeline(self))
    }

    fn fleet(&self) -> Result<Value, ApiError> {
        Err(refused(Refusal::NotFound, "this engine is in no fleet"))
    }

    fn add_stream(&self, _stream: StreamRequest) -> Result<Kept, ApiError> {
        unused()
    }

    fn remove_stream(&self, _name: &str) -> Result<Value, ApiError> {
        unused()
    }

    fn pause_stream(&self, _name: &str) -> Result<Kept, ApiError> {
        unused()
    }

    fn resume_stream(&self, _name: &str) -> Result<Option<Kept>, ApiError> {
        unused()
    }

    fn change_stream(&self, _name: &str, _change: StreamPatch) -> Result<Kept, ApiError> {
        unused()
    }

    fn watch(&self, name: &str, _view: LiveView, queue: Arc<LiveQueue>) -> Result<Watching, ApiError> {
        let clip = self.clip(name)?;
        let begin = json!({ "type": "video", "mime": clip.mime, "origin_ms": 0.0, "sound": "none" });
        queue.push(&LiveMessage::text(LiveKind::Begin, begin.to_string()));
        queue.push(&LiveMessage::binary(LiveKind::Setup, clip.header.clone()));
        for (index, fragment) in clip.fragments.iter().enumerate() {
            queue.push(&LiveMessage::text(
                LiveKind::Note,
                answers::frame(index).to_string(),
            ));
            let kind = if index == 0 {
                LiveKind::Key
            } else {
                LiveKind::Delta
            };
            queue.push(&LiveMessage::binary(kind, fragment.clone()));
        }
        Ok(Box::new(()))
    }

    fn incidents(&self, query: &IncidentQuery) -> Result<Value, ApiError> {
        Ok(answers::list(self, query))
    }

    fn incident(&self, id: &str) -> Result<Value, ApiError> {
        let known = self.incidents.iter().find(|incident| incident["id"] == id);
        known
            .cloned()
            .ok_or_else(|| refused(Refusal::NotFound, "there is no such incident"))
    }

    fn change_incident(&self, id: &str, _change: IncidentChange) -> Result<Value, ApiError> {
        self.incident(id)
    }

    fn incident_picture(&self, id: &str) -> Result<Vec<u8>, ApiError> {
        self.part(id)
    }

    fn incident_clip(&self, id: &str) -> Result<File, ApiError> {
        let clip = self.clip(id.split('/').next().unwrap_or_default())?;
        Ok(File::open(&clip.file).unwrap())
    }

    fn search(&self, _query: &SearchQuery) -> Result<Value, ApiError> {
        Ok(answers::search(self))
    }

    fn track_picture(&self, id: &str) -> Result<Vec<u8>, ApiError> {
        self.part(id)
    }

    fn archive_cameras(&self) -> Result<Value, ApiError> {
        Ok(answers::archives(self))
    }

    fn archive_segments(&self, stream: &str, range: &ArchiveRange) -> Result<Value, ApiError> {
        Ok(answers::segments(self, self.clip(stream)?, stream, range))
    }

    fn archive_segment(&self, stream: &str, _segment: &str) -> Result<ArchiveSegment, ApiError> {
        let file = File::open(&self.clip(stream)?.file).unwrap();
        let bytes = file.metadata().unwrap().len();
        Ok(ArchiveSegment {
            file,
            bytes,
            unfinished: false,
        })
    }

    fn archive_export(&self, _stream: &str, _range: &ArchiveRange) -> Result<ArchiveExport, ApiError> {
        unused()
    }

    fn incident_stream(&self, id: &str) -> Option<String> {
        id.split('/').next().map(str::to_owned)
    }

    fn policy(&self) -> Result<Value, ApiError> {
        unused()
    }

    fn apply_policy(&self, _keys: Value) -> Result<(), ApiError> {
        unused()
    }

    fn graph(&self) -> Result<Value, ApiError> {
        unused()
    }

    fn apply_graph(&self, _text: String) -> Result<Value, ApiError> {
        unused()
    }

    fn read_graph_file(&self) -> Result<Value, ApiError> {
        Ok(json!({
            "text": self.text, "file": "/etc/weir/graph.toml", "version": "1", "writable": true, "why": null, "can_undo": true,
        }))
    }

    fn check_graph(&self, check: GraphCheck) -> Result<Value, ApiError> {
        Ok(answers::check(self, &check.text))
    }

    fn save_graph(&self, _save: GraphSave) -> Result<Value, ApiError> {
        unused()
    }

    fn undo_graph(&self, _version: &str) -> Result<Value, ApiError> {
        unused()
    }

    fn stream_picture(&self, name: &str) -> Result<Vec<u8>, ApiError> {
        if self.is_lost(name) {
            return Err(refused(Refusal::Unavailable, "the stream delivers no frames now"));
        }
        Ok(self.clip(name)?.picture.clone())
    }

    fn infer(&self, _picture: PictureRequest, _answer: PictureSender) -> Result<(), ApiError> {
        unused()
    }

    fn models(&self) -> Result<Vec<String>, ApiError> {
        unused()
    }

    fn model_trouble(&self, _name: &str) -> Option<String> {
        None
    }

    fn metrics(&self) -> String {
        String::new()
    }
}

/// Length of a clip.
const CLIP: Duration = Duration::from_secs(clips::SECONDS);
