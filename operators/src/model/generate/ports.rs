//! Inputs and outputs of a decoder, found by their names and checked against each other.

use weir_flow::{Element, Settings};

use crate::model::runtime::{OrtSession, TensorPort};

/// Encoding of the attention mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MaskKind {
    /// `f32 [batch, 1, tokens, past + tokens]`: 0, or a large negative number that is added.
    Added,
    /// `[batch, past + tokens]` of numbers or flags: 1, or 0 for what is padding. The model itself sees to the order.
    Padding(Element),
}

/// An input for the cache with the output that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CachePort {
    pub(super) input: String,
    pub(super) output: String,
    /// Sizes; those of the batch and of the past are 0.
    dims: Vec<usize>,
    past_axis: usize,
    /// Elements of one column before the past and behind it.
    pub(super) outer: usize,
    pub(super) inner: usize,
}

impl CachePort {
    /// A port with so many elements of one column before the past and behind it.
    #[cfg(test)]
    pub(super) fn with_sizes(outer: usize, inner: usize) -> Self {
        Self {
            input: String::new(),
            output: String::new(),
            dims: vec![0, outer, 0, inner],
            past_axis: 2,
            outer,
            inner,
        }
    }

    /// For so many sequences with so much past.
    pub(super) fn shape(&self, rows: usize, columns: usize) -> Vec<usize> {
        let mut shape = self.dims.clone();
        shape[0] = rows;
        shape[self.past_axis] = columns;
        shape
    }

    /// Elements of one token.
    pub(super) fn token_elements(&self) -> usize {
        self.outer * self.inner
    }

    /// Checks what a run gave: the past grown by the tokens of the run.
    ///
    /// # Errors
    /// The shape that was found, and the one that was to come.
    pub(super) fn check(&self, found: &[i64], rows: usize, columns: usize) -> Result<(), String> {
        let expected = self.shape(rows, columns);
        let same = found.len() == expected.len()
            && (found.iter().zip(&expected)).all(|(found, expected)| *found == *expected as i64);
        if same {
            return Ok(());
        }
        Err(format!(
            "output {} has the shape {found:?} after a run of {rows} sequences with {columns} tokens, but input {} takes \
             {expected:?} next: say by `past` and `present` which outputs belong to which inputs",
            self.output, self.input
        ))
    }
}

/// The inputs and outputs of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::model) struct Ports {
    pub(super) tokens: String,
    pub(super) tokens_element: Element,
    /// Width of the embeddings that the model takes instead of the ids of tokens.
    pub(in crate::model) width: Option<usize>,
    pub(in crate::model) positions: Option<(String, Element)>,
    pub(super) mask: Option<(String, MaskKind)>,
    pub(super) caches: Vec<CachePort>,
    pub(super) logits: String,
    /// Input with the number of tokens whose logits are wanted; 0 stands for all.
    pub(super) kept_logits: Option<(String, Element)>,
    /// Whether the model numbers tokens by their columns, so that a run has one sequence and no padding.
    pub(in crate::model) is_exact: bool,
}

/// Names of the input with the number of tokens whose logits are wanted.
const KEPT_LOGITS: [&str; 2] = ["num_logits_to_keep", "logits_to_keep"];

/// Names of ports, separated by commas.
pub(in crate::model) fn listed(ports: &[TensorPort]) -> String {
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    names.join(", ")
}

/// The input that a setting names, or else the one with a usual name.
fn named<'a>(
    inputs: &'a [TensorPort],
    (settings, key): (&Settings, &str),
    usual: &[&str],
) -> Result<Option<&'a TensorPort>, String> {
    match settings.text(key) {
        None => Ok(inputs.iter().find(|port| usual.contains(&port.name.as_str()))),
        Some(name) => {
            let found = inputs.iter().find(|port| port.name == name);
            let unknown = || format!("`{key}`: it has no input {name}; it has {}", listed(inputs));
            found.map(Some).ok_or_else(unknown)
        }
    }
}

impl Ports {
    /// Finds them by the names that the settings give, or else by those that decoders are usually exported with.
    ///
    /// # Errors
    /// A required input or output is missing or has the wrong type or shape; the message lists the names that
    /// exist.
    pub(in crate::model) fn find(session: &OrtSession, settings: &Settings) -> Result<Self, String> {
        let (inputs, outputs) = (session.input_ports(), session.output_ports());
        let all = listed(&inputs);
        let tokens = match named(&inputs, (settings, "input_ids"), &["input_ids", "tokens", "ids"])? {
            Some(ids) => Some(ids),
            None => named(&inputs, (settings, "inputs_embeds"), &["inputs_embeds"])?,
        };
        let tokens = tokens.ok_or_else(|| format!("none of its inputs {all} is `input_ids`"))?;
        let kept_logits = inputs
            .iter()
            .find(|port| KEPT_LOGITS.contains(&port.name.as_str()));
        let positions = named(
            &inputs,
            (settings, "position_ids"),
            &["position_ids", "positions"],
        )?;
        let mask = named(
            &inputs,
            (settings, "attention_mask"),
            &["attention_mask", "attn_mask", "mask"],
        )?;
        if mask.is_none() {
            return Err(format!(
                "none of its inputs {all} is `attention_mask`: without a mask sequences of different length cannot run together"
            ));
        }
        let past = settings.text("past").unwrap_or("past");
        let present = settings.text("present").unwrap_or("present");
        let caches = caches((&inputs, past), (&outputs, present))?;
        let known = [Some(tokens), positions, mask, kept_logits];
        let is_known = |port: &&TensorPort| {
            known.into_iter().flatten().any(|known| known.name == port.name)
                || caches.iter().any(|cache| cache.input == port.name)
        };
        if let Some(port) = inputs.iter().find(|port| !is_known(port)) {
            return Err(format!(
                "its input {} is not recognised: a decoder takes `input_ids`, `position_ids`, `attention_mask`, and caches \
                 whose names begin with `past` (now \"{past}\")",
                port.name
            ));
        }
        let logits = settings.text("logits").unwrap_or("logits");
        if !outputs.iter().any(|port| port.name == logits) {
            let found = listed(&outputs);
            return Err(format!(
                "it has no output {logits}: set `logits` to one of {found}"
            ));
        }
        if let Some(cache) = caches.iter().find(|cache| cache.output == logits) {
            return Err(format!(
                "output {logits} cannot be both the logits and what input {} takes next: set `logits` or `present`",
                cache.input
            ));
        }
        let width = embedding_width(tokens)?;
        let numbers = |port: &TensorPort| whole(port).map(|element| (port.name.clone(), element));
        Ok(Self {
            tokens: tokens.name.clone(),
            tokens_element: if width.is_some() {
                Element::F32
            } else {
                whole(tokens)?
            },
            width,
            positions: positions.map(position_ids).transpose()?,
            mask: match mask {
                Some(port) => Some((port.name.clone(), mask_kind(port)?)),
                None => None,
            },
            caches,
            logits: logits.to_owned(),
            kept_logits: kept_logits.map(numbers).transpose()?,
            is_exact: false,
        })
    }
}

/// Width of the embeddings of an input of floats `[batch, tokens, width]`; `None` for one of ids.
fn embedding_width(port: &TensorPort) -> Result<Option<usize>, String> {
    let sizes: Vec<Option<usize>> = port.dims.iter().map(|(size, _)| *size).collect();
    match (port.element, &sizes[..]) {
        (Some(Element::I64 | Element::I32), _) => Ok(None),
        (Some(Element::F32), [_, _, Some(width)]) => Ok(Some(*width)),
        (element, sizes) => Err(format!(
            "input {} holds {element:?} with the sizes {sizes:?}: expected are whole numbers [batch, tokens], or f32 \
             [batch, tokens, width] with a fixed width",
            port.name
        )),
    }
}

/// The input of the positions, one for each token.
fn position_ids(port: &TensorPort) -> Result<(String, Element), String> {
    match port.dims.len() {
        0..=2 => Ok((port.name.clone(), whole(port)?)),
        rank => Err(format!(
            "input {} has {rank} dimensions: expected are positions [batch, tokens], one for each token",
            port.name
        )),
    }
}

/// Element type of an input of whole numbers.
///
/// # Errors
/// The type that was found.
pub(in crate::model) fn whole(port: &TensorPort) -> Result<Element, String> {
    match port.element {
        Some(element @ (Element::I64 | Element::I32)) => Ok(element),
        other => Err(format!("input {} holds {other:?}, not whole numbers", port.name)),
    }
}

fn mask_kind(port: &TensorPort) -> Result<MaskKind, String> {
    match (port.dims.len(), port.element) {
        (4, Some(Element::F32)) => Ok(MaskKind::Added),
        (2, Some(element @ (Element::I64 | Element::I32 | Element::F32 | Element::Bool))) => {
            Ok(MaskKind::Padding(element))
        }
        (rank, element) => Err(format!(
            "its mask {} has {rank} dimensions of {element:?}: known are f32 [batch, 1, tokens, past + tokens] and numbers \
             [batch, past + tokens]",
            port.name
        )),
    }
}

/// Ports whose names begin so, with what tells them apart: `past_key_values.0.key` belongs to `present.0.key`.
fn behind<'a>(ports: &'a [TensorPort], prefix: &str) -> Vec<(&'a str, &'a TensorPort)> {
    let rest = |port: &'a TensorPort| {
        let rest = port.name.strip_prefix(prefix)?;
        Some((rest.find('.').map_or(rest, |dot| &rest[dot..]), port))
    };
    ports.iter().filter_map(rest).collect()
}

/// Inputs and outputs of the cache, paired.
fn caches(
    (inputs, past): (&[TensorPort], &str),
    (outputs, present): (&[TensorPort], &str),
) -> Result<Vec<CachePort>, String> {
    let (past_ports, present_ports) = (behind(inputs, past), behind(outputs, present));
    if past_ports.is_empty() {
        return Err(format!(
            "none of its inputs {} begins with \"{past}\": a decoder takes its cache explicitly, and `past` says by which names",
            listed(inputs)
        ));
    }
    if past_ports.len() != present_ports.len() {
        return Err(format!(
            "{} inputs begin with \"{past}\", and {} outputs with \"{present}\": each cache comes out of the output that belongs \
             to its input",
            past_ports.len(),
            present_ports.len()
        ));
    }
    let pair = |(place, port): &(&str, &TensorPort)| {
        let same = present_ports.iter().find(|(other, _)| other == place);
        match (past_ports.len(), same) {
            (1, _) => cache(port, present_ports[0].1),
            (_, Some((_, output))) => cache(port, output),
            (_, None) => Err(format!(
                "no output that begins with \"{present}\" ends as input {} does",
                port.name
            )),
        }
    };
    past_ports.iter().map(pair).collect()
}

fn cache(port: &TensorPort, output: &TensorPort) -> Result<CachePort, String> {
    if port.element != Some(Element::F32) || output.element != Some(Element::F32) {
        return Err(format!(
            "cache {} holds {:?}, and {} {:?}: export it with f32",
            port.name, port.element, output.name, output.element
        ));
    }
    let sizes: Vec<Option<usize>> = port.dims.iter().map(|(size, _)| *size).collect();
    let free: Vec<usize> = (1..sizes.len()).filter(|axis| sizes[*axis].is_none()).collect();
    let ([past_axis], Some(None)) = (&*free, sizes.first()) else {
        return Err(format!(
            "cache {} has the sizes {sizes:?}: the first, of sequences, and one other, of their past, are to be free",
            port.name
        ));
    };
    let dims: Vec<usize> = sizes.iter().map(|size| size.unwrap_or(0)).collect();
    Ok(CachePort {
        input: port.name.clone(),
        output: output.name.clone(),
        outer: dims[1..*past_axis].iter().product(),
        inner: dims[past_axis + 1..].iter().product(),
        past_axis: *past_axis,
        dims,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two layers' keys: `[batch, 2, past, 4]`.
    fn port() -> CachePort {
        let port = |name: &str, dims: &[Option<usize>]| TensorPort {
            name: name.to_owned(),
            element: Some(Element::F32),
            dims: dims.iter().map(|size| (*size, String::new())).collect(),
        };
        let dims = [None, Some(2), None, Some(4)];
        cache(&port("past", &dims), &port("present", &dims)).unwrap()
    }

    #[test]
    fn a_cache_that_is_not_grown_by_the_tokens_of_the_run_is_refused_with_both_shapes() {
        let port = port();
        assert_eq!(port.shape(3, 7), [3, 2, 7, 4]);
        assert_eq!((port.outer, port.inner, port.token_elements()), (2, 4, 8));
        assert_eq!(port.check(&[3, 2, 7, 4], 3, 7), Ok(()));
        for found in [
            &[3, 2, 5, 4][..],
            &[1, 2, 7, 4],
            &[3, 2, 7, 8],
            &[3, 4, 7, 2],
            &[3, 2, 7],
            &[3, 2, 7, 4, 1],
            &[3, 2, -1, 4],
            &[],
        ] {
            let problem = port.check(found, 3, 7).unwrap_err();
            let shapes = [format!("{found:?}"), "[3, 2, 7, 4]".to_owned()];
            assert!(
                shapes.iter().all(|shape| problem.contains(shape)) && problem.contains("output present"),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_cache_whose_sizes_do_not_say_where_the_past_is_is_refused() {
        for dims in [
            &[None, Some(2), Some(7), Some(4)][..],
            &[None, None, None, Some(4)],
            &[Some(1), Some(2), None, Some(4)],
            &[None],
            &[],
        ] {
            let port = TensorPort {
                name: "past".to_owned(),
                element: Some(Element::F32),
                dims: dims.iter().map(|size| (*size, String::new())).collect(),
            };
            let problem = cache(&port, &port).unwrap_err();
            assert!(
                problem.contains("cache past has the sizes"),
                "{dims:?}: {problem}"
            );
        }
    }
}
