//! The newest dropped frames of each stream, with the module, the reason and the resource that was short, in
//! bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use weir_flow::Notice;
use weir_types::Shortfall;

/// Frames of a stream that are kept: some hundred bytes each, and more than a person reads.
pub(crate) const MAX_DROPS: usize = 200;

/// See the module.
#[derive(Default)]
pub(crate) struct Drops {
    kept: Mutex<BTreeMap<Arc<str>, VecDeque<Dropped>>>,
}

/// A frame, or several one after the other that nothing but their number tells apart.
struct Dropped {
    frame: u64,
    last_frame: u64,
    count: u64,
    pts_ms: f64,
    time_ms: u64,
    /// `None` where it was dropped at the source.
    module: Option<Arc<str>>,
    reason: &'static str,
    shortfall: Option<Shortfall>,
}

impl Drops {
    /// Keeps what a notice says, if it is one of a drop.
    pub(super) fn add(&self, notice: &Notice) {
        let Notice::Dropped {
            stream,
            frame,
            pts_ms,
            time_ms,
            module,
            reason,
            shortfall,
        } = notice
        else {
            return;
        };
        let mut kept = self.lock();
        let of_stream = kept.entry(Arc::clone(stream)).or_default();
        let is_same = |last: &&mut Dropped| {
            let without = last.shortfall.is_none() && shortfall.is_none();
            without && last.reason == *reason && last.module == *module
        };
        if let Some(last) = of_stream.back_mut().filter(is_same) {
            last.last_frame = *frame;
            last.count += 1;
            return;
        }
        if of_stream.len() == MAX_DROPS {
            of_stream.pop_front();
        }
        of_stream.push_back(Dropped {
            frame: *frame,
            last_frame: *frame,
            count: 1,
            pts_ms: *pts_ms,
            time_ms: *time_ms,
            module: module.clone(),
            reason,
            shortfall: *shortfall,
        });
    }

    /// The stream was removed.
    pub(super) fn remove(&self, stream: &str) {
        self.lock().remove(stream);
    }

    /// Those of a stream, the newest first.
    pub(crate) fn list(&self, stream: &str) -> Value {
        let kept = self.lock();
        let drops = kept.get(stream).into_iter().flatten().rev();
        drops.map(Dropped::shown).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, VecDeque<Dropped>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dropped {
    fn shown(&self) -> Value {
        let mut shown = json!({
            "frame": self.frame,
            "last_frame": self.last_frame,
            "count": self.count,
            "pts_ms": self.pts_ms,
            "time_ms": self.time_ms,
            "module": self.module.as_deref().unwrap_or("source"),
            "reason": self.reason,
        });
        if let Some(shortfall) = &self.shortfall {
            shown["needed_ms"] = json!({
                "wait": shortfall.wait.as_millis_f64(),
                "execution": shortfall.execution.as_millis_f64(),
                "downstream": shortfall.downstream.as_millis_f64(),
            });
            shown["remaining_ms"] = json!(shortfall.remaining.as_millis_f64());
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use weir_types::Span;

    use super::*;

    fn dropped(stream: &str, frame: u64, shortfall: Option<Shortfall>) -> Notice {
        Notice::Dropped {
            stream: stream.into(),
            frame,
            pts_ms: 40.0,
            time_ms: 1_000,
            module: shortfall.map(|_| "detect".into()),
            reason: "infeasible",
            shortfall,
        }
    }

    #[test]
    fn the_newest_of_each_stream_are_kept_with_what_they_were_short_of() {
        let drops = Drops::default();
        for frame in 0..MAX_DROPS as u64 + 5 {
            drops.add(&dropped("north", frame, Some(Shortfall::default())));
        }
        let shortfall = Shortfall {
            wait: Span::from_millis(30),
            execution: Span::from_millis(24),
            downstream: Span::from_millis(10),
            remaining: Span::from_millis(61),
        };
        drops.add(&dropped("south", 7, Some(shortfall)));
        let north = drops.list("north");
        let frames: Vec<u64> = north
            .as_array()
            .unwrap()
            .iter()
            .map(|drop| drop["frame"].as_u64().unwrap())
            .collect();
        assert_eq!((frames.len(), frames[0]), (MAX_DROPS, MAX_DROPS as u64 + 4));
        for frame in 500..503 {
            drops.add(&dropped("north", frame, None));
        }
        let last = &drops.list("north")[0];
        assert_eq!(
            (&last["frame"], &last["last_frame"], &last["count"]),
            (&json!(500), &json!(502), &json!(3))
        );
        assert_eq!(last["module"], "source");
        let south = &drops.list("south")[0];
        assert_eq!(
            south["needed_ms"],
            json!({ "wait": 30.0, "execution": 24.0, "downstream": 10.0 })
        );
        assert_eq!(
            (&south["remaining_ms"], &south["module"]),
            (&json!(61.0), &json!("detect"))
        );
        drops.remove("north");
        assert_eq!(drops.list("north"), json!([]));
    }
}
