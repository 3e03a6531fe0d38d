//! Changes of streams by clients, kept for the next start: in the file of the graph where it can have them, else in a file of the
//! engine. A change that cannot be kept is made all the same; the answer says for how long it holds.

use std::borrow::Cow;
use std::path::PathBuf;

use toml::{Table, Value};
use weir_flow::mask_credentials;
use weir_graph::{Graph, GraphChanges, SourceNode};
use weir_runtime::NewStream;
use weir_serve::{ApiError, Kept, StreamPatch, StreamRequest};

use super::Service;
use super::refusals::invalid;
use super::stream_keys::check_no_variables;
use crate::assemble::source;
use crate::kept_streams::graph_file;
use crate::kept_streams::state::{self, StateFile};
use crate::kept_streams::table::{with_keys, with_table, without_table};
use crate::lock::lock;
use crate::output;
use crate::printable::line;
use crate::reload::{self, Author, LoadedGraph};

/// The source whose inputs a stream shares that names none: any.
const ANY_SOURCE: &str = "*";

const LIKE: &str = "like";

/// Kind and ending of the file of the engine with streams.
const STREAMS: &str = "streams";
const ENDING: &str = ".toml";

/// An edit of the graph's file: the text with it, and the graph that this is.
struct Edit {
    text: String,
    graph: Graph,
    changes: GraphChanges,
}

fn has_secret(uri: &str) -> bool {
    matches!(mask_credentials(uri), Cow::Owned(masked) if masked != uri)
}

fn has_source(graph: &Graph, name: &str) -> bool {
    graph.sources().iter().any(|source| source.name == name)
}

impl Service {
    /// Adds a stream and keeps it.
    ///
    /// # Errors
    /// It cannot be added; nothing is kept then.
    pub(super) fn add_and_keep(&self, request: StreamRequest) -> Result<Kept, ApiError> {
        self.control()?;
        let (node, mut keys) = self.source_node(&request)?;
        let StreamRequest { name, like, .. } = request;
        // Held until it is known whose the name is.
        let mut loaded = lock(&self.loaded);
        let planned = match loaded.as_ref() {
            Some(loaded) => self.plan_added(loaded, &node, (&keys, like.as_deref())),
            None => Err("the engine is starting".to_owned()),
        };
        let is_in_file = loaded
            .as_ref()
            .is_some_and(|loaded| has_source(&loaded.graph, &name));
        let stream = NewStream {
            factory: source(&node),
            node,
            like: like.clone(),
        };
        let why = match planned {
            Ok(edit) => {
                let entered = edit.changes.added.iter().flat_map(|(_, entered)| entered);
                let entered = entered.cloned().collect();
                self.change(|control| control.add_stream_into(stream, entered))?;
                match loaded.as_mut().map(|loaded| self.make(edit, loaded)) {
                    Some(Ok(())) => return Ok(Kept::in_graph(&self.graph)),
                    Some(Err(why)) => why,
                    None => String::new(),
                }
            }
            Err(why) => {
                self.change(|control| control.add_stream(stream))?;
                why
            }
        };
        lock(&self.added).insert(name.clone());
        drop(loaded);
        if is_in_file {
            return Ok(Kept::nowhere(
                "the graph's file has a source of this name, which is there again at the next start",
            ));
        }
        keys.extend(like.map(|like| (LIKE.to_owned(), like.into())));
        Ok(self.keep_in_state(why, |state| state.keep(&name, keys)))
    }

    /// The edit that adds a stream to the graph's file.
    ///
    /// # Errors
    /// The reason why the file cannot have it.
    fn plan_added(
        &self,
        loaded: &LoadedGraph,
        node: &SourceNode,
        (keys, like): (&Table, Option<&str>),
    ) -> Result<Edit, String> {
        self.check_editable(loaded)?;
        if node.uris().any(has_secret) {
            return Err("its address holds a password, which the graph's file is not to have".to_owned());
        }
        let mut keys = keys.clone();
        keys.insert(LIKE.to_owned(), like.unwrap_or(ANY_SOURCE).into());
        let edit = with_table(&loaded.text, &node.name, &keys).and_then(|text| self.read_edit(text, loaded));
        let is_meant = |edit: &Edit| {
            let others = GraphChanges {
                added: Vec::new(),
                ..edit.changes.clone()
            };
            matches!(&*edit.changes.added, [(added, _)] if added == node) && others.is_empty()
        };
        edit.filter(is_meant)
            .ok_or_else(|| "the graph's file would not be valid, or another graph, with its table".to_owned())
    }

    /// Keeps that a stream was removed. `None` where the next start would not have had it anyway.
    pub(super) fn keep_removal(&self, name: &str) -> Option<Kept> {
        lock(&self.added).remove(name);
        let forgotten = self.with_state_if_any(|state| state.forget(name));
        let mut loaded = lock(&self.loaded);
        let Some(loaded) = loaded.as_mut().filter(|loaded| has_source(&loaded.graph, name)) else {
            return match forgotten {
                Ok(Some((true, path))) => Some(Kept::in_state(&path, "it was kept there")),
                Ok(_) => None,
                Err(why) => Some(Kept::nowhere(format!(
                    "{why}; it is there again at the next start"
                ))),
            };
        };
        let is_meant = |changes: &GraphChanges| {
            let others = GraphChanges {
                removed: Vec::new(),
                ..changes.clone()
            };
            matches!(&*changes.removed, [removed] if removed == name) && others.is_empty()
        };
        let edited = self.edit_graph(loaded, |text| without_table(text, name), is_meant);
        Some(
            edited.unwrap_or_else(|why| Kept::nowhere(format!("{why}; it is there again at the next start"))),
        )
    }

    /// Keeps another objective or share of a stream.
    pub(super) fn keep_change(&self, name: &str, patch: StreamPatch) -> Kept {
        let mut changes: Vec<(&str, Option<Value>)> = Vec::new();
        changes.extend(patch.slo.map(|slo| ("slo", slo.map(Value::from))));
        changes.extend(patch.weight.map(|weight| ("weight", Some(Value::from(weight)))));
        changes.extend(patch.reserve.map(|reserve| ("reserve", reserve.map(Value::from))));
        let in_state = self.with_state_if_any(|state| {
            let Some(mut keys) = state.streams().get(name).cloned() else {
                return Ok(false);
            };
            for (key, value) in &changes {
                match value {
                    Some(value) => _ = keys.insert((*key).to_owned(), value.clone()),
                    None => _ = keys.remove(*key),
                }
            }
            state.keep(name, keys).map(|()| true)
        });
        match in_state {
            Ok(Some((true, path))) => return Kept::in_state(&path, "the stream is kept there"),
            Ok(_) => {}
            Err(why) => return Kept::nowhere(why),
        }
        let mut loaded = lock(&self.loaded);
        let Some(loaded) = loaded.as_mut().filter(|loaded| has_source(&loaded.graph, name)) else {
            return Kept::nowhere("the stream itself is not kept");
        };
        let is_meant = |changes: &GraphChanges| {
            let others = GraphChanges {
                changed: Vec::new(),
                ..changes.clone()
            };
            changes.changed.iter().all(|node| node.name == name) && others.is_empty()
        };
        let edited = self.edit_graph(loaded, |text| with_keys(text, name, &changes), is_meant);
        edited.unwrap_or_else(Kept::nowhere)
    }

    /// Keeps that a stream is paused.
    pub(super) fn keep_paused(&self, name: &str) -> Kept {
        let why = "the graph's file has no key for it".to_owned();
        self.keep_in_state(why, |state| state.pause(name, true).map(|_| ()))
    }

    /// Keeps that a stream is not paused any more. `None` where it was not kept that it was.
    pub(super) fn keep_resumed(&self, name: &str) -> Option<Kept> {
        match self.with_state_if_any(|state| state.pause(name, false)) {
            Ok(Some((true, path))) => Some(Kept::in_state(&path, "that it was paused was kept there")),
            Ok(_) => None,
            Err(why) => Some(Kept::nowhere(format!(
                "{why}; it is paused again at the next start"
            ))),
        }
    }

    /// Says where streams are kept, and adds those that are kept in the file of the engine.
    pub(crate) fn restore_streams(&self) {
        let why = lock(&self.loaded)
            .as_ref()
            .and_then(|loaded| self.check_editable(loaded).err());
        let (graph, state) = (self.graph.display(), self.state_path(STREAMS, ENDING));
        output::remark(&match (why, &state) {
            (None, _) => format!("streams that are added are kept in {graph}"),
            (Some(why), Ok(path)) => {
                format!("streams that are added are kept in {}: {why}", path.display())
            }
            (Some(why), Err(reason)) => {
                format!("streams that are added are kept until the engine ends only: {why}; {reason}")
            }
        });
        let kept = self.with_state_if_any(|state| Ok((state.streams().clone(), state.paused().clone())));
        let ((streams, paused), path) = match kept {
            Ok(Some(kept)) => kept,
            Ok(None) => return,
            Err(reason) => {
                output::remark(&format!("streams that were added before are left out: {reason}"));
                return;
            }
        };
        for (name, keys) in streams {
            if let Err(error) = self.restore_stream(&name, keys) {
                output::remark(&format!(
                    "stream {} of {} is left out: {}",
                    line(&name),
                    path.display(),
                    error.what()
                ));
            }
        }
        for name in paused {
            // One that is not there any more need not be paused.
            let _ = self.change(|control| control.pause_stream(&name));
        }
    }

    fn restore_stream(&self, name: &str, mut keys: Table) -> Result<(), ApiError> {
        let like = match keys.remove(LIKE) {
            None => None,
            Some(Value::String(like)) => Some(like),
            Some(_) => return Err(invalid("`like` must be a text")),
        };
        check_no_variables(&keys)?;
        let loaded = lock(&self.loaded);
        if loaded
            .as_ref()
            .is_some_and(|loaded| has_source(&loaded.graph, name))
        {
            return Err(invalid("the graph has a source of this name"));
        }
        drop(loaded);
        let node = self.parse_added(name, keys)?;
        self.check_allowed(&node)?;
        let stream = NewStream {
            factory: source(&node),
            node,
            like,
        };
        self.change(|control| control.add_stream(stream))?;
        lock(&self.added).insert(name.to_owned());
        Ok(())
    }

    /// Checks that the graph's file may be edited, and has the graph in force.
    ///
    /// # Errors
    /// The reason why it may not.
    fn check_editable(&self, loaded: &LoadedGraph) -> Result<(), String> {
        self.check_file_editable(&loaded.graph)?;
        graph_file::check_text(&self.graph, &loaded.text)
    }

    /// Checks that the graph's file may be edited while `graph` is in force.
    ///
    /// # Errors
    /// The reason why it may not.
    pub(super) fn check_file_editable(&self, graph: &Graph) -> Result<(), String> {
        if self.node().is_some() {
            return Err("the engines of a fleet have the graph's file in common".to_owned());
        }
        if !graph.queues().is_empty() {
            return Err("jobs are for one graph, and it has queued sources".to_owned());
        }
        graph_file::check_writable(&self.graph)
    }

    /// Edits the table of a stream in the graph's file.
    ///
    /// # Errors
    /// The reason why it is as it was.
    fn edit_graph(
        &self,
        loaded: &mut LoadedGraph,
        edit: impl FnOnce(&str) -> Option<String>,
        is_meant: impl FnOnce(&GraphChanges) -> bool,
    ) -> Result<Kept, String> {
        self.check_editable(loaded)?;
        let by_hand = "weir serve did not write its table in the graph file, so it does not change it";
        let text = edit(&loaded.text).ok_or(by_hand)?;
        let edit = self.read_edit(text, loaded);
        let edit = edit.filter(|edit| is_meant(&edit.changes));
        self.make(
            edit.ok_or("other tables of the graph's file depend on it")?,
            loaded,
        )?;
        Ok(Kept::in_graph(&self.graph))
    }

    /// The graph of an edited text, and how it differs from the one in force. `None` where it is no graph.
    fn read_edit(&self, text: String, loaded: &LoadedGraph) -> Option<Edit> {
        let graph = reload::read(&text, Author::File, &self.graph, &self.zoo).ok()?;
        let changes = loaded.graph.changes_to(&graph);
        Some(Edit { text, graph, changes })
    }

    /// Writes an edit whose changes are in force already.
    ///
    /// # Errors
    /// The file is as it was, for this reason.
    fn make(&self, edit: Edit, loaded: &mut LoadedGraph) -> Result<(), String> {
        graph_file::replace(&self.graph, &loaded.text, &edit.text)?;
        (loaded.text, loaded.graph) = (edit.text, edit.graph);
        loaded.edits += 1;
        self.show(loaded);
        Ok(())
    }

    fn keep_in_state(&self, why: String, change: impl FnOnce(&mut StateFile) -> Result<(), String>) -> Kept {
        match self.with_state(change) {
            Ok(((), path)) => Kept::in_state(&path, why),
            Err(reason) => Kept::nowhere(format!("{why}; {reason}")),
        }
    }

    /// As [`Service::with_state`]; `None` where nothing is kept in the file of the engine.
    fn with_state_if_any<T>(
        &self,
        change: impl FnOnce(&mut StateFile) -> Result<T, String>,
    ) -> Result<Option<(T, PathBuf)>, String> {
        match self.state_path(STREAMS, ENDING) {
            Ok(path) if path.exists() => self.with_state(change).map(Some),
            _ => Ok(None),
        }
    }

    /// Uses the file of the engine, which is opened for this engine alone; gives its path, too.
    fn with_state<T>(
        &self,
        change: impl FnOnce(&mut StateFile) -> Result<T, String>,
    ) -> Result<(T, PathBuf), String> {
        let mut opened = lock(&self.state_file);
        let state = match &mut *opened {
            Some(state) => state,
            none => none.insert(StateFile::open(&self.state_path(STREAMS, ENDING)?, &self.graph)?),
        };
        Ok((change(state)?, state.path().to_owned()))
    }

    /// Path of the file or folder of the engine for this graph, of a kind and with that ending.
    pub(super) fn state_path(&self, kind: &str, ending: &str) -> Result<PathBuf, String> {
        if !self.graph.is_file() {
            return Err("a graph from a pipe has no other place".to_owned());
        }
        let folder = state::folder(&|name| std::env::var_os(name), kind);
        let folder = folder.ok_or("there is no folder for files of this user: set XDG_STATE_HOME")?;
        Ok(state::path(&folder, &self.graph, self.node().as_deref(), ending))
    }

    /// The node of a fleet that this engine is.
    fn node(&self) -> Option<String> {
        let (options, _) = self.launch.get()?;
        options.run_args.fleet.place().map(|place| place.node)
    }
}
