//! Transforms: they take in the tracked objects of a stream, frame by frame, and report incidents that begin,
//! continue and end.
//!
//! Transforms have no clock: motion is measured by the media time of frames, which may be any time apart, and
//! a track may be missing in some of them. Changes between two observations of a track, such as the crossing
//! of a line, are interpolated. Nothing is drawn, written or sent here.

mod best_shot;
mod camera_event;
mod camera_states;
mod episodes;
mod finding;
mod geometry;
mod ground;
mod keys;
mod line;
mod loitering;
mod moment;
mod object_filter;
mod occupancy;
mod read;
mod rule;
mod schedule;
mod spec;
mod speed;
mod state;
mod still;
mod stream;
mod subject;
#[cfg(test)]
mod tests;
mod wrong_way;
mod zone;

pub use jiff::tz::TimeZone;

pub use geometry::{Anchor, Homography, PolygonFault, Position, check_polygon};
pub use ground::{GroundMap, GroundView};
pub use keys::{TRANSFORM_TYPES, TransformType, transform_type};
pub use object_filter::{ObjectFilter, ObjectRule, Verdict};
pub use read::{Fault, read_polygon, read_transform};
pub use schedule::{Exception, Hours, Schedule, ScheduleKeys, clock_text, time_zone};
pub use spec::{
    BestShotSpec, CameraEventSpec, Outline, RuleSpec, Still, TransformKind, TransformSpec, Units, Wanted,
};
pub use stream::{SceneFrame, SceneObject, StreamTransform, StreamTransforms};
pub use subject::FramePixels;
