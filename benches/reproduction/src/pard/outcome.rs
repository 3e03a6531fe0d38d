//! Outcome of one run: the figures from which tables and plots are made.

use weir_sim::SimulationResult;
use weir_sim::experiment::Run;

use super::naming;

/// Data that is kept of a run beside its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// True if the upper bound is computed.
    pub bound: bool,
    /// True if queueing delays, load factors and priorities are kept by second.
    pub timeline: bool,
}

/// Figures of one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The world's name, such as `lv`.
    pub world: String,
    /// `wiki`, `tweet`, `azure` or `constant`.
    pub trace: String,
    /// Name of the policy.
    pub policy: String,
    /// Drop rule of the policy.
    pub rule: String,
    /// Settings that differ from the preset of the rule.
    pub departures: Vec<String>,
    /// Seed of all random draws.
    pub seed: u64,
    /// Description of the arrivals.
    pub origin: String,
    /// Latency objective in milliseconds.
    pub slo_ms: f64,
    /// Swept values, by key.
    pub labels: Vec<(String, String)>,
    /// Number of requests that were sent.
    pub arrived: u64,
    /// Drop rate: `(dropped + late) / arrived`.
    pub drop_rate: f64,
    /// Invalid rate: wasted device time over all device time.
    pub invalid_rate: f64,
    /// Requests delivered in time per second.
    pub goodput: f64,
    /// Number of requests that were delivered late.
    pub late: u64,
    /// Names of the modules, in topological order.
    pub modules: Vec<String>,
    /// Distance of each module from the entry in edges: 0 for the first.
    pub depths: Vec<usize>,
    /// Number of requests that each module dropped.
    pub dropped: Vec<u64>,
    /// Median queueing delay of each module in milliseconds.
    pub queue_ms: Vec<f64>,
    /// Mean batch size of each module in items.
    pub batch: Vec<f64>,
    /// Number of priority changes of each module.
    pub switches: Vec<u64>,
    /// Number of requests by the second in which they were sent.
    pub sent: Vec<u32>,
    /// Number of these that were not delivered in time.
    pub lost: Vec<u32>,
    /// Lower bound of the drop rate for any policy.
    pub bound: Option<f64>,
    /// Timeline by second, if it was kept.
    pub timeline: Option<weir_sim::Timeline>,
    /// State that one module sends, in bytes per second.
    pub state_bytes: f64,
    /// Maximum number of workers at a time.
    pub workers: u32,
}

impl Outcome {
    /// Extracts the outcome of a run.
    #[must_use]
    pub fn new(run: &Run, ran: &SimulationResult, keep: Keep) -> Self {
        let report = &ran.report;
        let module = |name: &String| report.modules.get(name).cloned().unwrap_or_default();
        let modules: Vec<String> = run.world.modules.iter().map(|plan| plan.name.clone()).collect();
        let rows: Vec<_> = modules.iter().map(module).collect();
        let seconds = report.run.duration_s.max(1e-9);
        Self {
            world: run.name.clone(),
            trace: naming::trace(&run.trace),
            policy: naming::policy(&run.world.policy),
            rule: report.run.policy.clone(),
            departures: report.run.departures.clone(),
            seed: run.seed,
            origin: run.trace.clone(),
            slo_ms: run.world.slo.as_millis_f64(),
            labels: run
                .labels
                .iter()
                .map(|(key, label)| (key.clone(), label.to_string()))
                .collect(),
            arrived: report.requests.arrived,
            drop_rate: report.drop_rate,
            invalid_rate: report.invalid_rate,
            goodput: report.goodput_rps,
            late: report.requests.late,
            depths: depths(run),
            dropped: rows.iter().map(|module| module.dropped).collect(),
            queue_ms: rows.iter().map(|module| module.queue_ms.p50).collect(),
            batch: rows.iter().map(|module| module.mean_batch).collect(),
            switches: rows.iter().map(|module| module.priority_switches).collect(),
            sent: ran.timeline.sent.clone(),
            lost: ran.timeline.lost.clone(),
            bound: if keep.bound {
                ran.bound(&run.world).ok().map(|bound| bound.min_drop_rate)
            } else {
                None
            },
            timeline: keep.timeline.then(|| ran.timeline.clone()),
            state_bytes: ran.timeline.state_bytes as f64 / seconds / modules.len().max(1) as f64,
            workers: max_workers(ran),
            modules,
        }
    }

    /// Value of a swept key as a number; NaN if it is no number.
    #[must_use]
    pub fn number(&self, key: &str) -> f64 {
        let label = self.labels.iter().find(|(name, _)| name == key);
        label.map_or(f64::NAN, |(_, value)| {
            value
                .trim_end_matches("ms")
                .trim_end_matches('s')
                .parse()
                .unwrap_or(f64::NAN)
        })
    }

    /// Share of the lost requests that were dropped in modules for which `counts(depth, greatest depth)` is
    /// true. Late requests count as lost after the last module.
    #[must_use]
    pub fn share_lost(&self, counts: impl Fn(usize, usize) -> bool) -> f64 {
        let last = self.depths.iter().copied().max().unwrap_or(0);
        let within = self.dropped.iter().zip(&self.depths);
        let within: u64 = within
            .filter(|(_, depth)| counts(**depth, last))
            .map(|(count, _)| count)
            .sum();
        let all = self.dropped.iter().sum::<u64>() + self.late;
        if all == 0 {
            f64::NAN
        } else {
            within as f64 / all as f64
        }
    }
}

fn depths(run: &Run) -> Vec<usize> {
    let mut depths = vec![0; run.world.modules.len()];
    for (from, plan) in run.world.modules.iter().enumerate() {
        for edge in &plan.next {
            depths[edge.to] = depths[edge.to].max(depths[from] + 1);
        }
    }
    depths
}

/// Workers of all modules together, at most.
fn max_workers(ran: &SimulationResult) -> u32 {
    let mut changes: Vec<(weir_types::Timestamp, i64)> = Vec::new();
    for history in &ran.workers {
        let mut before = 0;
        for &(at, workers) in history {
            changes.push((at, i64::from(workers) - before));
            before = i64::from(workers);
        }
    }
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    u32::try_from(most).unwrap_or(0)
}
