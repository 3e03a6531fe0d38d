//! Parts that keep a service from being ready, and parts that fail while it is ready.

use weir_runtime::{ModuleSnapshot, Snapshot, StreamPhase};
use weir_serve::NotReady;

/// Modules without a slot that ends its batches: no frame of any camera passes them.
pub(super) fn not_ready(snapshot: &Snapshot) -> Vec<NotReady> {
    let modules = snapshot.modules.iter().filter(|module| hangs(module));
    let modules = modules.map(|module| NotReady {
        what: format!("module {}", module.name),
        why: HANGS.to_owned(),
    });
    modules.collect()
}

/// Streams without frames, and sinks with an error or an outage. The engine serves meanwhile: a load balancer that took it out
/// for a dark camera would take all other cameras out as well.
pub(super) fn degraded(snapshot: &Snapshot) -> Vec<NotReady> {
    let waits = |phase| !matches!(phase, StreamPhase::Live | StreamPhase::Paused);
    let streams = snapshot.streams.iter().filter(|stream| waits(stream.state));
    let streams = streams.map(|stream| NotReady {
        what: format!("stream {}", stream.name),
        why: stream
            .reason
            .clone()
            .unwrap_or_else(|| stream.state.name().to_owned()),
    });
    streams.chain(sinks(snapshot)).collect()
}

/// Sinks that write nothing at the moment, in a sentence each for people who look at the page.
pub(super) fn warnings(snapshot: &Snapshot) -> Vec<String> {
    let warnings = sinks(snapshot).map(|sink| format!("{}: {}.", sink.what, sink.why));
    warnings.collect()
}

fn sinks(snapshot: &Snapshot) -> impl Iterator<Item = NotReady> {
    let sinks = snapshot.report.sinks.iter();
    sinks.filter_map(|(name, sink)| {
        Some(NotReady {
            what: format!("sink {name}"),
            why: sink.trouble()?.to_owned(),
        })
    })
}

/// The reason why no picture can pass a module, or one of its stages.
pub(super) fn module_trouble(snapshot: &Snapshot, name: &str) -> Option<String> {
    let is_stage = |module: &str| {
        let rest = module.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut modules = snapshot.modules.iter();
    let module = modules.find(|module| is_stage(&module.name) && hangs(module))?;
    Some(format!("module {}: {HANGS}", module.name))
}

const HANGS: &str = "it has no slot left: its model hangs in a batch";

fn hangs(module: &ModuleSnapshot) -> bool {
    module.overdue_slots > 0 && module.overdue_slots >= module.placed_slots
}
