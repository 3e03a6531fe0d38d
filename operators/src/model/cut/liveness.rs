//! Liveness of values: which of them cross the boundaries between layers.

use std::collections::BTreeMap;

use super::graph::Network;

/// The live range of a value that is computed at run time: an input of the model, or an output of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LiveRange<'a> {
    name: &'a str,
    /// It exists before this layer.
    defined: usize,
    /// The last layer that reads it; the number of layers for an output of the model.
    last: usize,
}

/// Live ranges in the order of definition.
#[derive(Debug)]
pub(crate) struct Liveness<'a> {
    ranges: Vec<LiveRange<'a>>,
}

impl<'a> Liveness<'a> {
    /// Live ranges of all values that a layer or the user reads.
    pub(crate) fn of(network: &Network<'a>) -> Self {
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, layer) in network.layers.iter().enumerate() {
            for input in &layer.inputs {
                last.insert(input, index);
            }
        }
        for output in network.outputs {
            last.insert(output.name(), network.layers.len());
        }
        let inputs = network.inputs.iter().map(|input| (input.name(), 0));
        let given = network
            .layers
            .iter()
            .enumerate()
            .flat_map(|(index, layer)| layer.outputs.iter().map(move |name| (*name, index + 1)));
        let range = |(name, defined)| {
            last.get(name).map(|last| LiveRange {
                name,
                defined,
                last: *last,
            })
        };
        Self {
            ranges: inputs.chain(given).filter_map(range).collect(),
        }
    }

    /// Names of the values that must be sent across the boundary before layer `boundary`: defined before it, and read
    /// by a later layer or by the user.
    pub(crate) fn crossing(&self, boundary: usize) -> Vec<&'a str> {
        let ranges = self.ranges.iter();
        ranges
            .filter(|range| range.defined <= boundary && range.last >= boundary)
            .map(|range| range.name)
            .collect()
    }

    /// Names of all values that cross some boundary.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a str> {
        self.ranges.iter().map(|range| range.name)
    }
}
