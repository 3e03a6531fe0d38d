//! The data planes by which a plan is served: by reservation, as a world of one module over pipelines, or reactively.

use std::collections::BTreeMap;

use weir_planner::{ModelPlan, PipelineSlots};
use weir_policy::reservations::{BookingTable, ReserveSpec};
use weir_policy::{DropRule, Order, Policy};
use weir_sim::{ResourceUsage, SimulationResult, WorldCluster, WorldModule, WorldPool, WorldSpec, simulate};
use weir_types::{ClusterSpec, ModuleId, Span, Timestamp};

use super::reactive;

/// Method by which batches are formed and dispatched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dispatch {
    /// Dispatch by reservation (PPipe 5.4).
    #[default]
    Reserved,
    /// Pool by pool, with no view of links (PPipe 7.4).
    Reactive,
}

/// Settings of the data plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DataPlane {
    /// Representation of a resource's bookings.
    pub tables: BookingTable,
    /// Head rule of [`ReserveSpec`](weir_policy::reservations::ReserveSpec): least size of the batch for the
    /// head of the queue, as a fraction of the planned size.
    pub head_min_fraction: f64,
    /// Method by which batches are formed and dispatched.
    pub dispatch: Dispatch,
}

impl DataPlane {
    /// Settings of the published results.
    pub const PUBLISHED: Self = Self {
        tables: BookingTable::BusyUntil,
        head_min_fraction: 0.95,
        dispatch: Dispatch::Reserved,
    };
}

/// Results for the items of one model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServedRun {
    /// Number of items that arrived.
    pub arrived: u64,
    /// Number of items delivered after the SLO.
    pub late: u64,
    /// Number of items that were dropped.
    pub dropped: u64,
    /// Busy time of the shares of each class, in device seconds: half a device counts half.
    pub busy_s: BTreeMap<String, f64>,
    /// Time at which the last batch was delivered.
    pub last_output: Timestamp,
    /// Uses of resources in the order of their ends, if they were requested.
    pub uses: Vec<ResourceUsage>,
}

impl ServedRun {
    /// Part of what arrived that was not out in time.
    #[must_use]
    pub fn miss_rate(&self) -> f64 {
        (self.late + self.dropped) as f64 / self.arrived.max(1) as f64
    }
}

/// A single model on the resources that a plan assigns to it.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// Cluster on which all models of the plan are placed.
    pub cluster: &'a ClusterSpec,
    /// Module of the model in that cluster.
    pub module: ModuleId,
    /// Pipelines of the model.
    pub plan: &'a ModelPlan,
    /// The latency objective.
    pub slo: Span,
}

impl Served<'_> {
    /// Serves items as they arrive; with `trace`, all uses of resources are recorded.
    #[must_use]
    pub fn serve(self, arrivals: &[Timestamp], plane: DataPlane, trace: bool) -> ServedRun {
        if plane.dispatch == Dispatch::Reactive {
            return reactive::serve(self.cluster, self.module, self.slo, arrivals);
        }
        let Some(world) = self.world(plane, trace) else {
            // The plan assigns no resources to the model.
            let arrived = arrivals.len() as u64;
            return ServedRun {
                arrived,
                dropped: arrived,
                ..ServedRun::default()
            };
        };
        let ran = simulate(&world, "ppipe", &mut arrivals.iter().copied(), &mut |_| {});
        served(ran)
    }

    /// PPipe's data plane: items in the order of arrival. An item is dropped only if its reservation is
    /// infeasible; everything runs as booked.
    fn world(self, plane: DataPlane, trace: bool) -> Option<WorldSpec> {
        let slots = PipelineSlots::new(self.cluster, self.module, self.plan)?;
        let mut cluster = self.cluster.clone();
        // The model is alone, so its module is the only one of the world.
        cluster
            .pipelines
            .retain(|pipeline| pipeline.module == self.module);
        for pipeline in &mut cluster.pipelines {
            pipeline.module = ModuleId(0);
        }
        Some(WorldSpec {
            cluster: Some(WorldCluster {
                trace,
                ..WorldCluster::new(ReserveSpec {
                    cluster,
                    tables: plane.tables,
                    feedback: false,
                    corrected: false,
                    head_min_fraction: plane.head_min_fraction,
                })
            }),
            seed: 0,
            ..WorldSpec::new(
                self.slo,
                Policy {
                    drop: DropRule::by_name("back").unwrap_or_default(),
                    order: Some(Order::Fcfs),
                    sweep: Some(false),
                    booking_margin: 0.0,
                    ..Policy::default()
                },
                vec![WorldModule {
                    ends: Vec::new(),
                    name: self.plan.model.clone(),
                    profile: slots.profile.clone(),
                    batch: vec![slots.batch],
                    pool: WorldPool::Pipelines(slots),
                    next: Vec::new(),
                    weight: 1.0,
                    overlap: None,
                    model: None,
                }],
            )
        })
    }
}

fn served(ran: SimulationResult) -> ServedRun {
    let requests = ran.report.requests;
    let usage = ran.usage.unwrap_or_default();
    ServedRun {
        arrived: requests.arrived,
        late: requests.late,
        dropped: requests.dropped,
        busy_s: usage.busy_s,
        last_output: usage.last_output,
        uses: usage.uses,
    }
}
