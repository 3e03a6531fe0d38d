//! Columns of the program: the feasible pipelines of a model, that is every (cut, class, share, batch size) within the
//! latency budget, without those that are dominated by another pipeline over the same classes.

use std::cmp::Ordering;

use crate::partition_times::PartitionTimes;
use crate::problem::{Class, Scheme, ServedModel};

/// Stage of a column, on a pool of device shares.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnStage {
    /// First block, and the block after the last.
    pub(super) blocks: (usize, usize),
    /// Index of the device class.
    pub(super) class: usize,
    /// Number of equal shares of a device.
    pub(super) shares: u32,
    /// Duration of a batch in microseconds.
    pub(super) us: u64,
    /// Transfer time of a batch to this stage in microseconds.
    pub(super) transfer_us: f64,
    /// Items a second of one share, bounded by its fraction of the links.
    pub(super) rate: f64,
}

impl ColumnStage {
    /// Devices per item a second.
    pub(super) fn cost(&self) -> f64 {
        1.0 / (self.rate * f64::from(self.shares))
    }
}

/// A pipeline within the latency budget.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub(super) batch: u32,
    pub(super) stages: Vec<ColumnStage>,
    /// Microseconds from the start of the first stage to the end of the last.
    pub(super) latency_us: f64,
}

impl Column {
    /// Class of each stage.
    pub(super) fn classes(&self) -> Vec<usize> {
        self.stages.iter().map(|stage| stage.class).collect()
    }
}

/// Limits of a feasible pipeline.
pub(super) struct Limit<'a> {
    /// Microseconds: the SLO less the margin.
    pub(super) budget_us: f64,
    /// Microseconds until another item of the batch arrives, charged before the first stage.
    pub(super) gather_us: f64,
    pub(super) classes: &'a [Class],
    pub(super) scheme: Scheme,
}

/// All undominated feasible pipelines of a model, in a fixed order.
pub(super) fn columns(model: &ServedModel, limit: &Limit) -> Vec<Column> {
    let mut columns = Vec::new();
    for search in searches_by_batch(model, limit) {
        let mut found = Vec::new();
        search.extend(&mut Vec::new(), 0.0, &mut found);
        columns.extend(found);
    }
    undominated(&columns, true)
}

/// Latency of the fastest pipeline in microseconds, without a budget.
pub(super) fn least_latency(model: &ServedModel, limit: &Limit) -> Option<f64> {
    let free = Limit {
        budget_us: f64::INFINITY,
        gather_us: 0.0,
        ..*limit
    };
    searches_by_batch(model, &free)
        .iter()
        .filter_map(Search::fastest)
        .min_by(f64::total_cmp)
}

/// The search for pipelines of one batch size.
struct Search<'a> {
    model: &'a ServedModel,
    classes: &'a [Class],
    scheme: Scheme,
    batch: u32,
    budget_us: f64,
    device_shares: Vec<DeviceShare>,
    partitions: usize,
}

/// A share of a class, and how long blocks take there.
struct DeviceShare {
    class: usize,
    shares: u32,
    times: PartitionTimes,
}

impl DeviceShare {
    /// Microseconds of blocks `from..to`, which a profile that was checked has.
    fn us(&self, from: usize, to: usize) -> u64 {
        self.times.us(from, to).unwrap_or(u64::MAX)
    }
}

fn searches_by_batch<'a>(model: &'a ServedModel, limit: &Limit<'a>) -> Vec<Search<'a>> {
    let mut sizes: Vec<u32> = model
        .blocks
        .times
        .iter()
        .flat_map(|times| times.batch.iter().copied())
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let partitions = match limit.scheme {
        Scheme::Pooled { partitions } => partitions as usize,
        Scheme::Np => 1,
        Scheme::DartR => 2,
    };
    let search = |batch| Search {
        model,
        classes: limit.classes,
        scheme: limit.scheme,
        batch,
        budget_us: limit.budget_us - limit.gather_us * f64::from(batch - 1),
        device_shares: device_shares(model, limit, batch),
        partitions: partitions.min(model.blocks.boundary_bytes.len() + 1),
    };
    sizes.into_iter().map(search).collect()
}

/// The device shares on which blocks can run in batches of this size.
fn device_shares(model: &ServedModel, limit: &Limit, batch: u32) -> Vec<DeviceShare> {
    let mut device_shares = Vec::new();
    for (class, of) in limit.classes.iter().enumerate() {
        for times in model
            .blocks
            .times
            .iter()
            .filter(|times| times.class == of.name && of.count > 0)
        {
            // The baselines use whole devices only.
            let whole_only = !matches!(limit.scheme, Scheme::Pooled { .. });
            if let Ok(k) = times.batch.binary_search(&batch)
                && let Some(durations) = PartitionTimes::new(&model.blocks, times, k)
                && (times.shares == 1 || !whole_only)
            {
                device_shares.push(DeviceShare {
                    class,
                    shares: times.shares,
                    times: durations,
                });
            }
        }
    }
    device_shares.sort_by_key(|device_share| (device_share.class, device_share.shares));
    device_shares
}

impl Search<'_> {
    /// Adds every pipeline that starts with `stages`, whose latency so far is `spent` microseconds.
    fn extend(&self, stages: &mut Vec<ColumnStage>, spent: f64, found: &mut Vec<Column>) {
        let blocks = self.model.blocks.boundary_bytes.len() + 1;
        let from = stages.last().map_or(0, |stage| stage.blocks.1);
        for device_share in &self.device_shares {
            if self.scheme == Scheme::DartR && stages.iter().any(|stage| stage.class == device_share.class) {
                continue;
            }
            let transfer_us = stages
                .last()
                .map_or(0.0, |last| self.transfer_us(from, last.class, device_share.class));
            let last_stage = stages.len() + 1 == self.partitions;
            for to in if last_stage { blocks } else { from + 1 }..=blocks {
                let us = device_share.us(from, to);
                let now = spent + transfer_us + us as f64;
                if now > self.budget_us {
                    break;
                }
                stages.push(ColumnStage {
                    blocks: (from, to),
                    class: device_share.class,
                    shares: device_share.shares,
                    us,
                    transfer_us,
                    rate: self.rate(device_share, (from, to), us),
                });
                if to == blocks {
                    found.push(self.column(stages, now));
                } else {
                    self.extend(stages, now, found);
                }
                stages.pop();
            }
        }
    }

    fn column(&self, stages: &[ColumnStage], latency_us: f64) -> Column {
        let mut stages = stages.to_vec();
        if self.scheme == Scheme::DartR {
            // A chain has one device of each class, so its stages have pools of equal size.
            let least = stages
                .iter()
                .map(|stage| stage.rate)
                .fold(f64::INFINITY, f64::min);
            stages.iter_mut().for_each(|stage| stage.rate = least);
        }
        Column {
            batch: self.batch,
            stages,
            latency_us,
        }
    }

    /// Transfer time of a batch in microseconds over an idle link, at the bandwidth of the slower end.
    fn transfer_us(&self, boundary: usize, sender: usize, receiver: usize) -> f64 {
        let ends = [&self.classes[sender], &self.classes[receiver]];
        let bandwidth = ends
            .map(|class| class.bandwidth_bps)
            .into_iter()
            .min()
            .unwrap_or(1);
        self.item_us(boundary, bandwidth) * f64::from(self.batch)
    }

    fn item_us(&self, boundary: usize, bandwidth_bps: u64) -> f64 {
        self.model.blocks.boundary_bytes[boundary - 1] as f64 * 8e6 / bandwidth_bps as f64
    }

    /// Items a second of one share: the minimum of its compute rate and its fraction of the server's links.
    fn rate(&self, device_share: &DeviceShare, (from, to): (usize, usize), us: u64) -> f64 {
        let class = &self.classes[device_share.class];
        let computed = 1e6 * f64::from(self.batch) / us as f64;
        let blocks = self.model.blocks.boundary_bytes.len() + 1;
        [from, to]
            .into_iter()
            .filter(|&boundary| boundary > 0 && boundary < blocks)
            .map(|boundary| {
                let us = self.item_us(boundary, class.bandwidth_bps);
                1e6 / us / f64::from(device_share.shares) / f64::from(class.per_server)
            })
            .fold(computed, f64::min)
    }

    /// The least latency in microseconds, by dynamic programming over (stage, block, device share).
    fn fastest(&self) -> Option<f64> {
        let blocks = self.model.blocks.boundary_bytes.len() + 1;
        let mut best: Option<f64> = None;
        // `reached[p][j]`: the least time at which a stage on share `p` ends with block `j - 1`.
        let mut reached = vec![vec![f64::INFINITY; blocks + 1]; self.device_shares.len()];
        for stage in 0..self.partitions {
            let mut next = vec![vec![f64::INFINITY; blocks + 1]; self.device_shares.len()];
            for (p, device_share) in self.device_shares.iter().enumerate() {
                for from in 0..blocks {
                    let start = if stage == 0 {
                        if from == 0 { 0.0 } else { continue }
                    } else {
                        self.device_shares
                            .iter()
                            .zip(&reached)
                            .filter(|(sender, _)| {
                                self.scheme != Scheme::DartR || sender.class != device_share.class
                            })
                            .filter(|_| from > 0)
                            .map(|(sender, row)| {
                                row[from] + self.transfer_us(from.max(1), sender.class, device_share.class)
                            })
                            .fold(f64::INFINITY, f64::min)
                    };
                    for (to, least) in next[p].iter_mut().enumerate().skip(from + 1) {
                        let end = start + device_share.us(from, to) as f64;
                        *least = least.min(end);
                    }
                }
            }
            let done = next.iter().map(|row| row[blocks]).fold(f64::INFINITY, f64::min);
            if done.is_finite() {
                best = Some(best.map_or(done, |best: f64| best.min(done)));
            }
            reached = next;
        }
        best
    }
}

/// The columns that are not dominated by another over the same classes. A column dominates if its cost is no higher in any
/// stage and, where pools are `whole` numbers of shares, its shares subdivide those of the other.
pub(super) fn undominated(columns: &[Column], whole: bool) -> Vec<Column> {
    struct Ranked<'a> {
        column: &'a Column,
        classes: Vec<usize>,
        costs: Vec<f64>,
    }
    let rank = |column| Ranked {
        column,
        classes: column.classes(),
        costs: column.stages.iter().map(ColumnStage::cost).collect(),
    };
    let mut ranked: Vec<Ranked> = columns.iter().map(rank).collect();
    // Sorted by classes, then by cost, so that a dominating column precedes a dominated one. Among equals,
    // finer shares, smaller batches and shorter latencies come first.
    let shares =
        |ranked: &Ranked| -> Vec<u32> { ranked.column.stages.iter().map(|stage| stage.shares).collect() };
    ranked.sort_by(|a, b| {
        let by_cost = a.costs.iter().zip(&b.costs).map(|(a, b)| a.total_cmp(b));
        a.classes
            .cmp(&b.classes)
            .then(by_cost.fold(Ordering::Equal, Ordering::then))
            .then_with(|| shares(b).cmp(&shares(a)))
            .then(a.column.batch.cmp(&b.column.batch))
            .then(a.column.latency_us.total_cmp(&b.column.latency_us))
    });
    let mut kept: Vec<Ranked> = Vec::new();
    let mut first_of_classes = 0;
    for one in ranked {
        if kept.last().is_none_or(|last| last.classes != one.classes) {
            first_of_classes = kept.len();
        }
        let dominates = |better: &Ranked| {
            let stages = better.column.stages.iter().zip(&one.column.stages);
            better.costs.iter().zip(&one.costs).all(|(a, b)| a <= b)
                && (!whole || stages.into_iter().all(|(a, b)| a.shares.is_multiple_of(b.shares)))
        };
        if !kept[first_of_classes..].iter().any(dominates) {
            kept.push(one);
        }
    }
    kept.into_iter().map(|ranked| ranked.column.clone()).collect()
}
