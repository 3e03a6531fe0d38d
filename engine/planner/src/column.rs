//! The pipelines that a model could run on: every (cut, class, share, batch) that is in time, less those that another one
//! of the same classes beats in every stage.

use std::cmp::Ordering;

use crate::problem::{BlockTimes, Class, Scheme, Served};

/// One stage of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StageColumn {
    /// First block, and the block after the last.
    pub(super) blocks: (usize, usize),
    /// Index of the class.
    pub(super) class: usize,
    /// The device is split into so many.
    pub(super) shares: u32,
    /// Microseconds a batch takes.
    pub(super) us: u64,
    /// Microseconds a batch takes to get here.
    pub(super) transfer_us: f64,
    /// Items a second of one share, as its links allow.
    pub(super) rate: f64,
}

impl StageColumn {
    /// Devices for one item a second.
    pub(super) fn cost(&self) -> f64 {
        1.0 / (self.rate * f64::from(self.shares))
    }
}

/// A pipeline that is in time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub(super) batch: u32,
    pub(super) legs: Vec<StageColumn>,
    /// Microseconds from the first leg's beginning to the last one's end.
    pub(super) latency_us: f64,
}

impl Column {
    /// The classes that it passes.
    pub(super) fn classes(&self) -> Vec<usize> {
        self.legs.iter().map(|leg| leg.class).collect()
    }
}

/// What a pipeline of a batch may take.
pub(super) struct Limit<'a> {
    /// Microseconds of the SLO that the margin leaves.
    pub(super) budget_us: f64,
    /// Microseconds that an additional item of the batch takes to come, charged before the first stage.
    pub(super) gather_us: f64,
    pub(super) classes: &'a [Class],
    pub(super) scheme: Scheme,
}

/// All pipelines of a model that are in time and are not beaten, in a fixed order.
pub(super) fn columns(model: &Served, limit: &Limit) -> Vec<Column> {
    let mut columns = Vec::new();
    for search in searches(model, limit) {
        let mut found = Vec::new();
        search.extend(&mut Vec::new(), 0.0, &mut found);
        columns.extend(found);
    }
    undominated(&columns, true)
}

/// The latency of the fastest pipeline, in microseconds, whatever the limit is.
pub(super) fn least_latency(model: &Served, limit: &Limit) -> Option<f64> {
    let free = Limit {
        budget_us: f64::INFINITY,
        gather_us: 0.0,
        ..*limit
    };
    searches(model, &free)
        .iter()
        .filter_map(Search::fastest)
        .min_by(f64::total_cmp)
}

/// The search for pipelines of one batch size.
struct Search<'a> {
    model: &'a Served,
    classes: &'a [Class],
    scheme: Scheme,
    batch: u32,
    budget_us: f64,
    places: Vec<Place>,
    partitions: usize,
}

/// A share of a class with the sums of its block times: `sums[j] - sums[i]` are the blocks from `i` to `j`.
struct Place {
    class: usize,
    shares: u32,
    sums: Vec<u64>,
}

fn searches<'a>(model: &'a Served, limit: &Limit<'a>) -> Vec<Search<'a>> {
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
        places: places(model, limit, batch),
        partitions: partitions.min(model.blocks.boundary_bytes.len() + 1),
    };
    sizes.into_iter().map(search).collect()
}

/// Where blocks can run in batches of this size.
fn places(model: &Served, limit: &Limit, batch: u32) -> Vec<Place> {
    let mut places = Vec::new();
    for (class, of) in limit.classes.iter().enumerate() {
        for times in model
            .blocks
            .times
            .iter()
            .filter(|times| times.class == of.name && of.count > 0)
        {
            // The baselines know no shares.
            let whole_only = !matches!(limit.scheme, Scheme::Pooled { .. });
            if let Some(sums) = sums(times, batch)
                && (times.shares == 1 || !whole_only)
            {
                places.push(Place {
                    class,
                    shares: times.shares,
                    sums,
                });
            }
        }
    }
    places.sort_by_key(|place| (place.class, place.shares));
    places
}

fn sums(times: &BlockTimes, batch: u32) -> Option<Vec<u64>> {
    let k = times.batch.binary_search(&batch).ok()?;
    let mut sums = vec![0];
    for row in &times.us {
        sums.push(sums[sums.len() - 1] + row[k]);
    }
    Some(sums)
}

impl Search<'_> {
    /// Adds every pipeline that begins with `legs`, which took `spent` microseconds.
    fn extend(&self, legs: &mut Vec<StageColumn>, spent: f64, found: &mut Vec<Column>) {
        let blocks = self.model.blocks.boundary_bytes.len() + 1;
        let from = legs.last().map_or(0, |leg| leg.blocks.1);
        for place in &self.places {
            if self.scheme == Scheme::DartR && legs.iter().any(|leg| leg.class == place.class) {
                continue;
            }
            let transfer_us = legs
                .last()
                .map_or(0.0, |last| self.transfer_us(from, last.class, place.class));
            let last_stage = legs.len() + 1 == self.partitions;
            for to in if last_stage { blocks } else { from + 1 }..=blocks {
                let us = place.sums[to] - place.sums[from];
                let now = spent + transfer_us + us as f64;
                if now > self.budget_us {
                    break;
                }
                legs.push(StageColumn {
                    blocks: (from, to),
                    class: place.class,
                    shares: place.shares,
                    us,
                    transfer_us,
                    rate: self.rate(place, (from, to), us),
                });
                if to == blocks {
                    found.push(self.column(legs, now));
                } else {
                    self.extend(legs, now, found);
                }
                legs.pop();
            }
        }
    }

    fn column(&self, legs: &[StageColumn], latency_us: f64) -> Column {
        let mut legs = legs.to_vec();
        if self.scheme == Scheme::DartR {
            // A chain has one device of each class, so its stages come in equal numbers.
            let least = legs.iter().map(|leg| leg.rate).fold(f64::INFINITY, f64::min);
            legs.iter_mut().for_each(|leg| leg.rate = least);
        }
        Column {
            batch: self.batch,
            legs,
            latency_us,
        }
    }

    /// Microseconds of a batch over an idle link, which is as fast as the slower of its two ends.
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

    /// Items a second of one share: what it computes, or what its part of its server's links carries.
    fn rate(&self, place: &Place, (from, to): (usize, usize), us: u64) -> f64 {
        let class = &self.classes[place.class];
        let computed = 1e6 * f64::from(self.batch) / us as f64;
        let blocks = self.model.blocks.boundary_bytes.len() + 1;
        [from, to]
            .into_iter()
            .filter(|&boundary| boundary > 0 && boundary < blocks)
            .map(|boundary| {
                let us = self.item_us(boundary, class.bandwidth_bps);
                1e6 / us / f64::from(place.shares) / f64::from(class.per_server)
            })
            .fold(computed, f64::min)
    }

    /// The least latency, in microseconds: a walk over (partition, block, place), not over all pipelines.
    fn fastest(&self) -> Option<f64> {
        let blocks = self.model.blocks.boundary_bytes.len() + 1;
        let mut best: Option<f64> = None;
        // `reached[p][j]`: the least time after which place `p` has done block `j - 1` as the last of its stage.
        let mut reached = vec![vec![f64::INFINITY; blocks + 1]; self.places.len()];
        for stage in 0..self.partitions {
            let mut next = vec![vec![f64::INFINITY; blocks + 1]; self.places.len()];
            for (p, place) in self.places.iter().enumerate() {
                for from in 0..blocks {
                    let start = if stage == 0 {
                        if from == 0 { 0.0 } else { continue }
                    } else {
                        self.places
                            .iter()
                            .zip(&reached)
                            .filter(|(sender, _)| self.scheme != Scheme::DartR || sender.class != place.class)
                            .filter(|_| from > 0)
                            .map(|(sender, row)| {
                                row[from] + self.transfer_us(from.max(1), sender.class, place.class)
                            })
                            .fold(f64::INFINITY, f64::min)
                    };
                    for (to, least) in next[p].iter_mut().enumerate().skip(from + 1) {
                        let end = start + (place.sums[to] - place.sums[from]) as f64;
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

/// Those columns that no other one of the same classes beats: at most its cost in every leg and, where pools are `whole`
/// shares, shares that its own can stand for.
pub(super) fn undominated(columns: &[Column], whole: bool) -> Vec<Column> {
    struct Ranked<'a> {
        column: &'a Column,
        classes: Vec<usize>,
        costs: Vec<f64>,
    }
    let rank = |column| Ranked {
        column,
        classes: column.classes(),
        costs: column.legs.iter().map(StageColumn::cost).collect(),
    };
    let mut ranked: Vec<Ranked> = columns.iter().map(rank).collect();
    // By classes, then by cost, so that whoever beats a column comes before it; of equals, the finer shares, the smaller
    // batch and the shorter latency.
    let shares = |ranked: &Ranked| -> Vec<u32> { ranked.column.legs.iter().map(|leg| leg.shares).collect() };
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
    let mut first_of_kind = 0;
    for one in ranked {
        if kept.last().is_none_or(|last| last.classes != one.classes) {
            first_of_kind = kept.len();
        }
        let beats = |better: &Ranked| {
            let legs = better.column.legs.iter().zip(&one.column.legs);
            better.costs.iter().zip(&one.costs).all(|(a, b)| a <= b)
                && (!whole || legs.into_iter().all(|(a, b)| a.shares.is_multiple_of(b.shares)))
        };
        if !kept[first_of_kind..].iter().any(beats) {
            kept.push(one);
        }
    }
    kept.into_iter().map(|ranked| ranked.column.clone()).collect()
}
