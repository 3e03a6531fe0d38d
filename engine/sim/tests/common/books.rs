//! Invariants of a run's accounts that hold under every policy.

use weir_graph::Escalate;
use weir_policy::DropRule;
use weir_policy::gears::MAX_EMULATED_REGIONS;
use weir_sim::{SimulationResult, WorldPool, WorldSpec};

use super::drawn::Drawn;

/// Checks that every request ended exactly once and that the report, the timeline and the modules agree on
/// the counts.
pub fn check(drawn: &Drawn, ran: &SimulationResult) {
    let (spec, report) = (&drawn.spec, &ran.report);
    let total = report.requests;
    assert!(total.is_balanced() && total.in_flight == 0, "{total:?}");
    assert_eq!(total.arrived, drawn.arrivals.len() as u64);
    assert_eq!(ran.arrivals, drawn.arrivals);

    let streams = report.streams.values().map(|stream| stream.requests);
    assert!(
        streams
            .clone()
            .all(|stream| stream.is_balanced() && stream.in_flight == 0)
    );
    let by_stream = |of: fn(weir_policy::Counts) -> u64| streams.clone().map(of).sum::<u64>();
    assert_eq!(by_stream(|stream| stream.arrived), total.arrived);
    assert_eq!(by_stream(|stream| stream.delivered), total.delivered);
    assert_eq!(by_stream(|stream| stream.late), total.late);

    let dropped: u64 = report.drops.iter().map(|drop| drop.count).sum();
    assert_eq!(dropped, total.dropped, "drops by place and reason");
    let sum = |series: &[u32]| series.iter().map(|&count| u64::from(count)).sum::<u64>();
    assert_eq!(sum(&ran.timeline.sent), total.arrived);
    assert_eq!(sum(&ran.timeline.lost), total.dropped + total.late);
    let splits = spec.modules.iter().any(|plan| plan.next.len() > 1);
    for (plan, series) in spec.modules.iter().zip(&ran.timeline.modules) {
        let module = &report.modules[&plan.name];
        // Two modules may drop a request in one instant: each says so in the timeline, the books count the first.
        let (booked, in_timeline) = (module.dropped, sum(&series.dropped));
        assert!(
            booked <= in_timeline,
            "{booked} drops of {}, {in_timeline} in the timeline",
            plan.name
        );
        assert!(splits || booked == in_timeline, "drops of {}", plan.name);
    }
    items_run_once(spec, ran);
    each_item_is_answered_once(spec, ran, splits);
}

/// Items that a stage accepted or handed on are those that reached it, less those dropped there. Items that
/// it handed on reach the next stage.
fn each_item_is_answered_once(spec: &WorldSpec, ran: &SimulationResult, splits: bool) {
    let mut handed_on = None;
    for (&module, stage) in &spec.cascades.stages {
        let rows = ran.items.chunks_exact(spec.modules.len());
        let came: u64 = rows.map(|row| u64::from(row[module])).sum();
        let name = &spec.modules[module].name;
        let counts = ran.report.modules[name].stage.unwrap_or_default();
        let settled = counts.handed_on + counts.accepted + counts.accepted_late + counts.failed;
        assert!(settled <= came, "{name}: {counts:?} of {came}");
        let lost = ran.report.requests.dropped;
        assert!(lost > 0 || settled == came, "{name}: {counts:?} of {came}");
        // A stage that a gear leaves out hands on nothing, and its items reach the next stage anyway.
        let skips = spec.cascades.gears.iter().flat_map(|gears| &gears.gears);
        let skips = skips
            .flat_map(|gear| gear.stages.values())
            .any(|stage| !stage.is_used);
        if let Some((handed_on, escalate)) = handed_on.filter(|_| !skips) {
            // An item that is handed on in regions comes as one to four.
            let most = match escalate {
                Escalate::Frames => handed_on,
                Escalate::Regions => handed_on * MAX_EMULATED_REGIONS,
            };
            assert!(came <= most, "{name}: {came} of {handed_on}");
            assert!(splits || came >= handed_on, "{name}: {came} of {handed_on}");
        }
        assert!(!stage.is_last() || counts.handed_on == 0, "{name}: {counts:?}");
        handed_on = Some((counts.handed_on, stage.escalate));
    }
    let accuracy = ran.report.accuracy;
    assert!(
        accuracy.is_none_or(|accuracy| (0.5..=1.0).contains(&accuracy)),
        "{accuracy:?}"
    );
}

/// A module runs each item at most once, and all items if nothing is dropped or lost.
fn items_run_once(spec: &WorldSpec, ran: &SimulationResult) {
    for (module, plan) in spec.modules.iter().enumerate() {
        let rows = ran.items.chunks_exact(spec.modules.len());
        let brought: u64 = rows.map(|row| u64::from(row[module])).sum();
        let report = &ran.report.modules[&plan.name];
        let ran_items = report.items;
        // What is lost with a share runs again, once.
        let again = matches!(plan.pool, WorldPool::Pipelines(_)) && !spec.failures.is_empty();
        let max = if again { 2 * brought } else { brought };
        assert!(ran_items <= max, "{}: {ran_items} of {brought}", plan.name);
        assert!(report.wasted_s <= report.busy_s + 1e-9);
        if ran.report.requests.dropped == 0 {
            // If a stage has no time, or fails, the answer of the stage before it counts.
            let fell_back = report.stage.map_or(0, |stage| stage.accepted_late + stage.failed);
            let all = brought - fell_back..=max;
            assert!(
                all.contains(&ran_items),
                "{}: {ran_items} of {brought}",
                plan.name
            );
        }
    }
    if spec.policy.drop == DropRule::None && spec.failures.is_empty() && spec.max_in_flight.is_none() {
        assert_eq!(ran.report.requests.dropped, 0, "the rule \"none\" drops nothing");
    }
}
