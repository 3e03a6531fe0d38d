//! Placement of a solution: which share of which device on which server each stage gets. Deterministic: devices are
//! allocated in the order of models, stages and pipelines, and servers fill up in the order of their ids.

use thiserror::Error;
use weir_types::{
    ClusterSpec, ModuleId, PipelineSpec, Profile, ServerId, ServerSpec, ShareId, ShareSpec, Span, StageSpec,
};

use crate::partition_times::PartitionTimes;
use crate::{BlockTimes, Blocks, PipelinePlan, Problem, Scheme, Solution, StagePlan};

/// The solution does not fit its problem.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// The solution has a model that the problem lacks.
    #[error("the plan serves \"{model}\", which the problem does not name; plan again for this problem")]
    UnknownModel {
        /// Name of the model.
        model: String,
    },
    /// The solution uses a class that the problem lacks.
    #[error(
        "the plan puts \"{model}\" on devices of class \"{class}\", which the problem does not have; plan again"
    )]
    UnknownClass {
        /// Name of the model.
        model: String,
        /// Name of the class.
        class: String,
    },
    /// The solution needs more devices than there are.
    #[error(
        "the plan needs {needed} devices of class \"{class}\", and there are {count}; plan again for this cluster"
    )]
    TooFewDevices {
        /// Name of the class.
        class: String,
        /// Devices needed after shares are packed.
        needed: u32,
        /// Devices of the class.
        count: u32,
    },
    /// The profile has no times for a class and share of the solution.
    #[error("no times of \"{model}\" for 1/{shares} of a \"{class}\"; add them to its profile")]
    NoTimes {
        /// Name of the model.
        model: String,
        /// Name of the class.
        class: String,
        /// Number of shares of a device.
        shares: u32,
    },
}

/// Devices of one class, and how many are allocated.
struct ClassDevices {
    first_device: u32,
    first_server: u32,
    used: u32,
}

/// A device with free shares for one model and partition; `free` in units of 1/[`UNITS_PER_DEVICE`].
struct OpenDevice {
    device: u32,
    free: u32,
}

/// Divisible by every number of shares up to ten.
const UNITS_PER_DEVICE: u32 = 2_520;

/// Allocates the shares of every stage of `solution`; model `i` becomes the module `modules[i]`.
///
/// # Errors
/// If the solution does not belong to this problem.
pub fn place(
    problem: &Problem,
    solution: &Solution,
    modules: &[ModuleId],
) -> Result<ClusterSpec, PlacementError> {
    let mut placer = Placer::new(problem);
    for (plan, &module) in solution.models.iter().zip(modules) {
        let model = &plan.model;
        let served = problem.model(model);
        let served = served.ok_or_else(|| PlacementError::UnknownModel { model: model.clone() })?;
        // Pipelines of one model share devices if they run the same partition on the same class.
        let mut pools = vec![Vec::new(); plan.pipelines.len()];
        let most = plan.pipelines.iter().map(|pipeline| pipeline.stages.len()).max();
        for position in 0..most.unwrap_or(0) {
            placer.place_position(position, &plan.pipelines, &mut pools, model)?;
        }
        for (pipeline, pools) in plan.pipelines.iter().zip(pools) {
            let stages = pipeline
                .stages
                .iter()
                .zip(pools)
                .map(|(stage, shares)| stage_spec(&served.blocks, stage, shares, model))
                .collect::<Result<_, _>>()?;
            let whole = PipelineSpec {
                module,
                batch: pipeline.batch,
                stages,
            };
            match problem.scheme {
                Scheme::DartR => placer.cluster.pipelines.extend(split_into_chains(&whole)),
                Scheme::Pooled { .. } | Scheme::Np => placer.cluster.pipelines.push(whole),
            }
        }
    }
    placer.check_device_counts()?;
    Ok(placer.cluster)
}

/// DART-r chains devices: the output of a device goes to the one chained to it. A chain is a pipeline with one share a
/// stage.
fn split_into_chains(pipeline: &PipelineSpec) -> Vec<PipelineSpec> {
    let longest = pipeline
        .stages
        .iter()
        .map(|stage| stage.shares.len())
        .max()
        .unwrap_or(0);
    let chain = |place: usize| {
        let stage = |stage: &StageSpec| StageSpec {
            // A stage with fewer shares is used by several chains.
            shares: stage
                .shares
                .get(place % stage.shares.len().max(1))
                .copied()
                .into_iter()
                .collect(),
            ..stage.clone()
        };
        PipelineSpec {
            stages: pipeline.stages.iter().map(stage).collect(),
            ..pipeline.clone()
        }
    };
    (0..longest).map(chain).collect()
}

struct Placer<'a> {
    problem: &'a Problem,
    classes: Vec<ClassDevices>,
    cluster: ClusterSpec,
}

impl<'a> Placer<'a> {
    fn new(problem: &'a Problem) -> Self {
        let (mut device, mut server) = (0, 0);
        let mut servers = Vec::new();
        let mut classes = Vec::new();
        for class in &problem.classes {
            classes.push(ClassDevices {
                first_device: device,
                first_server: server,
                used: 0,
            });
            let here = class.count.div_ceil(class.per_server.max(1));
            servers.extend((0..here).map(|_| ServerSpec {
                bandwidth_bps: class.bandwidth_bps,
            }));
            device += class.count;
            server += here;
        }
        let (shares, pipelines) = (Vec::new(), Vec::new());
        let cluster = ClusterSpec {
            servers,
            shares,
            pipelines,
        };
        Self {
            problem,
            classes,
            cluster,
        }
    }

    /// Allocates the shares of the stages at one position, largest shares first; appends a pool to each `pools[pipeline]`.
    fn place_position(
        &mut self,
        position: usize,
        pipelines: &[PipelinePlan],
        pools: &mut [Vec<Vec<ShareId>>],
        model: &str,
    ) -> Result<(), PlacementError> {
        let mut stages: Vec<(usize, &StagePlan)> = pipelines
            .iter()
            .enumerate()
            .filter_map(|(index, pipeline)| Some((index, pipeline.stages.get(position)?)))
            .collect();
        stages.sort_by_key(|(index, stage)| (stage.shares, *index));
        let mut open_devices: Vec<Vec<OpenDevice>> =
            self.problem.classes.iter().map(|_| Vec::new()).collect();
        for (index, stage) in stages {
            let class = self
                .problem
                .classes
                .iter()
                .position(|class| class.name == stage.class);
            let class = class.ok_or_else(|| PlacementError::UnknownClass {
                model: model.to_owned(),
                class: stage.class.clone(),
            })?;
            // Checked before allocating: a pool that exceeds the class alone would only allocate memory.
            let (shares, count) = (stage.shares.max(1), self.problem.classes[class].count);
            if u64::from(stage.pool) > u64::from(shares) * u64::from(count) {
                return Err(PlacementError::TooFewDevices {
                    class: stage.class.clone(),
                    needed: stage.pool.div_ceil(shares),
                    count,
                });
            }
            let pool = (0..stage.pool)
                .map(|_| self.allocate_share(class, stage.shares, &mut open_devices[class]))
                .collect();
            pools[index].push(pool);
        }
        Ok(())
    }

    /// Allocates a share of an open device of the class with enough free units, else of the next device.
    fn allocate_share(&mut self, class: usize, shares: u32, open_devices: &mut Vec<OpenDevice>) -> ShareId {
        let units = UNITS_PER_DEVICE / shares.max(1);
        let devices = &mut self.classes[class];
        let place = open_devices
            .iter()
            .position(|device| device.free >= units)
            .unwrap_or_else(|| {
                open_devices.push(OpenDevice {
                    device: devices.used,
                    free: UNITS_PER_DEVICE,
                });
                devices.used += 1;
                open_devices.len() - 1
            });
        open_devices[place].free -= units;
        let device = open_devices[place].device;
        let known = &self.problem.classes[class];
        let id = ShareId(u32::try_from(self.cluster.shares.len()).unwrap_or(u32::MAX));
        self.cluster.shares.push(ShareSpec {
            server: ServerId(devices.first_server + device / known.per_server.max(1)),
            device: devices.first_device + device,
            class: known.name.clone(),
        });
        id
    }

    fn check_device_counts(&self) -> Result<(), PlacementError> {
        for (class, devices) in self.problem.classes.iter().zip(&self.classes) {
            if devices.used > class.count {
                return Err(PlacementError::TooFewDevices {
                    class: class.name.clone(),
                    needed: devices.used,
                    count: class.count,
                });
            }
        }
        Ok(())
    }
}

fn stage_spec(
    blocks: &Blocks,
    stage: &StagePlan,
    shares: Vec<ShareId>,
    model: &str,
) -> Result<StageSpec, PlacementError> {
    let none = || PlacementError::NoTimes {
        model: model.to_owned(),
        class: stage.class.clone(),
        shares: stage.shares,
    };
    let of_it = |times: &&BlockTimes| times.class == stage.class && times.shares == stage.shares;
    let times = blocks.times.iter().find(of_it).ok_or_else(none)?;
    let range = (stage.from as usize, stage.to as usize);
    let duration = |place: usize| PartitionTimes::new(blocks, times, place)?.us(range.0, range.1);
    let points = times
        .batch
        .iter()
        .enumerate()
        .filter_map(|(place, &batch)| Some((batch, Span::from_micros(duration(place)?))))
        .collect();
    let received = stage
        .from
        .checked_sub(1)
        .and_then(|before| blocks.boundary_bytes.get(before as usize));
    Ok(StageSpec {
        blocks: (stage.from, stage.to),
        shares,
        profile: Profile::new(points).ok_or_else(none)?,
        received_bytes: received.copied().unwrap_or(0),
    })
}
