//! Runs of a graph whose outputs may be inputs of its next run: decoders with explicit caches.

use ort::session::SessionInputValue;
use ort::value::{DynValue, TensorRef};

use super::{OrtSession, SessionOperation, observe, text};

/// An output that stays in the memory of the runtime, to be read or to be an input.
pub(crate) struct HeldTensor(DynValue);

impl HeldTensor {
    /// Its sizes and elements.
    ///
    /// # Errors
    /// It is no tensor of `f32`.
    pub(crate) fn floats(&self) -> Result<(&[i64], &[f32]), String> {
        let (shape, data) = self.0.try_extract_tensor::<f32>().map_err(text)?;
        Ok((shape, data))
    }
}

/// An input of a run, by shape and elements.
pub(crate) enum NamedInput<'a> {
    I64(&'a [usize], &'a [i64]),
    I32(&'a [usize], &'a [i32]),
    F32(&'a [usize], &'a [f32]),
    Bool(&'a [usize], &'a [bool]),
    Held(&'a HeldTensor),
}

impl<'a> NamedInput<'a> {
    fn value(&self) -> Result<SessionInputValue<'a>, String> {
        Ok(match *self {
            Self::I64(shape, data) => TensorRef::from_array_view((shape, data)).map_err(text)?.into(),
            Self::I32(shape, data) => TensorRef::from_array_view((shape, data)).map_err(text)?.into(),
            Self::F32(shape, data) => TensorRef::from_array_view((shape, data)).map_err(text)?.into(),
            Self::Bool(shape, data) => TensorRef::from_array_view((shape, data)).map_err(text)?.into(),
            Self::Held(held) => (&held.0).into(),
        })
    }
}

impl OrtSession {
    /// Runs the graph on `inputs` by name; gives the outputs `wanted`, in that order.
    ///
    /// # Errors
    /// The runtime's error, or the output that it did not give.
    pub(crate) fn run_named(
        &mut self,
        inputs: &[(&str, NamedInput<'_>)],
        wanted: &[&str],
    ) -> Result<Vec<HeldTensor>, String> {
        let mut fed: Vec<(&str, SessionInputValue<'_>)> = Vec::with_capacity(inputs.len());
        for (name, input) in inputs {
            fed.push((name, input.value()?));
        }
        observe::announce(SessionOperation::Run {
            items: 1,
            input_bytes: 0,
        });
        let mut outputs = self.session.run(fed).map_err(text)?;
        let held = wanted.iter().map(|name| {
            let output = outputs.remove(name);
            output
                .map(HeldTensor)
                .ok_or_else(|| format!("it gives no output {name}"))
        });
        held.collect()
    }
}
