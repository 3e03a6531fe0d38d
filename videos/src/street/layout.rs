//! The plan of the crossing, in metres: the main street runs along y, the other along x.

/// Half the width of the main street, from its middle to the kerb.
pub(super) const KERB: f32 = 4.8;
/// Boundary between the lane and the cycle lane.
pub(super) const CYCLES: f32 = 3.35;
/// The middle of a lane of the main street.
pub(super) const LANE: f32 = 1.68;
/// The middle of a cycle lane.
pub(super) const CYCLE_LANE: f32 = 4.08;
/// Distance of the houses from the middle of the street.
pub(super) const HOUSES: f32 = 8.8;
/// The other street, from its near kerb to its far one.
pub(super) const ACROSS: (f32, f32) = (22.5, 29.7);
/// The corners of the houses at the other street.
pub(super) const CORNERS: (f32, f32) = (18.6, 33.4);
/// The zebra crossings of the main street, before and beyond the other street.
pub(super) const ZEBRAS: [(f32, f32); 2] = [(16.0, 19.0), (33.0, 36.0)];
/// Stop lines of the main street: for leaving traffic, and for oncoming traffic.
pub(super) const STOPS: (f32, f32) = (14.9, 37.1);
/// The stop lines of the other street, left and right.
pub(super) const STOP_ACROSS: f32 = 9.0;
/// The radius of the kerb at the corners.
pub(super) const BEND: f32 = 3.0;
/// Length of the streets.
pub(super) const END: f32 = 170.0;
