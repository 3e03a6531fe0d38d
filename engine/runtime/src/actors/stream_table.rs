//! The streams of a run as the egress knows them: names, states, how they ended. They come and go while the engine runs;
//! their numbers are not used again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use tokio::sync::oneshot;
use weir_analytics::transforms::StreamTransforms;
use weir_analytics::{PrivacyMemory, ProgramIncidents, TrackIdBlocks, TrackIds};
use weir_flow::{RequestResults, SourceCounts, StreamState};
use weir_policy::{HealthTracker, Ledger, RunStats, SinkReport, StreamHealth, StreamReport, TransformReport};
use weir_types::{Span, StreamId, Timestamp};

use super::graph_counts::GraphCounts;
use super::passing::PassingOutputs;

/// Counts of a source that has ended, with the error that ended it, if any.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamSummary {
    pub(crate) counts: SourceCounts,
    pub(crate) stale: u64,
    pub(crate) error: Option<String>,
}

/// A stream of which nothing is in flight any more.
#[derive(Debug)]
pub(crate) struct RemovedStream {
    pub(crate) report: StreamReport,
    /// Alive until the sinks that observe packets have completed what they have of the stream.
    pub(crate) sinks: Weak<()>,
}

/// State of one stream at the egress, kept until the stream is removed.
#[derive(Debug)]
pub(super) struct StreamEntry {
    pub(super) name: Arc<str>,
    /// The latency objective of its own, where it has one.
    pub(super) own_slo: Option<Span>,
    pub(super) added_at: Timestamp,
    pub(super) health: HealthTracker,
    /// The state that the source reported last, and the time of that report; `None` before the first frame or
    /// failure.
    pub(super) state: Option<(StreamState, Timestamp)>,
    /// The last state that sinks were notified of.
    pub(super) notified: Option<StreamState>,
    /// Outcomes that requests of it had.
    pub(super) outcomes: BTreeSet<&'static str>,
    /// Since when it is paused.
    pub(super) paused: Option<Timestamp>,
    /// Once its source has ended.
    pub(super) summary: Option<StreamSummary>,
    /// Its transforms, whatever the graph: counts go on where a transform stays the same.
    pub(super) transforms: StreamTransforms,
    /// The graph whose transforms these are.
    pub(super) transforms_of: Option<u32>,
    /// Whether its source is away or no longer analysed, and frames of what it showed are in flight: what is known ends after them.
    pub(super) scene_ended: bool,
    /// True while its frames come outside the times at which it is analysed.
    pub(super) is_outside_schedule: bool,
    /// Outputs that wait for programs of transforms.
    pub(super) passing: PassingOutputs,
    /// Incidents that programs of transforms reported, by transform.
    pub(super) program_incidents: BTreeMap<Arc<str>, ProgramIncidents>,
    /// Results of the last frame that was looked at, with the number of the graph that has them; of a stream with a gate.
    pub(super) looked: Option<(u32, RequestResults)>,
    /// Objects that its pictures hide.
    pub(super) privacy: PrivacyMemory,
    /// Ids of its tracks, whatever the graph.
    pub(super) track_ids: TrackIds,
    /// Present while the stream is being removed; receives its final report.
    pub(super) removed: Option<oneshot::Sender<RemovedStream>>,
}

impl StreamEntry {
    pub(super) fn new(
        name: Arc<str>,
        own_slo: Option<Span>,
        track_ids: &TrackIdBlocks,
        now: Timestamp,
    ) -> Self {
        Self {
            transforms: StreamTransforms::new(Arc::clone(&name), Vec::new(), 0),
            name,
            own_slo,
            added_at: now,
            health: HealthTracker::new(now),
            state: None,
            notified: None,
            outcomes: BTreeSet::new(),
            paused: None,
            summary: None,
            transforms_of: None,
            scene_ended: false,
            is_outside_schedule: false,
            passing: PassingOutputs::new(),
            program_incidents: BTreeMap::new(),
            looked: None,
            privacy: PrivacyMemory::default(),
            track_ids: TrackIds::new(track_ids),
            removed: None,
        }
    }

    pub(super) fn counts(&self, now: Timestamp) -> StreamCounts {
        let summary = self.summary.clone().unwrap_or_default();
        let mut health = self.health.health(now);
        health.concealed = summary.counts.concealed;
        health.discontinuities = summary.counts.discontinuities;
        health.not_sampled = summary.counts.not_sampled;
        health.unreadable = summary.counts.unreadable;
        health.not_decoded = summary.counts.not_decoded;
        health.cpu_decoded = summary.counts.cpu_decoded;
        health.stale = summary.stale;
        StreamCounts {
            name: Arc::clone(&self.name),
            own_slo: self.own_slo,
            state: self.state.clone(),
            outage: self
                .health
                .outage()
                .map(|(since, reason)| (since, reason.to_owned())),
            paused: self.paused,
            is_removed: self.removed.is_some(),
            damaged: summary.counts.damaged,
            error: summary.error,
            health,
        }
    }
}

/// State of a stream and of its source at one moment, apart from the counts of its requests.
#[derive(Debug, Clone)]
pub(crate) struct StreamCounts {
    pub(crate) name: Arc<str>,
    pub(crate) own_slo: Option<Span>,
    pub(crate) state: Option<(StreamState, Timestamp)>,
    /// Start and reason of the outage that lasts.
    pub(crate) outage: Option<(Timestamp, String)>,
    pub(crate) paused: Option<Timestamp>,
    /// Whether it is being removed.
    pub(crate) is_removed: bool,
    pub(crate) damaged: u64,
    pub(crate) error: Option<String>,
    pub(crate) health: StreamHealth,
}

impl StreamCounts {
    /// Adds to the report of its requests what is known beside them.
    pub(crate) fn complete(self, report: &mut StreamReport) {
        report.slo_ms = self.own_slo.map(Span::as_millis_f64);
        report.damaged = self.damaged;
        report.error = self.error;
        report.health = Some(self.health);
    }
}

/// All counts of the egress at one moment.
#[derive(Debug, Default)]
pub(crate) struct EgressCounts {
    pub(crate) ledger: Ledger,
    pub(crate) stats: RunStats,
    pub(crate) graphs: GraphCounts,
    pub(crate) streams: BTreeMap<StreamId, StreamCounts>,
    /// Reports of open and closed sinks, keyed by sink name.
    pub(crate) sinks: BTreeMap<String, SinkReport>,
    /// Reports of transforms that programs compute, by name.
    pub(crate) transforms: BTreeMap<String, TransformReport>,
}
