//! States that a camera reports of itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::CameraEvent;

use crate::track::FrameTime;

/// States of a camera that hold at a time, at most.
pub(crate) const MAX_STATES: usize = 256;

/// States that a camera says hold, by topic and source, with their begin.
#[derive(Debug, Default)]
pub(crate) struct CameraStates(BTreeMap<(Arc<str>, Arc<str>), FrameTime>);

impl CameraStates {
    /// Takes in an event; `None`: the camera is not heard any more, and nothing is known.
    pub(crate) fn on_event(&mut self, event: Option<&CameraEvent>, at: FrameTime) {
        let Some(event) = event else {
            return self.0.clear();
        };
        let key = (Arc::clone(&event.topic), Arc::clone(&event.source));
        match event.active {
            Some(true) if self.0.len() < MAX_STATES => {
                self.0.entry(key).or_insert(at);
            }
            Some(false) => {
                self.0.remove(&key);
            }
            Some(true) | None => {}
        }
    }

    /// The states that hold count from `at` on.
    pub(crate) fn begin_anew(&mut self, at: FrameTime) {
        self.0.values_mut().for_each(|began| *began = at);
    }

    /// Whether the state of that topic and source holds.
    pub(crate) fn holds(&self, key: &(Arc<str>, Arc<str>)) -> bool {
        self.0.contains_key(key)
    }

    /// The states that hold, with their begin.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&(Arc<str>, Arc<str>), &FrameTime)> {
        self.0.iter()
    }
}
