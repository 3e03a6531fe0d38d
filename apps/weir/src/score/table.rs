//! The score as small tables: a row for each class, a row for each attribute, over all frames and over delivered ones.

use comfy_table::{CellAlignment, Table};

use super::attributes::{AttributeFigures, RightCount};
use super::detection::ClassFigures;
use super::text::TextReading;
use super::{ClassPoint, Curves, Figures, MatchCurve, Score};
use crate::report::plain_table;

/// The score for a person to read.
pub(crate) fn table(score: &Score) -> String {
    let (all, delivered) = (&score.all, &score.delivered);
    let mut parts = vec![format!(
        "accuracy: mAP@0.5 {} over all {} frames, {} over the {} delivered",
        format_value(all.mean_ap),
        all.frames,
        format_value(delivered.mean_ap),
        delivered.frames
    )];
    if !all.classes.is_empty() {
        parts.push(classes(all, delivered).trim_fmt());
    }
    if !all.attributes.is_empty() {
        parts.push(attributes(all, delivered).trim_fmt());
    }
    if let Some((all, delivered)) = all.tracking.as_ref().zip(delivered.tracking.as_ref()) {
        parts.push(format!(
            "tracks: {} things tracked, {} identity switches, {} fragmentations; over delivered frames {}, {}, {}",
            all.tracked,
            all.identity_switches,
            all.fragmentations,
            delivered.tracked,
            delivered.identity_switches,
            delivered.fragmentations
        ));
    }
    if let Some(reports) = &score.reports {
        parts.push(format!(
            "reports: {} of them; of {} sentences {} right, of {} facts {} right; {} of {} true facts reported",
            reports.reports,
            reports.sentences.stated,
            percent(reports.sentences.of_stated),
            reports.facts.stated,
            percent(reports.facts.of_stated),
            percent(reports.reported_of_true),
            reports.true_facts
        ));
    }
    if !all.unknown_classes.is_empty() {
        let unknown = all.unknown_classes.iter();
        let unknown: Vec<String> = unknown.map(|(class, count)| format!("{class} {count}")).collect();
        parts.push(format!(
            "classes that the ground truth never has: {}",
            unknown.join(", ")
        ));
    }
    if let Some(curves) = &score.curves {
        parts.extend(thresholds(curves));
    }
    if !score.not_looked_for.is_empty() {
        parts.push(format!("not looked for: {}", score.not_looked_for.join(", ")));
    }
    parts.join("\n\n")
}

fn classes(all: &Figures, delivered: &Figures) -> Table {
    let header = [
        "class",
        "true",
        "AP",
        "precision",
        "recall",
        "delivered: true",
        "AP",
        "precision",
        "recall",
    ];
    let mut table = plain_table(&header);
    align_right(&mut table, 1..9);
    for (name, class) in &all.classes {
        let mut row = vec![name.clone()];
        row.extend(class_cells(Some(class)));
        row.extend(class_cells(delivered.classes.get(name)));
        table.add_row(row);
    }
    table
}

/// The best thresholds over delivered frames, and what the run had.
fn thresholds(curves: &Curves) -> Vec<String> {
    let mut parts = Vec::new();
    let header = [
        "class",
        "best threshold",
        "precision",
        "recall",
        "F1",
        "as run: precision",
        "recall",
        "F1",
    ];
    let mut table = plain_table(&header);
    align_right(&mut table, 1..8);
    for (name, curve) in &curves.classes {
        let Some(best) = curve.best else { continue };
        let figures = |point: Option<ClassPoint>| {
            let value = |of: fn(&ClassPoint) -> f64| format_value(point.as_ref().map(of));
            [value(|at| at.precision), value(|at| at.recall), value(|at| at.f1)]
        };
        let mut row = vec![name.clone(), format_value(Some(best.threshold))];
        row.extend(figures(Some(best)));
        row.extend(figures(curve.operating));
        table.add_row(row);
    }
    if table.row_count() > 0 {
        parts.push(table.trim_fmt());
    }
    for (
        name,
        MatchCurve {
            known,
            strangers,
            best,
            ..
        },
    ) in &curves.matches
    {
        parts.push(match best {
            Some(best) => format!(
                "{name}: from a cosine of {} on {} of {known} known ones are named and {} misnamed, {} of {strangers} strangers are named",
                format_value(Some(best.threshold)),
                format_value(Some(best.named)),
                format_value(Some(best.misnamed)),
                format_value(Some(best.strangers_named)),
            ),
            None => format!("{name}: at no cosine is at most one stranger in twenty named"),
        });
    }
    parts
}

fn class_cells(class: Option<&ClassFigures>) -> [String; 4] {
    let Some(class) = class else {
        return [
            "0".to_owned(),
            format_value(None),
            format_value(None),
            format_value(None),
        ];
    };
    let ClassFigures {
        truths,
        ap,
        precision,
        recall,
        ..
    } = class;
    [
        truths.to_string(),
        format_value(*ap),
        format_value(*precision),
        format_value(*recall),
    ]
}

fn attributes(all: &Figures, delivered: &Figures) -> Table {
    let header = [
        "attribute",
        "measure",
        "true",
        "of all",
        "of found",
        "delivered: true",
        "of all",
        "of found",
        "more of delivered",
    ];
    let mut table = plain_table(&header);
    align_right(&mut table, 2..8);
    for (name, attribute) in &all.attributes {
        let all = Cells::new(attribute);
        let delivered = delivered.attributes.get(name).map(Cells::new).unwrap_or_default();
        table.add_row([
            name.clone(),
            all.measure.to_owned(),
            all.truths.to_string(),
            all.of_all,
            all.of_found,
            delivered.truths.to_string(),
            delivered.of_all,
            delivered.of_found,
            delivered.more,
        ]);
    }
    table
}

fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    let wanted = table.column_iter_mut().take(columns.end).skip(columns.start);
    wanted.for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
}

/// Cells of one attribute in a row.
#[derive(Default)]
struct Cells {
    measure: &'static str,
    truths: u64,
    of_all: String,
    of_found: String,
    more: String,
}

impl Cells {
    fn new(attribute: &AttributeFigures) -> Self {
        let shares =
            |measure: &'static str, truths: u64, of_all: Option<f64>, of_found: Option<f64>, more: String| {
                Self {
                    measure,
                    truths,
                    of_all: percent(of_all),
                    of_found: percent(of_found),
                    more,
                }
            };
        let rights = |measure, truths, right: &RightCount, more| {
            shares(measure, truths, right.of_all, right.of_found, more)
        };
        match attribute {
            AttributeFigures::Text(text) => {
                let any = &text.any_width;
                rights("exact", any.asked.truths, &any.exact, text_detail(text))
            }
            AttributeFigures::Class(class) => {
                let worst = class
                    .confusions
                    .first()
                    .map(|worst| format!("{} taken for {} {} times", worst.truth, worst.said, worst.count));
                rights(
                    "right",
                    class.asked.truths,
                    &class.accuracy,
                    worst.unwrap_or_default(),
                )
            }
            AttributeFigures::Match(names) => {
                let strangers = format!(
                    "{} of {} strangers named",
                    names.strangers_named, names.strangers.truths
                );
                rights("top-1", names.asked.truths, &names.top_1, strangers)
            }
            AttributeFigures::Angles(angles) => Self {
                measure: "mean error",
                truths: angles.asked.truths,
                of_all: "-".to_owned(),
                of_found: degrees(angles.error_mean_deg),
                more: format!(
                    "median {}, {} said",
                    degrees(angles.error_median_deg),
                    angles.asked.said
                ),
            },
            AttributeFigures::Number(number) => {
                let more = format!(
                    "within 2: {} of found; mean error {}",
                    percent(number.within_2.of_found),
                    format_value(number.error_mean)
                );
                rights("exact", number.asked.truths, &number.exact, more)
            }
            AttributeFigures::Points(points) => {
                let more = format!("{} of {} points", points.right, points.points);
                shares(
                    "PCK@0.2",
                    points.asked.truths,
                    points.pck_of_all,
                    points.pck_of_found,
                    more,
                )
            }
        }
    }
}

fn text_detail(text: &TextReading) -> String {
    format!(
        "CER {}; from 40 px {}, from 80 px {} of found",
        percent(text.any_width.cer_of_found),
        percent(text.from_40_px.exact.of_found),
        percent(text.from_80_px.exact.of_found)
    )
}

pub(super) fn format_value(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.3}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn degrees(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.1}\u{b0}"))
}
