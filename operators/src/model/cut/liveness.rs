//! What crosses the boundaries between layers.

use std::collections::BTreeMap;

use super::graph::Network;

/// A value that is not there from the beginning: an input of the model, or what a layer gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LiveRange<'a> {
    name: &'a str,
    /// It is there before this layer.
    defined: usize,
    /// The last layer that reads it; the number of layers where it is an output of the model.
    last: usize,
}

/// Values with their lives, in the order in which they come to be.
#[derive(Debug)]
pub(crate) struct Liveness<'a> {
    ranges: Vec<LiveRange<'a>>,
}

impl<'a> Liveness<'a> {
    /// Of all values that some layer or the user reads.
    pub(crate) fn of(network: &Network<'a>) -> Self {
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, layer) in network.layers.iter().enumerate() {
            for input in &layer.inputs {
                last.insert(input, index);
            }
        }
        for (output, _) in &network.outputs {
            last.insert(output, network.layers.len());
        }
        let inputs = network.inputs.iter().map(|(name, _)| (*name, 0));
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

    /// Names of the values that must be sent across the boundary before layer `boundary`: those that are there, and
    /// that a layer from there on reads or that are outputs.
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
