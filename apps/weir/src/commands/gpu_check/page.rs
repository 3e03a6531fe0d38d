//! Results of `weir gpu-check` as a page in Markdown.

use std::fmt::Write as _;

use super::GpuReport;

/// Renders the report as tables: models, engine, cameras.
pub(super) fn page(report: &GpuReport) -> String {
    let mut page = String::new();
    let mut line = |text: String| {
        let _ = writeln!(page, "{text}");
    };
    line(format!("# {} with weir {}", report.device, report.version));
    line(String::new());
    line(report.facts.summary());
    line(String::new());
    line(
        "| model | difference | objects the same | best batch | items/s | prepare, run, read ms/item |"
            .to_owned(),
    );
    line("|---|---|---|---|---|---|".to_owned());
    for model in &report.models {
        if let Some(error) = &model.error {
            line(format!(
                "| {} | not checked: {} | | | | |",
                model.name,
                error.replace('|', "/")
            ));
            continue;
        }
        let difference = model.difference.unwrap_or_default();
        let parts = model.parts.map_or("-".to_owned(), |parts| {
            format!(
                "{:.2}, {:.2}, {:.2}",
                parts.prepare_ms, parts.run_ms, parts.read_out_ms
            )
        });
        line(format!(
            "| {} | {:.1e} ({:.1e} of its size) | {} of {} | {} | {:.0} | {parts} |",
            model.name,
            difference.largest,
            difference.relative,
            model.same_objects,
            model.objects,
            model.best_batch,
            model.best_items_per_second,
        ));
    }
    line(String::new());
    line("| in the engine | frames/s | of the session alone | slot busy | mean batch |".to_owned());
    line("|---|---|---|---|---|".to_owned());
    for engine in &report.engine {
        line(format!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.1} |",
            engine.model, engine.frames_per_second, engine.share_of_limit, engine.busy, engine.mean_batch
        ));
    }
    line(String::new());
    match &report.cameras {
        None => line("No clip was given: cameras were not tried.".to_owned()),
        Some(cameras) => {
            line(format!(
                "{} holds {} cameras, {:.2} of what its session alone would at 30 frames a second.",
                cameras.model, cameras.held, cameras.share_of_limit
            ));
            line(String::new());
            line("| cameras | in time | goodput | invalid | p50, p99 ms | cores decoding |".to_owned());
            line("|---|---|---|---|---|---|".to_owned());
            for run in &cameras.runs {
                line(format!(
                    "| {} | {:.3} | {:.0} | {:.3} | {:.0}, {:.0} | {:.1} |",
                    run.cameras,
                    run.in_time,
                    run.goodput_fps,
                    run.invalid_rate,
                    run.p50_ms,
                    run.p99_ms,
                    run.decoding_cores
                ));
            }
        }
    }
    line(String::new());
    match report.failures.as_slice() {
        [] => line("All checks passed.".to_owned()),
        failures => failures
            .iter()
            .for_each(|failure| line(format!("Failed: {failure}."))),
    }
    page
}
