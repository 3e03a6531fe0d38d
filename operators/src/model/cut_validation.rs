//! Whether a model that is cut still gives what it gave: found out by running it on noise, never believed.
//!
//! A runtime may compute a layer in another way once what it reads comes from outside. ONNX Runtime, for one, keeps
//! feature maps in blocks of channels on a CPU, and adds the sum of a residual block within the convolution before it,
//! but only where both operands are in such blocks, which a tensor from outside is not. The sum is then rounded in
//! another order; mostly that is nothing, but a sigmoid of large logits shows it. So boundaries are tried: the two
//! parts, run one after the other, must give what the whole model gives, and in the end the chain of all blocks must.
//!
//! It is always tried on the CPU and in full precision: what is asked is whether the cut is right, not what a device
//! or half precision rounds.

use std::collections::BTreeMap;
use std::ops::Range;

use weir_flow::{DeviceKind, Element, PartitionLoader, PartitionSession, SessionError, Tensor};

use super::layer_chain::{LayerChain, failed};
use super::noise::fill;
use super::partition_session::OnnxPartitionLoader;
use super::runtime::floats;

/// Largest difference of an output over its largest magnitude: half of the 1e-5 that is promised, since noise is not
/// what the model will see.
const TOLERANCE: f32 = 5e-6;
/// How often a model is divided before it is given up. Each time at least one boundary more is out, mostly those of a
/// whole residual block.
const MAX_ROUNDS: usize = 12;
/// A division of a model whose parts were seen to give what the whole model gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatedCut {
    /// The first layer of each block: 0 first, ascending.
    pub starts: Vec<usize>,
    /// Where it may be cut, as [`LayerChain::boundaries`], without what turned out not to be.
    pub boundaries: Vec<bool>,
    /// What was tried and is not to be cut.
    pub rejected: Vec<RejectedBoundary>,
}

/// A boundary where parts were seen to give something else than the whole model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedBoundary {
    /// The layer after it.
    pub layer: usize,
    /// What was seen, to be put after "parts".
    pub reason: String,
}

impl LayerChain {
    /// Before which of `layers` the model must not be cut: its two parts, run one after the other, give outputs of
    /// noise that are off by more than 5e-6 of their largest magnitude, in full precision on the CPU.
    ///
    /// # Errors
    /// [`SessionError::Load`] or [`SessionError::Run`] where the whole model does not run.
    pub fn rejected_boundaries(&self, layers: &[usize]) -> Result<Vec<RejectedBoundary>, SessionError> {
        Ok(CutTrials::new(self)?.rejected_boundaries(layers))
    }

    /// Divides the model by `choose`, which is told at which `boundaries` it may be cut and gives the first layer of
    /// each block, again and again without the boundaries that change what it gives: each alone, or else all together,
    /// which is told of the one that differs most.
    ///
    /// # Errors
    /// As [`LayerChain::rejected_boundaries`], and [`SessionError::Load`] where that finds no end.
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
                "of {MAX_ROUNDS} divisions none had parts that give what the whole model gives (the last was wrong before \
                 layer {}); cut it into fewer blocks",
                rejected.last().map_or(0, |over| over.layer)
            ),
        })
    }

    fn fused_sums(&self) -> Result<Vec<Range<usize>>, SessionError> {
        self.onnx.fused_sums().map_err(|error| failed(&self.name, &error))
    }
}

/// Takes out the boundary before `layer`, and with it those across which the same sum loses an operand.
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

/// A model with noise, and what it makes of it.
struct CutTrials<'a> {
    chain: &'a LayerChain,
    /// Inputs and outputs.
    samples: Vec<(Vec<Tensor>, Vec<Tensor>)>,
    /// What was found at the boundaries that were tried, by the layer after them.
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
            Ok((inputs, outputs))
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

    /// The worst of the boundaries, each of which is right alone, where all of them together are not.
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

    /// Largest difference of an output over its largest magnitude, in parts that begin with the layers `starts`.
    fn run(&self, starts: &[usize]) -> Result<f32, String> {
        let ends = starts.iter().skip(1).copied().chain([self.chain.layer_count()]);
        let mut given: Vec<Vec<Tensor>> = self.samples.iter().map(|(inputs, _)| inputs.clone()).collect();
        for (start, end) in starts.iter().zip(ends) {
            let mut part = load(self.chain, *start..end).map_err(|error| error.to_string())?;
            for tensors in &mut given {
                *tensors = part
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
    let part = chain.onnx.partition(layers);
    let part = part.map_err(|error| failed(&chain.name, &error))?;
    OnnxPartitionLoader::default().load(&part, DeviceKind::Cpu, false)
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

/// Largest difference of an output over its largest magnitude; infinite where shapes, types, integers or what is no
/// number differ.
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
    fn a_difference_is_told_by_the_largest_of_its_output() {
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
    fn a_boundary_goes_out_with_the_rest_of_its_sum() {
        let mut boundaries = vec![true; 8];
        remove_boundary(&mut boundaries, 3, &[2..5, 6..8]);
        assert_eq!(boundaries, [true, false, false, false, true, true, true, true]);
        remove_boundary(&mut boundaries, 8, &[2..5, 6..8]);
        assert!(!boundaries[7] && boundaries[6]);
    }
}
