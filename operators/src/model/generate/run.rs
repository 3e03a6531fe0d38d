//! One run of a decoder: sequences of different length beside each other, by padding and mask.

use weir_flow::Element;

use super::cache::{Gathered, Rows, Spans};
use super::ports::{MaskKind, Ports};
use crate::model::runtime::{HeldTensor, NamedInput, OrtSession};

/// Value that is added to attention scores of hidden tokens.
const HIDDEN: f32 = -1e9;

/// The past of a run.
pub(super) enum RunPast<'a> {
    Held(&'a Rows),
    Gathered(&'a Gathered),
}

impl RunPast<'_> {
    fn columns(&self) -> usize {
        match self {
            Self::Held(rows) => rows.columns,
            Self::Gathered(gathered) => gathered.columns,
        }
    }

    fn spans(&self) -> &[Spans] {
        match self {
            Self::Held(rows) => &rows.spans,
            Self::Gathered(gathered) => &gathered.spans,
        }
    }
}

/// Whole numbers, in the width that an input has.
#[derive(Default)]
pub(super) struct Numbers {
    wide: Vec<i64>,
    narrow: Vec<i32>,
}

impl Numbers {
    pub(super) fn of_tokens(ids: &[u32], element: Element) -> Self {
        let mut numbers = Self::default();
        numbers.wide.extend(ids.iter().map(|id| i64::from(*id)));
        numbers.narrow_for(element);
        numbers
    }

    fn narrow_for(&mut self, element: Element) {
        self.narrow.clear();
        if element == Element::I32 {
            let narrow = self
                .wide
                .iter()
                .map(|number| i32::try_from(*number).unwrap_or(i32::MAX));
            self.narrow.extend(narrow);
        }
    }

    pub(super) fn input<'a>(&'a self, element: Element, shape: &'a [usize]) -> NamedInput<'a> {
        match element {
            Element::I32 => NamedInput::I32(shape, &self.narrow),
            _ => NamedInput::I64(shape, &self.wide),
        }
    }
}

/// Tokens that a run computes of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowTokens<'a> {
    pub(super) ids: &'a [u32],
    /// Their embeddings if the model takes these, else empty.
    pub(super) embeddings: &'a [f32],
}

impl<'a> RowTokens<'a> {
    /// For a model that takes ids.
    pub(super) const fn ids(ids: &'a [u32]) -> Self {
        Self { ids, embeddings: &[] }
    }
}

/// Inputs of runs, kept for their memory.
#[derive(Default)]
pub(super) struct RunInputs {
    tokens: Numbers,
    embeddings: Vec<f32>,
    positions: Numbers,
    padding: Numbers,
    mask: Vec<f32>,
    flags: Vec<bool>,
}

/// Outputs of a run: logits `[rows, tokens, vocabulary]`, and the past of the next run.
pub(super) struct RunOutput {
    logits: HeldTensor,
    pub(super) vocabulary: usize,
    tokens: usize,
    pub(super) rows: Rows,
}

impl RunOutput {
    /// Logits after the last of `count` tokens of a row.
    ///
    /// # Errors
    /// They are no tensor of `f32`.
    pub(super) fn logits_of(&self, row: usize, count: usize) -> Result<&[f32], String> {
        let (_, all) = self.logits.floats()?;
        let from = (row * self.tokens + count - 1) * self.vocabulary;
        Ok(&all[from..from + self.vocabulary])
    }
}

impl RunInputs {
    /// Runs the tokens of each row, at least one, behind its past.
    ///
    /// # Errors
    /// The runtime's error, or an output that does not fit its input.
    pub(super) fn run(
        &mut self,
        session: &mut OrtSession,
        ports: &Ports,
        past: &RunPast<'_>,
        rows: &[RowTokens<'_>],
    ) -> Result<RunOutput, String> {
        let width = rows.iter().map(|row| row.ids.len()).max().unwrap_or(0);
        let (columns, count) = (past.columns(), rows.len());
        self.fill(ports, past, rows, width);
        let shape = [count, width];
        let embedded_shape = [count, width, ports.width.unwrap_or(0)];
        let padding_shape = [count, columns + width];
        let added_shape = [count, 1, width, columns + width];
        let past_shapes: Vec<Vec<usize>> = (ports.caches.iter())
            .map(|port| port.shape(count, columns))
            .collect();
        let mut inputs: Vec<(&str, NamedInput<'_>)> = Vec::with_capacity(3 + ports.caches.len());
        let tokens = match ports.width {
            Some(_) => NamedInput::F32(&embedded_shape, &self.embeddings),
            None => self.tokens.input(ports.tokens_element, &shape),
        };
        inputs.push((&ports.tokens, tokens));
        if let Some((name, element)) = &ports.kept_logits {
            let all = match element {
                Element::I32 => NamedInput::I32(&[], &[0]),
                _ => NamedInput::I64(&[], &[0]),
            };
            inputs.push((name, all));
        }
        if let Some((name, element)) = &ports.positions {
            inputs.push((name, self.positions.input(*element, &shape)));
        }
        if let Some((name, kind)) = &ports.mask {
            let mask = match kind {
                MaskKind::Added => NamedInput::F32(&added_shape, &self.mask),
                MaskKind::Padding(Element::F32) => NamedInput::F32(&padding_shape, &self.mask),
                MaskKind::Padding(Element::Bool) => NamedInput::Bool(&padding_shape, &self.flags),
                MaskKind::Padding(element) => self.padding.input(*element, &padding_shape),
            };
            inputs.push((name, mask));
        }
        for (index, port) in ports.caches.iter().enumerate() {
            let input = match past {
                RunPast::Held(rows) => NamedInput::Held(&rows.tensors[index]),
                RunPast::Gathered(gathered) => NamedInput::F32(&past_shapes[index], &gathered.tensors[index]),
            };
            inputs.push((&port.input, input));
        }
        let outputs = ports.caches.iter().map(|port| port.output.as_str());
        let wanted: Vec<&str> = std::iter::once(ports.logits.as_str()).chain(outputs).collect();
        let mut outputs = session.run_named(&inputs, &wanted)?.into_iter();
        let logits = outputs.next().ok_or("it gives no output")?;
        let vocabulary = vocabulary(&logits, &ports.logits, shape)?;
        let tensors: Vec<HeldTensor> = outputs.collect();
        for (port, tensor) in ports.caches.iter().zip(&tensors) {
            port.check(tensor.floats()?.0, count, columns + width)?;
        }
        let mut spans = past.spans().to_vec();
        for (spans, row) in spans.iter_mut().zip(rows) {
            spans.add(columns, columns + row.ids.len());
        }
        Ok(RunOutput {
            logits,
            vocabulary,
            tokens: width,
            rows: Rows {
                tensors,
                columns: columns + width,
                spans,
            },
        })
    }

    fn fill(&mut self, ports: &Ports, past: &RunPast<'_>, rows: &[RowTokens<'_>], width: usize) {
        self.tokens.wide.clear();
        self.positions.wide.clear();
        self.embeddings.clear();
        for (row, spans) in rows.iter().zip(past.spans()) {
            let before = spans.tokens();
            let last = row.ids.len().saturating_sub(1);
            for place in 0..width {
                // Padding is the last token again: any that the model knows would do, since nothing attends to it.
                let place = place.min(last);
                let token = row.ids.get(place).copied().unwrap_or(0);
                if let Some(size) = ports.width {
                    let own = row.embeddings.get(place * size..(place + 1) * size);
                    self.embeddings.extend_from_slice(own.unwrap_or_default());
                }
                self.tokens.wide.push(i64::from(token));
                self.positions.wide.push((before + place) as i64);
            }
        }
        self.tokens.narrow_for(ports.tokens_element);
        if let Some((_, element)) = ports.positions {
            self.positions.narrow_for(element);
        }
        match ports.mask {
            Some((_, MaskKind::Added)) => self.fill_added(past, rows, width),
            Some((_, MaskKind::Padding(element))) => self.fill_padding(past, rows, width, element),
            None => {}
        }
    }

    /// Each token attends to the past of its row, to those before it, and to itself.
    fn fill_added(&mut self, past: &RunPast<'_>, rows: &[RowTokens<'_>], width: usize) {
        let (columns, length) = (past.columns(), past.columns() + width);
        self.mask.clear();
        self.mask.resize(rows.len() * width * length, HIDDEN);
        let mut lines = self.mask.chunks_mut(length);
        for (row, spans) in rows.iter().zip(past.spans()) {
            for (place, line) in lines.by_ref().take(width).enumerate() {
                if place < row.ids.len() {
                    for (from, to) in spans.iter() {
                        line[from..to].fill(0.0);
                    }
                    line[columns..=columns + place].fill(0.0);
                } else {
                    line[columns + place] = 0.0;
                }
            }
        }
    }

    fn fill_padding(&mut self, past: &RunPast<'_>, rows: &[RowTokens<'_>], width: usize, element: Element) {
        let (columns, length) = (past.columns(), past.columns() + width);
        let all = &mut self.padding.wide;
        all.clear();
        all.resize(rows.len() * length, 0);
        for ((row, spans), line) in rows.iter().zip(past.spans()).zip(all.chunks_mut(length)) {
            for (from, to) in spans.iter() {
                line[from..to].fill(1);
            }
            line[columns..columns + row.ids.len()].fill(1);
        }
        self.mask.clear();
        self.flags.clear();
        match element {
            Element::F32 => self.mask.extend(all.iter().map(|one| *one as f32)),
            Element::Bool => self.flags.extend(all.iter().map(|one| *one == 1)),
            element => self.padding.narrow_for(element),
        }
    }
}

/// Size of the vocabulary, by the shape of the logits.
fn vocabulary(logits: &HeldTensor, name: &str, [rows, tokens]: [usize; 2]) -> Result<usize, String> {
    match *logits.floats()?.0 {
        [of_rows, of_tokens, vocabulary]
            if of_rows == rows as i64 && of_tokens == tokens as i64 && vocabulary > 0 =>
        {
            Ok(vocabulary as usize)
        }
        ref found => Err(format!(
            "output {name} has the shape {found:?} for {rows} sequences of {tokens} tokens; expected are [{rows}, {tokens}, \
             vocabulary]"
        )),
    }
}
