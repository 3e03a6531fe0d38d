//! Writes the document and its figures.

use std::path::Path;

use super::studies::Studies;
use super::study::Study;
use super::{ReproduceError, ablation, fixed, over_time, paper, sensitivity, weir_parts, words};
use crate::document::{self, Filling};
use crate::plot::{Figure, markdown};

/// Writes the figures (as SVG) and `README.md`, made from `template.md`, into `folder`.
///
/// # Errors
/// [`ReproduceError`] where the template does not fit or something cannot be read or written.
pub fn write(studies: &Studies, folder: &Path) -> Result<(), ReproduceError> {
    Ok(document::write(folder, tables(studies), &figures(studies))?)
}

fn figures(studies: &Studies) -> Vec<(&'static str, Figure)> {
    let Studies { paper, ablation, .. } = studies;
    vec![
        ("figure-2", over_time::figure_2(paper)),
        ("figure-8", paper::figure_8(paper)),
        ("figure-9", over_time::figure_9(paper)),
        ("figure-10", over_time::figure_10(paper)),
        (
            "figure-11",
            ablation::figure_11(ablation, "Ablation, lv-tweet (after Figure 11)"),
        ),
        (
            "figure-11-tight",
            ablation::figure_11(
                &studies.regime,
                "Ablation, lv, SLO of 150 ms, load 0.97 in clumps",
            ),
        ),
        ("figure-12c", ablation::figure_12c(ablation)),
        ("figure-13", ablation::figure_13(ablation)),
        (
            "figure-14ab",
            sensitivity::figure_14ab(&studies.load, &studies.slo),
        ),
        (
            "figure-14cd",
            sensitivity::figure_14cd(&studies.quantile, &studies.window),
        ),
        (
            "figure-fixed",
            fixed::figure(&studies.fixed, "Fixed workers, load 1.0"),
        ),
        (
            "figure-bottleneck",
            fixed::figure(
                &studies.bottleneck,
                "Fixed workers, one module the bottleneck, load 1.1",
            ),
        ),
        (
            "figure-dynamic",
            fixed::figure(
                &studies.dynamic,
                "Dynamic paths and fan-out, fixed workers, load 1.1",
            ),
        ),
        ("figure-parts", weir_parts::figure(studies)),
    ]
}

fn tables(studies: &Studies) -> Filling {
    let mut filling = Filling::default();
    let Studies {
        paper,
        fixed,
        bottleneck,
        dynamic,
        ..
    } = studies;
    filling.add("paper-drop", paper::table(paper, &|outcome| outcome.drop_rate));
    filling.add(
        "paper-invalid",
        paper::table(paper, &|outcome| outcome.invalid_rate),
    );
    filling.add("paper-ratios", paper::ratios(paper));
    filling.add("paper-places", paper::places(paper));
    filling.add("paper-bounds", paper::bounds(paper));
    filling.add(
        "paper-claims",
        words::checks(&[paper::claims(paper), over_time::claims(paper)].concat()),
    );
    filling.add("fixed-drop", fixed::table(fixed));
    filling.add("fixed-against", fixed::rival_table(fixed));
    filling.add("bottleneck-drop", fixed::table(bottleneck));
    filling.add("bottleneck-against", fixed::rival_table(bottleneck));
    filling.add(
        "fixed-level",
        fixed::verdict_table(
            fixed,
            &[("all twelve", &|_| true), ("ga", &|world| world == "ga")],
        ),
    );
    filling.add(
        "bottleneck-level",
        fixed::verdict_table(
            bottleneck,
            &[
                ("first", &|world: &str| world.ends_with("first")),
                ("middle", &|world: &str| world.ends_with("middle")),
                ("last", &|world: &str| world.ends_with("last")),
            ],
        ),
    );
    filling.add("fixed-gaps", fixed::gaps(fixed));
    filling.add("dynamic-gaps", fixed::gaps(dynamic));
    filling.add("dynamic-drop", fixed::table(dynamic));
    filling.add(
        "fixed-claims",
        words::checks(
            &[
                fixed::claims(fixed, "twelve", 3),
                fixed::claims(dynamic, "dynamic paths and fan-out", dynamic.workloads().len()),
                vec![
                    fixed::gap_closed_check(dynamic, "dynamic paths", "dynamic"),
                    fixed::gap_closed_check(dynamic, "fan-out", "crowd"),
                ],
            ]
            .concat(),
        ),
    );
    filling.add("ablation", ablation::table(&studies.ablation));
    filling.add("ablation-grid", ablation::grid(&studies.ablation));
    filling.add("ablation-delays", ablation::delays(&studies.ablation));
    filling.add("ablation-tight", ablation::table(&studies.regime));
    filling.add("parts", weir_parts::table(studies));
    filling.add("load", sensitivity::loads(&studies.load));
    filling.add("slo", sensitivity::slos(&studies.slo));
    filling.add("quantile", sensitivity::quantiles(&studies.quantile));
    filling.add("window", sensitivity::windows(&studies.window));
    filling.add(
        "sensitivity-claims",
        words::checks(&sensitivity::claims(
            &studies.load,
            &studies.slo,
            &studies.quantile,
            &studies.window,
        )),
    );
    filling.add("overheads", overheads(paper));
    filling.add("origins", origins(paper));
    filling
}

/// Bytes of state sent, by world.
fn overheads(study: &Study) -> String {
    let worlds = study.names(|outcome| outcome.world.clone());
    let row = |world: &String| {
        let mut row = vec![world.clone()];
        for policy in ["pard", "weir"] {
            let of = study.filter(|outcome| outcome.world == *world && outcome.policy == policy);
            let bytes = super::study::mean_of(&of, |outcome| outcome.state_bytes).mean;
            row.push(format!("{bytes:.0}"));
            row.push(format!("{:.1}", bytes * 8.0 / 1000.0));
        }
        row
    };
    let rows: Vec<Vec<String>> = worlds.iter().map(row).collect();
    markdown(
        &[
            "world",
            "pard (bytes/s)",
            "pard (kbit/s)",
            "weir (bytes/s)",
            "weir (kbit/s)",
        ],
        &rows,
    )
}

/// List of the traces' origins, for the first seed.
fn origins(study: &Study) -> String {
    let world = study
        .outcomes
        .first()
        .map(|outcome| outcome.world.clone())
        .unwrap_or_default();
    let lines =
        study.filter(|outcome| outcome.world == world && outcome.policy == "pard" && outcome.seed == 1);
    lines
        .iter()
        .map(|outcome| format!("- {}\n", outcome.origin))
        .collect()
}
