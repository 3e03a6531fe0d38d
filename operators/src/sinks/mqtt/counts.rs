//! Current number of objects per stream and class, and of all classes together. Only tracked objects count, unless no object of
//! the frame has a track.

use std::collections::{BTreeMap, BTreeSet};

use weir_flow::DeliveredObject;

/// Streams and classes of which counts are published.
const MAX_COUNTS: usize = 2_048;

/// Name of the count of all classes together.
pub(super) const ALL: &str = "all";

/// Objects that a stream shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) now: u64,
    /// Those that are not stationary.
    pub(super) active: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Counts keyed by stream and class.
    counts: BTreeMap<(String, String), Count>,
}

/// Counts of a stream that changed and are to be published.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// New counts by class.
    pub(super) counts: Vec<(String, Count)>,
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
        let mut now = BTreeMap::<&str, Count>::new();
        for object in counted {
            let track = object.track.as_ref();
            let settled = track.map(|track| &*track.class);
            let class = settled.filter(|class| !class.is_empty());
            let class = class.unwrap_or(&object.object.class);
            let is_active = track.is_none_or(|track| track.stationary_ms.is_none());
            for class in [class, ALL].into_iter().take(1 + usize::from(class != ALL)) {
                let count = now.entry(class).or_default();
                count.now += 1;
                count.active += u64::from(is_active);
            }
        }
        let known: BTreeMap<&str, Count> = self.of(stream).collect();
        let mut changed = Changed::default();
        let classes: BTreeSet<&str> = known.keys().chain(now.keys()).copied().collect();
        for class in classes {
            let count = now.get(class).copied().unwrap_or_default();
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

    /// Classes of which the stream has shown any, with their counts.
    pub(super) fn of<'a>(&'a self, stream: &'a str) -> impl Iterator<Item = (&'a str, Count)> {
        let of_stream = self.counts.iter().filter(move |((of, _), _)| of == stream);
        of_stream.map(|((_, class), count)| (&**class, *count))
    }

    pub(super) fn remove(&mut self, stream: &str) {
        self.counts.retain(|(of, _), _| of != stream);
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::TrackState;

    use super::super::samples;
    use super::*;

    fn object(class: &str, stationary_ms: Option<Option<f64>>) -> DeliveredObject {
        let track = stationary_ms.map(|stationary_ms| TrackState {
            stationary_ms,
            ..TrackState::default()
        });
        samples::object(class, track)
    }

    #[test]
    fn counts_are_published_when_they_change() {
        let (untracked, moving, parked) = (None, Some(None), Some(Some(20_000.0)));
        let mut counts = Counts::default();
        let mut check = |objects: &[DeliveredObject], expected: &[(&str, u64, u64)], has_new: bool| {
            let changed = counts.on_objects("north", objects);
            let expected = expected.iter().map(|(class, now, active)| {
                (
                    (*class).to_owned(),
                    Count {
                        now: *now,
                        active: *active,
                    },
                )
            });
            assert_eq!(
                changed,
                Changed {
                    counts: expected.collect(),
                    has_new
                }
            );
        };
        let two = [object("car", untracked), object("car", untracked)];
        check(&two, &[("all", 2, 2), ("car", 2, 2)], true);
        check(&two, &[], false);
        // What is tracked counts alone.
        let mixed = [
            object("car", moving),
            object("car", untracked),
            object("bus", parked),
        ];
        check(&mixed, &[("all", 2, 1), ("bus", 1, 0), ("car", 1, 1)], true);
        check(&[], &[("all", 0, 0), ("bus", 0, 0), ("car", 0, 0)], false);
        let known: Vec<&str> = counts.of("north").map(|(class, _)| class).collect();
        assert_eq!(known, ["all", "bus", "car"]);
        counts.remove("north");
        assert_eq!(counts.of("north").count(), 0);
    }
}
