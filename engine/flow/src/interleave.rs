//! Pictures and sound of one stream in the order of their decoding times. Either may arrive ahead of the other: packets that are ahead
//! wait, within bounds.

use std::collections::VecDeque;

use crate::packet::Packet;

/// Longest time in milliseconds by which waiting packets may be ahead. Sources fill pauses of the sound earlier than that.
const MAX_AHEAD_MS: f64 = 6_000.0;

/// Maximum number and bytes of packets that wait.
const MAX_PACKETS: usize = 4_096;
const MAX_BYTES: usize = 16 << 20;

/// Packets of one kind.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Packet>,
    /// Decoding time of the last packet that arrived.
    newest_ms: Option<f64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Interleaver {
    pictures: Lane,
    sound: Lane,
    packets: usize,
    bytes: usize,
}

impl Interleaver {
    /// Adds a packet; [`Interleaver::next`] returns those whose turn it is.
    pub(crate) fn push(&mut self, packet: Packet) {
        self.packets += 1;
        self.bytes += packet.data.len();
        let lane = if packet.sound {
            &mut self.sound
        } else {
            &mut self.pictures
        };
        lane.newest_ms = Some(packet.dts_ms);
        lane.waiting.push_back(packet);
    }

    /// Returns the next packet, unless an earlier one of the other kind may follow.
    pub(crate) fn next(&mut self) -> Option<Packet> {
        let is_full = self.packets > MAX_PACKETS || self.bytes > MAX_BYTES;
        let (first, other) = self.earliest()?;
        let ahead_of = |newest_ms: f64| first.waiting[0].dts_ms > newest_ms;
        let waits = other.newest_ms.is_none_or(ahead_of) && !first.is_overdue();
        if waits && !is_full {
            return None;
        }
        self.pop()
    }

    /// Returns the earliest of all that wait: nothing follows.
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let (first, _) = self.earliest()?;
        let packet = first.waiting.pop_front()?;
        self.packets -= 1;
        self.bytes -= packet.data.len();
        Some(packet)
    }

    /// The kind of packets with the earliest one, and the other kind.
    fn earliest(&mut self) -> Option<(&mut Lane, &mut Lane)> {
        let (pictures, sound) = (&mut self.pictures, &mut self.sound);
        match (pictures.waiting.front(), sound.waiting.front()) {
            (Some(picture), Some(piece)) if piece.dts_ms < picture.dts_ms => Some((sound, pictures)),
            (Some(_), _) => Some((pictures, sound)),
            (None, Some(_)) => Some((sound, pictures)),
            (None, None) => None,
        }
    }
}

impl Lane {
    /// Whether its first packet has waited for too long, or has a wild time.
    fn is_overdue(&self) -> bool {
        let ahead_ms = self.waiting.front().zip(self.newest_ms);
        ahead_ms.is_some_and(|(first, newest_ms)| (newest_ms - first.dts_ms).abs() > MAX_AHEAD_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(dts_ms: f64, sound: bool, bytes: usize) -> Packet {
        Packet {
            data: vec![0; bytes].into(),
            pts_ms: dts_ms,
            dts_ms,
            duration_ms: 0.0,
            key: false,
            sound,
            time_ms: 0,
        }
    }

    /// Times that come out after each push; those of sound are negative.
    fn out(interleaver: &mut Interleaver, packets: &[(f64, bool)]) -> Vec<f64> {
        let mut times = Vec::new();
        for (dts_ms, sound) in packets {
            interleaver.push(packet(*dts_ms, *sound, 1));
            while let Some(next) = interleaver.next() {
                times.push(if next.sound { -next.dts_ms } else { next.dts_ms });
            }
        }
        times
    }

    #[test]
    fn packets_come_out_in_the_order_of_time() {
        let mut interleaver = Interleaver::default();
        let pushed = [
            (40.0, false),
            (80.0, false),
            (30.0, true),
            (60.0, true),
            (90.0, true),
            (120.0, true),
        ];
        assert_eq!(out(&mut interleaver, &pushed), [-30.0, 40.0, -60.0, 80.0]);
        assert_eq!(out(&mut interleaver, &[(200.0, false)]), [-90.0, -120.0]);
        assert_eq!(interleaver.pop().map(|packet| packet.dts_ms), Some(200.0));
        assert!(interleaver.pop().is_none());
        assert_eq!((interleaver.packets, interleaver.bytes), (0, 0));
    }

    #[test]
    fn pictures_without_sound_wait_for_a_bounded_time() {
        let mut interleaver = Interleaver::default();
        let pictures: Vec<(f64, bool)> = (0..400).map(|index| (f64::from(index) * 40.0, false)).collect();
        let released = out(&mut interleaver, &pictures);
        assert_eq!(released.len(), 400 - 151);
        assert_eq!(released[0], 0.0);
    }

    #[test]
    fn bytes_and_wild_times_are_bounded() {
        let mut interleaver = Interleaver::default();
        interleaver.push(packet(0.0, false, MAX_BYTES));
        assert!(interleaver.next().is_none());
        interleaver.push(packet(40.0, false, 1));
        assert_eq!(interleaver.next().map(|packet| packet.dts_ms), Some(0.0));
        assert!(interleaver.next().is_none());
        // A packet from the far future does not hold up those behind it.
        let times = out(&mut interleaver, &[(1e12, false), (80.0, false), (45.0, true)]);
        assert_eq!(times, [40.0, 1e12, -45.0]);
        assert_eq!(out(&mut interleaver, &[(120.0, true)]), [80.0]);
    }
}
