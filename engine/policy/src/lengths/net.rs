//! A small feed-forward net: dense layers with ReLU between them.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One layer: `outputs x inputs` weights, row by row, and a bias for each output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Weights, row by row: by output, then by input.
    pub weights: Vec<f32>,
    /// Bias of each output.
    pub biases: Vec<f32>,
}

/// Reason for which numbers do not form a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NetError {
    /// The net has no layer, or a layer without inputs or outputs.
    #[error("a net has at least one layer with an input and an output: train it again")]
    Empty,
    /// The number of a layer's weights does not fit its inputs and outputs.
    #[error(
        "layer {layer} has {weights} weights for {inputs} inputs and {outputs} outputs: train the net again"
    )]
    Shape {
        /// Index of the layer, from 0.
        layer: usize,
        /// Number of weights of the layer.
        weights: usize,
        /// Number of inputs, which are the outputs of the layer before.
        inputs: usize,
        /// Number of outputs of the layer.
        outputs: usize,
    },
    /// A weight is not a finite number.
    #[error("layer {0} has a weight that is no number: train the net again")]
    NotFinite(usize),
}

/// A net whose layers fit together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Layer>", into = "Vec<Layer>")]
pub struct Net {
    layers: Vec<Layer>,
}

impl TryFrom<Vec<Layer>> for Net {
    type Error = NetError;

    fn try_from(layers: Vec<Layer>) -> Result<Self, NetError> {
        let first = layers.first().ok_or(NetError::Empty)?;
        if first.biases.is_empty() || first.weights.len() < first.biases.len() {
            return Err(NetError::Empty);
        }
        let mut inputs = first.weights.len() / first.biases.len();
        for (index, layer) in layers.iter().enumerate() {
            let outputs = layer.biases.len();
            if outputs == 0 || layer.weights.len() != inputs * outputs {
                return Err(NetError::Shape {
                    layer: index,
                    weights: layer.weights.len(),
                    inputs,
                    outputs,
                });
            }
            let mut all = layer.weights.iter().chain(&layer.biases);
            if !all.all(|value| value.is_finite()) {
                return Err(NetError::NotFinite(index));
            }
            inputs = outputs;
        }
        Ok(Self { layers })
    }
}

impl From<Net> for Vec<Layer> {
    fn from(net: Net) -> Self {
        net.layers
    }
}

impl Net {
    /// Number of inputs of the net.
    #[must_use]
    pub fn inputs(&self) -> usize {
        let first = self.layers.first();
        first.map_or(0, |layer| layer.weights.len() / layer.biases.len())
    }

    /// Number of outputs of the net.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.biases.len())
    }

    /// Layers from input to output.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Outputs for `input`; missing values count as zero, and surplus values are ignored.
    #[must_use]
    pub fn run(&self, input: &[f32]) -> Vec<f32> {
        let mut values = input.to_vec();
        values.resize(self.inputs(), 0.0);
        for (index, layer) in self.layers.iter().enumerate() {
            let is_last = index + 1 == self.layers.len();
            let rows = layer.weights.chunks_exact(values.len());
            let next: Vec<f32> = rows
                .zip(&layer.biases)
                .map(|(row, bias)| {
                    let sum: f32 = row
                        .iter()
                        .zip(&values)
                        .map(|(weight, value)| weight * value)
                        .sum();
                    if is_last {
                        sum + bias
                    } else {
                        (sum + bias).max(0.0)
                    }
                })
                .collect();
            values = next;
        }
        values
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn layer(weights: &[f32], biases: &[f32]) -> Layer {
        Layer {
            weights: weights.to_vec(),
            biases: biases.to_vec(),
        }
    }

    /// A net with one layer.
    pub(crate) fn net(weights: &[f32], biases: &[f32]) -> Net {
        Net::try_from(vec![layer(weights, biases)]).unwrap()
    }

    #[test]
    fn layers_are_sums_and_what_is_below_zero_is_zero_between_them() {
        let net = Net::try_from(vec![
            layer(&[1.0, -1.0, 2.0, 0.5], &[0.0, 1.0]),
            layer(&[1.0, 10.0], &[-3.0]),
        ])
        .unwrap();
        assert_eq!((net.inputs(), net.outputs()), (2, 1));
        for (input, output) in [([1.0, 3.0], 42.0), ([3.0, 1.0], 74.0), ([-9.0, 0.0], -3.0)] {
            assert_eq!(net.run(&input), [output], "{input:?}");
        }
    }

    #[test]
    fn layers_that_do_not_fit_are_refused() {
        let check = |layers: Vec<Layer>, error| assert_eq!(Net::try_from(layers).map(|_| ()), Err(error));
        check(Vec::new(), NetError::Empty);
        check(vec![layer(&[], &[])], NetError::Empty);
        let two = vec![layer(&[1.0; 4], &[0.0; 2]), layer(&[1.0; 3], &[0.0])];
        let shape = NetError::Shape {
            layer: 1,
            weights: 3,
            inputs: 2,
            outputs: 1,
        };
        check(two, shape);
        check(vec![layer(&[f32::NAN], &[0.0])], NetError::NotFinite(0));
    }
}
