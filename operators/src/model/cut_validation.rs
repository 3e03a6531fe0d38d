//! Validation of a cut: the partitions run on noise and must reproduce the whole model.
//!
//! A runtime may compute a layer differently once its input is received from outside. ONNX Runtime, for one, keeps
//! feature maps in blocks of channels on a CPU, and fuses the sum of a residual block into the preceding convolution,
//! but only where both operands are in such blocks, which a received tensor is not. The sum is then rounded in another
//! order; mostly that is negligible, but a sigmoid of large logits shows it. So each boundary is tested: the two
//! partitions, run one after the other, must give what the whole model gives, and finally the chain of all blocks must.
//!
//! Tests run on the CPU in full precision: the question is whether the cut is right, not how a device or half precision
//! rounds.

use std::collections::BTreeMap;
use std::ops::Range;

use weir_flow::{DeviceKind, Element, PartitionLoader, PartitionSession, SessionError, Tensor};

use super::layer_chain::{LayerChain, failed};
use super::noise::fill;
use super::partition_session::OnnxPartitionLoader;
use super::runtime::floats;

/// Largest difference of an output relative to its largest magnitude: half of the promised 1e-5, since real inputs
/// differ from noise.
const TOLERANCE: f32 = 5e-6;
/// Cuts tried before the model is refused. Each round rejects at least one more boundary, mostly those of a whole
/// residual block.
const MAX_ROUNDS: usize = 12;
/// A cut whose partitions reproduce the whole model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatedCut {
    /// The first layer of each block: 0 first, ascending.
    pub starts: Vec<usize>,
    /// [`LayerChain::boundaries`] without the rejected ones.
    pub boundaries: Vec<bool>,
    /// Boundaries that were tested and must not be cut.
    pub rejected: Vec<RejectedBoundary>,
}

/// A boundary whose partitions do not reproduce the whole model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedBoundary {
    /// The layer after the boundary.
    pub layer: usize,
    /// The difference, worded to follow "parts".
    pub reason: String,
}

impl LayerChain {
    /// Tests the boundaries before `layers` and returns those that must not be cut: their two partitions, run one after
    /// the other on noise, give outputs that differ by more than 5e-6 of their largest magnitude, in full precision on
    /// the CPU.
    ///
    /// # Errors
    /// [`SessionError::Load`] or [`SessionError::Run`] if the whole model does not run.
    pub fn rejected_boundaries(&self, layers: &[usize]) -> Result<Vec<RejectedBoundary>, SessionError> {
        Ok(CutTrials::new(self)?.rejected_boundaries(layers))
    }

    /// Cuts the model by `choose`, which maps the allowed `boundaries` to the first layer of each block, until the
    /// partitions reproduce the whole model. Each round disallows the boundaries that fail alone, or else, if only the
    /// whole chain fails, the one with the largest difference.
    ///
    /// # Errors
    /// As [`LayerChain::rejected_boundaries`], and [`SessionError::Load`] if no cut is found.
    pub fn validate_cut(
        &self,
        mut boundaries: Vec<bool>,
        choose: impl Fn(&[bool]) -> Vec<usize>,
    ) -> Result<ValidatedCut, SessionError> {
        let mut trials = CutTrials::new(self)?;
        let mut fused_sums = None;
        let mut rejected: Vec<RejectedBoundary> = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let starts = choose(&boundaries);
            let mut found = trials.rejected_boundaries(starts.get(1..).unwrap_or_default());
            if found.is_empty() {
                found.extend(trials.worst_in_chain(&starts));
            }
            if found.is_empty() {
                return Ok(ValidatedCut {
                    starts,
                    boundaries,
                    rejected,
                });
            }
            let fused_sums = match &fused_sums {
                Some(fused_sums) => fused_sums,
                None => fused_sums.insert(self.fused_sums()?),
            };
            for over in &found {
                remove_boundary(&mut boundaries, over.layer, fused_sums);
            }
            rejected.extend(found);
        }
        Err(SessionError::Load {
            model: self.name.clone(),
            reason: format!(
                "none of {MAX_ROUNDS} cuts had partitions that reproduce the whole model (the last failed before layer {}); \
                 cut it into fewer blocks",
                rejected.last().map_or(0, |over| over.layer)
            ),
        })
    }

    fn fused_sums(&self) -> Result<Vec<Range<usize>>, SessionError> {
        self.onnx.fused_sums().map_err(|error| failed(&self.name, &error))
    }
}

/// Disallows the boundary before `layer`, and all others that an operand of the same sum crosses.
fn remove_boundary(boundaries: &mut [bool], layer: usize, fused_sums: &[Range<usize>]) {
    let spans = fused_sums.iter().filter(|span| span.contains(&layer)).cloned();
    for before in spans.flatten().chain([layer]) {
        if let Some(boundary) = before.checked_sub(1).and_then(|at| boundaries.get_mut(at)) {
            *boundary = false;
        }
    }
}

fn is_exact(error: &Result<f32, String>) -> bool {
    error.as_ref().is_ok_and(|difference| *difference <= TOLERANCE)
}

/// A model with noise inputs and the outputs of the whole model.
struct CutTrials<'a> {
    chain: &'a LayerChain,
    /// Inputs and outputs.
    samples: Vec<(Vec<Tensor>, Vec<Tensor>)>,
    /// Results of the tested boundaries, by the layer after them.
    errors: BTreeMap<usize, Result<f32, String>>,
}

impl<'a> CutTrials<'a> {
    fn new(chain: &'a LayerChain) -> Result<Self, SessionError> {
        let mut whole = load(chain, 0..chain.layer_count())?;
        let sample = |smooth: bool| {
            let mut inputs = chain.blank_inputs(1);
            for (seed, tensor) in inputs.iter_mut().enumerate() {
                fill(tensor, seed as u64, chain.range, smooth);
            }
            let outputs = whole.run(inputs.clone())?;
            Ok::<_, SessionError>((inputs, outputs))
        };
        Ok(Self {
            chain,
            samples: [false, true].into_iter().map(sample).collect::<Result<_, _>>()?,
            errors: BTreeMap::new(),
        })
    }

    fn rejected_boundaries(&mut self, layers: &[usize]) -> Vec<RejectedBoundary> {
        let mut found = Vec::new();
        for layer in layers.iter().copied() {
            if !self.errors.contains_key(&layer) {
                let error = self.run(&[0, layer]);
                self.errors.insert(layer, error);
            }
            let error = &self.errors[&layer];
            if !is_exact(error) {
                let reason = describe(error);
                found.push(RejectedBoundary { layer, reason });
            }
        }
        found
    }

    /// The boundary with the largest difference, if all of them pass alone and fail together.
    fn worst_in_chain(&self, starts: &[usize]) -> Option<RejectedBoundary> {
        if starts.len() < 3 {
            return None;
        }
        let all = self.run(starts);
        let error_of = |layer: &usize| {
            self.errors
                .get(layer)
                .and_then(|error| error.as_ref().ok())
                .copied()
        };
        let worst = starts.iter().skip(1).copied();
        let worst = worst.max_by(|a, b| {
            error_of(a)
                .unwrap_or_default()
                .total_cmp(&error_of(b).unwrap_or_default())
        });
        (!is_exact(&all)).then(|| RejectedBoundary {
            layer: worst.unwrap_or_default(),
            reason: format!("{}, in a chain of {}", describe(&all), starts.len()),
        })
    }

    /// Largest difference of an output relative to its largest magnitude, for partitions that begin with the layers
    /// `starts`.
    fn run(&self, starts: &[usize]) -> Result<f32, String> {
        let ends = starts.iter().skip(1).copied().chain([self.chain.layer_count()]);
        let mut given: Vec<Vec<Tensor>> = self.samples.iter().map(|(inputs, _)| inputs.clone()).collect();
        for (start, end) in starts.iter().zip(ends) {
            let mut partition = load(self.chain, *start..end).map_err(|error| error.to_string())?;
            for tensors in &mut given {
                *tensors = partition
                    .run(std::mem::take(tensors))
                    .map_err(|error| error.to_string())?;
            }
        }
        let differences = self
            .samples
            .iter()
            .zip(&given)
            .map(|((_, whole), cut)| difference(whole, cut));
        Ok(differences.fold(0.0, f32::max))
    }
}

fn load(chain: &LayerChain, layers: Range<usize>) -> Result<Box<dyn PartitionSession>, SessionError> {
    let partition = chain.onnx.partition(layers);
    let partition = partition.map_err(|error| failed(&chain.name, &error))?;
    OnnxPartitionLoader::default().load(&partition, DeviceKind::Cpu, false)
}

fn describe(error: &Result<f32, String>) -> String {
    match error {
        Ok(difference) if difference.is_finite() => {
            format!("give outputs that are off by {difference:.1e} of the largest")
        }
        Ok(_) => "give outputs of other shapes or integers".to_owned(),
        Err(error) => format!("do not run: {error}"),
    }
}

/// Largest difference of an output relative to its largest magnitude; infinite if shapes, types, integers or the
/// positions of NaN differ.
fn difference(whole: &[Tensor], cut: &[Tensor]) -> f32 {
    if whole.len() != cut.len() {
        return f32::INFINITY;
    }
    let each = whole.iter().zip(cut).map(|(whole, cut)| {
        if whole.data == cut.data && whole.shape == cut.shape {
            return 0.0;
        }
        let same = (whole.element, &whole.shape) == (cut.element, &cut.shape);
        if !same || !matches!(whole.element, Element::F32 | Element::F16) {
            return f32::INFINITY;
        }
        let (whole, cut) = (floats(whole), floats(cut));
        let largest = whole.iter().filter(|value| value.is_finite());
        let largest = largest.fold(f32::MIN_POSITIVE, |most, value| most.max(value.abs()));
        let error_of = |(whole, cut): (&f32, &f32)| {
            if whole == cut || (whole.is_nan() && cut.is_nan()) {
                return 0.0;
            }
            let error = (whole - cut).abs() / largest;
            if error.is_nan() { f32::INFINITY } else { error }
        };
        whole.iter().zip(&cut).map(error_of).fold(0.0, f32::max)
    });
    each.fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f32]) -> Vec<Tensor> {
        vec![Tensor {
            name: "a".into(),
            element: Element::F32,
            shape: vec![values.len()],
            data: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }]
    }

    #[test]
    fn a_difference_is_relative_to_the_largest_magnitude() {
        let error_of = |a: &[f32], b: &[f32]| difference(&tensor(a), &tensor(b));
        assert_eq!(error_of(&[4.0, -8.0], &[4.0, -8.0]), 0.0);
        assert_eq!(error_of(&[4.0, -8.0], &[6.0, -8.0]), 0.25);
        assert_eq!(error_of(&[f32::NAN, 1.0], &[f32::NAN, 1.0]), 0.0);
        assert_eq!(error_of(&[f32::NAN, 2.0], &[f32::NAN, 1.0]), 0.5);
        assert_eq!(error_of(&[1.0, 2.0], &[f32::NAN, 2.0]), f32::INFINITY);
        assert_eq!(error_of(&[1.0], &[1.0, 1.0]), f32::INFINITY);
        assert!(error_of(&[0.0], &[1e-30]) > TOLERANCE);
        let mut integers = tensor(&[1.0]);
        integers[0].element = Element::I32;
        let mut other = integers.clone();
        other[0].data[0] ^= 1;
        assert_eq!(difference(&integers, &integers), 0.0);
        assert_eq!(difference(&integers, &other), f32::INFINITY);
    }

    #[test]
    fn removing_a_boundary_removes_all_that_the_same_sum_crosses() {
        let mut boundaries = vec![true; 8];
        remove_boundary(&mut boundaries, 3, &[2..5, 6..8]);
        assert_eq!(boundaries, [true, false, false, false, true, true, true, true]);
        remove_boundary(&mut boundaries, 8, &[2..5, 6..8]);
        assert!(!boundaries[7] && boundaries[6]);
    }
}
