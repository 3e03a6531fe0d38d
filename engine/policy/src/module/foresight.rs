//! What requests that come here will ask of the modules behind (rule `weir`), and who had better not be run first because
//! of it: where branches are exclusive or frames bring crops, one branch may have too much to do while another has time.

use rand::RngExt;

use super::Module;
use crate::id::StreamId;
use crate::time::{Span, Timestamp};
use crate::window::Window;

/// Over which the load on a module behind is looked at: which branch is the fuller one changes within half a second.
const PRESENT: Span = Span::from_millis(200);

/// What is about to come upon the modules behind.
#[derive(Debug, Clone, Default)]
pub(super) struct Foresight {
    /// Expected items by module behind, in the order of their numbers.
    coming: Vec<Window>,
    /// Share of them that is too much.
    surplus: Vec<f64>,
}

impl Module {
    /// A request of `stream` has come.
    pub(super) fn foresee(&mut self, stream: StreamId, now: Timestamp) {
        if !self.is_weir() {
            return;
        }
        let behind = self.planner.behind();
        if self.foresight.coming.len() != behind.len() {
            self.foresight.coming = vec![Window::new(PRESENT); behind.len()];
            self.foresight.surplus = vec![0.0; behind.len()];
        }
        let mut varies = false;
        for (window, &module) in self.foresight.coming.iter_mut().zip(behind) {
            if let Some(items) = self.planner.brings(stream, module) {
                window.observe(items, now);
                varies = true;
            }
        }
        if varies {
            self.weigh(now);
        }
    }

    /// Looks how much of what comes is too much for the modules behind.
    fn weigh(&mut self, now: Timestamp) {
        let behind = self.planner.behind().iter();
        let of = self.foresight.coming.iter().zip(&mut self.foresight.surplus);
        for ((window, surplus), &module) in of.zip(behind) {
            let coming = window.rate(now, Timestamp::ZERO);
            let can = self.planner.throughput(module);
            *surplus = if can > 0.0 && coming > can {
                1.0 - can / coming
            } else {
                0.0
            };
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
        let unwanted = self.planner.unwanted(stream, &self.foresight.surplus);
        unwanted > 0.0 && self.random.random_bool(unwanted)
    }
}
