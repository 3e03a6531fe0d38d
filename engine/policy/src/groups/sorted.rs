//! Orders without groups: a queue for each instance, or one for each model.

use std::collections::BTreeSet;

use weir_types::{ModelId, SequenceId, Timestamp};

/// Requests ordered by arrival or by deadline.
type Line = BTreeSet<(Timestamp, SequenceId)>;

/// One line for each instance, or for each model.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines(Vec<Line>);

impl Lines {
    pub(super) fn new(count: usize) -> Self {
        Self(vec![Line::new(); count])
    }

    pub(super) fn insert(&mut self, line: usize, key: Timestamp, request: SequenceId) {
        self.0[line].insert((key, request));
    }

    pub(super) fn remove(&mut self, line: usize, key: Timestamp, request: SequenceId) {
        self.0[line].remove(&(key, request));
    }

    pub(super) fn first(&self, line: usize) -> Option<(Timestamp, SequenceId)> {
        self.0[line].first().copied()
    }

    /// Index of the shortest line among those that are allowed.
    pub(super) fn shortest(&self, is_allowed: impl Fn(usize) -> bool) -> Option<usize> {
        let allowed = (0..self.0.len()).filter(|line| is_allowed(*line));
        allowed.min_by_key(|line| (self.0[*line].len(), *line))
    }

    /// Removes and returns all requests of a line.
    pub(super) fn take(&mut self, line: usize) -> Vec<SequenceId> {
        let all = std::mem::take(&mut self.0[line]);
        all.into_iter().map(|(_, request)| request).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(BTreeSet::len).sum()
    }
}

/// Model that an instance serves next by rule `sticky`: its own while requests for it wait. Otherwise, among
/// models that it can hold and that are not in `served`, the one with the most urgent request.
pub(super) fn sticky_model(
    lines: &Lines,
    own: Option<ModelId>,
    served: &[Option<ModelId>],
    can_hold: impl Fn(ModelId) -> bool,
) -> Option<ModelId> {
    if let Some(own) = own
        && lines.first(own.index()).is_some()
    {
        return Some(own);
    }
    let is_served = |model: usize| served.iter().flatten().any(|other| other.index() == model);
    let urgent = (0..lines.0.len()).filter(|model| !is_served(*model) && can_hold(ModelId(*model as u32)));
    let urgent = urgent.filter_map(|model| Some((lines.first(model)?, model)));
    urgent.min().map(|(_, model)| ModelId(model as u32))
}
