//! The graph that is served: another text of it is read, checked as a whole, and applied as far as it can be while it runs. What
//! is refused changes nothing, and is kept with all its problems until a text is taken.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use weir_flow::mask_credentials;
use weir_graph::{Graph, GraphChanges, SourceNode};
use weir_runtime::{Control, NewStream, StreamChange, StreamError};

use crate::assemble::{assemble_showing, source};
use crate::live::LiveSink;
use crate::service::Service;
use crate::zoo::Zoo;
use crate::{catalog, handles, output, zoo};

/// Time between two looks at the file; a file that changed between them is looked at once more.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// Who gives another text of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// The file, whose variables are looked up, and which may name any source.
    File,
    /// A client of the API, which may not.
    Client,
}

/// Why a text is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// Line of the text, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>, hint: Option<&str>) -> Self {
        Self {
            line: None,
            message: message.into(),
            hint: hint.map(str::to_owned),
        }
    }
}

/// What a text changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Applied {
    /// Whether another graph took the place of the one before.
    pub(crate) graph: bool,
    /// Whether another policy is in force in the same graph.
    pub(crate) policy: bool,
    /// Whether other gears are in force in the same graph.
    pub(crate) gears: bool,
    /// Names of streams by what happened to them.
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<String>,
}

/// The graph in force, and what became of the last text.
#[derive(Debug)]
pub(crate) struct LoadedGraph {
    pub(crate) graph: Graph,
    /// As it was read.
    pub(crate) text: String,
    /// Texts that were taken since the start.
    pub(crate) reloads: u64,
    /// Why the last text was refused; empty where it was taken.
    pub(crate) problems: Vec<Problem>,
}

/// The graph in force as clients see it.
#[derive(Debug, Serialize)]
pub(crate) struct GraphState<'a> {
    name: &'a str,
    /// Without credentials.
    text: String,
    reloads: u64,
    problems: &'a [Problem],
}

impl LoadedGraph {
    pub(crate) fn state(&self) -> GraphState<'_> {
        let lines = self.text.lines().map(mask_credentials);
        GraphState {
            name: self.graph.name(),
            text: lines.flat_map(|line| [line, "\n".into()]).collect(),
            reloads: self.reloads,
            problems: &self.problems,
        }
    }

    /// Applies another text; where it is refused, all problems are kept and given.
    pub(crate) fn apply(
        &mut self,
        text: String,
        author: Author,
        service: &Service,
    ) -> Result<Applied, Vec<Problem>> {
        let applied = self.try_apply(text, author, service);
        self.problems = applied.as_ref().err().cloned().unwrap_or_default();
        applied
    }

    fn try_apply(
        &mut self,
        text: String,
        author: Author,
        service: &Service,
    ) -> Result<Applied, Vec<Problem>> {
        let graph = read(&text, author, service.graph_file(), service.zoo())?;
        let mut changes = self.graph.changes_to(&graph);
        let control = service
            .control()
            .map_err(|error| vec![Problem::new(error.what(), None)])?;
        let is_queued = !self.graph.queues().is_empty() || !graph.queues().is_empty();
        if is_queued && text != self.text {
            let message =
                "a graph with queued sources is not changed while it runs: each of its jobs is for one graph";
            return Err(vec![Problem::new(message, Some("start weir serve again"))]);
        }
        if service.is_in_fleet() && text != self.text {
            let message = "a graph whose streams a fleet shares is not changed while it runs";
            let hint = "change it for all engines, and start them again one after the other";
            return Err(vec![Problem::new(message, Some(hint))]);
        }
        let is_another = is_another(&changes, &self.graph);
        check(&changes, is_another, author, service, control)?;
        if is_another {
            swap(&graph, service, control).map_err(|error| vec![Problem::new(error.to_string(), None)])?;
        }
        // Streams that clients added stay, whatever a text says of their names.
        changes.removed.retain(|name| !service.is_of_client(name));
        let (applied, problems) = change(&changes, is_another, control);
        (self.graph, self.text) = (graph, text);
        self.reloads += 1;
        if problems.is_empty() {
            Ok(applied)
        } else {
            Err(problems)
        }
    }
}

/// Reads and checks the text of a graph.
fn read(text: &str, author: Author, file: &Path, zoo: &Zoo) -> Result<Graph, Vec<Problem>> {
    let variable = |name: &str| match author {
        Author::File => std::env::var(name).ok(),
        Author::Client => None,
    };
    let graph = weir_graph::parse(text, file, &catalog::catalog(zoo), &variable).map_err(|error| {
        let problem = |problem: &weir_config::Diagnostic| Problem {
            line: (problem.line > 0).then_some(problem.line),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        };
        error.iter().map(problem).collect::<Vec<_>>()
    })?;
    zoo::require(&graph, zoo).map_err(|error| vec![Problem::new(error.to_string(), None)])?;
    Ok(graph)
}

/// Whether more differs than can be changed about a graph that runs.
fn is_another(changes: &GraphChanges, graph: &Graph) -> bool {
    let fixed = |policy| !graph.policy().fixed_differences(policy).is_empty();
    !changes.others.is_empty() || changes.policy.as_ref().is_some_and(fixed)
}

/// Puts another graph into force. What cannot be made or opened changes nothing.
fn swap(graph: &Graph, service: &Service, control: &Control) -> anyhow::Result<()> {
    handles::require(graph)?;
    service.check_files(graph)?;
    let assembly = assemble_showing(graph.clone(), service.zoo(), None, None, &service.progress())?;
    Ok(control.swap(LiveSink(service.live()).add_to(assembly))?)
}

/// Checks that all changes can be made, before any is.
fn check(
    changes: &GraphChanges,
    is_another: bool,
    author: Author,
    service: &Service,
    control: &Control,
) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    if is_another && author == Author::Client && !service.allows_any_source() {
        let message = "it is another graph, whose models and sinks may name any file";
        let hint = "change the file of the graph, or start weir serve with --allow-any-source";
        problems.push(Problem::new(message, Some(hint)));
    }
    let snapshot = control
        .snapshot()
        .map_err(|error| vec![Problem::new(error.to_string(), None)])?;
    let added = changes.added.iter().map(|(node, _)| node);
    for node in added.clone().chain(&changes.changed) {
        let is_running = snapshot.streams.iter().any(|stream| stream.name == node.name);
        if is_running && service.is_of_client(&node.name) {
            let message = format!("the name {} is taken by a stream that a client added", node.name);
            let hint = "choose another name, or remove that stream and reload by SIGHUP";
            problems.push(Problem::new(message, Some(hint)));
        }
    }
    for node in added {
        if author == Author::Client
            && let Err(error) = service.check_allowed(node)
        {
            problems.push(Problem::new(error.what(), None));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// Makes the changes; where one fails after all, as the machine may have no thread left, the others are made.
fn change(changes: &GraphChanges, is_another: bool, control: &Control) -> (Applied, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut applied = Applied::default();
    let mut note = |result: Result<(), StreamError>| match result {
        Ok(()) => true,
        // A client has removed it before.
        Err(StreamError::Unknown { .. }) => false,
        Err(error) => {
            problems.push(Problem::new(error.to_string(), None));
            false
        }
    };
    applied.graph = is_another;
    if let Some(policy) = changes.policy.as_ref().filter(|_| !is_another) {
        applied.policy = note(control.apply_policy(policy.clone()));
    }
    if let Some(gears) = changes.gears.as_ref().filter(|_| !is_another) {
        applied.gears = note(control.apply_gears(gears.clone()));
    }
    for node in &changes.changed {
        let change = StreamChange {
            slo: Some(node.slo),
            weight: Some(node.share.weight),
            reserve: Some(node.share.reserve),
        };
        if note(control.change_stream(&node.name, change)) {
            applied.changed.push(node.name.clone());
        }
    }
    for name in &changes.removed {
        if note(control.remove_stream(name).map(|_| ())) {
            applied.removed.push(name.clone());
        }
    }
    for (node, entered) in &changes.added {
        if note(control.add_stream_into(new_stream(node), entered.clone())) {
            applied.added.push(node.name.clone());
        }
    }
    (applied, problems)
}

fn new_stream(node: &SourceNode) -> NewStream {
    NewStream {
        factory: source(node),
        node: node.clone(),
        like: None,
    }
}

/// What is known of a file without reading it.
type Stamp = Option<(SystemTime, u64)>;

fn stamp(file: &Path) -> Stamp {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Watches the file of the graph, and that of its gears, where it is to be watched, and reloads it at once where that is asked for; ends when nobody
/// can ask any more. A file that is being written is left until it stays as it is.
pub(crate) fn watch(file: &Path, is_watched: bool, asked: &Receiver<()>, service: &Service) {
    let stamps = || (stamp(file), service.gears_file().and_then(|file| stamp(&file)));
    let mut taken = stamps();
    let mut last = taken;
    loop {
        let at_once = match asked.recv_timeout(WATCH_INTERVAL) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let now = stamps();
        let is_settled = std::mem::replace(&mut last, now) == now;
        let is_due = at_once || (is_watched && is_settled && now != taken);
        if !is_due {
            continue;
        }
        // Gears may be others though the text of the graph is the same.
        let anew = at_once || now.1 != taken.1;
        reload(file, anew, service);
        // Of the gears file that is named now.
        taken = (now.0, stamps().1);
        last = taken;
    }
}

fn reload(file: &Path, at_once: bool, service: &Service) {
    let read = weir_config::read_text(file);
    let text = read.map_err(|reason| vec![Problem::new(format!("it cannot be read: {reason}"), None)]);
    let applied = match text {
        Ok(text) if !at_once && service.has_text(&text) => return,
        Ok(text) => service.apply_text(text, Author::File),
        Err(problems) => service.refuse_text(problems),
    };
    let shown = file.display();
    match applied {
        Ok(Applied {
            graph,
            policy,
            gears,
            added,
            removed,
            changed,
        }) => output::remark(&format!(
            "{shown} is in force: {}{}{}{} streams added, {} removed, {} changed",
            if graph { "another graph, " } else { "" },
            if policy { "another policy, " } else { "" },
            if gears { "other gears, " } else { "" },
            added.len(),
            removed.len(),
            changed.len()
        )),
        Err(problems) => {
            let lines = problems.iter().map(|problem| {
                let line = problem.line.map(|line| format!("{line}:")).unwrap_or_default();
                let hint = problem.hint.as_ref().map(|hint| format!("\n    hint: {hint}"));
                format!("{shown}:{line} {}{}", problem.message, hint.unwrap_or_default())
            });
            let lines: Vec<String> = lines.collect();
            output::remark(&format!(
                "{}\n{shown} is refused: the graph in force goes on",
                lines.join("\n")
            ));
        }
    }
}
