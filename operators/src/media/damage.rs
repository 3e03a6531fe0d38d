//! Pictures of H.265 that the decoder made up: it shows what it has where the pictures that one refers to are missing, and does not
//! mark it. What is decoded before the first picture that needs no other, and after a missing reference up to the next of those,
//! is marked here.

use std::collections::BTreeSet;

/// Packets after which a stream counts as whole again without a key frame: it is refreshed part by part.
const MAX_PACKETS: u32 = 400;

/// Times of pictures that are remembered until they come out.
const MAX_WAITING: usize = 1_024;

/// Of one stream, by presentation times in ticks.
#[derive(Debug)]
pub(super) struct Damage {
    is_damaged: bool,
    packets: u32,
    /// Of the last packet.
    pts: Option<i64>,
    /// Of a key frame before which pictures were damaged: what is shown before it may refer to those.
    clean_from: Option<i64>,
    marked: BTreeSet<i64>,
}

impl Default for Damage {
    fn default() -> Self {
        Self {
            is_damaged: true,
            packets: 0,
            pts: None,
            clean_from: None,
            marked: BTreeSet::new(),
        }
    }
}

impl Damage {
    /// A packet is given to the decoder.
    pub(super) fn on_packet(&mut self, is_key: bool, pts: Option<i64>) {
        self.pts = pts;
        if is_key {
            self.clean_from = pts.filter(|_| self.is_damaged);
            self.is_damaged = false;
        } else if self.is_damaged {
            self.packets += 1;
            self.is_damaged = self.packets < MAX_PACKETS;
        }
        let is_before = pts.zip(self.clean_from).is_some_and(|(pts, from)| pts < from);
        if self.is_damaged || is_before {
            self.mark();
        }
    }

    /// The decoder misses what the last packet refers to.
    pub(super) fn on_missing(&mut self) {
        (self.is_damaged, self.packets) = (true, 0);
        self.mark();
    }

    fn mark(&mut self) {
        self.marked.extend(self.pts);
        if self.marked.len() > MAX_WAITING {
            self.marked.pop_first();
        }
    }

    /// Whether the picture of that time is made up, in part or as a whole.
    pub(super) fn is_made_up(&mut self, pts: Option<i64>) -> bool {
        pts.is_some_and(|pts| self.marked.remove(&pts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_made_up_until_the_next_key_frame() {
        let mut damage = Damage::default();
        // Joined in the middle, a key frame with a picture before it, and a loss.
        let packets = [
            (0, false),
            (1, false),
            (4, true),
            (3, false),
            (5, false),
            (6, false),
            (7, false),
            (8, true),
            (9, false),
        ];
        for (pts, is_key) in packets {
            damage.on_packet(is_key, Some(pts));
            if pts == 6 {
                damage.on_missing();
            }
        }
        let made_up: Vec<i64> = (0..10).filter(|pts| damage.is_made_up(Some(*pts))).collect();
        assert_eq!(made_up, [0, 1, 3, 6, 7]);
        assert!(!damage.is_made_up(None));
    }

    #[test]
    fn a_stream_without_key_frames_becomes_whole_again() {
        let mut damage = Damage::default();
        for pts in 0..1_000 {
            damage.on_packet(false, Some(pts));
        }
        assert!(damage.is_made_up(Some(300)) && !damage.is_made_up(Some(500)));
    }
}
