//! Join of branches: a request continues when it has arrived on every branch.

use std::collections::BTreeMap;

use weir_types::RequestId;

/// Branches that have arrived, by request. Bounded by the requests in flight.
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
    /// A branch of `request` arrived, one of `branches`. Returns the merged value with the last one.
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
            Some((arrived, mut merged)) => {
                merge(&mut merged, branch);
                if arrived + 1 == branches {
                    return Some(merged);
                }
                self.waiting.insert(request, (arrived + 1, merged));
                None
            }
        }
    }

    /// The request ended elsewhere: removes its waiting branches.
    pub fn cancel(&mut self, request: RequestId) -> Option<T> {
        self.waiting.remove(&request).map(|(_, branch)| branch)
    }

    /// Number of requests that wait for further branches.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no request waits.
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
