//! Writes the document and its figures.

use std::path::Path;

use super::studies::Studies;
use super::trade_off::TradeOff;
use super::{ReproduceError, ablation, placement, planner, robust, trade_off};
use crate::document::{self, Filling};
use crate::plot::markdown;

/// Writes the figures (as SVG) and `README.md`, made from `template.md`, into `folder`.
///
/// # Errors
/// [`ReproduceError`] where the template does not fit or something cannot be read or written.
pub fn write(studies: &Studies, folder: &Path) -> Result<(), ReproduceError> {
    let figures = [
        ("figure-1", trade_off::figure_1(&studies.published)),
        ("figure-6", placement::figure_6(&studies.placements)),
        ("figure-8", trade_off::figure_8(&studies.trade_offs)),
        ("figure-11", robust::figure_11(&studies.robust)),
        ("figure-13", planner::figure_13(&studies.searches)),
        ("figure-14", planner::figure_14(&studies.sizes)),
        ("figure-15", ablation::figure_15(&studies.trade_offs)),
    ];
    Ok(document::write(folder, tables(studies), &figures)?)
}

fn tables(studies: &Studies) -> Filling {
    let mut filling = Filling::default();
    filling.add("acceptance", acceptance(studies));
    let known = studies.published.cascades.len();
    filling.add("cascades", known.to_string());
    filling.add("published", studies.published.published.to_string());
    filling.add("placements", placement::table(&studies.placements));
    for (name, found) in ["one", "two"].into_iter().zip(&studies.trade_offs) {
        filling.add(&format!("kinds-{name}"), found.table());
    }
    let plans = studies
        .trade_offs
        .first()
        .map(|found| found.plans_table(&studies.published));
    filling.add("plans", plans.unwrap_or_default());
    filling.add("searches", planner::searches_table(&studies.searches));
    filling.add("latencies", planner::latencies_table(&studies.searches));
    filling.add("sizes", planner::scaling_table(&studies.sizes));
    filling.add("robust", robust::table(&studies.robust));
    filling
}

/// Table of expected results beside measured ones.
fn acceptance(studies: &Studies) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |what: &str, wanted: &str, found: String, holds: bool| {
        let verdict = if holds { "yes" } else { "no" };
        rows.push(vec![
            what.to_owned(),
            wanted.to_owned(),
            found,
            verdict.to_owned(),
        ]);
    };
    if let Some(one) = studies.trade_offs.first() {
        let times = TradeOff::best(&one.single) / TradeOff::best(&one.gears);
        row(
            "lowest p95 at 84.8 %, below the best single model's by",
            "2.5 times",
            format!("{times:.2}"),
            times >= 2.5,
        );
        let beaten = one.beaten();
        let what = "plans of the frontier that a static cascade or switching beats in both";
        row(what, "0", beaten.to_string(), beaten == 0);
    }
    let by_name = |name: &str| studies.searches.iter().find(|search| search.name == name);
    if let (Some(falling), Some(same)) = (by_name(planner::FALLING), by_name(planner::ALL_FALLING)) {
        let of_same = 100.0 * falling.hypervolume / same.hypervolume;
        let what = "hypervolume of all assignments that give no higher load a dearer cascade";
        row(what, "97 %", format!("{of_same:.2} %"), of_same >= 97.0);
    }
    if let (Some(walk), Some(random)) = (by_name(planner::FREE), by_name(planner::RANDOM)) {
        let part = 100.0 * walk.hypervolume;
        row(
            "hypervolume of all assignments, in any order",
            "97 %",
            format!("{part:.2} %"),
            part >= 97.0,
        );
        let other = 100.0 * random.hypervolume;
        row(
            "more than random with twice the plans",
            "more",
            format!("{part:.2} to {other:.2} %"),
            part > other,
        );
    }
    if let Some(full) = studies
        .sizes
        .iter()
        .find(|size| (size.cascades, size.ranges) == (20, 10))
    {
        let seconds = full.seconds;
        row(
            "20 cascades, 10 ranges, 4 devices, 60 s of trace",
            "120 s",
            format!("{seconds:.1} s"),
            seconds <= 120.0,
        );
    }
    for robust in &studies.robust {
        let slower = robust.slower();
        let within = slower.iter().filter(|times| **times <= 1.2).count();
        let what = format!(
            "plans for another load, matched within a point and 20 % ({})",
            robust.name
        );
        row(
            &what,
            "all",
            format!("{within} of {}", slower.len()),
            within == slower.len(),
        );
    }
    markdown(&["what", "wanted", "found", "holds"], &rows)
}
