//! Validation of a problem: every number in its range, every profile complete.

use crate::error::PlanError;
use crate::problem::{BlockTimes, Blocks, Class, Objective, Problem, Scheme};

/// Shares of a device at most: a worker serves no more.
const MAX_SHARES: u32 = 1 << 10;
/// The largest batch size: durations are tabulated by size, which bounds the tables.
const MAX_BATCH: u32 = 1 << 12;
/// The longest duration of a block, an hour: sums over blocks stay far below overflow.
const MAX_BLOCK_US: u64 = 3_600_000_000;

/// Returns the first error of a problem.
pub(super) fn check(problem: &Problem) -> Result<(), PlanError> {
    check_classes(&problem.classes)?;
    if problem.models.is_empty() {
        return Err(PlanError::NoModels);
    }
    distinct("models", problem.models.iter().map(|model| model.name.as_str()))?;
    for model in &problem.models {
        let what = || format!("the weight of model \"{}\"", model.name);
        value(
            what,
            model.weight,
            model.weight > 0.0 && model.weight.is_finite(),
            "it must be above 0",
        )?;
        check_blocks(&model.name, &model.blocks, &problem.classes)?;
    }
    value(
        || "the margin".into(),
        problem.margin,
        (0.0..1.0).contains(&problem.margin),
        "it must be at least 0 and below 1",
    )?;
    let building = problem.building;
    value(
        || "the charge for building".into(),
        building,
        building >= 0.0 && building.is_finite(),
        "it must be at least 0",
    )?;
    value(
        || "the gap".into(),
        problem.gap,
        (0.0..1.0).contains(&problem.gap),
        "it must be at least 0 and below 1",
    )?;
    if let Objective::Cost { rate } = problem.objective {
        value(
            || "the rate to plan for".into(),
            rate,
            rate > 0.0 && rate.is_finite(),
            "it must be above 0",
        )?;
    }
    match problem.scheme {
        Scheme::Pooled { partitions } if !(1..=3).contains(&partitions) => Err(PlanError::InvalidValue {
            what: "the number of partitions".into(),
            value: f64::from(partitions),
            must: "it must be 1, 2 or 3",
        }),
        _ => Ok(()),
    }
}

fn check_classes(classes: &[Class]) -> Result<(), PlanError> {
    distinct("classes", classes.iter().map(|class| class.name.as_str()))?;
    if classes.iter().all(|class| class.count == 0) {
        return Err(PlanError::NoDevices);
    }
    for class in classes {
        let of = |what: &str| format!("{what} of class \"{}\"", class.name);
        let servers = f64::from(class.per_server);
        value(
            || of("devices a server"),
            servers,
            class.per_server > 0,
            "it must be at least 1",
        )?;
        value(
            || of("the bandwidth"),
            class.bandwidth_bps as f64,
            class.bandwidth_bps > 0,
            "it must be above 0",
        )?;
        value(
            || of("the cost"),
            class.cost,
            class.cost >= 0.0 && class.cost.is_finite(),
            "it must be at least 0",
        )?;
    }
    Ok(())
}

/// Returns the first error of a profile. Each class and share in it must have every block at every batch
/// size; on other classes and shares the model cannot run.
fn check_blocks(model: &str, blocks: &Blocks, classes: &[Class]) -> Result<(), PlanError> {
    let invalid = |what: String| PlanError::InvalidProfile {
        model: model.to_owned(),
        what,
    };
    let count = blocks.boundary_bytes.len() + 1;
    for (at, times) in blocks.times.iter().enumerate() {
        if let Some(what) = profile_error(times, count) {
            return Err(invalid(format!("on {} {what}", place(times))));
        }
        let same = |other: &BlockTimes| other.class == times.class && other.shares == times.shares;
        if blocks.times[..at].iter().any(same) {
            return Err(invalid(format!("has two tables for {}", place(times))));
        }
    }
    let known = |class: &Class| class.count > 0 && blocks.times.iter().any(|times| times.class == class.name);
    if classes.iter().any(known) {
        return Ok(());
    }
    let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    Err(invalid(format!(
        "has no class of the cluster ({}); profile it on one of them",
        names.join(", ")
    )))
}

fn place(times: &BlockTimes) -> String {
    match times.shares {
        1 => format!("class \"{}\", whole device,", times.class),
        shares => format!("class \"{}\", share 1/{shares},", times.class),
    }
}

fn profile_error(times: &BlockTimes, blocks: usize) -> Option<String> {
    if times.shares == 0 {
        return Some("has 0 shares; 1 is the whole device".into());
    }
    if times.shares > MAX_SHARES {
        return Some(format!("has more than {MAX_SHARES} shares"));
    }
    if times.batch.is_empty() {
        return Some("has no batch sizes".into());
    }
    if times.batch[0] == 0 || !times.batch.is_sorted_by(|a, b| a < b) {
        return Some("has batch sizes that do not ascend from 1".into());
    }
    if times.batch.last().is_some_and(|&batch| batch > MAX_BATCH) {
        return Some(format!("has a batch size above {MAX_BATCH}"));
    }
    for block in 0..blocks.max(times.us.len()) {
        let Some(row) = times.us.get(block) else {
            return Some(format!(
                "has no times of block {block}; there are {blocks} blocks"
            ));
        };
        if block >= blocks {
            return Some(format!(
                "has times of block {block}, but the boundaries make {blocks} blocks"
            ));
        }
        for (k, batch) in times.batch.iter().enumerate() {
            match row.get(k) {
                None => return Some(format!("has no time of block {block} for a batch of {batch}")),
                Some(0) => return Some(format!("has 0 us for block {block} at a batch of {batch}")),
                Some(&us) if us > MAX_BLOCK_US => {
                    return Some(format!(
                        "has {us} us for block {block} at a batch of {batch}; the most is {MAX_BLOCK_US}"
                    ));
                }
                Some(_) => {}
            }
        }
        if row.len() > times.batch.len() {
            return Some(format!("has more times of block {block} than batch sizes"));
        }
    }
    let whole = &times.whole_us;
    if !whole.is_empty() && whole.len() != times.batch.len() {
        return Some("has whole_us for other than its batch sizes".into());
    }
    if whole.contains(&0) {
        return Some("has 0 us in whole_us".into());
    }
    None
}

fn distinct<'a>(kind: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), PlanError> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(PlanError::DuplicateName {
                kind,
                name: name.to_owned(),
            });
        }
    }
    Ok(())
}

fn value(what: impl Fn() -> String, value: f64, good: bool, must: &'static str) -> Result<(), PlanError> {
    if good {
        Ok(())
    } else {
        Err(PlanError::InvalidValue {
            what: what(),
            value,
            must,
        })
    }
}
