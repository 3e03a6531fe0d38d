//! Where branches meet: a request goes on when it has come from every vertex that it had to come from.

use std::collections::BTreeMap;

use crate::id::RequestId;

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
    /// A part of `request` came; `of` parts make it whole. Gives the merged parts with the last one.
    pub fn part(&mut self, request: RequestId, of: u32, part: T, merge: impl FnOnce(&mut T, T)) -> Option<T> {
        if of <= 1 {
            return Some(part);
        }
        match self.waiting.remove(&request) {
            None => {
                self.waiting.insert(request, (1, part));
                None
            }
            Some((come, mut whole)) => {
                merge(&mut whole, part);
                if come + 1 == of {
                    return Some(whole);
                }
                self.waiting.insert(request, (come + 1, whole));
                None
            }
        }
    }

    /// The request ended elsewhere.
    pub fn cancel(&mut self, request: RequestId) -> Option<T> {
        self.waiting.remove(&request).map(|(_, part)| part)
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
    fn a_request_goes_on_when_all_its_parts_have_come() {
        let mut join = Join::default();
        let mut part = |request, part| join.part(RequestId(request), 3, part, |whole, part| *whole += part);
        assert_eq!(part(1, 1), None);
        assert_eq!(part(2, 10), None);
        assert_eq!(part(1, 2), None);
        assert_eq!(part(1, 4), Some(7));
        assert_eq!(part(2, 20), None);
        assert_eq!(join.cancel(RequestId(2)), Some(30));
        assert!(join.is_empty());
    }

    #[test]
    fn one_part_passes_straight_through() {
        assert_eq!(Join::default().part(RequestId(1), 1, 5, |_, _| ()), Some(5));
    }
}
