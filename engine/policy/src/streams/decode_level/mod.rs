//! Levels of decoding: each stream is decoded as far as its frames can be used, plus a margin.
//!
//! Under overload most frames are decoded and then dropped, which takes the processor time that models need. So each stream
//! is decoded at the least level that leaves, of its frames,
//!
//! ```text
//! share = MARGIN * used / frames + MIN_SHARE
//! ```
//!
//! `used` is the rate of requests that device time was spent on: of the stream itself or, where that is more, the mean of
//! the streams that lose requests before any device time, so that one that was unlucky for a while gets its share again.
//! What exceeds `used` is dropped by the policy, which therefore still chooses; and as long as some is, `used` is what can
//! be used. A level that leaves too little is raised at once, since nothing is dropped and `share` grows with what is used;
//! where no stream has had a request dropped unused for a whole group of pictures, all frames are decoded again. A level is
//! lowered only by a good step, to one that leaves enough for a request more than was counted, and after a raise that proved
//! wrong only later and later.
//!
//! Where decoding takes little of the machine, nothing is left out. Groups of pictures are cut so that a stream has no
//! picture for at most the first of [`MAX_GAPS`]: longer only where decoding would otherwise take more than
//! [`MAX_LOAD`], and then for the shortest time at which it does not.

mod api;
mod groups;
mod turns;

use std::collections::BTreeMap;

use weir_types::{DecodeLevel, Span, StreamId, Timestamp};

pub use api::{DecodeEffect, DecodeEvent, DecodeObservation};
use groups::Groups;
use turns::{Candidate, GroupBegin, Waiting};

/// Decoded frames for each that can be used.
const MARGIN: f64 = 1.25;

/// Share of its frames that a stream is decoded at beside that: its first step up from nothing.
const MIN_SHARE: f64 = 0.02;

/// Factor by which a newly set level leaves more than the wanted share, so that a small change needs no other
/// level.
const HEADROOM: f64 = 1.1;

/// Factor by which a lower level must leave less than the one in force.
const MIN_STEP: f64 = 1.15;

/// Share of the groups that is decoded in the first turns, at least.
const FIRST_TURNS: f64 = 0.25;

/// Groups that are decoded in turn over those that are wanted, up to which the turns stay as they are.
const MAX_TURNS: f64 = 2.2;

/// Share of requests dropped unused up to which a stream keeps its level.
const MAX_UNUSED: f64 = 0.1;

/// Longest times without a picture that levels may cause, ascending: with key frames eight seconds apart, pictures every
/// two seconds would mean to decode three quarters of all frames.
const MAX_GAPS: [Span; 4] = [
    Span::from_secs(2),
    Span::from_secs(4),
    Span::from_secs(8),
    Span::from_secs(16),
];

/// Share of the machine that decoding may take before longer gaps are allowed, and for shorter ones to return.
const MAX_LOAD: (f64, f64) = (0.2, 0.15);

/// Share of the machine that a full decode of all streams must need for anything to be left out; and, once something is,
/// for that to go on.
const MIN_LOAD: (f64, f64) = (0.1, 0.07);

/// Time over which rates are averaged: at least, at most, and in groups of pictures.
const AVERAGED: (Span, Span, u64) = (Span::from_secs(4), Span::from_secs(20), 2);

/// Time for which a stream is observed before its level is changed.
const MIN_OBSERVED: Span = Span::from_secs(1);

/// Time without an observation after which a stream is taken for a new one.
const MAX_SILENCE: Span = Span::from_secs(24);

/// Evidence that all frames can be used: no request was dropped unused for this time, and at least this many
/// requests were used meanwhile.
const ROOM: (Span, u64) = (Span::from_millis(500), 16);

/// A level that is lowered within this time of a raise shows that the raise was wrong.
const MIN_RAISED: Span = Span::from_secs(10);

/// Upper bound of the factor by which raises that proved wrong lengthen the time for which there must be
/// room, and the time without such a raise after which the factor is 1 again.
const MAX_BACKOFF: (u64, Span) = (16, Span::from_secs(60));

/// Level of one stream, with the averages that it is chosen from.
#[derive(Debug, Clone)]
struct Stream {
    level: DecodeLevel,
    groups: Groups,
    interval: Span,
    /// Outcomes are counted from here on.
    counted_from: Timestamp,
    observed_at: Timestamp,
    /// Seconds of outcomes.
    seconds: f64,
    /// Requests used and unused a second.
    used: f64,
    unused: f64,
    /// Processor seconds of one picture.
    picture_cost: f64,
    /// The last group that began, once one did.
    began: Option<GroupBegin>,
    /// Moment at which its last turn was over.
    had_turn: Option<Timestamp>,
    raised_at: Option<Timestamp>,
}

impl Stream {
    fn new(now: Timestamp, slo: Span) -> Self {
        Self {
            level: DecodeLevel::ALL,
            groups: Groups::default(),
            interval: Span::ZERO,
            counted_from: now + slo,
            observed_at: now,
            seconds: 0.0,
            used: 0.0,
            unused: 0.0,
            picture_cost: 0.0,
            began: None,
            had_turn: None,
            raised_at: None,
        }
    }

    /// Counts outcomes anew from `begin` on.
    fn count_from(&mut self, begin: Timestamp) {
        self.counted_from = begin;
        (self.seconds, self.used, self.unused) = (0.0, 0.0, 0.0);
    }

    /// Time of a group of pictures.
    fn group_time(&self) -> Span {
        self.interval * u64::from(self.groups.longest)
    }

    /// Time over which its rates are averaged.
    fn window(&self) -> Span {
        let (shortest, longest, groups) = AVERAGED;
        (self.group_time() * groups).max(shortest).min(longest)
    }

    fn observe(&mut self, seen: &DecodeObservation, now: Timestamp) {
        self.interval = seen.interval.max(Span::from_micros(1));
        let groups = &mut self.groups;
        groups.full += u64::from(seen.full);
        groups.bidirectional += u64::from(seen.bidirectional);
        groups.offered += u64::from(seen.offered);
        groups.left_out += u64::from(seen.left_out);
        // Of a source that was just opened the lengths are not known yet.
        if seen.group > 0 {
            (groups.mean, groups.longest) = (seen.group, seen.longest_group);
        }
        if seen.pictures > 0 {
            let cost = seen.processor.as_secs_f64() / f64::from(seen.pictures);
            let weight = if self.picture_cost > 0.0 { 0.25 } else { 1.0 };
            self.picture_cost += weight * (cost - self.picture_cost);
            let in_group = self.interval * u64::from(seen.in_group.saturating_sub(1));
            self.began = (seen.groups > 0).then(|| GroupBegin {
                at: now.saturating_sub(in_group),
                number: seen.groups,
            });
            if self.has_turn() {
                self.had_turn = Some(now);
            }
        }
        let seconds = now.since(self.observed_at.max(self.counted_from)).as_secs_f64();
        self.observed_at = now;
        if seconds <= 0.0 {
            return;
        }
        self.seconds += seconds;
        let weight = (seconds / self.window().as_secs_f64().min(self.seconds)).min(1.0);
        self.used += weight * (f64::from(seen.used) / seconds - self.used);
        self.unused += weight * (f64::from(seen.unused) / seconds - self.unused);
    }

    /// Whether it loses requests before device time is spent on them.
    fn is_overloaded(&self) -> bool {
        self.unused > MAX_UNUSED * (self.used + self.unused)
    }

    /// Whether its outcomes say how much of it can be used.
    fn is_limited(&self) -> bool {
        self.seconds >= MIN_OBSERVED.as_secs_f64() && (self.is_overloaded() || self.level != DecodeLevel::ALL)
    }

    /// Processor cores that decoding all of it takes.
    fn full_load(&self) -> f64 {
        if self.interval == Span::ZERO {
            0.0
        } else {
            self.picture_cost / self.interval.as_secs_f64()
        }
    }
}

/// The levels of decoding of all streams.
#[derive(Debug, Clone)]
pub struct DecodeLevels {
    cores: u32,
    slo: Span,
    streams: BTreeMap<StreamId, Stream>,
    /// Since when no request was dropped unused, and how many were used since.
    clear_since: Timestamp,
    clear_used: u64,
    /// Factor on the time of [`ROOM`].
    backoff: u64,
    /// Time of the last raise that proved wrong.
    wrong_at: Timestamp,
    /// Index of the longest time without a picture among [`MAX_GAPS`].
    gap: usize,
    /// Since when streams take turns as they do.
    turns_since: Option<Timestamp>,
}

impl Default for DecodeLevels {
    fn default() -> Self {
        Self {
            cores: 1,
            slo: Span::ZERO,
            streams: BTreeMap::new(),
            clear_since: Timestamp::ZERO,
            clear_used: 0,
            backoff: 1,
            wrong_at: Timestamp::ZERO,
            gap: 0,
            turns_since: None,
        }
    }
}

impl DecodeLevels {
    /// Takes in a burst of events, decides once, and appends what is to be done.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = DecodeEvent>,
        now: Timestamp,
        effects: &mut Vec<DecodeEffect>,
    ) {
        for event in events {
            match event {
                DecodeEvent::Started { cores, slo } => (self.cores, self.slo) = (cores.max(1), slo),
                DecodeEvent::Observed(seen) => self.on_observed(&seen, now, effects),
                DecodeEvent::Ended { stream } => {
                    self.streams.remove(&stream);
                }
            }
        }
        self.decide(now, effects);
    }

    fn on_observed(&mut self, seen: &DecodeObservation, now: Timestamp, effects: &mut Vec<DecodeEffect>) {
        let slo = self.slo;
        let stream = self
            .streams
            .entry(seen.stream)
            .or_insert_with(|| Stream::new(now, slo));
        if now.since(stream.observed_at) > MAX_SILENCE {
            if stream.level != DecodeLevel::ALL {
                effects.push(DecodeEffect::SetLevel {
                    stream: seen.stream,
                    level: DecodeLevel::ALL,
                });
            }
            *stream = Stream::new(now, slo);
        }
        stream.observe(seen, now);
        if seen.unused > 0 {
            (self.clear_since, self.clear_used) = (now, 0);
        } else {
            self.clear_used += u64::from(seen.used);
        }
    }

    /// Whether decoding takes enough of the machine to leave anything out.
    fn is_costly(&self) -> bool {
        let load: f64 = self.streams.values().map(Stream::full_load).sum();
        let any = self
            .streams
            .values()
            .any(|stream| stream.level != DecodeLevel::ALL);
        let min_load = if any { MIN_LOAD.1 } else { MIN_LOAD.0 };
        load >= min_load * f64::from(self.cores)
    }

    /// Whether no request of any stream has been dropped unused for so long that all frames may be of use.
    fn has_room(&self, now: Timestamp) -> bool {
        // Of a group that is cut all requests come in its beginning.
        let cut = |stream: &&Stream| stream.level.cuts_groups();
        let groups = self.streams.values().filter(cut).map(Stream::group_time);
        let time = groups.max().unwrap_or_default().max(ROOM.0) * self.backoff;
        self.clear_used >= ROOM.1 && now.since(self.clear_since) >= time
    }

    /// The shortest of [`MAX_GAPS`] with which decoding what can be used takes no more than it may.
    fn next_gap(&self, mean_used: f64) -> usize {
        let load = |gap: Span| -> f64 {
            let streams = self.streams.values().filter(|stream| stream.is_limited());
            streams
                .map(|stream| stream.load(stream.wanted_level(mean_used, gap)))
                .sum()
        };
        let cores = f64::from(self.cores);
        let is_light = |index: usize| {
            let max_load = if index < self.gap { MAX_LOAD.1 } else { MAX_LOAD.0 };
            load(MAX_GAPS[index]) <= max_load * cores
        };
        let last = MAX_GAPS.len() - 1;
        (0..last).find(|index| is_light(*index)).unwrap_or(last)
    }

    /// Levels of the streams that cannot be used whole, where their groups begin together: those in force for as long as they are
    /// about right, and for the time of a group at least.
    fn turns(&mut self, mean_used: f64, now: Timestamp) -> Option<BTreeMap<StreamId, DecodeLevel>> {
        let limited = || self.streams.iter().filter(|(_, stream)| stream.is_limited());
        let candidates: Option<Vec<Candidate>> = limited().map(|(_, stream)| stream.candidate()).collect();
        let candidates = candidates.unwrap_or_default();
        if !turns::are_aligned(&candidates, self.turns_since.is_some(), now) {
            self.turns_since = None;
            return None;
        }
        // Of streams that are aligned, any one has the group of all.
        let (_, first) = limited().next()?;
        let (skip, kept) = first.groups.least_skip();
        let wanted = first.wanted_share(mean_used) / kept.max(f64::MIN_POSITIVE);
        let share = |level: DecodeLevel| 1.0 / f64::from(level.every);
        let is_right = |level: DecodeLevel| {
            level.between > 0 && level.skip == skip && (wanted..MAX_TURNS * wanted).contains(&share(level))
        };
        let is_fresh = self
            .turns_since
            .is_some_and(|since| now.since(since) < first.group_time());
        let keeps = |stream: &Stream| stream.level.between > 0 && is_fresh || is_right(stream.level);
        if limited().all(|(_, stream)| keeps(stream)) {
            return Some(limited().map(|(id, stream)| (*id, stream.level)).collect());
        }
        let waiting = limited().map(|(_, stream)| Waiting {
            began: stream.began.map_or(0, |began| began.number),
            has_turn: stream.has_turn(),
            had_turn: stream.had_turn,
        });
        let waiting: Vec<Waiting> = waiting.collect();
        // Prefixes of groups that begin together show only what can be used at a time: the first turns are to show more.
        let least = self.turns_since.map_or(FIRST_TURNS, |_| 0.0);
        let levels = turns::levels_in_turn(&waiting, (wanted * HEADROOM).max(least), skip)?;
        let turns = limited().map(|(id, _)| *id).zip(levels).collect();
        self.turns_since = Some(now);
        Some(turns)
    }

    fn decide(&mut self, now: Timestamp, effects: &mut Vec<DecodeEffect>) {
        let costly = self.is_costly();
        if now.since(self.wrong_at) > MAX_BACKOFF.1 {
            self.backoff = 1;
        }
        let room = self.has_room(now);
        let limited = self.streams.values().filter(|stream| stream.is_limited());
        let (count, sum) = limited.fold((0_u32, 0.0), |(count, sum), stream| {
            (count + 1, sum + stream.used)
        });
        let mean_used = sum / f64::from(count.max(1));
        self.gap = self.next_gap(mean_used);
        let max_gap = MAX_GAPS[self.gap];
        let turns = self.turns(mean_used, now);
        let (mut raised, mut wrong) = (false, false);
        for (id, stream) in &mut self.streams {
            let level = if !costly || room {
                DecodeLevel::ALL
            } else if stream.is_limited() {
                let turn = turns.as_ref().and_then(|turns| turns.get(id).copied());
                turn.unwrap_or_else(|| stream.next_level(mean_used, max_gap))
            } else {
                continue;
            };
            if level == stream.level {
                continue;
            }
            if stream.groups.share(level) < stream.groups.share(stream.level) {
                wrong |= stream
                    .raised_at
                    .take()
                    .is_some_and(|at| now.since(at) < MIN_RAISED);
            } else if room {
                raised = true;
                stream.raised_at = Some(now);
                // Outcomes at the lower level say nothing of this one.
                stream.count_from(now + self.slo);
            }
            stream.level = level;
            effects.push(DecodeEffect::SetLevel { stream: *id, level });
        }
        if raised {
            // Room must be shown again at the new level.
            (self.clear_since, self.clear_used) = (now, 0);
        }
        if wrong {
            self.backoff = (2 * self.backoff).min(MAX_BACKOFF.0);
            self.wrong_at = now;
        }
    }
}

impl Stream {
    /// Processor cores that decoding it at `level` takes.
    fn load(&self, level: DecodeLevel) -> f64 {
        self.full_load() * self.groups.share(level)
    }

    /// Share of its frames to decode where `used` requests a second can be used.
    fn wanted_share(&self, used: f64) -> f64 {
        let frames = used * self.interval.as_secs_f64();
        (MARGIN * frames + MIN_SHARE).min(1.0)
    }

    /// Frames of `gap`.
    fn gap_frames(&self, gap: Span) -> u32 {
        let frames = gap.micros() / self.interval.micros().max(1);
        u32::try_from(frames).unwrap_or(u32::MAX)
    }

    /// The level for what can be used, at least `mean_used` requests a second.
    fn wanted_level(&self, mean_used: f64, max_gap: Span) -> DecodeLevel {
        let used = self.used.max(mean_used);
        // A rate is known to one request in the time that it is averaged over: what is a request more must not be too
        // much for the level.
        let at_most = used + 1.0 / self.window().as_secs_f64();
        let share = (self.wanted_share(used) * HEADROOM).max(self.wanted_share(at_most));
        self.groups.level_for(share, self.gap_frames(max_gap))
    }

    /// The stream as one that may take turns; `None` while its groups are not known.
    fn candidate(&self) -> Option<Candidate> {
        Some(Candidate {
            group: self.group_time(),
            began: self.began?,
        })
    }

    /// Whether its present group is decoded whole, in turn with other streams.
    fn has_turn(&self) -> bool {
        let began = self.began.map_or(0, |began| began.number);
        self.level.between > 0 && self.level.frames_of(began) == u32::MAX
    }

    /// The wanted level; its own where that is about as good.
    fn next_level(&self, mean_used: f64, max_gap: Span) -> DecodeLevel {
        let level = self.wanted_level(mean_used, max_gap);
        let used = self.used.max(mean_used);
        let (share_now, share_then) = (self.groups.share(self.level), self.groups.share(level));
        let falls_short = share_now < self.wanted_share(used)
            || !self.groups.is_within(self.level, self.gap_frames(max_gap));
        let is_lower = self.is_overloaded() && share_then * MIN_STEP <= share_now;
        if falls_short || is_lower {
            level
        } else {
            self.level
        }
    }
}

#[cfg(test)]
mod tests;
