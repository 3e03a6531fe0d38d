//! Passes the objects of a frame and their tracks to transforms, and collects the incidents.

use weir_flow::RequestResults;

use crate::stream::{FrameAnalytics, NewTrack};
use crate::track::FrameTime;
use crate::transforms::{FramePixels, SceneFrame, SceneObject, StreamTransforms};

/// Passes the objects of the next frame with their tracks to transforms, and stores the incidents and
/// drawings in `found`. Without `pixels`, no pictures are taken.
pub fn run_transforms(
    transforms: &mut StreamTransforms,
    (width, height): (u32, u32),
    at: FrameTime,
    pixels: Option<FramePixels<'_>>,
    results: &RequestResults,
    found: &mut FrameAnalytics,
) {
    if transforms.is_empty() {
        return;
    }
    let mut objects = Vec::new();
    for (name, object) in results.objects() {
        let plain = SceneObject {
            module: name.module,
            track: None,
            first: None,
            class: &object.class,
            score: object.score,
            rect: object.rect,
            is_stationary: false,
            attributes: &[],
        };
        let tracks = found.tracks.get(&name).into_iter().flatten();
        for (tracker, state) in tracks.filter(|(tracker, _)| !found.doubtful.contains(&(*tracker, name))) {
            let is_it = |new: &&NewTrack| (new.tracker, new.id) == (*tracker, state.id);
            objects.push(SceneObject {
                track: Some((*tracker as u32, state.id)),
                first: found.new_tracks.iter().find(is_it).map(|new| new.first),
                class: &state.class,
                is_stationary: state.stationary_ms.is_some(),
                attributes: &state.attributes,
                ..plain.clone()
            });
        }
        // Candidates are of use to trackers alone.
        if !object.candidate {
            objects.push(plain);
        }
    }
    let ended: Vec<_> = found.ended_tracks.iter().map(|(_, end)| end.clone()).collect();
    let incidents = transforms.on_frame(&SceneFrame {
        width,
        height,
        at,
        objects: &objects,
        ended: &ended,
        pixels,
    });
    drop(objects);
    (found.incidents, found.overlays) = (incidents, transforms.overlays());
}

/// Ends all open incidents at the end of a stream, together with its tracks.
pub fn close_transforms(transforms: &mut StreamTransforms, closed: &mut FrameAnalytics) {
    let ended: Vec<_> = closed.ended_tracks.iter().map(|(_, end)| end.clone()).collect();
    closed.incidents = transforms.close(&ended);
}
