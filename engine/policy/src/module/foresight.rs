//! What requests that come here will ask of the modules behind (rule `weir`), and who had better not be run first because
//! of it: where branches are exclusive or frames bring crops, one branch may have too much to do while another has time.

use rand::RngExt;

use super::Module;
use super::coming::Coming;
use crate::id::{ModuleId, StreamId};
use crate::time::Timestamp;

/// What is about to come upon the modules behind, in the order of their numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Foresight {
    coming: Vec<Coming>,
}

impl Module {
    /// A request of `stream` has come.
    pub(super) fn foresee(&mut self, stream: StreamId, now: Timestamp) {
        if !self.is_weir() || !self.planner.streams_differ() {
            return;
        }
        let behind = self.planner.behind();
        self.foresight.coming.resize_with(behind.len(), Coming::default);
        for (coming, &module) in self.foresight.coming.iter_mut().zip(behind) {
            if let Some(items) = self.planner.brings(stream, module) {
                coming.observe(items, self.planner.throughput(module), now);
            }
        }
    }

    /// Whether a request asks for too much at present: here, by what it brings, or further on, by what its stream brought
    /// lately.
    pub(super) fn is_dear(&mut self, stream: StreamId, items: u32) -> bool {
        if !self.is_weir() {
            return false;
        }
        if self.load.is_dear(items) {
            return true;
        }
        let unwanted = self.unwanted(stream);
        unwanted > 0.0 && self.random.random_bool(unwanted)
    }

    /// How likely a request of `stream` is too much for a module behind, or too dear for what comes there.
    fn unwanted(&self, stream: StreamId) -> f64 {
        if !self.planner.streams_differ() {
            return 0.0;
        }
        let by = |(&module, coming): (&ModuleId, &Coming)| {
            let Some(items) = self.planner.brings(stream, module) else {
                return 0.0;
            };
            let limit = self.planner.dear(module);
            if limit.is_some_and(|limit| items > f64::from(limit)) {
                return 1.0;
            }
            coming.too_much(items)
        };
        let behind = self.planner.behind().iter().zip(&self.foresight.coming);
        behind.map(by).fold(0.0, f64::max)
    }
}
