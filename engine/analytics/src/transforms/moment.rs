//! Times between frames.

use crate::track::FrameTime;

impl FrameTime {
    /// Media time until `later`, in milliseconds; negative where it is earlier.
    #[must_use]
    pub fn until(self, later: Self) -> f64 {
        later.pts_ms - self.pts_ms
    }

    /// The time `part` of the way to `later`. Both times are interpolated, for a recording may be replayed faster than it was
    /// made.
    #[must_use]
    pub fn towards(self, later: Self, part: f64) -> Self {
        let span = later.time_ms.saturating_sub(self.time_ms) as f64;
        Self {
            pts_ms: self.pts_ms + (later.pts_ms - self.pts_ms) * part,
            time_ms: self.time_ms.saturating_add((span * part).round() as u64),
        }
    }
}
