//! Selection of the packets that a decoder gets, and the times of the frames that are skipped with the
//! others. A group of pictures is cut off only at a frame that is shown after all frames before it, so no
//! decoded picture is still to come in between. Decoding resumes at a key frame, so no picture that comes out
//! refers to a skipped one.
//!
//! Packets come in decoding order, pictures in presentation order: a frame is known to be left out once a later picture is
//! out.

use std::collections::VecDeque;

use weir_flow::{DecodeLevel, FrameSkip, GroupCounts};

/// Recent groups whose lengths are kept: a scene change makes one shorter.
const RECENT_GROUPS: usize = 4;

/// Frames left out whose places are not given yet, before they are given without a later picture: minutes without a key
/// frame.
const MAX_WAITING: usize = 4_096;

/// Frames of a skipped group, about ten seconds, after which decoding continues without a key frame: some cameras refresh pictures
/// bit by bit and send none.
const MAX_SKIPPED: u32 = 300;

/// Decision about one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketUse {
    /// The decoder gets it.
    Decode,
    /// The decoder does not get it.
    LeaveOut,
    /// The decoder does not get it, and has had the last of its group: it gives what it holds, and is reset.
    EndGroup,
}

/// A frame that may have no picture.
#[derive(Debug, Clone, Copy)]
struct Uncertain {
    pts: i64,
    /// Given to the decoder while it left out non-reference frames.
    offered: bool,
    /// Held back because nothing moves in it.
    still: bool,
}

/// Times of frames that were left out, ascending, and how many of them were held back because nothing moves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) times: Vec<i64>,
    pub(super) still: u64,
}

/// Selects the packets of one stream, in its ticks.
#[derive(Debug, Default)]
pub(super) struct PacketSelection {
    level: DecodeLevel,
    counts: GroupCounts,
    /// Groups that began, and frames of the last so far.
    groups: u64,
    in_group: u32,
    recent_groups: VecDeque<u32>,
    /// The rest of the group is left out.
    cut: bool,
    /// It is to be left out.
    skips_group: bool,
    /// Frames that were left out by that, and whether no key frame came after them.
    skipped: u32,
    lacks_key_frames: bool,
    /// The latest presentation time so far.
    latest: Option<i64>,
    /// Time of the key frame at which decoding resumed. Pictures that are shown before it refer to skipped
    /// pictures.
    resumed_at: Option<i64>,
    uncertain: Vec<Uncertain>,
}

impl PacketSelection {
    /// Sets the level for all packets from now on.
    pub(super) fn set_level(&mut self, level: DecodeLevel) {
        self.level = level;
    }

    /// Leaves out the rest of the group, at any level.
    pub(super) fn skip_group(&mut self) {
        self.skips_group = !self.lacks_key_frames;
    }

    /// A frame of a group that is skipped: decoding goes on where too many came without a key frame.
    fn on_skipped(&mut self, pts: i64) {
        self.skipped += 1;
        if self.skipped >= MAX_SKIPPED {
            (self.skips_group, self.cut, self.lacks_key_frames) = (false, false, true);
            self.resumed_at = Some(pts);
        }
    }

    /// Packets of the group that were held back are decoded after all.
    pub(super) fn on_resumed(&mut self) {
        (self.cut, self.resumed_at) = (false, None);
    }

    /// The next packet, with its presentation time; `held`: it is held back.
    pub(super) fn on_packet(&mut self, is_key: bool, pts: Option<i64>, held: bool) -> PacketUse {
        let pts = pts.or(self.latest).unwrap_or(0);
        self.counts.frames += 1;
        let was_cut = self.cut;
        if is_key {
            self.on_key_frame(pts, held);
        } else if held || self.skips_group || self.in_group >= self.level.frames_of(self.groups) {
            // A frame that is shown after all before it: none of what was decoded is still to come in between.
            self.cut |= self.latest.is_none_or(|latest| pts > latest);
        }
        if self.skips_group && self.cut {
            self.on_skipped(pts);
        }
        self.in_group = self.in_group.saturating_add(1);
        self.latest = self.latest.max(Some(pts));
        let is_leading = self.resumed_at.is_some_and(|resumed| pts < resumed);
        let offered = self.level.skip != FrameSkip::Nothing;
        if !self.cut && !is_leading {
            if self.level != DecodeLevel::ALL {
                let still = false;
                self.uncertain.push(Uncertain { pts, offered, still });
                self.counts.offered += u64::from(offered);
            }
            return PacketUse::Decode;
        }
        self.counts.cut += u64::from(!held);
        self.uncertain.push(Uncertain {
            pts,
            offered: false,
            still: held,
        });
        if self.cut && !was_cut {
            PacketUse::EndGroup
        } else {
            PacketUse::LeaveOut
        }
    }

    fn on_key_frame(&mut self, pts: i64, held: bool) {
        // What came before the first key frame is no whole group.
        if self.groups > 0 {
            self.recent_groups.push_back(self.in_group);
            if self.recent_groups.len() > RECENT_GROUPS {
                self.recent_groups.pop_front();
            }
        }
        self.groups += 1;
        self.in_group = 0;
        (self.skips_group, self.skipped) = (false, 0);
        let was_cut = self.cut;
        self.cut = held || self.level.frames_of(self.groups) == 0;
        self.resumed_at = (was_cut && !self.cut).then_some(pts);
    }

    /// A picture came out: the times of the frames before it that were left out, ascending.
    pub(super) fn on_picture(&mut self, pts: Option<i64>, bidirectional: bool) -> LeftOut {
        if self.level == DecodeLevel::ALL && self.uncertain.is_empty() {
            self.counts.full_pictures += 1;
            self.counts.bidirectional += u64::from(bidirectional);
            return LeftOut::default();
        }
        let Some(pts) = pts else {
            return LeftOut::default();
        };
        if let Some(own) = self.uncertain.iter().position(|frame| frame.pts == pts) {
            self.uncertain.remove(own);
        }
        self.take_before(pts)
    }

    /// The times of frames that were left out, where too many wait for a later picture, or at the end of the stream.
    pub(super) fn take_waiting(&mut self, ended: bool) -> LeftOut {
        if ended || self.uncertain.len() > MAX_WAITING {
            self.take_before(i64::MAX)
        } else {
            LeftOut::default()
        }
    }

    fn take_before(&mut self, pts: i64) -> LeftOut {
        let mut left_out = LeftOut::default();
        for frame in self.uncertain.extract_if(.., |frame| frame.pts < pts) {
            self.counts.left_out += u64::from(frame.offered);
            left_out.still += u64::from(frame.still);
            left_out.times.push(frame.pts);
        }
        left_out.times.sort_unstable();
        left_out
    }

    /// Counts so far.
    pub(super) fn counts(&self) -> GroupCounts {
        let sum: u64 = self.recent_groups.iter().copied().map(u64::from).sum();
        let mean = sum.checked_div(self.recent_groups.len() as u64).unwrap_or(0);
        let longest = self.recent_groups.iter().copied().chain([self.in_group]).max();
        GroupCounts {
            group: u32::try_from(mean).unwrap_or(u32::MAX),
            longest_group: longest.unwrap_or(0),
            groups: self.groups,
            in_group: self.in_group,
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PacketUse::{Decode, EndGroup, LeaveOut};
    use super::*;

    fn level(prefix: Option<u32>, every: u32) -> DecodeLevel {
        DecodeLevel {
            prefix,
            every,
            ..DecodeLevel::ALL
        }
    }

    fn uses(selection: &mut PacketSelection, packets: &[(bool, i64)]) -> Vec<PacketUse> {
        let each = packets.iter();
        each.map(|(is_key, pts)| selection.on_packet(*is_key, Some(*pts), false))
            .collect()
    }

    /// Key frames every four frames, without frames that are shown out of order.
    fn plain(groups: i64) -> Vec<(bool, i64)> {
        (0..groups * 4).map(|pts| (pts % 4 == 0, pts)).collect()
    }

    fn check(level: DecodeLevel, packets: &[(bool, i64)], expected: &[PacketUse]) {
        let mut selection = PacketSelection::default();
        selection.set_level(level);
        assert_eq!(uses(&mut selection, packets), expected, "{level:?}");
    }

    #[test]
    fn the_rest_of_each_group_is_left_out_after_the_prefix() {
        check(level(None, 1), &plain(2), &[Decode; 8]);
        check(level(Some(9), 1), &plain(2), &[Decode; 8]);
        let rest = [Decode, Decode, EndGroup, LeaveOut];
        check(level(Some(2), 1), &plain(2), &[rest, rest].concat());
        let key_only = [Decode, EndGroup, LeaveOut, LeaveOut];
        check(level(Some(1), 1), &plain(2), &[key_only, key_only].concat());
    }

    #[test]
    fn a_group_is_skipped_once_from_any_frame_on() {
        let mut selection = PacketSelection::default();
        let packets = plain(3);
        assert_eq!(uses(&mut selection, &packets[..2]), [Decode; 2]);
        selection.skip_group();
        assert_eq!(uses(&mut selection, &packets[2..4]), [EndGroup, LeaveOut]);
        assert_eq!(uses(&mut selection, &packets[4..]), [Decode; 8]);
        assert_eq!(
            selection.on_picture(Some(4), false).times,
            [2, 3],
            "they have their places"
        );
    }

    #[test]
    fn a_stream_without_further_key_frames_is_decoded_again_and_not_skipped_any_more() {
        let mut selection = PacketSelection::default();
        let frames =
            |from: i64, to: i64| -> Vec<(bool, i64)> { (from..to).map(|pts| (pts == 0, pts)).collect() };
        assert_eq!(uses(&mut selection, &frames(0, 10)), [Decode; 10]);
        selection.skip_group();
        let skipped = uses(&mut selection, &frames(10, 10 + i64::from(MAX_SKIPPED)));
        assert_eq!((skipped[0], skipped.last()), (EndGroup, Some(&Decode)));
        let left_out = skipped.iter().filter(|packet| **packet == LeaveOut).count();
        assert_eq!(left_out, MAX_SKIPPED as usize - 2);
        selection.skip_group();
        assert_eq!(uses(&mut selection, &frames(400, 410)), [Decode; 10]);
    }

    #[test]
    fn what_is_held_back_is_decoded_once_the_group_goes_on() {
        let mut selection = PacketSelection::default();
        let mut on = |pts: i64, held| selection.on_packet(pts % 8 == 0, Some(pts), held);
        assert_eq!(
            [on(0, false), on(1, true), on(2, true)],
            [Decode, EndGroup, LeaveOut]
        );
        selection.on_resumed();
        assert_eq!(selection.on_packet(false, Some(3), false), Decode);
        // Its picture and those of the two before come out; that of the key frame was out before.
        for pts in 0..4 {
            assert_eq!(selection.on_picture(Some(pts), false), LeftOut::default());
        }
        let mut on = |pts: i64, held| selection.on_packet(pts % 8 == 0, Some(pts), held);
        assert_eq!(
            [on(8, true), on(9, true), on(16, false)],
            [EndGroup, LeaveOut, Decode]
        );
        let held = LeftOut {
            times: vec![8, 9],
            still: 2,
        };
        assert_eq!(selection.on_picture(Some(16), false), held);
    }

    #[test]
    fn of_groups_in_a_row_one_is_decoded() {
        let cut = [EndGroup, LeaveOut, LeaveOut, LeaveOut];
        check(level(None, 2), &plain(3), &[cut, [Decode; 4], cut].concat());
        let frames = [(true, 0), (true, 1), (true, 2), (true, 3)];
        check(level(None, 3), &frames, &[EndGroup, LeaveOut, Decode, EndGroup]);
    }

    #[test]
    fn a_group_is_cut_off_only_where_no_earlier_picture_is_to_come() {
        let packets = [
            (true, 0),
            (false, 4),
            (false, 2),
            (false, 1),
            (false, 3),
            (false, 8),
        ];
        check(
            level(Some(2), 1),
            &packets,
            &[Decode, Decode, Decode, Decode, Decode, EndGroup],
        );
    }

    #[test]
    fn frames_before_the_key_frame_that_decoding_goes_on_with_are_left_out() {
        let packets = [
            (true, 0),
            (false, 1),
            (true, 6),
            (false, 4),
            (false, 5),
            (false, 7),
        ];
        check(
            level(Some(1), 1),
            &packets,
            &[Decode, EndGroup, Decode, LeaveOut, LeaveOut, EndGroup],
        );
        // Without a cut they refer to what was decoded.
        check(level(None, 1), &packets, &[Decode; 6]);
    }

    #[test]
    fn decoding_goes_on_with_the_next_key_frame_when_the_level_is_raised() {
        let mut selection = PacketSelection::default();
        selection.set_level(level(Some(1), 1));
        assert_eq!(uses(&mut selection, &plain(2)[..3]), [Decode, EndGroup, LeaveOut]);
        selection.set_level(DecodeLevel::ALL);
        assert_eq!(uses(&mut selection, &plain(2)[3..6]), [LeaveOut, Decode, Decode]);
    }

    #[test]
    fn frames_left_out_are_known_with_the_next_picture() {
        let mut selection = PacketSelection::default();
        selection.set_level(DecodeLevel {
            skip: FrameSkip::NonReference,
            ..level(Some(4), 1)
        });
        let packets = [
            (true, 0),
            (false, 3),
            (false, 1),
            (false, 2),
            (false, 4),
            (true, 5),
        ];
        uses(&mut selection, &packets);
        assert_eq!(selection.on_picture(Some(0), false).times, [0; 0]);
        // The decoder left out 1; 2 is a picture, if a reordered one.
        assert_eq!(selection.on_picture(Some(2), true).times, [1]);
        assert_eq!(selection.on_picture(Some(3), false).times, [0; 0]);
        assert_eq!(selection.on_picture(Some(5), false).times, [4]);
        assert_eq!(selection.take_waiting(true).times, [0; 0]);
        let counts = selection.counts();
        assert_eq!(
            (counts.frames, counts.offered, counts.left_out, counts.cut),
            (6, 5, 1, 1)
        );
    }

    #[test]
    fn groups_are_measured_between_key_frames() {
        let mut selection = PacketSelection::default();
        uses(&mut selection, &[(false, 0), (false, 1)]);
        assert_eq!(selection.counts().group, 0);
        let groups = [
            [(true, 2), (false, 3)].as_slice(),
            &[(true, 4); 1],
            &[(true, 5); 1],
        ]
        .concat();
        uses(&mut selection, &groups);
        assert_eq!(
            (selection.counts().group, selection.counts().longest_group),
            (1, 2)
        );
        uses(&mut selection, &[(false, 6), (false, 7), (false, 8)]);
        assert_eq!(selection.counts().longest_group, 4);
    }

    #[test]
    fn minutes_without_a_key_frame_fill_no_memory() {
        let mut selection = PacketSelection::default();
        selection.set_level(level(Some(1), 1));
        let mut given = 0;
        for pts in 0..100_000 {
            selection.on_packet(pts == 0, Some(pts), false);
            given += selection.take_waiting(false).times.len();
            assert!(selection.uncertain.len() <= MAX_WAITING);
        }
        given += selection.take_waiting(true).times.len();
        assert_eq!(given, 100_000);
    }
}
