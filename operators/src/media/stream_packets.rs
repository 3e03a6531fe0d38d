//! Packets of an open input in the order of reading, and the time stamps of those of its pictures.

use std::collections::VecDeque;
use std::time::Instant;

use ffmpeg_next::{Error, Packet};
use weir_flow::{Joined, StopFlag};

use super::packet_input::Packets;
use super::packet_times::PacketTimes;

/// Packets, also of other streams, that are read ahead to find the next of the pictures.
const MAX_AHEAD: usize = 256;

/// Reads packets, and counts and corrects those of the pictures.
pub(super) struct StreamPackets {
    packets: Packets,
    /// Packets that were read ahead of their turn.
    ahead: VecDeque<Result<Packet, Error>>,
    times: PacketTimes,
    /// When the input was opened: packets of a camera arrive in time.
    opened: Instant,
    /// Index of the stream of the pictures.
    stream: usize,
    /// Whether packets have time stamps, which may be wrong.
    stamped: bool,
    /// Packets of the pictures that were read so far.
    count: u64,
    /// Number of these after which the source ends, if that is before the end of the file.
    end: Option<u64>,
}

impl StreamPackets {
    /// The packets of an input that was just opened, from its first one on.
    pub(super) fn new(packets: Packets, stream: usize, times: PacketTimes, stamped: bool) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "silence of the other side is measured, whatever the engine's clock is"
        )]
        let opened = Instant::now();
        Self {
            packets,
            ahead: VecDeque::new(),
            times,
            opened,
            stream,
            stamped,
            count: 0,
            end: None,
        }
    }

    /// Number of packets of the pictures that were read so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The corrections of time stamps so far.
    pub(super) fn times(&self) -> &PacketTimes {
        &self.times
    }

    /// As [`Self::times`], for readers that get each jump of the clock once.
    pub(super) fn times_mut(&mut self) -> &mut PacketTimes {
        &mut self.times
    }

    /// Ends the source after `count` packets of its pictures.
    pub(super) fn end_at(&mut self, count: u64) {
        self.end = Some(count);
    }

    /// Whether all packets before the set end were read.
    pub(super) fn is_at_end(&self) -> bool {
        self.end.is_some_and(|end| self.count >= end)
    }

    /// Whether the input is an MP4 file or one of its kind.
    pub(super) fn is_mp4(&self) -> bool {
        matches!(&self.packets, Packets::Here(input) if input.format().name().contains("mp4"))
    }

    /// Whether a packet belongs to the pictures.
    pub(super) fn is_of_pictures(&self, packet: &Packet) -> bool {
        packet.stream() == self.stream
    }

    /// The next packet of any stream; `None` once the source is stopped.
    pub(super) fn next(&mut self, stop: &StopFlag) -> Option<Result<Packet, Error>> {
        match self.ahead.pop_front() {
            Some(read) => Some(read),
            None => self.packets.next(stop),
        }
    }

    /// Counts a packet of the pictures, and corrects its time stamps. A suspect time stamp of a recording is judged by the packet
    /// after it.
    pub(super) fn on_picture(&mut self, packet: &mut Packet, stop: &StopFlag) {
        self.count += 1;
        if !self.stamped {
            return;
        }
        if self.times.wants_witness(packet) {
            while self.ahead.len() < MAX_AHEAD && self.witness().is_none() {
                let Some(read) = self.packets.next(stop) else {
                    break;
                };
                let is_end = read.is_err();
                self.ahead.push_back(read);
                if is_end {
                    break;
                }
            }
        }
        let now_ms = self.opened.elapsed().as_secs_f64() * 1e3;
        let witness = self.witness();
        self.times.correct(packet, witness, now_ms);
    }

    /// The time stamp of the next packet of the pictures among those that were read ahead.
    fn witness(&self) -> Option<i64> {
        let packets = self.ahead.iter().flatten();
        let mut own = packets.filter(|packet| self.is_of_pictures(packet));
        own.find_map(|packet| packet.dts().or(packet.pts()))
    }

    /// Passes over packets before the first key frame from packet `place` of the pictures on; over all if there is none.
    pub(super) fn join_at(&mut self, place: u64, stop: &StopFlag) -> Joined {
        while !stop.is_raised() {
            let Some(Ok(packet)) = self.packets.next(stop) else {
                break;
            };
            if !self.is_of_pictures(&packet) {
                continue;
            }
            if self.count >= place && packet.is_key() {
                self.ahead.push_back(Ok(packet));
                break;
            }
            self.count += 1;
        }
        Joined {
            passed: self.count,
            waited: self.count.saturating_sub(place),
        }
    }
}
