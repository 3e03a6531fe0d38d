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

use super::layered::{Layered, failed};
use super::noise::fill;
use super::parts::OnnxParts;
use super::runtime::floats;

/// Largest difference of an output over its largest magnitude: half of the 1e-5 that is promised, since noise is not
/// what the model will see.
const TOLERANCE: f32 = 5e-6;
/// How often a model is divided before it is given up. Each time at least one boundary more is out, mostly those of a
/// whole residual block.
const ROUNDS: usize = 12;
/// A division of a model whose parts were seen to give what the whole model gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The first layer of each block: 0 first, ascending.
    pub starts: Vec<usize>,
    /// Where it may be cut, as [`Layered::boundaries`], without what turned out not to be.
    pub boundaries: Vec<bool>,
    /// What was tried and is not to be cut.
    pub passed_over: Vec<PassedOver>,
}

/// A boundary where parts were seen to give something else than the whole model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// The layer after it.
    pub layer: usize,
    /// What was seen, to be put after "parts".
    pub reason: String,
}

impl Layered {
    /// Before which of `layers` the model must not be cut: its two parts, run one after the other, give outputs of
    /// noise that are off by more than 5e-6 of their largest magnitude, in full precision on the CPU.
    ///
    /// # Errors
    /// [`SessionError::Load`] or [`SessionError::Run`] where the whole model does not run.
    pub fn unfaithful(&self, layers: &[usize]) -> Result<Vec<PassedOver>, SessionError> {
        Ok(Trials::of(self)?.unfaithful(layers))
    }

    /// Divides the model by `choose`, which is told at which `boundaries` it may be cut and gives the first layer of
    /// each block, again and again without the boundaries that change what it gives: each alone, or else all together,
    /// which is told of the one that differs most.
    ///
    /// # Errors
    /// As [`Layered::unfaithful`], and [`SessionError::Load`] where that finds no end.
    pub fn settle(
        &self,
        mut boundaries: Vec<bool>,
        choose: impl Fn(&[bool]) -> Vec<usize>,
    ) -> Result<Settled, SessionError> {
        let mut trials = Trials::of(self)?;
        let mut sums = None;
        let mut passed_over: Vec<PassedOver> = Vec::new();
        for _ in 0..ROUNDS {
            let starts = choose(&boundaries);
            let mut found = trials.unfaithful(starts.get(1..).unwrap_or_default());
            if found.is_empty() {
                found.extend(trials.chained(&starts));
            }
            if found.is_empty() {
                return Ok(Settled {
                    starts,
                    boundaries,
                    passed_over,
                });
            }
            let sums = match &sums {
                Some(sums) => sums,
                None => sums.insert(self.sums()?),
            };
            for over in &found {
                withdraw(&mut boundaries, over.layer, sums);
            }
            passed_over.extend(found);
        }
        Err(SessionError::Load {
            model: self.name.clone(),
            reason: format!(
                "of {ROUNDS} divisions none had parts that give what the whole model gives (the last was wrong before \
                 layer {}); cut it into fewer blocks",
                passed_over.last().map_or(0, |over| over.layer)
            ),
        })
    }

    fn sums(&self) -> Result<Vec<Range<usize>>, SessionError> {
        self.chain.sums().map_err(|error| failed(&self.name, &error))
    }
}

/// Takes out the boundary before `layer`, and with it those across which the same sum loses an operand.
fn withdraw(boundaries: &mut [bool], layer: usize, sums: &[Range<usize>]) {
    let spans = sums.iter().filter(|span| span.contains(&layer)).cloned();
    for before in spans.flatten().chain([layer]) {
        if let Some(boundary) = before.checked_sub(1).and_then(|at| boundaries.get_mut(at)) {
            *boundary = false;
        }
    }
}

fn exact(tried: &Result<f32, String>) -> bool {
    tried.as_ref().is_ok_and(|difference| *difference <= TOLERANCE)
}

/// A model with noise, and what it makes of it.
struct Trials<'a> {
    layered: &'a Layered,
    /// Inputs and outputs.
    samples: Vec<(Vec<Tensor>, Vec<Tensor>)>,
    /// What was found at the boundaries that were tried, by the layer after them.
    tried: BTreeMap<usize, Result<f32, String>>,
}

impl<'a> Trials<'a> {
    fn of(layered: &'a Layered) -> Result<Self, SessionError> {
        let mut whole = load(layered, 0..layered.layers())?;
        let sample = |smooth: bool| {
            let mut inputs = layered.sample(1);
            for (seed, tensor) in inputs.iter_mut().enumerate() {
                fill(tensor, seed as u64, layered.range, smooth);
            }
            let outputs = whole.run(inputs.clone())?;
            Ok((inputs, outputs))
        };
        Ok(Self {
            layered,
            samples: [false, true].into_iter().map(sample).collect::<Result<_, _>>()?,
            tried: BTreeMap::new(),
        })
    }

    fn unfaithful(&mut self, layers: &[usize]) -> Vec<PassedOver> {
        let mut found = Vec::new();
        for layer in layers.iter().copied() {
            if !self.tried.contains_key(&layer) {
                let tried = self.run(&[0, layer]);
                self.tried.insert(layer, tried);
            }
            let tried = &self.tried[&layer];
            if !exact(tried) {
                let reason = said(tried);
                found.push(PassedOver { layer, reason });
            }
        }
        found
    }

    /// The worst of the boundaries, each of which is right alone, where all of them together are not.
    fn chained(&self, starts: &[usize]) -> Option<PassedOver> {
        if starts.len() < 3 {
            return None;
        }
        let all = self.run(starts);
        let off = |layer: &usize| {
            self.tried
                .get(layer)
                .and_then(|tried| tried.as_ref().ok())
                .copied()
        };
        let worst = starts.iter().skip(1).copied();
        let worst = worst.max_by(|a, b| off(a).unwrap_or_default().total_cmp(&off(b).unwrap_or_default()));
        (!exact(&all)).then(|| PassedOver {
            layer: worst.unwrap_or_default(),
            reason: format!("{}, in a chain of {}", said(&all), starts.len()),
        })
    }

    /// Largest difference of an output over its largest magnitude, in parts that begin with the layers `starts`.
    fn run(&self, starts: &[usize]) -> Result<f32, String> {
        let ends = starts.iter().skip(1).copied().chain([self.layered.layers()]);
        let mut given: Vec<Vec<Tensor>> = self.samples.iter().map(|(inputs, _)| inputs.clone()).collect();
        for (start, end) in starts.iter().zip(ends) {
            let mut part = load(self.layered, *start..end).map_err(|error| error.to_string())?;
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

fn load(layered: &Layered, layers: Range<usize>) -> Result<Box<dyn PartitionSession>, SessionError> {
    let part = layered.chain.part(layers);
    let part = part.map_err(|error| failed(&layered.name, &error))?;
    OnnxParts::default().load(&part, DeviceKind::Cpu, false)
}

fn said(tried: &Result<f32, String>) -> String {
    match tried {
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
        let off = |(whole, cut): (&f32, &f32)| {
            if whole == cut || (whole.is_nan() && cut.is_nan()) {
                return 0.0;
            }
            let off = (whole - cut).abs() / largest;
            if off.is_nan() { f32::INFINITY } else { off }
        };
        whole.iter().zip(&cut).map(off).fold(0.0, f32::max)
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
        let off = |a: &[f32], b: &[f32]| difference(&tensor(a), &tensor(b));
        assert_eq!(off(&[4.0, -8.0], &[4.0, -8.0]), 0.0);
        assert_eq!(off(&[4.0, -8.0], &[6.0, -8.0]), 0.25);
        assert_eq!(off(&[f32::NAN, 1.0], &[f32::NAN, 1.0]), 0.0);
        assert_eq!(off(&[f32::NAN, 2.0], &[f32::NAN, 1.0]), 0.5);
        assert_eq!(off(&[1.0, 2.0], &[f32::NAN, 2.0]), f32::INFINITY);
        assert_eq!(off(&[1.0], &[1.0, 1.0]), f32::INFINITY);
        assert!(off(&[0.0], &[1e-30]) > TOLERANCE);
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
        withdraw(&mut boundaries, 3, &[2..5, 6..8]);
        assert_eq!(boundaries, [true, false, false, false, true, true, true, true]);
        withdraw(&mut boundaries, 8, &[2..5, 6..8]);
        assert!(!boundaries[7] && boundaries[6]);
    }
}
