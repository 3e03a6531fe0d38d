//! The model that makes embeddings of tokens, for decoders that take these: `input_ids` in, `inputs_embeds` out. Some also take the features of
//! pictures and put them in the places of their tokens; for the others that is done here.

use weir_flow::Element;

use super::ports::{listed, whole};
use super::run::Numbers;
use crate::model::runtime::{NamedInput, OrtSession, TensorPort};

/// An open model of embeddings.
pub(in crate::model) struct Embedder {
    session: OrtSession,
    ids: (String, Element),
    /// Input of the features of pictures `[rows, width]`, if the model merges them itself.
    features: Option<String>,
    output: String,
    width: usize,
}

impl Embedder {
    /// Finds the inputs and the output. `features` and `output` are the names that a configuration has for them.
    ///
    /// # Errors
    /// An input that is missing or not filled, or an output of another shape.
    pub(in crate::model) fn new(
        session: OrtSession,
        features: &str,
        output: Option<&str>,
    ) -> Result<Self, String> {
        let (inputs, outputs) = (session.input_ports(), session.output_ports());
        let mut ids = None;
        let mut merged = None;
        for port in &inputs {
            let is_float = port.element == Some(Element::F32);
            if port.name == "input_ids" {
                ids = Some((port.name.clone(), whole(port)?));
            } else if port.name == features && is_float && port.dims.len() == 2 {
                merged = Some(port.name.clone());
            } else {
                return Err(format!(
                    "its input {} of {:?} with {} dimensions is not filled: expected are `input_ids`, whole numbers [batch, tokens], \
                     and at most `{features}`, f32 [rows, width]",
                    port.name,
                    port.element,
                    port.dims.len()
                ));
            }
        }
        let ids = ids.ok_or_else(|| format!("none of its inputs {} is `input_ids`", listed(&inputs)))?;
        let is_wanted = |port: &&TensorPort| output.is_none_or(|name| port.name == name);
        let found = outputs.iter().find(is_wanted).ok_or_else(|| {
            format!(
                "none of its outputs {} is `{}`",
                listed(&outputs),
                output.unwrap_or("inputs_embeds")
            )
        })?;
        let width = match (found.element, found.dims.last()) {
            (Some(Element::F32), Some((Some(width), _))) if found.dims.len() == 3 => *width,
            _ => {
                return Err(format!(
                    "its output {} holds {:?} with {} dimensions: expected are f32 [batch, tokens, width] with a fixed width",
                    found.name,
                    found.element,
                    found.dims.len()
                ));
            }
        };
        Ok(Self {
            output: found.name.clone(),
            session,
            ids,
            features: merged,
            width,
        })
    }

    /// Numbers of one embedding.
    pub(in crate::model) const fn width(&self) -> usize {
        self.width
    }

    /// Returns the embeddings of tokens without a picture.
    ///
    /// # Errors
    /// The runtime's error, or an output of another shape.
    pub(super) fn tokens(&mut self, ids: &[u32]) -> Result<Vec<f32>, String> {
        self.run(ids, &[])
    }

    /// Returns the embeddings of a prompt. `image` has the token that stands for a row of features, and these rows.
    ///
    /// # Errors
    /// As [`Self::tokens`], or there are not as many rows as tokens for them.
    pub(super) fn prompt(&mut self, ids: &[u32], image: Option<(u32, &[f32])>) -> Result<Vec<f32>, String> {
        let Some((token, features)) = image else {
            return self.run(ids, &[]);
        };
        let places = ids.iter().filter(|id| **id == token).count();
        if features.len() != places * self.width {
            return Err(format!(
                "the features of the picture are {} numbers, and the prompt has {places} places of {} for them: the picture encoder \
                 and the model of embeddings do not belong together",
                features.len(),
                self.width
            ));
        }
        if self.features.is_some() {
            return self.run(ids, features);
        }
        let mut embedded = self.run(ids, &[])?;
        let places = embedded
            .chunks_mut(self.width)
            .zip(ids)
            .filter(|(_, id)| **id == token);
        for ((place, _), row) in places.zip(features.chunks(self.width)) {
            place.copy_from_slice(row);
        }
        Ok(embedded)
    }

    fn run(&mut self, ids: &[u32], features: &[f32]) -> Result<Vec<f32>, String> {
        let shape = [1, ids.len()];
        let feature_shape = [features.len() / self.width, self.width];
        let (name, element) = &self.ids;
        let tokens = Numbers::of_tokens(ids, *element);
        let mut inputs = vec![(name.as_str(), tokens.input(*element, &shape))];
        if let Some(name) = &self.features {
            inputs.push((name, NamedInput::F32(&feature_shape, features)));
        }
        let outputs = self.session.run_named(&inputs, &[&self.output])?;
        let output = outputs.first().ok_or("it gives no output")?;
        let (found, embedded) = output.floats()?;
        if embedded.len() != ids.len() * self.width {
            return Err(format!(
                "output {} has the shape {found:?} for {} tokens; expected are [1, {}, {}]",
                self.output,
                ids.len(),
                ids.len(),
                self.width
            ));
        }
        Ok(embedded.to_vec())
    }
}
