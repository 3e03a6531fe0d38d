//! Pictures that an address has given, over its openings. A live list of segments begins a few segments back each time it is
//! opened: pictures that were given before are left out, and media time continues.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ffmpeg_next::Packet;

/// Packets that are remembered: minutes, and more than such a list holds at its end.
const MAX_REMEMBERED: usize = 8_192;

/// Packets of an unfinished group that are kept for those who observe packets.
const MAX_GROUP: usize = 1_024;

/// Media that an address has given.
#[derive(Debug, Default)]
pub(super) struct Played {
    packets: VecDeque<Remembered>,
    /// Stamp and time in milliseconds of the last picture.
    last: Option<(f64, f64)>,
}

#[derive(Debug)]
struct Remembered {
    pts: i64,
    content: u64,
    is_given: bool,
}

/// Continuation of an opening where the one before ended.
pub(super) struct Resumption {
    played: Arc<Mutex<Played>>,
    /// Whether no packet came yet that is new.
    is_looking: bool,
    has_repeats: bool,
    /// Presentation times of pictures that were given before.
    repeats: Vec<i64>,
    /// The group of pictures that was read last and had been read before.
    pub(super) group: Vec<Packet>,
}

impl Resumption {
    pub(super) fn new(played: Arc<Mutex<Played>>) -> Self {
        Self {
            played,
            is_looking: true,
            has_repeats: false,
            repeats: Vec::new(),
            group: Vec::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Played> {
        self.played.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A packet was read; says whether an earlier opening had read it.
    pub(super) fn on_packet(&mut self, packet: &Packet) -> bool {
        let Some(pts) = packet.pts().or(packet.dts()) else {
            return false;
        };
        let content = content_of(packet);
        if self.is_looking {
            let before = self.lock();
            let known = before
                .packets
                .iter()
                .find(|known| known.pts == pts && known.content == content);
            let known = known.map(|known| known.is_given);
            drop(before);
            if let Some(is_given) = known {
                self.has_repeats = true;
                if is_given {
                    self.repeats.push(pts);
                }
                if packet.is_key() || self.group.len() >= MAX_GROUP {
                    self.group.clear();
                }
                self.group.push(packet.clone());
                return true;
            }
            self.is_looking = false;
        }
        let mut played = self.lock();
        played.packets.push_back(Remembered {
            pts,
            content,
            is_given: false,
        });
        if played.packets.len() > MAX_REMEMBERED {
            played.packets.pop_front();
        }
        false
    }

    /// Whether the picture of that time was given before.
    pub(super) fn is_repeat(&mut self, pts: Option<i64>) -> bool {
        let at = pts.and_then(|pts| self.repeats.iter().position(|repeat| *repeat == pts));
        at.is_some_and(|at| {
            self.repeats.swap_remove(at);
            true
        })
    }

    /// Stamp and time in milliseconds of the last picture that was given before, where this opening goes on after it.
    pub(super) fn goes_on_from(&self) -> Option<(f64, f64)> {
        self.lock().last.filter(|_| self.has_repeats)
    }

    /// A picture was given.
    pub(super) fn on_given(&self, pts: Option<i64>, stamp_ms: f64, time_ms: f64) {
        let mut played = self.lock();
        played.last = Some((stamp_ms, time_ms));
        let of_it = played
            .packets
            .iter_mut()
            .rev()
            .find(|known| Some(known.pts) == pts);
        if let Some(known) = of_it {
            known.is_given = true;
        }
    }
}

fn content_of(packet: &Packet) -> u64 {
    let mut hasher = DefaultHasher::new();
    packet.data().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u8) -> Packet {
        let mut packet = Packet::copy(&[number; 9]);
        packet.set_pts(Some(i64::from(number) * 40));
        if number.is_multiple_of(5) {
            packet.set_flags(ffmpeg_next::codec::packet::Flags::KEY);
        }
        packet
    }

    #[test]
    fn an_opening_goes_on_after_what_the_one_before_gave() {
        let played = Arc::<Mutex<Played>>::default();
        let mut first = Resumption::new(Arc::clone(&played));
        for number in 0..13 {
            assert!(!first.on_packet(&packet(number)));
        }
        // The decoder still held the last one.
        for number in 0..12_u8 {
            let ms = f64::from(number) * 40.0;
            first.on_given(packet(number).pts(), ms, ms);
        }
        assert_eq!(first.goes_on_from(), None);
        let mut second = Resumption::new(played);
        for number in 5..13 {
            assert!(second.on_packet(&packet(number)), "{number}");
        }
        assert!(!second.on_packet(&packet(13)));
        assert_eq!(second.group.len(), 3);
        assert_eq!(second.goes_on_from(), Some((440.0, 440.0)));
        let repeats: Vec<bool> = (5..14)
            .map(|number| second.is_repeat(packet(number).pts()))
            .collect();
        assert_eq!(repeats, [true, true, true, true, true, true, true, false, false]);
        // What comes later is new, whatever it looks like.
        assert!(!second.on_packet(&packet(6)));
    }

    #[test]
    fn other_pictures_with_the_same_stamps_are_new() {
        let played = Arc::<Mutex<Played>>::default();
        let mut first = Resumption::new(Arc::clone(&played));
        for number in 0..20 {
            first.on_packet(&packet(number));
            first.on_given(packet(number).pts(), 0.0, 0.0);
        }
        let mut again = Resumption::new(played);
        let mut other = Packet::copy(&[200; 9]);
        other.set_pts(Some(0));
        assert!(!again.on_packet(&other));
        assert!(!again.is_repeat(Some(0)));
        assert_eq!(again.goes_on_from(), None);
    }
}
