//! Planning problems as TOML: classes of devices, models with their block profiles, and what counts. Every problem of a
//! file is told at once; what is read is a [`Problem`](weir_planner::Problem), which the planner checks once more.

mod written;

use std::path::{Path, PathBuf};

use weir_config::{Content, Entry, Environment, Field, Fields, Node, Reports, absolute, missing, spelling};
use weir_planner::{Blocks, Class, Objective, Problem, Scheme, Served};

pub use written::{read as read_plan, text as plan_text};

use weir_config::Problems;

/// The most devices of a class, and the most devices a server.
const COUNT_MAX: u32 = 1_000_000;

/// Reads the planning problem at `path`; `environment` gives the variables that its texts name.
///
/// # Errors
/// All [`Problems`] at once, each with its file, line and hint.
pub fn load(path: &Path, environment: Environment<'_>) -> Result<Problem, Problems> {
    load_noting(path, environment).map(|(problem, _)| problem)
}

/// As [`load`], with every file that was read.
///
/// # Errors
/// As [`load`].
pub fn load_noting(path: &Path, environment: Environment<'_>) -> Result<(Problem, Vec<PathBuf>), Problems> {
    let text = weir_config::read_text(path).map_err(|reason| {
        let hint = Some("give the path of a planning problem, a TOML file".to_owned());
        Problems::of_file(path, format!("cannot be read: {reason}"), hint)
    })?;
    let mut reports = Reports::new(path, &text);
    let document = weir_config::parse(&text, environment, &mut reports);
    let folder = path.parent().unwrap_or(Path::new("."));
    let problem = read(&document, folder, &mut reports);
    let files = reports.files();
    reports.finish()?;
    let problem = problem.map(|problem| (problem, files));
    problem.ok_or_else(|| Problems::of_file(path, "cannot be made into a planning problem", None))
}

fn read(document: &[Entry], folder: &Path, reports: &mut Reports) -> Option<Problem> {
    let (mut classes, mut models, mut plan) = (Vec::new(), Vec::new(), None);
    for entry in document {
        match entry.name.as_str() {
            "cluster" => classes = each(entry, "class", reports, &mut class),
            "models" => {
                models = each(entry, "model", reports, &mut |name, fields, reports| {
                    model(name, fields, folder, reports)
                });
            }
            "plan" => plan = Fields::open("[plan]".to_owned(), entry, reports),
            other => {
                let hint = spelling::hint(other, "tables", ["cluster", "models", "plan"]);
                reports.add(entry.at, format!("there is no table [{other}]"), hint);
            }
        }
    }
    for (table, example) in [
        ("cluster", "[cluster.l4] with count = 25"),
        ("models", "[models.detector] with slo and profile"),
    ] {
        if !document.iter().any(|entry| entry.name == table) {
            reports.add_whole(
                0,
                format!("there is no table [{table}.NAME]"),
                Some(format!("add {example}")),
            );
        }
    }
    let choice = Choice::read(plan, reports)?;
    Some(Problem {
        classes,
        models,
        objective: choice.objective,
        scheme: choice.scheme,
        margin: choice.margin,
        building: choice.building,
        gap: choice.gap,
    })
}

/// What each table of `[entry.NAME]` reads as.
fn each<T>(
    entry: &Entry,
    kind: &str,
    reports: &mut Reports,
    read: &mut dyn FnMut(&str, &mut Fields<'_>, &mut Reports) -> Option<T>,
) -> Vec<T> {
    let Content::Table(entries) = &entry.node.content else {
        reports.add(
            entry.at,
            format!("[{}] must hold a table for each {kind}", entry.name),
            None,
        );
        return Vec::new();
    };
    let mut all = Vec::new();
    for entry in entries {
        if let Some(mut fields) = Fields::open(format!("{kind} \"{}\"", entry.name), entry, reports) {
            all.extend(read(&entry.name, &mut fields, reports));
        }
    }
    all
}

fn class(name: &str, fields: &mut Fields<'_>, reports: &mut Reports) -> Option<Class> {
    fields.expect(&["count", "per_server", "bandwidth", "cost"], false, reports);
    let count = fields.read("count", reports, |node| match node.content {
        Content::Whole(whole) if (0..=i64::from(COUNT_MAX)).contains(&whole) => Ok(whole as u32),
        _ => Err(format!("a whole number from 0 to {COUNT_MAX}")),
    });
    let per_server = fields.count("per_server", COUNT_MAX, reports);
    let bandwidth = fields
        .text("bandwidth", reports)
        .and_then(|spot| match weir_config::bits(&spot.value) {
            Some(bps) => Some(bps),
            None => {
                let hint = Some("write a number with a unit, such as \"10Gbps\" or \"250Mbps\"".to_owned());
                reports.add(
                    spot.at,
                    format!("`bandwidth`: \"{}\" is no bandwidth", spot.value),
                    hint,
                );
                None
            }
        });
    let cost = number(fields, "cost", 0.0..=f64::MAX, 1.0, reports);
    needs(fields, "count", &count, "how many devices there are", reports);
    needs(
        fields,
        "bandwidth",
        &bandwidth,
        "what a server's link carries, such as \"10Gbps\"",
        reports,
    );
    Some(Class {
        name: name.to_owned(),
        count: count.into_value()?,
        per_server: per_server.into_value().unwrap_or(1),
        bandwidth_bps: bandwidth.into_value()?,
        cost,
    })
}

fn model(name: &str, fields: &mut Fields<'_>, folder: &Path, reports: &mut Reports) -> Option<Served> {
    fields.expect(&["slo", "weight", "profile"], false, reports);
    let slo = fields.span("slo", reports);
    let weight = fields.positive("weight", reports);
    needs(
        fields,
        "slo",
        &slo,
        "a latency objective, such as \"100ms\"",
        reports,
    );
    let profile = fields.text("profile", reports);
    needs(
        fields,
        "profile",
        &profile,
        "the path of a file with the times of its blocks",
        reports,
    );
    let blocks = profile
        .given()
        .and_then(|spot| blocks(&spot.value, spot.at, folder, reports));
    Some(Served {
        name: name.to_owned(),
        slo: slo.into_value()?,
        weight: weight.into_value().unwrap_or(1.0),
        blocks: blocks?,
    })
}

/// A profile of blocks, which is a file of its own.
fn blocks(name: &str, at: usize, folder: &Path, reports: &mut Reports) -> Option<Blocks> {
    let path = absolute(folder, name);
    if !path.exists() {
        missing(
            &format!("`profile`: there is no file \"{name}\""),
            &path,
            at,
            reports,
        );
        return None;
    }
    let text = match weir_config::read_text(&path) {
        Ok(text) => text,
        Err(reason) => {
            reports.add(at, format!("`profile`: cannot read \"{name}\": {reason}"), None);
            return None;
        }
    };
    reports.note_file(&path);
    match toml::from_str(&text) {
        Ok(blocks) => Some(blocks),
        Err(error) => {
            let mut inner = Reports::new(&path, &text);
            let hint = Some(
                "a profile of blocks has model, boundary_bytes and [[times]] with class, shares, batch, us",
            );
            let at = error.span().map_or(0, |span| span.start);
            inner.add(at, error.message().to_owned(), hint.map(str::to_owned));
            reports.absorb(inner);
            None
        }
    }
}

fn needs<T>(fields: &Fields<'_>, name: &str, field: &Field<T>, what: &str, reports: &mut Reports) {
    if field.is_absent() {
        reports.add_whole(
            fields.at,
            format!("{} has no `{name}`", fields.owner),
            Some(format!("give {what}")),
        );
    }
}

fn number(
    fields: &Fields<'_>,
    name: &str,
    range: std::ops::RangeInclusive<f64>,
    default: f64,
    reports: &mut Reports,
) -> f64 {
    let field = fields.read(name, reports, |node: &Node| match node.content {
        Content::Number(number) if range.contains(&number) => Ok(number),
        Content::Whole(whole) if range.contains(&(whole as f64)) => Ok(whole as f64),
        _ if *range.end() == f64::MAX => Err("a number that is not below 0".to_owned()),
        _ => Err(format!("a number from {} to {}", range.start(), range.end())),
    });
    field.into_value().unwrap_or(default)
}

/// The table `[plan]`.
struct Choice {
    objective: Objective,
    scheme: Scheme,
    margin: f64,
    building: f64,
    gap: f64,
}

impl Choice {
    fn read(fields: Option<Fields<'_>>, reports: &mut Reports) -> Option<Self> {
        let default = Self {
            objective: Objective::Throughput,
            scheme: Scheme::Pooled { partitions: 2 },
            margin: 0.4,
            building: 0.0,
            gap: 1e-4,
        };
        let Some(mut fields) = fields else {
            return Some(default);
        };
        fields.expect(
            &[
                "scheme",
                "partitions",
                "objective",
                "rate",
                "margin",
                "building",
                "gap",
            ],
            false,
            reports,
        );
        let partitions = fields.count("partitions", 3, reports).into_value().unwrap_or(2);
        let schemes = [
            ("pooled", Scheme::Pooled { partitions }),
            ("np", Scheme::Np),
            ("dart-r", Scheme::DartR),
        ];
        let scheme = fields
            .word("scheme", &schemes, reports)
            .into_value()
            .unwrap_or(schemes[0].1);
        let goals = [("throughput", false), ("cost", true)];
        let by_cost = fields
            .word("objective", &goals, reports)
            .into_value()
            .unwrap_or(false);
        let rate = fields.positive("rate", reports);
        if by_cost && rate.is_absent() {
            let hint = Some("give the items a second over weight that every model must reach".to_owned());
            reports.add_whole(fields.at, "objective \"cost\" needs `rate`", hint);
        }
        if let (false, Some(spot)) = (by_cost, rate.given()) {
            reports.add(
                spot.at,
                "`rate` is for objective \"cost\" alone",
                Some("add objective = \"cost\"".to_owned()),
            );
        }
        let objective = match rate.into_value() {
            Some(rate) if by_cost => Objective::Cost { rate },
            _ => Objective::Throughput,
        };
        Some(Self {
            objective,
            scheme,
            margin: number(&fields, "margin", 0.0..=0.99, default.margin, reports),
            building: number(&fields, "building", 0.0..=f64::MAX, default.building, reports),
            gap: number(&fields, "gap", 0.0..=0.5, default.gap, reports),
        })
    }
}
