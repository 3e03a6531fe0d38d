//! Detects if cameras leave room for archives that other engines could process as well.

/// Milliseconds without a late or dropped frame of any camera, before more of an archive is taken.
const CALM_MS: u64 = 2_000;

/// Late and dropped frames of the cameras of this engine.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Frames that were late or dropped.
    lost: u64,
    lost_at_ms: Option<u64>,
}

impl Room {
    /// Takes the current number of dropped and late camera frames, and returns whether there is room.
    pub(super) fn see(&mut self, lost: u64, now_ms: u64) -> bool {
        if lost > self.lost {
            self.lost_at_ms = Some(now_ms);
        }
        // A camera that is removed takes its count with it.
        self.lost = lost;
        self.lost_at_ms
            .is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= CALM_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_until_cameras_have_been_in_time_for_a_while() {
        let mut room = Room::default();
        assert!(room.see(0, 0));
        assert!(!room.see(3, 1_000));
        assert!(!room.see(3, 2_999));
        assert!(room.see(3, 3_000));
        assert!(room.see(0, 3_100));
        assert!(!room.see(1, 3_200));
    }
}
