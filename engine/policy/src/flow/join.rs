//! Where branches meet: a request goes on when it has come from every vertex that it had to come from.

use std::collections::BTreeMap;

use weir_types::RequestId;

/// Parts of requests that have come, by request. Bounded by the requests under way.
#[derive(Debug, Clone)]
pub struct Join<T> {
    waiting: BTreeMap<RequestId, (u32, T)>,
}

impl<T> Default for Join<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
        }
    }
}

impl<T> Join<T> {
    /// A part of `request` came; `branches` parts make it whole. Gives the merged parts with the last one.
    pub fn on_branch(
        &mut self,
        request: RequestId,
        branches: u32,
        branch: T,
        merge: impl FnOnce(&mut T, T),
    ) -> Option<T> {
        if branches <= 1 {
            return Some(branch);
        }
        match self.waiting.remove(&request) {
            None => {
                self.waiting.insert(request, (1, branch));
                None
            }
            Some((arrived, mut whole)) => {
                merge(&mut whole, branch);
                if arrived + 1 == branches {
                    return Some(whole);
                }
                self.waiting.insert(request, (arrived + 1, whole));
                None
            }
        }
    }

    /// The request ended elsewhere.
    pub fn cancel(&mut self, request: RequestId) -> Option<T> {
        self.waiting.remove(&request).map(|(_, branch)| branch)
    }

    /// Requests of which a part is here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_merged_when_all_branches_have_arrived() {
        let mut join = Join::default();
        let mut branch =
            |request, branch| join.on_branch(RequestId(request), 3, branch, |whole, branch| *whole += branch);
        assert_eq!(branch(1, 1), None);
        assert_eq!(branch(2, 10), None);
        assert_eq!(branch(1, 2), None);
        assert_eq!(branch(1, 4), Some(7));
        assert_eq!(branch(2, 20), None);
        assert_eq!(join.cancel(RequestId(2)), Some(30));
        assert!(join.is_empty());
    }

    #[test]
    fn a_single_branch_passes_at_once() {
        assert_eq!(Join::default().on_branch(RequestId(1), 1, 5, |_, _| ()), Some(5));
    }
}
