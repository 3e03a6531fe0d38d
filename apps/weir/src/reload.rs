//! The graph that is served: another text of it is read, checked as a whole, and applied as far as it can be while it runs. What
//! is refused changes nothing, and is kept with all its problems until a text is taken.

use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use weir_graph::{Graph, GraphChanges, SourceNode};
use weir_operators::PythonTransforms;
use weir_runtime::{Clock, Control, NewStream, StreamChange, StreamError};
use weir_types::{Span, Timestamp};

use crate::assemble::{assemble_showing, source};
use crate::service::Service;
use crate::service::secrets::{Secrets, without_secrets};
use crate::zoo::Zoo;
use crate::{catalog, handles, output, zoo};

/// Time between two looks at the file.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// Time for which a file that changed must stay as it is before it is read: editors, and copies over a network, write in parts,
/// and the first part may be a graph by itself.
const QUIET_TIME: Span = Span::from_secs(2);

/// Origin of a new text of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// The file, whose variables are looked up, and which may name any source.
    File,
    /// A client of the API, which may not.
    Client,
}

/// A problem that keeps a text from being applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// Line of the text, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
    /// The remedy, if there is one.
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

/// Changes that a text of the graph made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Applied {
    /// True if the graph was replaced.
    pub(crate) graph: bool,
    /// True if the policy of the same graph changed.
    pub(crate) policy: bool,
    /// True if the gears of the same graph changed.
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
    /// Times that the engine has edited the file since the start.
    pub(crate) edits: u64,
    /// Problems of the last text; empty if it was loaded.
    pub(crate) problems: Vec<Problem>,
}

/// The graph in force as clients see it.
#[derive(Debug, Serialize)]
pub(crate) struct GraphState<'a> {
    name: &'a str,
    /// Text of the graph with its secrets masked.
    text: String,
    reloads: u64,
    problems: &'a [Problem],
}

impl LoadedGraph {
    pub(crate) fn state(&self) -> GraphState<'_> {
        let text = without_secrets(&self.text);
        GraphState {
            name: self.graph.name(),
            text: text.lines().flat_map(|line| [line, "\n"]).collect(),
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
        let secrets = Secrets::of(&text, &|name| std::env::var(name).ok());
        let applied = self.try_apply(text, author, service).map_err(|problems| {
            let without = |problem: Problem| Problem {
                message: secrets.mask(&problem.message),
                hint: problem.hint.map(|hint| secrets.mask(&hint)),
                ..problem
            };
            problems.into_iter().map(without).collect::<Vec<_>>()
        });
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
            let message = "a graph with queued sources cannot be changed while it runs: each of its jobs is for one graph";
            return Err(vec![Problem::new(message, Some("restart weir serve"))]);
        }
        if service.is_in_fleet() && text != self.text {
            let message = "a graph whose streams are shared by a fleet cannot be changed while it runs";
            let hint = "change it for all engines, and restart them one after the other";
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

/// Opens the models of a text in processes of their own. It takes seconds, so nothing is locked meanwhile.
///
/// # Errors
/// The problems of the models; those of the text itself are found when it is applied.
pub(crate) fn probe_models(text: &str, author: Author, service: &Service) -> Result<(), Vec<Problem>> {
    if author == Author::Client && !service.allows_any_source() {
        // A model that is not in force is refused without being opened.
        return Ok(());
    }
    let Ok(graph) = read(text, author, service.graph_file(), service.zoo()) else {
        return Ok(());
    };
    let probed = crate::assemble::probe_models(&graph, service.zoo());
    probed.map_err(|error| vec![Problem::new(error.to_string(), None)])
}

/// Reads and checks the text of a graph.
///
/// # Errors
/// All problems of it.
pub(crate) fn read(text: &str, author: Author, file: &Path, zoo: &Zoo) -> Result<Graph, Vec<Problem>> {
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

/// True if the graphs differ in more than can be changed at runtime.
fn is_another(changes: &GraphChanges, graph: &Graph) -> bool {
    let fixed = |policy| !graph.policy().fixed_differences(policy).is_empty();
    !changes.others.is_empty() || changes.policy.as_ref().is_some_and(fixed)
}

/// Puts another graph into force. What cannot be made or opened changes nothing.
fn swap(graph: &Graph, service: &Service, control: &Control) -> anyhow::Result<()> {
    handles::require(graph)?;
    service.check_files(graph)?;
    // Transforms that stay the same go on in their processes, so that those of the check are not kept.
    let (progress, programs) = (service.progress(), PythonTransforms::default());
    let assembly = assemble_showing(graph.clone(), service.zoo(), None, None, &progress, &programs)?;
    drop(programs);
    Ok(control.swap(service.observe(assembly))?)
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
            groups: Some(node.groups.clone()),
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

/// State of a file: two equal ones are taken for the same content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    length: u64,
    /// Hash of the content, where it was read.
    content: Option<u64>,
}

/// The state of a file without its content; `None` if there is no such file.
fn stamp(file: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(file).ok()?;
    Some(Stamp {
        modified: metadata.modified().ok()?,
        length: metadata.len(),
        content: None,
    })
}

/// The state of a file with a hash of its content: file systems with coarse times do not show every write.
fn stamp_with_content(file: &Path) -> Option<Stamp> {
    let text = weir_config::read_text(file).unwrap_or_default();
    Some(Stamp {
        content: Some(content_hash(&text)),
        ..stamp(file)?
    })
}

fn content_hash(text: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Detects the moment at which a value that changed has been still for [`QUIET_TIME`].
#[derive(Debug)]
struct Settling<T> {
    last: Option<(T, Timestamp)>,
}

impl<T: PartialEq> Settling<T> {
    const fn new() -> Self {
        Self { last: None }
    }

    /// True if `value` has not changed for [`QUIET_TIME`] at `now`.
    fn is_still(&mut self, value: T, now: Timestamp) -> bool {
        match &self.last {
            Some((last, since)) if *last == value => now.since(*since) >= QUIET_TIME,
            _ => {
                self.last = Some((value, now));
                false
            }
        }
    }
}

/// Watches the file of the graph and the file of its gears, if they are to be watched, and reloads the graph. A file that
/// changed is left until it has been still for [`QUIET_TIME`], since it may be written in parts; a request through `asked`
/// reloads at once. Returns when the sender of `asked` is gone.
pub(crate) fn watch(file: &Path, is_watched: bool, asked: &Receiver<()>, service: &Service) {
    let stamps = || (stamp(file), service.gears_file().and_then(|file| stamp(&file)));
    let mut taken = stamps();
    let mut settling = Settling::new();
    let clock = Clock::start();
    loop {
        let at_once = match asked.recv_timeout(WATCH_INTERVAL) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let now = stamps();
        let mut settled = None;
        if !at_once {
            if !is_watched || now == taken {
                settling = Settling::new();
                continue;
            }
            let gears = service.gears_file();
            let contents = (
                stamp_with_content(file),
                gears.and_then(|file| stamp_with_content(&file)),
            );
            if !settling.is_still(contents, clock.now()) {
                continue;
            }
            settled = contents.0.and_then(|stamp| stamp.content);
        }
        settling = Settling::new();
        // Gears may be others though the text of the graph is the same.
        let anew = at_once || now.1 != taken.1;
        reload(file, (anew, settled), service);
        // Of the gears file that is named now.
        taken = (now.0, stamps().1);
    }
}

/// Reloads the graph from its file. A text whose hash is not `settled` has changed since it was looked at, and is left.
fn reload(file: &Path, (anew, settled): (bool, Option<u64>), service: &Service) {
    let applied = loop {
        let edits = service.edits();
        let read = weir_config::read_text(file);
        let text = read.map_err(|reason| vec![Problem::new(format!("it cannot be read: {reason}"), None)]);
        let applied = match text {
            Ok(text) if settled.is_some_and(|settled| settled != content_hash(&text)) => return,
            Ok(text) if !anew && service.has_text(&text) => return,
            Ok(text) => service.apply_file(text, edits),
            Err(problems) => Some(service.refuse_text(problems)),
        };
        if let Some(applied) = applied {
            break applied;
        }
        // The engine has edited the file meanwhile: the text is an old one.
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
                "{}\n{shown} is invalid and was not loaded; the running graph is unchanged",
                lines.join("\n")
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_settles_when_it_stays_for_the_quiet_time() {
        let mut settling = Settling::new();
        let at = |quarters: u64| Timestamp::ZERO + QUIET_TIME * quarters / 4;
        assert!(!settling.is_still("half", at(0)));
        assert!(!settling.is_still("half", at(3)));
        assert!(!settling.is_still("whole", at(4)));
        assert!(!settling.is_still("whole", at(7)));
        assert!(settling.is_still("whole", at(8)));
        assert!(!settling.is_still("half", at(9)), "it changed again");
    }
}
