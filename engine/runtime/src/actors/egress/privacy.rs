//! The parts of a frame that its pictures hide. They are settled before transforms take pictures and sinks get the frame; a frame without
//! known objects stays hidden.

use weir_analytics::PrivacyMemory;
use weir_flow::RequestResults;

use super::Egress;
use crate::request::Request;

impl Egress {
    /// Settles what pictures of the next frame of a stream hide.
    pub(super) fn settle_privacy(&mut self, request: &Request, results: &RequestResults) {
        let frame = &*request.frame;
        if !frame.privacy.hides() {
            return;
        }
        let names = &self.module_names;
        let name_of = |module: u32| names.get(module as usize).map(|name| &**name);
        let is_known = request.route.knows_hidden(results.without().filter_map(name_of));
        let Some(entry) = self.streams.get_mut(&request.stream) else {
            return;
        };
        let privacy = &request.route.scene.privacy;
        let areas = if request.still {
            entry.privacy.on_still()
        } else {
            if request.route.scene.is_of_single_pictures() || frame.file.is_some() {
                // Pictures do not follow each other.
                entry.privacy = PrivacyMemory::default();
            }
            let found = frame.privacy.found().filter(|_| is_known);
            found.map(|found| {
                let memory = &mut entry.privacy;
                memory.on_frame(privacy, frame.size(), frame.pts_ms, &found)
            })
        };
        match areas {
            Some(areas) => frame.privacy.settle(areas),
            None => entry.privacy.on_unknown(),
        }
    }
}
