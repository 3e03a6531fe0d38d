//! Requests that bring the same to every module. They are many to a kind, since what one brings are small numbers.

use std::collections::BTreeMap;

use super::input::BoundInput;

/// Groups requests into kinds: requests of one kind bring the same number of items to every module.
#[derive(Debug)]
pub(super) struct Kinds {
    requests: Vec<u32>,
    /// Number of items at each module, by kind.
    items_by_kind: Vec<Vec<u32>>,
}

impl Kinds {
    pub(super) fn new(input: &BoundInput<'_>) -> Self {
        let mut known: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        let mut items_by_kind: Vec<Vec<u32>> = Vec::new();
        let mut items = vec![0; input.modules.len()];
        let mut kind = |request: usize| {
            for (items, module_input) in items.iter_mut().zip(&input.modules) {
                *items = module_input.items.count(request);
            }
            if let Some(&kind) = known.get(&items) {
                return kind;
            }
            let kind = items_by_kind.len() as u32;
            known.insert(items.clone(), kind);
            items_by_kind.push(items.clone());
            kind
        };
        Self {
            requests: (0..input.arrivals.len()).map(&mut kind).collect(),
            items_by_kind,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items_by_kind.len()
    }

    pub(super) fn kind_of(&self, request: usize) -> usize {
        self.requests[request] as usize
    }

    /// Number of items by module; 0 for modules that the kind does not visit.
    pub(super) fn items(&self, kind: usize) -> &[u32] {
        &self.items_by_kind[kind]
    }
}
