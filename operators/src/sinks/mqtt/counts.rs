//! Current number of objects per stream and class. Only tracked objects count, unless no object of the frame
//! has a track.

use std::collections::{BTreeMap, BTreeSet};

use weir_flow::DeliveredObject;

/// Streams and classes of which counts are published.
const MAX_COUNTS: usize = 2_048;

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Counts keyed by stream and class.
    counts: BTreeMap<(String, String), u64>,
}

/// Counts of a stream that changed and are to be published.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// New counts by class.
    pub(super) counts: Vec<(String, u64)>,
    /// Whether one of them was not known before.
    pub(super) has_new: bool,
}

impl Counts {
    /// The objects that a stream shows now.
    pub(super) fn on_objects(&mut self, stream: &str, objects: &[DeliveredObject]) -> Changed {
        let is_tracked = objects.iter().any(|object| object.track.is_some());
        let counted = objects
            .iter()
            .filter(|object| !is_tracked || object.track.is_some());
        let mut now = BTreeMap::<&str, u64>::new();
        for object in counted {
            let settled = object.track.as_ref().map(|track| &*track.class);
            let class = settled.filter(|class| !class.is_empty());
            *now.entry(class.unwrap_or(&object.object.class)).or_default() += 1;
        }
        let known = self.counts.iter().filter(|((of, _), _)| of == stream);
        let known: BTreeMap<&str, u64> = known.map(|((_, class), count)| (&**class, *count)).collect();
        let mut changed = Changed::default();
        let classes: BTreeSet<&str> = known.keys().chain(now.keys()).copied().collect();
        for class in classes {
            let count = now.get(class).copied().unwrap_or(0);
            if known.get(class) != Some(&count) {
                changed.has_new |= !known.contains_key(class);
                changed.counts.push((class.to_owned(), count));
            }
        }
        let room = MAX_COUNTS.saturating_sub(self.counts.len());
        changed.counts.truncate(known.len() + room);
        for (class, count) in &changed.counts {
            self.counts.insert((stream.to_owned(), class.clone()), *count);
        }
        changed
    }

    /// Streams with their classes, of which there were any.
    pub(super) fn known(&self) -> impl Iterator<Item = (&str, &str)> {
        self.counts.keys().map(|(stream, class)| (&**stream, &**class))
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::{Object, Points, Rect, TrackState};

    use super::*;

    fn object(class: &str, is_tracked: bool) -> DeliveredObject {
        DeliveredObject {
            id: 0,
            object: Object {
                candidate: false,
                class: class.into(),
                score: 0.5,
                rect: Rect::new(0.0, 0.0, 1.0, 1.0),
                parent: None,
                points: Points::None,
            },
            parent: None,
            attributes: Vec::new(),
            track: is_tracked.then(TrackState::default),
        }
    }

    #[test]
    fn counts_are_published_when_they_change() {
        let mut counts = Counts::default();
        let mut check = |objects: &[DeliveredObject], expected: &[(&str, u64)], has_new: bool| {
            let changed = counts.on_objects("north", objects);
            let expected = expected
                .iter()
                .map(|(class, count)| ((*class).to_owned(), *count));
            assert_eq!(
                changed,
                Changed {
                    counts: expected.collect(),
                    has_new
                }
            );
        };
        check(&[object("car", false), object("car", false)], &[("car", 2)], true);
        check(&[object("car", false), object("car", false)], &[], false);
        // What is tracked counts alone.
        let mixed = [object("car", true), object("car", false), object("bus", true)];
        check(&mixed, &[("bus", 1), ("car", 1)], true);
        check(&[], &[("bus", 0), ("car", 0)], false);
        let known: Vec<(&str, &str)> = counts.known().collect();
        assert_eq!(known, [("north", "bus"), ("north", "car")]);
    }
}
