//! Streams and modules that keep a service from being ready.

use weir_runtime::{ModuleSnapshot, Snapshot, StreamPhase};
use weir_serve::NotReady;

/// Streams without frames, and modules without a slot that ends its batches.
pub(super) fn not_ready(snapshot: &Snapshot) -> Vec<NotReady> {
    let waits = |phase| !matches!(phase, StreamPhase::Live | StreamPhase::Paused);
    let streams = snapshot.streams.iter().filter(|stream| waits(stream.state));
    let streams = streams.map(|stream| NotReady {
        what: format!("stream {}", stream.name),
        why: stream.reason.clone().unwrap_or_else(|| phase_name(stream.state)),
    });
    let modules = snapshot.modules.iter().filter(|module| hangs(module));
    let modules = modules.map(|module| NotReady {
        what: format!("module {}", module.name),
        why: HANGS.to_owned(),
    });
    streams.chain(modules).collect()
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

fn phase_name(phase: StreamPhase) -> String {
    let name = serde_json::to_value(phase).ok();
    name.and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_default()
}
