//! Lookup tables of the cluster: shares, links, and stages with durations by batch size.

use weir_types::{ClusterSpec, ModuleId, PipelineId, ShareId, Span};

use crate::measure::correction::Correction;

/// One stage with tabulated durations.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) shares: Vec<ShareId>,
    pub(super) received_bytes: u64,
    /// Whether the transfer of the stage's input takes equally long to all its shares: none is on a server of
    /// the previous stage, and all servers have the same bandwidth.
    pub(super) uniform_transfer: bool,
    /// Durations by batch size, from one item: profiled, and in `durations` corrected.
    profiled: Vec<Span>,
    durations: Vec<Span>,
    correction: Correction,
}

/// Least change of the correction that is applied to the table.
const MIN_RATIO_CHANGE: f64 = 0.01;

impl Stage {
    /// A batch of `size` took `took`; updates the correction.
    pub(super) fn on_measured(&mut self, size: u32, took: Span) {
        let last = self.profiled.len().saturating_sub(1);
        let Some(&profiled) = self.profiled.get((size.saturating_sub(1) as usize).min(last)) else {
            return;
        };
        let applied = self.durations[0].micros() as f64 / self.profiled[0].micros().max(1) as f64;
        self.correction.on_measured(profiled, took);
        let ratio = self.correction.ratio();
        if (ratio - applied).abs() > MIN_RATIO_CHANGE {
            self.durations = self
                .profiled
                .iter()
                .map(|profiled| profiled.scale(ratio))
                .collect();
        }
    }

    /// Resets durations to the profile until they are measured again.
    pub(super) fn reset_correction(&mut self) {
        self.correction = Correction::default();
        self.durations.clone_from(&self.profiled);
    }

    pub(super) fn duration(&self, size: u32) -> Span {
        let last = self.durations.len().saturating_sub(1);
        self.durations
            .get((size.saturating_sub(1) as usize).min(last))
            .copied()
            .unwrap_or(Span::ZERO)
    }

    /// Transfer time of `size` items over a link of `bandwidth_bps` bits a second.
    pub(super) fn transfer(&self, size: u32, bandwidth_bps: u64) -> Span {
        let bits = u128::from(self.received_bytes) * 8 * u128::from(size);
        let micros = (bits * 1_000_000).div_ceil(u128::from(bandwidth_bps.max(1)));
        Span::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    pub(super) module: ModuleId,
    pub(super) batch: u32,
    pub(super) stages: Vec<Stage>,
}

/// Lookup tables. Resources are numbered: shares first, then uplink and downlink of each server.
#[derive(Debug, Clone)]
pub(super) struct ClusterIndex {
    servers: Vec<usize>,
    bandwidths: Vec<u64>,
    pub(super) pipelines: Vec<Pipeline>,
}

impl ClusterIndex {
    pub(super) fn new(cluster: &ClusterSpec) -> Self {
        let servers: Vec<usize> = cluster.shares.iter().map(|share| share.server.index()).collect();
        let on = |shares: &[ShareId]| -> Vec<usize> {
            shares.iter().map(|share| servers[share.index()]).collect()
        };
        let bandwidths: Vec<u64> = cluster
            .servers
            .iter()
            .map(|server| server.bandwidth_bps)
            .collect();
        let even = bandwidths.windows(2).all(|pair| pair[0] == pair[1]);
        let pipelines = cluster
            .pipelines
            .iter()
            .map(|pipeline| {
                let mut before: Vec<usize> = Vec::new();
                let stages = pipeline
                    .stages
                    .iter()
                    .map(|stage| {
                        let here = on(&stage.shares);
                        let near = here.iter().any(|server| before.contains(server));
                        let uniform_transfer = even && !near;
                        before = here;
                        let profiled: Vec<Span> = (1..=pipeline.batch.max(1))
                            .map(|size| stage.profile.duration(size))
                            .collect();
                        Stage {
                            shares: stage.shares.clone(),
                            received_bytes: stage.received_bytes,
                            uniform_transfer,
                            durations: profiled.clone(),
                            profiled,
                            correction: Correction::default(),
                        }
                    })
                    .collect();
                Pipeline {
                    module: pipeline.module,
                    batch: pipeline.batch.max(1),
                    stages,
                }
            })
            .collect();
        Self {
            bandwidths,
            servers,
            pipelines,
        }
    }

    /// Resets the durations of these pipelines to their profiles.
    pub(super) fn reset_corrections(&mut self, pipelines: &[PipelineId]) {
        for id in pipelines {
            let pipeline = self.pipelines.get_mut(id.index());
            pipeline
                .into_iter()
                .flat_map(|pipeline| &mut pipeline.stages)
                .for_each(Stage::reset_correction);
        }
    }

    /// Number of resources.
    pub(super) fn resources(&self) -> usize {
        self.servers.len() + 2 * self.bandwidths.len()
    }

    pub(super) fn shares(&self) -> usize {
        self.servers.len()
    }

    pub(super) fn server_of(&self, share: ShareId) -> usize {
        self.servers[share.index()]
    }

    pub(super) fn uplink(&self, server: usize) -> usize {
        self.servers.len() + 2 * server
    }

    pub(super) fn downlink(&self, server: usize) -> usize {
        self.servers.len() + 2 * server + 1
    }

    /// Bandwidth between two servers in bits a second.
    pub(super) fn bandwidth(&self, from: usize, to: usize) -> u64 {
        self.bandwidths[from].min(self.bandwidths[to])
    }
}
