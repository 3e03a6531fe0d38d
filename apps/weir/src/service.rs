//! The engine behind the API: the state and the actions that requests use.

mod allowed;
mod archives;
mod discovery;
mod edit_rights;
mod graph_file;
mod incidents;
mod keeping;
mod masked_text;
mod ready;
mod recorded_metrics;
mod refusals;
mod search;
pub(crate) mod secrets;
mod stream_keys;
mod stream_picture;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use serde::Serialize;
use serde_json::{Value, json as to_value};
use toml::Table;
use weir_flow::is_of_single_pictures;
use weir_graph::{Graph, SourceNode};
use weir_operators::sinks::SegmentCache;
use weir_runtime::{Assembly, Control, Progress, Snapshot, StreamError};
use weir_serve::{
    ApiError, ArchiveExport, ArchiveRange, ArchiveSegment, Backend, DiscoverRequest, ErrorCode, GraphCheck,
    GraphSave, IncidentChange, IncidentQuery, Kept, LiveQueue, LiveView, NotReady, PictureRequest,
    PictureSender, Refusal, SearchQuery, StreamPatch, StreamRequest, Token, Watching,
};
use weir_types::Span;

use crate::cached::Cached;
use crate::error::UserError;
use crate::exposition;
use crate::kept_streams::state::StateFile;
use crate::launch::{LaunchOptions, files};
use crate::live::{self, Live, LiveSink};
use crate::lock::lock;
use crate::pictures::{self, Pictures};
use crate::process::process_use;
use crate::reload::{self, Applied, Author, LoadedGraph, Problem};
use crate::search::TextEncoders;
use crate::settings::Settings;
use crate::traces::SpanCounts;
use crate::zoo::Zoo;
use allowed::AllowedPlaces;
use ready::Warning;
use recorded_metrics::RecordedMetrics;
use refusals::{invalid, refused, refused_graph, refused_text};

/// Longest age of the state and the metrics in answers; it bounds the load by probes and scrapers.
const MAX_AGE: Span = Span::from_millis(200);

/// Variable that holds the token where no file is named.
const TOKEN_VARIABLE: &str = "WEIR_API_TOKEN";

/// The token of a file, or of the variable; none where neither is given.
///
/// # Errors
/// A token that cannot be used.
pub(crate) fn token(file: Option<&Path>) -> anyhow::Result<Option<Token>> {
    let token = match (file, std::env::var(TOKEN_VARIABLE)) {
        (Some(file), _) => Some(Token::read(file)),
        (None, Ok(text)) if !text.is_empty() => Some(Token::parse(&text, TOKEN_VARIABLE)),
        (None, _) => None,
    };
    let token = token.transpose();
    Ok(token.map_err(|error| UserError::new(error.to_string()))?)
}

/// State that requests are answered from. It has no engine until the engine is ready.
pub(crate) struct Service {
    graph: PathBuf,
    allow_any_source: bool,
    zoo: Zoo,
    progress: Arc<Progress>,
    control: OnceLock<Control>,
    /// Options and settings that the graph was launched with.
    launch: OnceLock<(LaunchOptions, Settings)>,
    /// The graph in force; held while another one is put into force.
    loaded: Mutex<Option<LoadedGraph>>,
    /// The same as clients see it.
    shown: Mutex<Value>,
    /// Hosts and folders that clients may add streams from.
    places: Mutex<AllowedPlaces>,
    /// Names of streams that clients added and did not remove, and that are not in the graph's file.
    added: Mutex<BTreeSet<String>>,
    /// The file of the engine that keeps streams, once it was used.
    state_file: Mutex<Option<StateFile>>,
    edits: graph_file::GraphEdits,
    metrics: RecordedMetrics,
    live: Arc<Live>,
    /// Segments of archives that were described.
    segments: SegmentCache,
    text_encoders: TextEncoders,
    pictures: Arc<Pictures>,
    /// The fleet as clients see it, where this engine is in one.
    fleet: OnceLock<Arc<Mutex<Value>>>,
    /// Held while a client searches for cameras.
    discovery: Mutex<()>,
    state: Cached<Arc<Snapshot>>,
    /// The same as clients get it: written once, however many ask.
    written: Cached<Arc<str>>,
}

impl Service {
    /// For the graph of that file.
    ///
    /// # Errors
    /// Where metrics are collected already, or the machine gives no thread.
    pub(crate) fn new(graph: &Path, allow_any_source: bool, zoo: Zoo) -> anyhow::Result<Self> {
        let metrics = RecordedMetrics::start(MAX_AGE)?;
        Ok(Self {
            graph: std::path::absolute(graph)?,
            allow_any_source,
            zoo,
            progress: Arc::default(),
            control: OnceLock::new(),
            launch: OnceLock::new(),
            loaded: Mutex::default(),
            shown: Mutex::default(),
            places: Mutex::default(),
            added: Mutex::default(),
            state_file: Mutex::default(),
            edits: graph_file::GraphEdits::default(),
            metrics,
            live: Arc::default(),
            segments: SegmentCache::default(),
            text_encoders: TextEncoders::default(),
            pictures: Arc::default(),
            fleet: OnceLock::new(),
            discovery: Mutex::default(),
            state: Cached::new(MAX_AGE),
            written: Cached::new(MAX_AGE),
        })
    }

    /// Metrics have what becomes of spans from now on.
    pub(crate) fn count_spans(&self, counts: Arc<SpanCounts>) {
        self.metrics.count_spans(counts);
    }

    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// The engine is ready, and runs `graph`, of which the file has that text.
    pub(crate) fn connect(
        &self,
        control: Control,
        (graph, text): (Graph, String),
        (options, settings): (&LaunchOptions, &Settings),
    ) {
        // There is one engine to a program.
        let _ = self.launch.set((options.clone(), settings.clone()));
        let _ = self.control.set(control);
        self.open_incidents();
        let loaded = LoadedGraph {
            graph,
            text,
            reloads: 0,
            edits: 0,
            problems: Vec::new(),
        };
        self.show(&loaded);
        *lock(&self.loaded) = Some(loaded);
    }

    /// The assembly with the sinks by which clients see what is delivered.
    pub(crate) fn observe(&self, assembly: Assembly) -> Assembly {
        let assembly = LiveSink(Arc::clone(&self.live)).add_to(assembly);
        Arc::clone(&self.pictures).add_to(assembly)
    }

    /// View of the fleet for clients. From now on, clients cannot change streams of the graph.
    #[cfg_attr(
        not(feature = "fleet"),
        expect(dead_code, reason = "this build does not support fleets")
    )]
    pub(crate) fn share_fleet(&self) -> Arc<Mutex<Value>> {
        Arc::clone(self.fleet.get_or_init(Arc::default))
    }

    /// True if a fleet shares the streams of the graph.
    pub(crate) fn is_in_fleet(&self) -> bool {
        self.fleet.get().is_some()
    }

    /// The fleet, where this engine is in one and has looked at it.
    fn shown_fleet(&self) -> Option<Value> {
        let shown = lock(self.fleet.get()?).clone();
        (!shown.is_null()).then_some(shown)
    }

    /// Refuses to change a stream of the graph that a fleet shares.
    fn check_not_shared(&self, name: &str) -> Result<(), ApiError> {
        let loaded = lock(&self.loaded);
        let mut sources = loaded.iter().flat_map(|loaded| loaded.graph.sources());
        if !self.is_in_fleet() || !sources.any(|source| source.name == name) {
            return Ok(());
        }
        let error = ApiError::new(
            Refusal::Conflict,
            format!("the stream {name} is shared by a fleet"),
        );
        Err(error.hint("change the graph of all its engines, and restart them one after the other"))
    }

    pub(crate) fn graph_file(&self) -> &Path {
        &self.graph
    }

    /// True if clients may name any source, and any file.
    pub(crate) fn allows_any_source(&self) -> bool {
        self.allow_any_source
    }

    /// Checks that no file of another graph is an output of it and an input.
    pub(crate) fn check_files(&self, graph: &Graph) -> anyhow::Result<()> {
        match self.launch.get() {
            Some((options, settings)) => Ok(files(graph, options, settings, &self.zoo)?.check()?),
            None => Ok(()),
        }
    }

    /// True if a client added the stream with this name; no graph changes it.
    pub(crate) fn is_of_client(&self, name: &str) -> bool {
        lock(&self.added).contains(name)
    }

    pub(crate) fn zoo(&self) -> &Zoo {
        &self.zoo
    }

    /// True if the running graph was read from this text.
    pub(crate) fn has_text(&self, text: &str) -> bool {
        lock(&self.loaded)
            .as_ref()
            .is_some_and(|loaded| loaded.text == text)
    }

    /// The file of the gears in force, if there is one.
    pub(crate) fn gears_file(&self) -> Option<PathBuf> {
        let loaded = lock(&self.loaded);
        let gears = loaded.as_ref()?.graph.gears()?;
        Some(gears.file.clone())
    }

    /// Puts the graph of another text into force, as far as that can be done while it runs.
    pub(crate) fn apply_text(&self, text: String, author: Author) -> Result<Applied, Vec<Problem>> {
        match reload::probe_models(&text, author, self) {
            Ok(()) => self.with_loaded(|loaded| loaded.apply(text, author, self)),
            Err(problems) => self.refuse_text(problems),
        }
    }

    /// As [`Service::apply_text`], for the text of the file. `None` where the engine has edited the file since there were
    /// `edits` of it.
    pub(crate) fn apply_file(&self, text: String, edits: u64) -> Option<Result<Applied, Vec<Problem>>> {
        if let Err(problems) = reload::probe_models(&text, Author::File, self) {
            return Some(self.refuse_text(problems));
        }
        let mut is_old = false;
        let applied = self.with_loaded(|loaded| {
            is_old = loaded.edits != edits;
            if is_old {
                return Ok(Applied::default());
            }
            loaded.apply(text, Author::File, self)
        });
        (!is_old).then_some(applied)
    }

    /// Number of times that the engine has edited the file.
    pub(crate) fn edits(&self) -> u64 {
        lock(&self.loaded).as_ref().map_or(0, |loaded| loaded.edits)
    }

    /// There is no text to put into force.
    pub(crate) fn refuse_text(&self, problems: Vec<Problem>) -> Result<Applied, Vec<Problem>> {
        self.with_loaded(|loaded| {
            loaded.problems.clone_from(&problems);
            Err(problems)
        })
    }

    fn with_loaded(
        &self,
        change: impl FnOnce(&mut LoadedGraph) -> Result<Applied, Vec<Problem>>,
    ) -> Result<Applied, Vec<Problem>> {
        let mut loaded = lock(&self.loaded);
        let Some(loaded) = loaded.as_mut() else {
            return Err(vec![Problem::new("the engine is starting", None)]);
        };
        let changed = change(loaded);
        self.show(loaded);
        changed
    }

    fn show(&self, loaded: &LoadedGraph) {
        *lock(&self.shown) = to_value!(loaded.state());
        *lock(&self.places) = AllowedPlaces::of(&loaded.graph, &self.graph);
        self.pictures.set_graph(&loaded.graph);
        let clips = loaded.graph.sinks().iter().filter(|sink| sink.kind == "clips");
        self.live
            .incidents
            .set_clips(clips.map(|sink| sink.settings.clone()).collect());
        self.forget_state();
    }

    /// Checks that a client may name the source of a stream.
    pub(crate) fn check_allowed(&self, node: &SourceNode) -> Result<(), ApiError> {
        if self.allow_any_source {
            return Ok(());
        }
        lock(&self.places).check_node(node)
    }

    /// Checks that a client may name the file with the password of a stream.
    fn check_password_file(&self, file: &str) -> Result<(), ApiError> {
        if self.allow_any_source {
            return Ok(());
        }
        lock(&self.places).check_password_file(file)
    }

    pub(crate) fn control(&self) -> Result<&Control, ApiError> {
        let starting = || ApiError::new(Refusal::Unavailable, "the engine is starting");
        self.control.get().ok_or_else(starting)
    }

    /// The state, at most [`MAX_AGE`] old and younger than any change by a client that has been answered.
    fn snapshot(&self) -> Result<Arc<Snapshot>, ApiError> {
        let control = self.control()?;
        let taken = self.state.get(|| take_snapshot(control));
        taken.map_err(|error| refused(&error))
    }

    /// Something has changed.
    fn forget_state(&self) {
        self.state.forget();
        self.written.forget();
    }

    /// Carries out what a client wants changed.
    fn change<T>(&self, change: impl FnOnce(&Control) -> Result<T, StreamError>) -> Result<T, ApiError> {
        let changed = change(self.control()?);
        self.forget_state();
        changed.map_err(|error| refused(&error))
    }
}

impl Backend for Service {
    fn not_ready(&self) -> Vec<NotReady> {
        let engine = |why: String| {
            vec![NotReady {
                what: "engine".to_owned(),
                why,
            }]
        };
        let Some(control) = self.control.get() else {
            let preparing = self.progress.snapshot().preparing;
            let step = preparing.map(|step| {
                format!(
                    ": {} {} ({} of {})",
                    step.step, step.name, step.number, step.total
                )
            });
            return engine(format!("starting{}", step.unwrap_or_default()));
        };
        match self.state.get(|| take_snapshot(control)) {
            Err(error) => engine(error.to_string()),
            Ok(snapshot) if snapshot.stopping => engine("stopping".to_owned()),
            Ok(snapshot) => ready::not_ready(&snapshot),
        }
    }

    fn degraded(&self) -> Vec<NotReady> {
        let Some(Ok(snapshot)) = self
            .control
            .get()
            .map(|control| self.state.get(|| take_snapshot(control)))
        else {
            return Vec::new();
        };
        ready::degraded(&snapshot)
    }

    fn state(&self) -> Result<Arc<str>, ApiError> {
        self.written.get(|| {
            // Of the moment, so that together they are no older than one of them may be.
            self.state.forget();
            let mut graph = lock(&self.shown).clone();
            let snapshot = self.snapshot()?;
            let mut state = json(&*snapshot)?;
            let warnings = ready::warnings(&snapshot);
            state["warning_causes"] = warnings.iter().map(Warning::cause).collect();
            state["warnings"] = warnings.into_iter().map(|warning| warning.text).collect();
            if let Some(keys) = graph.as_object_mut() {
                keys.remove("text");
            }
            state["graph"] = graph;
            state["incidents"] = self.live.incidents.changes().into();
            if let Some(fleet) = self.shown_fleet() {
                state["fleet"] = fleet;
            }
            Ok(state.to_string().into())
        })
    }

    fn streams(&self) -> Result<Value, ApiError> {
        json(&self.snapshot()?.streams)
    }

    fn drops(&self) -> Result<Value, ApiError> {
        json(&self.snapshot()?.report.drops)
    }

    fn stream_drops(&self, name: &str) -> Result<Value, ApiError> {
        let snapshot = self.snapshot()?;
        if snapshot.streams.iter().any(|stream| stream.name == name) {
            return Ok(self.live.drops.list(name));
        }
        let error = ApiError::new(Refusal::NotFound, format!("there is no stream {name}"));
        Err(error.code(ErrorCode::StreamUnknown, [("name", name)]))
    }

    fn timeline(&self) -> Result<Value, ApiError> {
        self.control()?;
        json(&self.progress.timeline())
    }

    fn add_stream(&self, request: StreamRequest) -> Result<Kept, ApiError> {
        self.add_and_keep(request)
    }

    fn fleet(&self) -> Result<Value, ApiError> {
        self.control()?;
        let none = || ApiError::new(Refusal::NotFound, "this engine is in no fleet");
        if !self.is_in_fleet() {
            return Err(none().hint("weir serve --fleet FLEET.toml --node NAME joins one"));
        }
        let joining = || ApiError::new(Refusal::Unavailable, "the engine joins its fleet");
        self.shown_fleet().ok_or_else(joining)
    }

    fn remove_stream(&self, name: &str) -> Result<Value, ApiError> {
        self.check_not_shared(name)?;
        let removed = self.change(|control| control.remove_stream(name))?;
        let mut answer = json(&removed)?;
        if let Some(kept) = self.keep_removal(name) {
            answer["kept"] = json(&kept)?;
        }
        Ok(answer)
    }

    fn pause_stream(&self, name: &str) -> Result<Kept, ApiError> {
        self.check_not_shared(name)?;
        self.change(|control| control.pause_stream(name))?;
        Ok(self.keep_paused(name))
    }

    fn resume_stream(&self, name: &str) -> Result<Option<Kept>, ApiError> {
        self.change(|control| control.resume_stream(name))?;
        Ok(self.keep_resumed(name))
    }

    fn change_stream(&self, name: &str, patch: StreamPatch) -> Result<Kept, ApiError> {
        self.control()?;
        let change = self.stream_change(name, &patch)?;
        self.change(|control| control.change_stream(name, change))?;
        Ok(self.keep_change(name, patch))
    }

    fn incidents(&self, query: &IncidentQuery) -> Result<Value, ApiError> {
        self.list_incidents(query)
    }

    fn incident(&self, id: &str) -> Result<Value, ApiError> {
        self.shown_incident(id)
    }

    fn change_incident(&self, id: &str, change: IncidentChange) -> Result<Value, ApiError> {
        self.mark_incident(id, change)
    }

    fn incident_picture(&self, id: &str) -> Result<Vec<u8>, ApiError> {
        self.picture_of_incident(id)
    }

    fn incident_clip(&self, id: &str) -> Result<File, ApiError> {
        self.clip_of_incident(id)
    }

    fn incident_stream(&self, id: &str) -> Option<String> {
        self.live.incidents.stream(id).map(|stream| stream.to_string())
    }

    fn archive_cameras(&self) -> Result<Value, ApiError> {
        self.list_archives()
    }

    fn archive_segments(&self, stream: &str, range: &ArchiveRange) -> Result<Value, ApiError> {
        self.list_segments(stream, range)
    }

    fn archive_segment(&self, stream: &str, segment: &str) -> Result<ArchiveSegment, ApiError> {
        self.open_segment(stream, segment)
    }

    fn archive_export(&self, stream: &str, range: &ArchiveRange) -> Result<ArchiveExport, ApiError> {
        self.export_archive(stream, range)
    }

    fn search(&self, query: &SearchQuery) -> Result<Value, ApiError> {
        self.search_tracks(query)
    }

    fn track_picture(&self, id: &str) -> Result<Vec<u8>, ApiError> {
        self.picture_of_track(id)
    }

    fn discover(&self, request: &DiscoverRequest) -> Result<Value, ApiError> {
        self.find_cameras(request)
    }

    fn watch(&self, name: &str, view: LiveView, queue: Arc<LiveQueue>) -> Result<Watching, ApiError> {
        let watching = self.live.watch(self.control()?, name, view, queue);
        Ok(Box::new(watching.map_err(|error| refused(&error))?))
    }

    fn policy(&self) -> Result<Value, ApiError> {
        json(&self.snapshot()?.policy)
    }

    fn apply_policy(&self, keys: Value) -> Result<(), ApiError> {
        self.control()?;
        let table = toml::Value::try_from(keys).map_err(|error| invalid(error.to_string()))?;
        let text = Table::from_iter([("policy".to_owned(), table)]).to_string();
        let policy = weir_graph::parse_policy(&text, &self.graph);
        let policy = policy.map_err(|problems| refused_text(&problems))?;
        self.change(|control| control.apply_policy(policy))
    }

    fn graph(&self) -> Result<Value, ApiError> {
        self.control()?;
        Ok(lock(&self.shown).clone())
    }

    fn apply_graph(&self, text: String) -> Result<Value, ApiError> {
        self.control()?;
        match self.apply_text(text, Author::Client) {
            Ok(applied) => json(&applied),
            Err(problems) => Err(refused_graph(&problems)),
        }
    }

    fn read_graph_file(&self) -> Result<Value, ApiError> {
        self.graph_file_state()
    }

    fn check_graph(&self, check: GraphCheck) -> Result<Value, ApiError> {
        self.check_graph_text(check)
    }

    fn save_graph(&self, save: GraphSave) -> Result<Value, ApiError> {
        self.save_graph_text(save)
    }

    fn undo_graph(&self, version: &str) -> Result<Value, ApiError> {
        self.undo_save(version)
    }

    fn stream_picture(&self, name: &str) -> Result<Vec<u8>, ApiError> {
        self.picture_of(name)
    }

    fn infer(&self, picture: PictureRequest, answer: PictureSender) -> Result<(), ApiError> {
        self.pictures.infer(picture, answer, self.control()?, refused)
    }

    fn models(&self) -> Result<Vec<String>, ApiError> {
        self.control()?;
        Ok(self.pictures.models())
    }

    fn model_trouble(&self, name: &str) -> Option<String> {
        match self.snapshot() {
            Err(error) => Some(error.what().to_owned()),
            Ok(snapshot) if snapshot.stopping => Some("the engine is stopping".to_owned()),
            Ok(snapshot) => ready::module_trouble(&snapshot, name),
        }
    }

    fn metrics(&self) -> String {
        self.metrics.text(|| {
            let state = self.snapshot().map(|snapshot| exposition::text(&snapshot));
            let process = process_use().map(exposition::process_text);
            let spans = self.metrics.spans_text();
            let fleet = self.shown_fleet().map(|fleet| exposition::fleet_text(&fleet));
            let incidents = exposition::incidents_text(&self.live.incidents.totals());
            let own = Some(exposition::build_text() + &incidents);
            let rest = [own, state.ok(), process, spans, fleet].into_iter().flatten();
            rest.collect()
        })
    }
}

/// The state, without the sinks and streams that are none of the graph.
fn take_snapshot(control: &Control) -> Result<Arc<Snapshot>, StreamError> {
    let mut snapshot = control.snapshot()?;
    for name in [live::NAME, pictures::NAME] {
        snapshot.sinks.retain(|sink| sink.name != name);
        snapshot.report.sinks.remove(name);
    }
    snapshot
        .streams
        .retain(|stream| !is_of_single_pictures(&stream.name));
    Ok(Arc::new(snapshot))
}

fn json(value: &impl Serialize) -> Result<Value, ApiError> {
    serde_json::to_value(value).map_err(|error| ApiError::new(Refusal::Unavailable, error.to_string()))
}
