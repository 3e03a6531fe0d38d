//! Lookup tables of the cluster: shares, links, and stages with durations by batch size.

use std::collections::BTreeMap;

use weir_types::{ClusterSpec, ModuleId, PipelineId, ShareId, Span, transfer_time};

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
    /// Measured over expected transfer times of its input, by the servers of sender and receiver; pairs that were not measured
    /// are absent.
    links: BTreeMap<(usize, usize), Correction>,
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
        self.apply_correction(applied);
    }

    /// Follows measurements of another stage, which runs the same model on the same class of devices.
    fn adopt_correction(&mut self, other: &Self) {
        self.correction = other.correction;
        self.apply_correction(1.0);
    }

    /// Corrects the durations, to which the ratio `applied` is applied now.
    fn apply_correction(&mut self, applied: f64) {
        let ratio = self.correction.ratio();
        if (ratio - applied).abs() > MIN_RATIO_CHANGE {
            self.durations = self
                .profiled
                .iter()
                .map(|profiled| profiled.scale(ratio))
                .collect();
        }
    }

    /// The input of a batch of `size` took `took` from one server to the other; updates the correction of that link.
    pub(super) fn on_transferred(&mut self, size: u32, link: (usize, usize), bandwidth_bps: u64, took: Span) {
        let expected = self.planned_transfer(size, bandwidth_bps);
        self.links.entry(link).or_default().on_transfer(expected, took);
    }

    /// Resets durations to the profile, and transfers to the bandwidth, until they are measured again.
    pub(super) fn reset_correction(&mut self) {
        self.correction = Correction::default();
        self.durations.clone_from(&self.profiled);
        self.links.clear();
    }

    /// Profiled duration of a batch of `size`, without corrections.
    pub(super) fn profiled(&self, size: u32) -> Span {
        at_size(&self.profiled, size)
    }

    pub(super) fn duration(&self, size: u32) -> Span {
        at_size(&self.durations, size)
    }

    /// Transfer time of `size` items over a link of `bandwidth_bps` bits a second, without corrections.
    pub(super) fn planned_transfer(&self, size: u32, bandwidth_bps: u64) -> Span {
        transfer_time(self.received_bytes, size, bandwidth_bps)
    }

    /// Transfer time of `size` items between two servers, as corrected by measured ones.
    pub(super) fn transfer(&self, size: u32, link: (usize, usize), bandwidth_bps: u64) -> Span {
        let planned = self.planned_transfer(size, bandwidth_bps);
        let correction = self.links.get(&link);
        correction.map_or(planned, |correction| correction.expected_duration(planned))
    }

    /// Whether no transfer of the stage's input was measured, so that transfer times follow from the bandwidth alone.
    pub(super) fn has_planned_links(&self) -> bool {
        self.links.is_empty()
    }
}

/// The duration for `size` items in a table that begins with one item.
fn at_size(durations: &[Span], size: u32) -> Span {
    let last = durations.len().saturating_sub(1);
    let index = (size.saturating_sub(1) as usize).min(last);
    durations.get(index).copied().unwrap_or(Span::ZERO)
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
    /// Device class of each share.
    classes: Vec<String>,
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
                            links: BTreeMap::new(),
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
            classes: cluster.shares.iter().map(|share| share.class.clone()).collect(),
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

    /// Takes over what was measured of durations under another plan, by module and class of devices: of the stage at the same
    /// place, if that class ran it.
    pub(super) fn adopt_corrections(&mut self, before: &Self) {
        let class_of = |stage: &Stage, classes: &[String]| {
            let share = stage.shares.first();
            share.and_then(|share| classes.get(share.index()).cloned())
        };
        for pipeline in &mut self.pipelines {
            let module = pipeline.module;
            for (place, stage) in pipeline.stages.iter_mut().enumerate() {
                let class = class_of(stage, &self.classes);
                let of_module = before.pipelines.iter().filter(|other| other.module == module);
                let stages = of_module.flat_map(|other| other.stages.iter().enumerate());
                let alike = stages.filter(|(_, other)| class_of(other, &before.classes) == class);
                if let Some((_, same)) = alike.min_by_key(|(at, _)| at.abs_diff(place)) {
                    stage.adopt_correction(same);
                }
            }
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

    /// Name of the device class of a share.
    pub(super) fn class_of(&self, share: ShareId) -> &str {
        &self.classes[share.index()]
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
