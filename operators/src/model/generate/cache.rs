//! Caches of sequences between runs: alone, or as rows of what the last run gave.
//!
//! A run of several sequences has one tensor for each cache, as wide as the longest past; what a row has less is padding,
//! which the mask hides. What a run gives is the past of the next one, without a copy, as long as the same sequences run:
//! its new columns follow the padding, so a row is a list of spans. Where the sequences change, the valid columns alone are
//! gathered into a new tensor.

use super::ports::{CachePort, Ports};
use crate::model::runtime::HeldTensor;

/// The cache of one sequence: for each cache `[outer, tokens, inner]`.
#[derive(Debug, Clone, Default)]
pub(super) struct SequenceCache {
    pub(super) tokens: usize,
    pub(super) data: Vec<Vec<f32>>,
}

impl SequenceCache {
    /// Copies the cache of the first tokens; `None` if it has fewer.
    pub(super) fn first(&self, tokens: usize, ports: &[CachePort]) -> Option<Self> {
        if tokens > self.tokens {
            return None;
        }
        let first = |(port, own): (&CachePort, &Vec<f32>)| {
            let lines = own.chunks((self.tokens * port.inner).max(1));
            let first = lines.flat_map(|line| &line[..tokens * port.inner]);
            first.copied().collect::<Vec<f32>>()
        };
        Some(Self {
            tokens,
            data: ports.iter().zip(&self.data).map(first).collect(),
        })
    }
}

/// Columns of a row that hold tokens, in the order of the tokens: `[from, to)`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<(usize, usize)>);

impl Spans {
    /// The columns from 0 up to `to`.
    pub(super) fn first(to: usize) -> Self {
        let mut spans = Self::default();
        spans.add(0, to);
        spans
    }

    pub(super) fn add(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => self.0.push((from, to)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.0.iter().copied()
    }

    /// Tokens in them.
    pub(super) fn tokens(&self) -> usize {
        self.iter().map(|(from, to)| to - from).sum()
    }
}

/// Cache outputs of a run, which are the past of the next run.
pub(super) struct Rows {
    pub(super) tensors: Vec<HeldTensor>,
    /// Columns of each row, valid or not.
    pub(super) columns: usize,
    pub(super) spans: Vec<Spans>,
}

impl Rows {
    /// Copies the valid columns of a row.
    ///
    /// # Errors
    /// An output is no tensor of `f32`.
    pub(super) fn copy_row(&self, row: usize, ports: &[CachePort]) -> Result<SequenceCache, String> {
        let spans = &self.spans[row];
        let tokens = spans.tokens();
        let mut data = Vec::with_capacity(ports.len());
        for (port, tensor) in ports.iter().zip(&self.tensors) {
            let (_, all) = tensor.floats()?;
            let width = self.columns * port.inner;
            let mut own = Vec::with_capacity(port.token_elements() * tokens);
            for outer in 0..port.outer {
                let line = (row * port.outer + outer) * width;
                for (from, to) in spans.iter() {
                    own.extend_from_slice(&all[line + from * port.inner..line + to * port.inner]);
                }
            }
            data.push(own);
        }
        Ok(SequenceCache { tokens, data })
    }
}

/// Location of the past of a sequence.
#[derive(Clone, Copy)]
pub(super) enum Past<'a> {
    /// It has none.
    Nothing,
    Alone(&'a SequenceCache),
    Row(&'a Rows, usize),
}

impl Past<'_> {
    pub(super) fn tokens(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Alone(cache) => cache.tokens,
            Self::Row(rows, row) => rows.spans[*row].tokens(),
        }
    }
}

/// The past of a run, gathered from rows of the last run and from sequences alone.
#[derive(Default)]
pub(super) struct Gathered {
    /// For each cache; kept for their memory. What is padding holds numbers of earlier runs.
    pub(super) tensors: Vec<Vec<f32>>,
    pub(super) columns: usize,
    pub(super) spans: Vec<Spans>,
}

impl Gathered {
    /// Gathers the past of sequences, in this order.
    ///
    /// # Errors
    /// An output is no tensor of `f32`.
    pub(super) fn gather(&mut self, pasts: &[Past<'_>], ports: &Ports) -> Result<(), String> {
        // A past of nothing is one column of padding: not every graph takes a tensor without elements.
        let least = usize::from(!ports.is_exact);
        self.columns = pasts.iter().map(Past::tokens).max().unwrap_or(0).max(least);
        let ports = &ports.caches;
        self.spans = pasts.iter().map(|past| Spans::first(past.tokens())).collect();
        self.tensors.resize_with(ports.len(), Vec::new);
        for (index, (port, tensor)) in ports.iter().zip(&mut self.tensors).enumerate() {
            let width = self.columns * port.inner;
            tensor.resize(pasts.len() * port.outer * width, 0.0);
            for (past, own) in pasts.iter().zip(tensor.chunks_mut((port.outer * width).max(1))) {
                copy_past(past, index, port, own.chunks_mut(width.max(1)))?;
            }
        }
        Ok(())
    }
}

/// Copies cache number `index` of a past to the beginning of each line.
fn copy_past<'a>(
    past: &Past<'_>,
    index: usize,
    port: &CachePort,
    lines: impl Iterator<Item = &'a mut [f32]>,
) -> Result<(), String> {
    match past {
        Past::Nothing => {}
        Past::Alone(cache) => {
            let own = cache.data[index].chunks((cache.tokens * port.inner).max(1));
            for (line, own) in lines.zip(own) {
                line[..own.len()].copy_from_slice(own);
            }
        }
        Past::Row(rows, row) => {
            let (_, all) = rows.tensors[index].floats()?;
            let width = rows.columns * port.inner;
            let own = all[row * port.outer * width..].chunks(width.max(1));
            for (line, own) in lines.zip(own) {
                let mut at = 0;
                for (from, to) in rows.spans[*row].iter() {
                    let valid = &own[from * port.inner..to * port.inner];
                    line[at..at + valid.len()].copy_from_slice(valid);
                    at += valid.len();
                }
            }
        }
    }
    Ok(())
}
