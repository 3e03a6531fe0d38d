//! `probe` (PPipe A.3, Algorithm 2): the path of a batch through a pooled pipeline. Chooses greedily, for
//! each stage, the share on which the stage ends first.

use weir_types::{PipelineId, Span, Timestamp};

use super::api::{Interval, PathStage};
use super::booking_table::{ResourceTable, earliest_common};
use super::cluster_index::{ClusterIndex, Pipeline, Stage};
use super::spec::BookingTable;

/// The path of a batch if it were booked now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Pipeline that the path goes through.
    pub pipeline: PipelineId,
    /// Number of items of the batch.
    pub size: u32,
    /// Shares and times by stage.
    pub path: Vec<PathStage>,
    /// End of the last stage.
    pub finish: Timestamp,
    /// Total time that the batch waits for resources.
    pub total_wait: Span,
}

impl Probe {
    pub(super) fn empty() -> Self {
        Self {
            pipeline: PipelineId(0),
            size: 0,
            path: Vec::new(),
            finish: Timestamp::MAX,
            total_wait: Span::MAX,
        }
    }

    /// Start of the first stage.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.path.first().map_or(Timestamp::MAX, |stage| stage.run.from)
    }
}

/// The state that is probed.
#[derive(Clone, Copy)]
pub(super) struct BookingView<'a> {
    pub(super) cluster: &'a ClusterIndex,
    pub(super) down: &'a [bool],
    pub(super) tables: &'a [ResourceTable],
    pub(super) table_kind: BookingTable,
}

impl BookingView<'_> {
    /// Fills `probe` with the path of a batch of `size`; false if a stage has no share that is up, or the size exceeds the
    /// planned one.
    pub(super) fn probe(self, pipeline: PipelineId, size: u32, now: Timestamp, probe: &mut Probe) -> bool {
        probe.path.clear();
        (probe.pipeline, probe.size) = (pipeline, size);
        (probe.finish, probe.total_wait) = (now, Span::ZERO);
        let Some(known) = self.cluster.pipelines.get(pipeline.index()) else {
            return false;
        };
        (1..=known.batch).contains(&size) && self.probe_stages(known, size, probe)
    }

    fn probe_stages(self, pipeline: &Pipeline, size: u32, probe: &mut Probe) -> bool {
        for (at, stage) in pipeline.stages.iter().enumerate() {
            let ready = probe.finish;
            let sender = probe.path.last().map(|stage| self.cluster.server_of(stage.share));
            let next = pipeline.stages.get(at + 1);
            let Some(stage) = self.best((stage, next), size, sender, ready) else {
                return false;
            };
            let arrived = stage.transfer.map_or(ready, |transfer| transfer.to);
            let sent = stage.transfer.map_or(ready, |transfer| transfer.from);
            probe.total_wait += (sent - ready) + (stage.run.from - arrived);
            probe.finish = stage.run.to;
            probe.path.push(stage);
        }
        true
    }

    /// The share on which the stage ends first; among equals the one whose uplink can send first, then the
    /// first of the pool. Devices of one server share its uplink, so always taking the first idle one would
    /// saturate one link while others are idle.
    fn best(
        self,
        (stage, next): (&Stage, Option<&Stage>),
        size: u32,
        sender: Option<usize>,
        ready: Timestamp,
    ) -> Option<PathStage> {
        let duration = stage.duration(size);
        let mut best: Option<PathStage> = None;
        let mut best_send_time = Timestamp::MAX;
        // Cached: most servers have the same bandwidth.
        let mut link = (0, Span::ZERO);
        for &share in &stage.shares {
            if self.down[share.index()] {
                continue;
            }
            let server = self.cluster.server_of(share);
            let transfer = sender
                .filter(|&sender| sender != server && stage.received_bytes > 0)
                .map(|sender| {
                    let bandwidth = self.cluster.bandwidth(sender, server);
                    if stage.has_planned_links() {
                        if link.0 != bandwidth {
                            link = (bandwidth, stage.planned_transfer(size, bandwidth));
                        }
                    } else {
                        link = (0, stage.transfer(size, (sender, server), bandwidth));
                    }
                    let up = &self.tables[self.cluster.uplink(sender)];
                    let down = &self.tables[self.cluster.downlink(server)];
                    let from = earliest_common((up, down), self.table_kind, ready, link.1);
                    Interval {
                        from,
                        to: from + link.1,
                    }
                });
            let arrived = transfer.map_or(ready, |transfer| transfer.to);
            let earliest_start = arrived + duration;
            if best.is_some_and(|best| (best.run.to, best_send_time) <= (earliest_start, earliest_start)) {
                continue;
            }
            let from = self.tables[share.index()].earliest(self.table_kind, arrived, duration);
            let to = from + duration;
            if best.is_some_and(|best| best.run.to < to) {
                continue;
            }
            let send_time = self.send_time(next, size, server, to);
            if best.is_none_or(|best| (to, send_time) < (best.run.to, best_send_time)) {
                let run = Interval { from, to };
                best = Some(PathStage { share, transfer, run });
                best_send_time = send_time;
                // A share without any waiting is optimal, unless the transfer to another is faster.
                let at_once = from == arrived && transfer.is_none_or(|transfer| transfer.from == ready);
                let is_uniform = stage.uniform_transfer && stage.has_planned_links();
                if at_once && send_time == to && (transfer.is_none() || is_uniform) {
                    break;
                }
            }
        }
        best
    }

    /// When a batch that is ready on `server` at `ready` can be sent to the next stage, by the uplink alone.
    fn send_time(self, next: Option<&Stage>, size: u32, server: usize, ready: Timestamp) -> Timestamp {
        let Some(next) = next.filter(|next| next.received_bytes > 0) else {
            return ready;
        };
        let uplink = &self.tables[self.cluster.uplink(server)];
        // The receiver is not known yet, so this is the planned time.
        let length = next.planned_transfer(size, self.cluster.bandwidth(server, server));
        uplink.earliest(self.table_kind, ready, length)
    }
}
