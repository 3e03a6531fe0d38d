//! `probe` (PPipe A.3, Algorithm 2): the path through a pooled pipeline that a batch would take, stage by stage the share
//! on which it ends first.

use weir_types::{PipelineId, Span, Timestamp};

use super::api::{Interval, PathStage};
use super::booking_table::{Table, earliest_of_both};
use super::cluster_index::{ClusterIndex, Pipeline, Stage};
use super::spec::BookingTable;

/// What a batch would get if it were booked now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Which pipeline.
    pub pipeline: PipelineId,
    /// How many items.
    pub size: u32,
    /// What would be booked, stage by stage.
    pub legs: Vec<PathStage>,
    /// When the last stage ends.
    pub finish: Timestamp,
    /// Time spent waiting for resources, summed over them.
    pub waited: Span,
}

impl Probe {
    pub(super) fn empty() -> Self {
        Self {
            pipeline: PipelineId(0),
            size: 0,
            legs: Vec::new(),
            finish: Timestamp::MAX,
            waited: Span::MAX,
        }
    }

    /// When the first stage begins.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.legs.first().map_or(Timestamp::MAX, |leg| leg.run.from)
    }
}

/// What probing looks at.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) cluster: &'a ClusterIndex,
    pub(super) down: &'a [bool],
    pub(super) tables: &'a [Table],
    pub(super) kind: BookingTable,
}

impl View<'_> {
    /// Fills `probe` with the path of a batch of `size`; false where a stage has no share left, or the size is
    /// none that the pipeline has.
    pub(super) fn probe(self, pipeline: PipelineId, size: u32, now: Timestamp, probe: &mut Probe) -> bool {
        probe.legs.clear();
        (probe.pipeline, probe.size) = (pipeline, size);
        (probe.finish, probe.waited) = (now, Span::ZERO);
        let Some(known) = self.cluster.pipelines.get(pipeline.index()) else {
            return false;
        };
        (1..=known.batch).contains(&size) && self.walk(known, size, probe)
    }

    fn walk(self, pipeline: &Pipeline, size: u32, probe: &mut Probe) -> bool {
        for (at, stage) in pipeline.stages.iter().enumerate() {
            let ready = probe.finish;
            let sender = probe.legs.last().map(|leg| self.cluster.server_of(leg.share));
            let next = pipeline.stages.get(at + 1);
            let Some(leg) = self.best((stage, next), size, sender, ready) else {
                return false;
            };
            let arrived = leg.transfer.map_or(ready, |transfer| transfer.to);
            let sent = leg.transfer.map_or(ready, |transfer| transfer.from);
            probe.waited += (sent - ready) + (leg.run.from - arrived);
            probe.finish = leg.run.to;
            probe.legs.push(leg);
        }
        true
    }

    /// The share on which the stage ends first; among equals that whose uplink can send first to the next stage, and then
    /// the first of the pool. Devices of one server share its uplink: if it were always the first that is idle, one
    /// server's link would be full while others are idle.
    fn best(
        self,
        (stage, next): (&Stage, Option<&Stage>),
        size: u32,
        sender: Option<usize>,
        ready: Timestamp,
    ) -> Option<PathStage> {
        let duration = stage.duration(size);
        let mut best: Option<PathStage> = None;
        let mut best_leaves = Timestamp::MAX;
        // Servers differ little: most have the bandwidth of the one before.
        let mut known = (0, Span::ZERO);
        for &share in &stage.shares {
            if self.down[share.index()] {
                continue;
            }
            let server = self.cluster.server_of(share);
            let transfer = sender
                .filter(|&sender| sender != server && stage.received_bytes > 0)
                .map(|sender| {
                    let bandwidth = self.cluster.bandwidth(sender, server);
                    if known.0 != bandwidth {
                        known = (bandwidth, stage.transfer(size, bandwidth));
                    }
                    let up = &self.tables[self.cluster.uplink(sender)];
                    let down = &self.tables[self.cluster.downlink(server)];
                    let from = earliest_of_both((up, down), self.kind, ready, known.1);
                    Interval {
                        from,
                        to: from + known.1,
                    }
                });
            let arrived = transfer.map_or(ready, |transfer| transfer.to);
            let soonest = arrived + duration;
            if best.is_some_and(|best| (best.run.to, best_leaves) <= (soonest, soonest)) {
                continue;
            }
            let from = self.tables[share.index()].earliest(self.kind, arrived, duration);
            let to = from + duration;
            if best.is_some_and(|best| best.run.to < to) {
                continue;
            }
            let leaves = self.leaves(next, size, server, to);
            if best.is_none_or(|best| (to, leaves) < (best.run.to, best_leaves)) {
                let run = Interval { from, to };
                best = Some(PathStage { share, transfer, run });
                best_leaves = leaves;
                // Nothing can beat a share that makes nobody wait, unless the tensors come to another sooner.
                let at_once = from == arrived && transfer.is_none_or(|transfer| transfer.from == ready);
                if at_once && leaves == to && (transfer.is_none() || stage.alike) {
                    break;
                }
            }
        }
        best
    }

    /// When a batch that is ready on `server` at `ready` can be sent to the next stage, as far as the uplink goes.
    fn leaves(self, next: Option<&Stage>, size: u32, server: usize, ready: Timestamp) -> Timestamp {
        let Some(next) = next.filter(|next| next.received_bytes > 0) else {
            return ready;
        };
        let uplink = &self.tables[self.cluster.uplink(server)];
        let length = next.transfer(size, self.cluster.bandwidth(server, server));
        uplink.earliest(self.kind, ready, length)
    }
}
