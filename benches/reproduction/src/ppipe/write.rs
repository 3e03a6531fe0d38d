//! Writes the document and its figures.

use std::path::Path;

use super::clusters::{BURSTY_DART_R, BURSTY_NP, GAINS_DART_R, GAINS_NP};
use super::studies::Studies;
use super::verdicts::verdicts;
use super::{ReproduceError, ablation, attainment, clusters, microscopic, scaling, sensitivity};
use crate::document::{self, Filling};
use crate::plot::Figure;

/// Writes the figures (as SVG) and `README.md`, by `template.md`, into `folder`.
///
/// # Errors
/// [`ReproduceError`] where the template does not fit or something cannot be read or written.
pub fn write(studies: &Studies, folder: &Path) -> Result<(), ReproduceError> {
    Ok(document::write(folder, tables(studies), &figures(studies))?)
}

const NO_PLAN: &str = "There is no plan for this model on this cluster.";

fn figures(studies: &Studies) -> Vec<(&'static str, Figure)> {
    let mut figures = vec![
        (
            "figure-6",
            clusters::figure_6(
                &studies.poisson,
                "Load factor at 99 % in time, Poisson (after Figure 6)",
            ),
        ),
        (
            "figure-6-bursty",
            clusters::figure_6(
                &studies.bursty,
                "Load factor at 99 % in time, bursts (after Figure 6)",
            ),
        ),
        ("figure-7", attainment::figure_7(&studies.attainment)),
        ("figure-8", clusters::figure_8(&studies.poisson)),
        (
            "figure-10",
            ablation::figure_10(&studies.ablation, &studies.ablation_cluster),
        ),
        (
            "figure-13",
            sensitivity::figure_13(&studies.sensitivity, &studies.sensitivity_cluster),
        ),
        ("figure-14", scaling::figure_14(&studies.scaling)),
    ];
    if let Some(microscopic) = &studies.microscopic {
        figures.push(("figure-12", microscopic::figure_12(microscopic)));
    }
    figures
}

fn tables(studies: &Studies) -> Filling {
    let mut filling = Filling::default();
    filling.add("source", source(studies));
    filling.add("acceptance", verdicts(studies));
    let without = || "Published files are in the asset pack, which was not there.".to_owned();
    let published_checks = studies.acceptance.as_ref();
    filling.add(
        "objectives",
        published_checks.map_or_else(without, |acceptance| acceptance.objectives_table()),
    );
    filling.add(
        "loads",
        published_checks.map_or_else(without, |acceptance| acceptance.loads_table()),
    );
    let paper = studies.is_published;
    filling.add(
        "gains",
        clusters::gains(&studies.poisson, paper.then_some((GAINS_NP, GAINS_DART_R))),
    );
    filling.add(
        "gains-bursty",
        clusters::gains(&studies.bursty, paper.then_some((BURSTY_NP, BURSTY_DART_R))),
    );
    filling.add("groups", clusters::by_group(&studies.poisson));
    filling.add("attainment", attainment::table(&studies.attainment));
    filling.add("busy", clusters::busy(&studies.poisson));
    filling.add("ablation", ablation::table(&studies.ablation));
    let plan = studies.microscopic.as_ref();
    filling.add(
        "plan",
        plan.map_or_else(|| NO_PLAN.to_owned(), microscopic::table),
    );
    filling.add(
        "plan-of",
        plan.map_or_else(String::new, |found| found.model.clone()),
    );
    filling.add(
        "plan-factor",
        plan.map_or_else(String::new, |found| format!("{:.2}", found.factor)),
    );
    if studies.microscopic.is_none() {
        filling.add("figure-12", NO_PLAN);
    }
    filling.add("sensitivity", sensitivity::table(&studies.sensitivity));
    filling.add("scaling", scaling::table(&studies.scaling));
    filling
}

fn source(studies: &Studies) -> String {
    if studies.is_published {
        "**This page comes from the published block latencies** of 18 models on L4, T4, V100 and P4 (the asset pack, \
         `WEIR_ASSETS`). They carry no licence: nothing of them is kept here but what was planned and simulated with them."
            .to_owned()
    } else {
        "**This page comes from synthetic profiles** (`config/profiles/ppipe-*.toml`: six models by a formula, measured on \
         nothing), because there was no asset pack (`WEIR_ASSETS`). The paper's figures, where the text names them, are of \
         other models and devices: only the direction can be compared."
            .to_owned()
    }
}
