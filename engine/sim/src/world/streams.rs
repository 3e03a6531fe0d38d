//! Streams of a world on their way to the machines: limits of their requests in flight, and frames that wait for these.

use weir_policy::{Admission, ConcurrencyLimit};
use weir_types::{Span, StreamId};

/// A stream, its limit and the frames that wait for it.
struct Stream {
    limit: ConcurrencyLimit,
    /// Frames that wait at the source, as the stream is at its limit.
    waiting: u64,
    /// SLO of the stream, if it has its own.
    own_slo: Option<Span>,
}

/// See the module.
pub(super) struct Streams {
    streams: Vec<Stream>,
    /// Number of frames sent so far, decoded or not.
    frames: u64,
    /// True if the stream of each frame is known.
    are_named: bool,
}

impl Streams {
    /// Streams in the order of their ids, at least one, with their limits and own SLOs.
    pub(super) fn new(streams: impl Iterator<Item = (ConcurrencyLimit, Option<Span>)>) -> Self {
        let stream = |(limit, own_slo)| Stream {
            limit,
            waiting: 0,
            own_slo,
        };
        Self {
            streams: streams.map(stream).collect(),
            frames: 0,
            are_named: false,
        }
    }

    /// Counts a frame. Returns its stream: the one that is named, else the next in turn.
    pub(super) fn on_frame(&mut self, named: Option<StreamId>) -> StreamId {
        let count = self.streams.len() as u64;
        let in_turn = (self.frames % count) as u32;
        self.frames += 1;
        self.are_named = named.is_some();
        StreamId(named.map_or(in_turn, |stream| stream.0.min(count as u32 - 1)))
    }

    /// True if the stream of the last frame was named.
    pub(super) fn are_named(&self) -> bool {
        self.are_named
    }

    /// SLO of the stream, if it has its own.
    pub(super) fn own_slo(&self, stream: StreamId) -> Option<Span> {
        self.streams[stream.index()].own_slo
    }

    /// Sets the stream's own SLO, or `default`.
    pub(super) fn set_slo(&mut self, stream: StreamId, own_slo: Option<Span>, default: Span) {
        if let Some(stream) = self.streams.get_mut(stream.index()) {
            stream.own_slo = own_slo;
            stream.limit.set_slo(own_slo.unwrap_or(default));
        }
    }

    /// Admits a request of the stream, or rejects it.
    pub(super) fn admit(&mut self, stream: StreamId) -> Admission {
        self.streams[stream.index()].limit.admit(true)
    }

    /// A request of the stream ended, `held` after it was sent. Returns whether a frame waits for that.
    pub(super) fn on_ended(&mut self, stream: StreamId, held: Span) -> bool {
        let stream = &mut self.streams[stream.index()];
        stream.limit.on_ended(held);
        stream.waiting > 0
    }

    /// A frame of the stream waits at its source.
    pub(super) fn wait(&mut self, stream: StreamId) {
        self.streams[stream.index()].waiting += 1;
    }

    /// Takes a frame that waits, if there is one and the stream has room for it.
    pub(super) fn take_waiting(&mut self, stream: StreamId) -> bool {
        let stream = &mut self.streams[stream.index()];
        let is_taken = stream.waiting > 0 && stream.limit.has_room();
        stream.waiting -= u64::from(is_taken);
        is_taken
    }

    /// Frames that wait at the source of the stream are never sent.
    pub(super) fn forget_waiting(&mut self, stream: StreamId) {
        if let Some(stream) = self.streams.get_mut(stream.index()) {
            stream.waiting = 0;
        }
    }

    /// Frames that wait at any source are never sent.
    pub(super) fn forget_all_waiting(&mut self) {
        for stream in &mut self.streams {
            stream.waiting = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::ConcurrencyLimitSpec;

    use super::*;

    fn streams(count: usize) -> Streams {
        let slo = Span::from_millis(100);
        let limit = ConcurrencyLimit::new(ConcurrencyLimitSpec {
            initial: 1,
            max: 1,
            ..ConcurrencyLimitSpec::live(slo)
        });
        Streams::new((0..count).map(|_| (limit, None)))
    }

    #[test]
    fn frames_are_of_the_named_stream_or_of_the_next_in_turn() {
        let mut streams = streams(3);
        let in_turn: Vec<u32> = (0..4).map(|_| streams.on_frame(None).0).collect();
        assert_eq!(in_turn, [0, 1, 2, 0]);
        assert!(!streams.are_named());
        assert_eq!(streams.on_frame(Some(StreamId(1))), StreamId(1));
        assert_eq!(streams.on_frame(Some(StreamId(9))), StreamId(2));
        assert!(streams.are_named());
    }

    #[test]
    fn waiting_frame_is_taken_once_a_request_ends() {
        let (mut streams, stream) = (streams(2), StreamId(1));
        assert!(!streams.take_waiting(stream), "no frame waits");
        assert_eq!(streams.admit(stream), Admission::Enter);
        streams.wait(stream);
        assert!(!streams.take_waiting(stream), "the stream is at its limit");
        assert!(streams.on_ended(stream, Span::from_millis(20)));
        assert!(streams.take_waiting(stream));
        assert!(!streams.take_waiting(stream));
        streams.wait(stream);
        streams.forget_waiting(stream);
        assert!(!streams.take_waiting(stream));
    }
}
