//! The streams of a run by name, as the control thread knows them: what controls their sources, their shares of the frame
//! memory, and their threads. A name is used once at a time; a number is never used again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use actix::Addr;
use tokio::sync::oneshot;
use weir_flow::PacketTap;
use weir_graph::SourceMode;
use weir_policy::{StreamReport, StreamShare};
use weir_types::{Span, StreamId, Timestamp};

use super::packet_observers::SinkObservations;
use crate::actors::{AbandonStream, Egress, RemoveStream, RemovedStream};
use crate::admission::StreamAdmission;
use crate::clock::duration;
use crate::command::{Answer, MAX_STREAMS, StreamError};
use crate::routes::Route;
use crate::source::{SharedTarget, SourceControl};

/// Extra time, after the grace period, for the source thread of a removed stream to end. After that the
/// thread is left behind.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// A stream whose source has begun.
pub(super) struct LiveStream {
    pub(super) id: StreamId,
    /// Address of its source, without credentials.
    pub(super) source: String,
    /// The same of the smaller stream that its frames come from, where it has one.
    pub(super) detect_source: Option<String>,
    /// Its own latency objective; `None`: the graph's.
    pub(super) slo: Option<Span>,
    pub(super) share: StreamShare,
    /// Names of the groups of cameras that it belongs to.
    pub(super) groups: Vec<String>,
    pub(super) mode: SourceMode,
    pub(super) route: Arc<Route>,
    pub(super) target: Arc<SharedTarget>,
    /// The source of the graph whose inputs it shares, where one was named.
    pub(super) like: Option<String>,
    /// Names of the modules and sinks that its frames enter, where these were given.
    pub(super) entered: Option<Vec<String>>,
    pub(super) control: Arc<SourceControl>,
    pub(super) admission: Arc<StreamAdmission>,
    pub(super) tap: Arc<PacketTap>,
    /// By sinks of the graph in force.
    pub(super) observations: SinkObservations,
    pub(super) thread: JoinHandle<()>,
}

/// A stream that is being removed.
struct Removal {
    since: Timestamp,
    removed: oneshot::Receiver<RemovedStream>,
    /// Final report of the stream, present once none of its requests is in flight.
    ended: Option<RemovedStream>,
    is_abandoned: bool,
    answer: Answer<StreamReport>,
}

/// See the module.
pub(super) struct LiveStreams {
    streams: BTreeMap<String, (LiveStream, Option<Removal>)>,
    next: u32,
    /// Shared by all streams.
    memory_bytes: u64,
}

impl LiveStreams {
    pub(super) fn new(memory_bytes: u64) -> Self {
        Self {
            streams: BTreeMap::new(),
            next: 0,
            memory_bytes,
        }
    }

    /// The number of the next stream.
    pub(super) fn next_id(&mut self) -> StreamId {
        let id = StreamId(self.next);
        self.next += 1;
        id
    }

    /// Checks that another stream may be added under that name.
    pub(super) fn check_new(&self, name: &str) -> Result<(), StreamError> {
        match self.streams.get(name) {
            Some((_, Some(_))) => Err(StreamError::Removing {
                name: name.to_owned(),
            }),
            Some((_, None)) => Err(StreamError::NameTaken {
                name: name.to_owned(),
                by: None,
            }),
            None if self.streams.len() >= MAX_STREAMS => Err(StreamError::TooMany),
            None => Ok(()),
        }
    }

    pub(super) fn insert(&mut self, name: String, stream: LiveStream) {
        self.streams.insert(name, (stream, None));
    }

    /// All of them, with those that are being removed.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LiveStream> {
        self.streams.values().map(|(stream, _)| stream)
    }

    /// The same with their names.
    pub(super) fn named(&self) -> impl Iterator<Item = (&String, &LiveStream)> {
        self.streams.iter().map(|(name, (stream, _))| (name, stream))
    }

    /// The same with their names, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&String, &mut LiveStream)> {
        self.streams.iter_mut().map(|(name, (stream, _))| (name, stream))
    }

    /// A stream, whether or not it is being removed.
    pub(super) fn any(&self, name: &str) -> Option<&LiveStream> {
        self.streams.get(name).map(|(stream, _)| stream)
    }

    /// A stream that is not being removed, to be changed.
    pub(super) fn get_mut(&mut self, name: &str) -> Result<&mut LiveStream, StreamError> {
        self.get(name)?;
        let known = self.streams.get_mut(name).map(|(stream, _)| stream);
        known.ok_or(StreamError::Stopping)
    }

    /// A stream that is not being removed.
    pub(super) fn get(&self, name: &str) -> Result<&LiveStream, StreamError> {
        match self.streams.get(name) {
            Some((stream, None)) => Ok(stream),
            Some((_, Some(_))) => Err(StreamError::Removing {
                name: name.to_owned(),
            }),
            None => Err(StreamError::Unknown {
                name: name.to_owned(),
                known: self.streams.keys().cloned().collect(),
            }),
        }
    }

    /// Number of streams, with those that are being removed.
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Begins to remove a stream; `answer` comes when it is gone.
    pub(super) fn remove(
        &mut self,
        name: &str,
        answer: Answer<StreamReport>,
        egress: &Addr<Egress>,
        now: Timestamp,
    ) {
        if let Err(error) = self.get(name) {
            let _ = answer.send(Err(error));
            return;
        }
        let Some((stream, removal)) = self.streams.get_mut(name) else {
            return;
        };
        stream.control.remove();
        let (sender, removed) = oneshot::channel();
        egress.do_send(RemoveStream {
            stream: stream.id,
            removed: sender,
        });
        *removal = Some(Removal {
            since: now,
            removed,
            ended: None,
            is_abandoned: false,
            answer,
        });
    }

    pub(super) fn has_removals(&self) -> bool {
        self.streams.values().any(|(_, removal)| removal.is_some())
    }

    /// Completes removals: of what takes longer than `grace`, requests in flight are dropped, and a thread or a sink that does
    /// not end even then is left behind. Gives the streams that are gone.
    pub(super) fn poll_removals(
        &mut self,
        grace: Duration,
        egress: &Addr<Egress>,
        now: Timestamp,
    ) -> Vec<StreamId> {
        let mut gone = Vec::new();
        for (name, (stream, removal)) in &mut self.streams {
            let Some(removal) = removal else { continue };
            if removal.ended.is_none() {
                removal.ended = removal.removed.try_recv().ok();
            }
            let took = duration(now.since(removal.since));
            if took >= grace && !removal.is_abandoned && removal.ended.is_none() {
                removal.is_abandoned = true;
                egress.do_send(AbandonStream(stream.id));
            }
            let is_left = took >= grace + LEAVE_TIMEOUT;
            let Some(ended) = &removal.ended else { continue };
            // A sink that takes packets of another stream of that name must not take them for those of this one.
            let is_complete = stream.thread.is_finished() && ended.sinks.strong_count() == 0;
            if is_complete || is_left {
                gone.push(name.clone());
            }
        }
        let gone = gone.into_iter().filter_map(|name| {
            let (stream, removal) = self.streams.remove(&name)?;
            if !stream.thread.is_finished() {
                tracing::error!(stream = %name, "the thread of its source hangs and is left behind");
            } else if stream.thread.join().is_err() {
                tracing::error!(stream = %name, "the thread of its source panicked");
            }
            if let Some(Removal {
                ended: Some(ended),
                answer,
                ..
            }) = removal
            {
                let _ = answer.send(Ok(ended.report));
            }
            Some(stream.id)
        });
        let gone: Vec<StreamId> = gone.collect();
        if !gone.is_empty() {
            self.share_memory();
        }
        gone
    }

    /// Bytes of frame memory per stream if there are `streams` of them. All shares are equal: a decoder keeps
    /// the buffers of its peak, so only a limit that no stream exceeds bounds the total, and one large camera
    /// cannot starve the others.
    pub(super) fn memory_share(&self, streams: usize) -> u64 {
        self.memory_bytes / streams.max(1) as u64
    }

    /// Shares the frame memory among the streams that there are now.
    pub(super) fn share_memory(&self) {
        let share = self.memory_share(self.streams.len());
        for (stream, _) in self.streams.values() {
            stream.admission.set_max_bytes(share);
        }
    }

    pub(super) fn into_threads(self) -> impl Iterator<Item = JoinHandle<()>> {
        self.streams.into_values().map(|(stream, _)| stream.thread)
    }
}
