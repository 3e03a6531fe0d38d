//! The last packets of a stream in memory, in whole groups of pictures, bounded in time and bytes.

use std::collections::VecDeque;

use weir_flow::Packet;

/// See the module.
#[derive(Debug)]
pub(super) struct Ring {
    groups: VecDeque<Vec<Packet>>,
    bytes: usize,
    keep_ms: f64,
    max_bytes: usize,
}

impl Ring {
    /// Of packets that are at most `keep_ms` older than the newest, and of those before them down to a key frame; at most
    /// `max_bytes` of them.
    pub(super) fn new(keep_ms: f64, max_bytes: usize) -> Self {
        Self {
            groups: VecDeque::new(),
            bytes: 0,
            keep_ms,
            max_bytes,
        }
    }

    /// Other bounds are in force from the next packet on.
    pub(super) fn set_bounds(&mut self, keep_ms: f64, max_bytes: usize) {
        (self.keep_ms, self.max_bytes) = (keep_ms, max_bytes);
    }

    pub(super) fn push(&mut self, packet: &Packet) {
        match self.groups.back_mut() {
            Some(group) if !packet.key => group.push(packet.clone()),
            None if !packet.key => return,
            _ => self.groups.push_back(vec![packet.clone()]),
        }
        self.bytes += packet.data.len();
        let oldest_ms = packet.dts_ms - self.keep_ms;
        let is_old = |group: &Vec<Packet>| group.first().is_none_or(|packet| packet.pts_ms <= oldest_ms);
        while self.bytes > self.max_bytes || self.groups.get(1).is_some_and(is_old) {
            // A group that alone exceeds the bound is of no use without its beginning.
            let Some(group) = self.groups.pop_front() else {
                break;
            };
            self.bytes -= group.iter().map(|packet| packet.data.len()).sum::<usize>();
        }
    }

    /// The packets from the last key frame on that is not after `pts_ms`; all where there is none.
    pub(super) fn since(&self, pts_ms: f64) -> impl Iterator<Item = &Packet> {
        let begins = |group: &Vec<Packet>| group.first().is_some_and(|packet| packet.pts_ms <= pts_ms);
        let first = self.groups.iter().rposition(begins).unwrap_or(0);
        self.groups.iter().skip(first).flatten()
    }

    /// Drops all packets: what comes next continues nothing.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(index: u32, bytes: usize) -> Packet {
        let pts_ms = f64::from(index) * 100.0;
        Packet {
            data: vec![0; bytes].into(),
            pts_ms,
            dts_ms: pts_ms,
            duration_ms: 100.0,
            key: index.is_multiple_of(10),
            sound: false,
            time_ms: 0,
        }
    }

    fn filled(packets: u32, keep_ms: f64, max_bytes: usize) -> Ring {
        let mut ring = Ring::new(keep_ms, max_bytes);
        (3..packets).for_each(|index| ring.push(&packet(index, 10)));
        ring
    }

    fn first(ring: &Ring, pts_ms: f64) -> Option<f64> {
        ring.since(pts_ms).next().map(|packet| packet.pts_ms)
    }

    #[test]
    fn it_begins_with_a_key_frame_and_keeps_what_was_asked_for() {
        let ring = filled(100, 3_000.0, 1 << 20);
        // The newest is at 9.9 s: the second before 6.9 s is there from its key frame on.
        assert_eq!(first(&ring, 6_900.0), Some(6_000.0));
        assert_eq!(first(&ring, 0.0), Some(6_000.0));
        assert_eq!(first(&ring, 7_000.0), Some(7_000.0));
        assert_eq!(first(&ring, 9_999.0), Some(9_000.0));
        assert_eq!(ring.since(7_000.0).count(), 30);
        assert_eq!(
            first(&filled(9, 3_000.0, 1 << 20), 800.0),
            None,
            "no key frame yet"
        );
    }

    #[test]
    fn its_bytes_are_bounded() {
        let ring = filled(100, 1e9, 250);
        assert_eq!(ring.bytes, 200);
        assert_eq!(first(&ring, 0.0), Some(8_000.0));
        let mut ring = Ring::new(1e9, 250);
        ring.push(&packet(10, 300));
        ring.push(&packet(11, 10));
        assert_eq!(
            (ring.bytes, first(&ring, 0.0)),
            (0, None),
            "the rest of a group is of no use"
        );
        ring.push(&packet(20, 10));
        ring.clear();
        assert_eq!((ring.bytes, ring.since(0.0).count()), (0, 0));
    }
}
