//! Requests that bring the same to every module. They are many to a kind, since what one brings are small numbers.

use std::collections::BTreeMap;

use super::input::Scene;

/// Which request is of which kind.
#[derive(Debug)]
pub(super) struct Kinds {
    requests: Vec<u32>,
    /// By kind: items by module.
    brings: Vec<Vec<u32>>,
}

impl Kinds {
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let mut known: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        let mut brings: Vec<Vec<u32>> = Vec::new();
        let mut items = vec![0; scene.modules.len()];
        let mut kind = |request: usize| {
            for (items, station) in items.iter_mut().zip(&scene.modules) {
                *items = station.items.of(request);
            }
            if let Some(&kind) = known.get(&items) {
                return kind;
            }
            let kind = brings.len() as u32;
            known.insert(items.clone(), kind);
            brings.push(items.clone());
            kind
        };
        Self {
            requests: (0..scene.arrivals.len()).map(&mut kind).collect(),
            brings,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.brings.len()
    }

    pub(super) fn of_request(&self, request: usize) -> usize {
        self.requests[request] as usize
    }

    /// Items by module; none where it does not visit one.
    pub(super) fn brings(&self, kind: usize) -> &[u32] {
        &self.brings[kind]
    }
}
