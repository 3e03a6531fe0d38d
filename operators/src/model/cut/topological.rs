//! Topological order of nodes, close to that of the file.

use std::collections::{BTreeMap, BTreeSet};

use super::error::CutError;
use super::node::Node;

/// The nodes such that each follows those whose outputs it reads; among the ready ones, the first of the file. `known`
/// are inputs and weights.
pub(super) fn topological_order<'a>(
    nodes: Vec<Node<'a>>,
    known: impl Iterator<Item = &'a str>,
) -> Result<Vec<Node<'a>>, CutError> {
    let mut producers: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for output in &node.outputs {
            producers.insert(output, index);
        }
    }
    let known: BTreeSet<&str> = known.collect();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut missing: Vec<usize> = vec![0; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for input in &node.inputs {
            if let Some(producer) = producers.get(input) {
                readers[*producer].push(index);
                missing[index] += 1;
            } else if !known.contains(input) {
                return Err(CutError::Dangling {
                    node: node.name.clone(),
                    value: (*input).to_owned(),
                });
            }
        }
    }
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|index| missing[*index] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(index) = ready.pop_first() {
        order.push(index);
        for reader in &readers[index] {
            missing[*reader] -= 1;
            if missing[*reader] == 0 {
                ready.insert(*reader);
            }
        }
    }
    if let Some(index) = missing.iter().position(|missing| *missing > 0) {
        return Err(CutError::Cycle(nodes[index].name.clone()));
    }
    let mut nodes: Vec<Option<Node<'a>>> = nodes.into_iter().map(Some).collect();
    Ok(order
        .into_iter()
        .filter_map(|index| nodes[index].take())
        .collect())
}
