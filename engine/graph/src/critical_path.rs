//! The critical path of a graph: the longest path through its modules, each with its duration.

use weir_types::Span;

use crate::graph::{Graph, Vertex};

/// The longest path through modules.
#[derive(Debug, Default)]
pub(crate) struct CriticalPath {
    pub(crate) length: Span,
    pub(crate) modules: Vec<usize>,
}

/// The longest path, where each module takes its duration; `order` is topological.
pub(crate) fn critical_path(order: &[usize], inputs: &[Vec<Vertex>], durations: &[Span]) -> CriticalPath {
    let mut until = vec![(Span::ZERO, None); inputs.len()];
    let mut end = None;
    for module in order {
        let before = modules_of(&inputs[*module])
            .map(|input| (until[input].0, input))
            .max_by_key(|(span, _)| *span);
        let own = durations.get(*module).copied().unwrap_or_default();
        until[*module] = (
            before.map_or(Span::ZERO, |(span, _)| span) + own,
            before.map(|(_, input)| input),
        );
        if end.is_none_or(|end: usize| until[end].0 < until[*module].0) {
            end = Some(*module);
        }
    }
    let Some(end) = end else {
        return CriticalPath::default();
    };
    let mut modules: Vec<usize> = std::iter::successors(Some(end), |module| until[*module].1).collect();
    modules.reverse();
    CriticalPath {
        length: until[end].0,
        modules,
    }
}

/// Returns the number of paths to each module, saturating at `u64::MAX`; `order` is topological.
pub(crate) fn path_counts(order: &[usize], inputs: &[Vec<Vertex>]) -> Vec<u64> {
    let mut counts = vec![0_u64; inputs.len()];
    for module in order {
        let sum = modules_of(&inputs[*module]).fold(0_u64, |sum, input| sum.saturating_add(counts[input]));
        counts[*module] = sum.max(1);
    }
    counts
}

pub(crate) fn modules_of(inputs: &[Vertex]) -> impl Iterator<Item = usize> {
    inputs.iter().filter_map(|vertex| match vertex {
        Vertex::Module(index) => Some(*index),
        Vertex::Source(_) => None,
    })
}

/// The graph's bare execution time: its critical path where module `i` takes `durations[i]` and nothing waits. No SLO below
/// it can be met.
#[must_use]
pub fn bare_execution(graph: &Graph, durations: &[Span]) -> Span {
    let inputs: Vec<Vec<Vertex>> = graph.modules.iter().map(|module| module.inputs.clone()).collect();
    let order: Vec<usize> = (0..inputs.len()).collect();
    critical_path(&order, &inputs, durations).length
}
