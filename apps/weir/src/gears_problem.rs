//! Problem of planning gears, from a graph, the samples of its cascades and the load, and the evaluation of a
//! plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_graph::planning::{GearsPlanning, PlannedCascades, PlannedLatency};
use weir_graph::{ArrivalProcess, Arrivals, DeviceClass, GearsFile, Graph, ModelNode, Trace, gears_from};
use weir_planner::gears::{
    Assignment, CascadeChoice, Evaluation, GearModel, GearProblem, OperatorChoices, single_models,
};
use weir_policy::Mailboxes;
use weir_policy::gears::{Settle, ShiftBy, ShiftRule};
use weir_sim::gears::{PlannedWorld, SampledItem, run_gears, sampled_cascades};
use weir_types::{GearPlan, Profile, Span, StageGear, Timestamp};

use crate::error::UserError;
use crate::samples::{self, SampleLine, SamplesHeader};

/// A plan is evaluated some hundred times over all of the load.
const MAX_REQUESTS: f64 = 500_000.0;

/// A planning problem with the load that its plans are evaluated on.
#[derive(Debug)]
pub(crate) struct GearsProblem {
    pub(crate) problem: GearProblem,
    /// Cascades; the operators after them are modules that take time of the same slots.
    pub(crate) cascades: usize,
    /// Name of the graph.
    pub(crate) graph: String,
    pub(crate) slo: Span,
    pub(crate) latency: PlannedLatency,
    /// Device of each slot.
    pub(crate) slots: Vec<String>,
    arrivals: Vec<Timestamp>,
    /// Rule by which plans shift in the search.
    rule: ShiftRule,
    /// The graph with its policy.
    world: PlannedWorld,
    /// Whether replicas of its stages can have a queue each.
    pub(crate) takes_replicas: bool,
}

impl GearsProblem {
    /// Builds the problem from a graph and the samples of its cascades.
    ///
    /// # Errors
    /// Samples that are not of the graph's cascades, or do not say what is needed; a load of nothing.
    pub(crate) fn new(graph: &Graph, planning: &GearsPlanning, cores: u32) -> Result<Self, UserError> {
        let (header, lines) = samples::read(&planning.samples)?;
        let wrong =
            |reason: String| UserError::new(format!("samples {}: {reason}", planning.samples.display()));
        if header.graph != graph.name() {
            return Err(wrong(format!(
                "they are for the graph \"{}\", and this is \"{}\": sample this graph",
                header.graph,
                graph.name()
            )));
        }
        let mut builder = Builder::new(graph, planning, header, cores);
        let mut operators = builder.cascades(&lines).map_err(wrong)?;
        let cascades = operators.len();
        operators.extend(builder.others());
        let arrivals = arrivals(planning)?;
        let peak = peak(&arrivals);
        let end = |range: u32| {
            let share = f64::from(range) / f64::from(planning.ranges);
            (peak * share * 100.0).ceil() / 100.0
        };
        let mut ranges: Vec<f64> = (1..=planning.ranges).map(end).collect();
        ranges.dedup();
        let problem = GearProblem {
            models: builder.models,
            operators,
            slots: builder.slots.len(),
            memory: planning.memory.unwrap_or(u64::MAX),
            ranges,
            scoring: planning.scoring,
            together: planning.operators,
            overload: planning.overload,
            order: planning.order,
            refine: planning.refine as usize,
            beam: planning.beam,
            seed: planning.seed,
        };
        let singles = matches!(
            planning.plans,
            PlannedCascades::Single | PlannedCascades::Switching
        );
        let rule = planning.shift.rule().map_err(UserError::new)?;
        Ok(Self {
            world: PlannedWorld::new(graph, &problem, samples_by_cascade(&lines)),
            takes_replicas: takes_replicas(graph),
            problem: if singles { single_models(&problem) } else { problem },
            cascades,
            graph: graph.name().to_owned(),
            slo: graph.slo(),
            latency: planning.latency,
            slots: builder.slots,
            arrivals,
            rule: match rule.by {
                ShiftBy::Rate => rule,
                // The search has no objective that a backlog would be a part of.
                ShiftBy::InFlight | ShiftBy::Backlog(_) => ShiftRule::default(),
            },
        })
    }

    /// Simulates the gears of a file over the whole load, on the graph with its policy: requests are dropped as in a run, and
    /// answers that are not in time count as wrong.
    ///
    /// # Errors
    /// The gears are not of the graph.
    pub(crate) fn evaluate_with_policy(&self, file: &GearsFile) -> Result<Evaluation, String> {
        let gears = gears_from(file, Path::new(""), self.world.graph(), self.world.stages())?;
        let outcome = self.world.run(gears, &self.arrivals);
        Ok(Evaluation {
            latency: match self.latency {
                PlannedLatency::Quantile(quantile) => outcome.latency(quantile),
                PlannedLatency::DropRate => 1.0 - outcome.in_time,
            },
            accuracy: outcome.accuracy,
        })
    }

    /// Simulates a plan over the whole load, in virtual time. The accuracy is that of the cascades alone.
    pub(crate) fn evaluate(&self, plan: &GearPlan, assignment: &Assignment) -> Evaluation {
        let seed = self.problem.seed;
        let outcome = run_gears(&self.problem, plan, assignment, &self.arrivals, self.rule, seed);
        let items = |operators: &[Vec<weir_sim::gears::StageCounts>]| -> u64 {
            let first = operators.iter().filter_map(|stages| stages.first());
            first.map(|stage| stage.items).sum()
        };
        let (all, own) = (items(&outcome.stages), items(&outcome.stages[..self.cascades]));
        // Of the other modules every answer counts as right.
        let right = outcome.accuracy * all as f64 - (all - own) as f64;
        Evaluation {
            latency: match self.latency {
                PlannedLatency::Quantile(quantile) => outcome.latency(quantile),
                PlannedLatency::DropRate => outcome.late(self.slo),
            },
            accuracy: if own == 0 { 1.0 } else { right / own as f64 },
        }
    }

    /// Highest load of any second, in requests.
    pub(crate) fn peak(&self) -> f64 {
        self.problem.ranges.last().copied().unwrap_or_default()
    }
}

struct Builder<'a> {
    graph: &'a Graph,
    planning: &'a GearsPlanning,
    header: SamplesHeader,
    cores: u32,
    models: Vec<GearModel>,
    slots: Vec<String>,
    /// First slot and slots of the devices that are used, by index.
    devices: BTreeMap<usize, (usize, usize)>,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a Graph, planning: &'a GearsPlanning, header: SamplesHeader, cores: u32) -> Self {
        Self {
            graph,
            planning,
            header,
            cores,
            models: Vec::new(),
            slots: Vec::new(),
            devices: BTreeMap::new(),
        }
    }

    /// The cascades of the graph with what they may choose from.
    fn cascades(&mut self, lines: &[SampleLine]) -> Result<Vec<OperatorChoices>, String> {
        let mut known: BTreeMap<&str, (Vec<&ModelNode>, Settle)> = BTreeMap::new();
        for module in self.graph.modules() {
            if let Some(stage) = &module.stage {
                let entry = known
                    .entry(&stage.cascade)
                    .or_insert_with(|| (Vec::new(), stage.settle));
                entry.0.push(&self.graph.models()[module.model]);
            }
        }
        if known.is_empty() {
            return Err("the graph has no module with a `cascade`".to_owned());
        }
        let mut operators = Vec::new();
        for (name, (stages, settle)) in known {
            let names: Vec<&str> = stages.iter().map(|model| model.name.as_str()).collect();
            if self
                .header
                .cascades
                .get(name)
                .is_none_or(|sampled| *sampled != names)
            {
                return Err(format!(
                    "they are not for the cascade \"{name}\" of {}: sample the graph again",
                    names.join(", ")
                ));
            }
            let models = stages.iter().map(|model| self.model(model));
            let models = models.collect::<Result<Vec<usize>, String>>()?;
            let own = lines.iter().filter(|line| line.cascade == name);
            let items: Vec<SampledItem> = own.clone().map(|line| line.stages.clone()).collect();
            if items.is_empty() {
                return Err(format!(
                    "they have no items of the cascade \"{name}\": sample a clip that has some"
                ));
            }
            let work: Vec<f64> = models
                .iter()
                .map(|model| self.models[*model].profile.duration(1).as_secs_f64())
                .collect();
            let choices = sampled_cascades(&items, &work, settle, self.planning.cascades as usize);
            let choice = |choice: weir_sim::gears::SampledCascade| CascadeChoice {
                stages: (choice.stages.iter().enumerate())
                    .map(|(place, stage)| StageGear {
                        model: models[*stage],
                        certainty: choice.certainty.get(place).map_or(0.0, |least| shortest(*least)),
                    })
                    .collect(),
                reach: choice.asked,
                accuracy: choice.accuracy,
            };
            let frames: BTreeSet<(&str, u64)> = own.map(|line| (line.stream.as_str(), line.frame)).collect();
            let measured = self.header.items.get(name).copied();
            operators.push(OperatorChoices {
                name: name.to_owned(),
                items: measured.unwrap_or(items.len() as f64 / frames.len().max(1) as f64),
                cascades: choices.into_iter().map(choice).collect(),
            });
        }
        Ok(operators)
    }

    /// Modules in no cascade that take time of the slots that cascades have: each has one way to go.
    fn others(&mut self) -> Vec<OperatorChoices> {
        let mut operators = Vec::new();
        for module in self.graph.modules() {
            let node = &self.graph.models()[module.model];
            let items = self.header.items.get(&module.name).copied().unwrap_or(0.0);
            if module.stage.is_some() || items <= 0.0 || !self.devices.contains_key(&node.device) {
                continue;
            }
            // One whose durations are not known was not sampled, and is left out.
            let Ok(model) = self.model(node) else { continue };
            operators.push(OperatorChoices {
                name: module.name.clone(),
                items,
                cascades: vec![CascadeChoice {
                    stages: vec![StageGear {
                        model,
                        certainty: 0.0,
                    }],
                    reach: vec![1.0],
                    accuracy: 1.0,
                }],
            });
        }
        operators
    }

    /// A model by its index among those of the problem.
    fn model(&mut self, node: &ModelNode) -> Result<usize, String> {
        if let Some(known) = self.models.iter().position(|model| model.name == node.name) {
            return Ok(known);
        }
        let profile = self.profile(node)?;
        let memory = match self.planning.memory {
            None => 0,
            Some(_) => self.session_bytes(node)?,
        };
        let (first, count) = self.slots(node.device);
        let own = node.workers.map_or(count, |workers| count.min(workers as usize));
        self.models.push(GearModel {
            name: node.name.clone(),
            memory,
            batch: profile.points().iter().map(|(size, _)| *size).collect(),
            profile,
            slots: first..first + own,
        });
        Ok(self.models.len() - 1)
    }

    /// As the graph declares it, or as it was measured with the samples.
    fn profile(&self, node: &ModelNode) -> Result<Profile, String> {
        let measured = || {
            let points = self.header.durations_ms.get(&node.name)?.iter();
            let span = |(size, ms): (&u32, &f64)| (*size, Span::from_secs_f64(ms / 1e3));
            Some(points.map(span).collect::<Vec<_>>())
        };
        let mut points = match node.profile.is_empty() {
            false => node.profile.clone(),
            true => measured().unwrap_or_default(),
        };
        points.retain(|(size, _)| *size == 1 || node.batch.contains(size));
        let begins = points.iter().any(|(size, _)| *size == 1);
        Profile::new(points).filter(|_| begins).ok_or_else(|| {
            let name = &node.name;
            format!(
                "they have no duration of a batch of one for {name}; sample again, or give it a `profile`"
            )
        })
    }

    fn session_bytes(&self, node: &ModelNode) -> Result<u64, String> {
        let declared = self.planning.sessions.get(&node.name);
        let known = declared.or_else(|| self.header.session_bytes.get(&node.name));
        known.copied().ok_or_else(|| {
            format!(
                "they have no memory of a session of {}: set sessions = {{ {} = \"12MiB\" }}",
                node.name, node.name
            )
        })
    }

    /// First slot and slots of a device.
    fn slots(&mut self, device: usize) -> (usize, usize) {
        if let Some(known) = self.devices.get(&device) {
            return *known;
        }
        let node = &self.graph.devices()[device];
        let count = self.planning.slots.unwrap_or_else(|| node.slot_count(self.cores)) as usize;
        let first = self.slots.len();
        self.slots.extend(std::iter::repeat_n(node.name.clone(), count));
        self.devices.insert(device, (first, count));
        (first, count)
    }
}

/// Whether replicas of stages can have a queue each: their models stay open, and the policy has mailboxes for pools.
fn takes_replicas(graph: &Graph) -> bool {
    let is_open = |device: usize| graph.shared_memory(device).is_none();
    let is_fixed = |model: &ModelNode| {
        let is_on_workers = graph.devices()[model.device].class == DeviceClass::Workers;
        !is_on_workers && !model.generates() && model.scaling.is_none() && model.ends.is_empty()
    };
    graph.policy().mailboxes() == Mailboxes::Pool
        && (0..graph.devices().len()).all(is_open)
        && graph.models().iter().all(is_fixed)
}

/// Sampled items by the name of their cascade.
fn samples_by_cascade(lines: &[SampleLine]) -> BTreeMap<String, Arc<[SampledItem]>> {
    let mut items: BTreeMap<String, Vec<SampledItem>> = BTreeMap::new();
    for line in lines {
        let own = items.entry(line.cascade.clone()).or_default();
        own.push(line.stages.clone());
    }
    let shared = |(cascade, items): (String, Vec<SampledItem>)| (cascade, Arc::from(items));
    items.into_iter().map(shared).collect()
}

/// The shortest decimal that is the same certainty when it is read again.
fn shortest(certainty: f32) -> f64 {
    certainty.to_string().parse().unwrap_or(f64::from(certainty))
}

fn arrivals(planning: &GearsPlanning) -> Result<Vec<Timestamp>, UserError> {
    let trace = Trace::read(&planning.trace).map_err(|error| UserError::new(error.to_string()))?;
    let wrong = |reason: String| UserError::new(format!("trace {}: {reason}", planning.trace.display()));
    let expected = trace.expected_requests();
    if expected > MAX_REQUESTS {
        return Err(wrong(format!(
            "{expected:.0} requests are more than can be planned for, {MAX_REQUESTS:.0}: take the part of it with the changes \
             that matter"
        )));
    }
    let times = Arrivals::new(&trace, ArrivalProcess::Poisson, planning.seed);
    let times: Vec<Timestamp> = times.map(|at| Timestamp::ZERO + at).collect();
    if times.is_empty() {
        return Err(wrong("it contains no request".to_owned()));
    }
    Ok(times)
}

/// The most arrivals within any second.
fn peak(times: &[Timestamp]) -> f64 {
    let (mut first, mut most) = (0, 0);
    for (last, at) in times.iter().enumerate() {
        while at.since(times[first]) >= Span::from_secs(1) {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most as f64
}

/// Files that are read for a plan.
pub(crate) fn files(planning: &GearsPlanning) -> [PathBuf; 3] {
    [
        planning.graph.clone(),
        planning.samples.clone(),
        planning.trace.clone(),
    ]
}
