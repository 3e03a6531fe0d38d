//! Planning problems as TOML: device classes, models with their block profiles, and the objective. All mistakes of a file
//! are reported at once; the result is a [`Problem`], which the planner validates again.

mod gears;
mod plan_file;

use std::path::{Path, PathBuf};

use weir_config::{
    Content, Diagnostics, Entry, Environment, Field, Fields, Node, absolute, report_missing, spelling,
};
use weir_planner::{Blocks, Class, Objective, Problem, Scheme, ServedModel};

pub use gears::{
    GearsPlanning, PlanSearch, PlannedCascades, PlannedLatency, PlannedQueues, PolicyScored,
    load as load_gears,
};
pub use plan_file::{read as read_plan, text as plan_text};

use weir_config::ConfigError;

/// Devices of a class, and devices a server, at most.
const MAX_COUNT: u32 = 1_000_000;

/// Reads the planning problem at `path`; `environment` looks up the variables in its texts.
///
/// # Errors
/// All [`ConfigError`] at once, each with its file, line and hint.
pub fn load(path: &Path, environment: Environment<'_>) -> Result<Problem, ConfigError> {
    load_with_files(path, environment).map(|(problem, _)| problem)
}

/// As [`load`], with every file that was read.
///
/// # Errors
/// As [`load`].
pub fn load_with_files(
    path: &Path,
    environment: Environment<'_>,
) -> Result<(Problem, Vec<PathBuf>), ConfigError> {
    let text = weir_config::read_text(path).map_err(|reason| {
        let hint = Some("give the path of a planning problem, a TOML file".to_owned());
        ConfigError::for_file(path, format!("cannot be read: {reason}"), hint)
    })?;
    let mut diagnostics = Diagnostics::new(path, &text);
    let document = weir_config::parse(&text, environment, &mut diagnostics);
    let folder = path.parent().unwrap_or(Path::new("."));
    let problem = read(&document, folder, &mut diagnostics);
    let files = diagnostics.files();
    diagnostics.finish()?;
    let problem = problem.map(|problem| (problem, files));
    problem.ok_or_else(|| ConfigError::for_file(path, "cannot be made into a planning problem", None))
}

fn read(document: &[Entry], folder: &Path, diagnostics: &mut Diagnostics) -> Option<Problem> {
    let (mut classes, mut models, mut plan) = (Vec::new(), Vec::new(), None);
    for entry in document {
        match entry.name.as_str() {
            "cluster" => classes = each(entry, "class", diagnostics, &mut class),
            "models" => {
                models = each(entry, "model", diagnostics, &mut |name, fields, diagnostics| {
                    model(name, fields, folder, diagnostics)
                });
            }
            "plan" => plan = Fields::open("[plan]".to_owned(), entry, diagnostics),
            other => {
                let hint = spelling::hint(other, "tables", ["cluster", "models", "plan"]);
                diagnostics.add(entry.at, format!("there is no table [{other}]"), hint);
            }
        }
    }
    for (table, example) in [
        ("cluster", "[cluster.l4] with count = 25"),
        ("models", "[models.detector] with slo and profile"),
    ] {
        if !document.iter().any(|entry| entry.name == table) {
            diagnostics.add_if_parsed(
                0,
                format!("there is no table [{table}.NAME]"),
                Some(format!("add {example}")),
            );
        }
    }
    let settings = PlanSettings::read(plan, diagnostics)?;
    Some(Problem {
        classes,
        models,
        objective: settings.objective,
        scheme: settings.scheme,
        margin: settings.margin,
        building: settings.building,
        gap: settings.gap,
    })
}

/// Reads each table `[entry.NAME]`.
fn each<T>(
    entry: &Entry,
    kind: &str,
    diagnostics: &mut Diagnostics,
    read: &mut dyn FnMut(&str, &mut Fields<'_>, &mut Diagnostics) -> Option<T>,
) -> Vec<T> {
    let Content::Table(entries) = &entry.node.content else {
        diagnostics.add(
            entry.at,
            format!("[{}] must hold a table for each {kind}", entry.name),
            None,
        );
        return Vec::new();
    };
    let mut all = Vec::new();
    for entry in entries {
        if let Some(mut fields) = Fields::open(format!("{kind} \"{}\"", entry.name), entry, diagnostics) {
            all.extend(read(&entry.name, &mut fields, diagnostics));
        }
    }
    all
}

fn class(name: &str, fields: &mut Fields<'_>, diagnostics: &mut Diagnostics) -> Option<Class> {
    fields.expect(&["count", "per_server", "bandwidth", "cost"], false, diagnostics);
    let count = fields.read("count", diagnostics, |node| match node.content {
        Content::Integer(whole) if (0..=i64::from(MAX_COUNT)).contains(&whole) => Ok(whole as u32),
        _ => Err(format!("a whole number from 0 to {MAX_COUNT}")),
    });
    let per_server = fields.count("per_server", MAX_COUNT, diagnostics);
    let bandwidth = fields.text("bandwidth", diagnostics).and_then(|spanned| {
        match weir_config::parse_bandwidth_bps(&spanned.value) {
            Some(bps) => Some(bps),
            None => {
                let hint = Some("write a number with a unit, such as \"10Gbps\" or \"250Mbps\"".to_owned());
                diagnostics.add(
                    spanned.at,
                    format!("`bandwidth`: \"{}\" is not a bandwidth", spanned.value),
                    hint,
                );
                None
            }
        }
    });
    let cost = number(fields, "cost", 0.0..=f64::MAX, 1.0, diagnostics);
    needs(fields, "count", &count, "how many devices there are", diagnostics);
    needs(
        fields,
        "bandwidth",
        &bandwidth,
        "the bandwidth of a server's link, such as \"10Gbps\"",
        diagnostics,
    );
    Some(Class {
        name: name.to_owned(),
        count: count.into_value()?,
        per_server: per_server.into_value().unwrap_or(1),
        bandwidth_bps: bandwidth.into_value()?,
        cost,
    })
}

fn model(
    name: &str,
    fields: &mut Fields<'_>,
    folder: &Path,
    diagnostics: &mut Diagnostics,
) -> Option<ServedModel> {
    fields.expect(&["slo", "weight", "profile"], false, diagnostics);
    let slo = fields.span("slo", diagnostics);
    let weight = fields.positive("weight", diagnostics);
    needs(
        fields,
        "slo",
        &slo,
        "a latency objective, such as \"100ms\"",
        diagnostics,
    );
    let profile = fields.text("profile", diagnostics);
    needs(
        fields,
        "profile",
        &profile,
        "the path of a file with the times of its blocks",
        diagnostics,
    );
    let blocks = profile
        .given()
        .and_then(|spanned| blocks(&spanned.value, spanned.at, folder, diagnostics));
    Some(ServedModel {
        name: name.to_owned(),
        slo: slo.into_value()?,
        weight: weight.into_value().unwrap_or(1.0),
        blocks: blocks?,
    })
}

/// A block profile, which is a file of its own.
fn blocks(name: &str, at: usize, folder: &Path, diagnostics: &mut Diagnostics) -> Option<Blocks> {
    let path = absolute(folder, name);
    if !path.exists() {
        report_missing(
            &format!("`profile`: there is no file \"{name}\""),
            &path,
            at,
            diagnostics,
        );
        return None;
    }
    let text = match weir_config::read_text(&path) {
        Ok(text) => text,
        Err(reason) => {
            diagnostics.add(at, format!("`profile`: cannot read \"{name}\": {reason}"), None);
            return None;
        }
    };
    diagnostics.record_file(&path);
    match toml::from_str(&text) {
        Ok(blocks) => Some(blocks),
        Err(error) => {
            let mut inner = Diagnostics::new(&path, &text);
            let hint = Some(
                "a profile of blocks has model, boundary_bytes and [[times]] with class, shares, batch, us",
            );
            let at = error.span().map_or(0, |span| span.start);
            inner.add(at, error.message().to_owned(), hint.map(str::to_owned));
            diagnostics.absorb(inner);
            None
        }
    }
}

fn needs<T>(fields: &Fields<'_>, name: &str, field: &Field<T>, what: &str, diagnostics: &mut Diagnostics) {
    if field.is_absent() {
        diagnostics.add_if_parsed(
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
    diagnostics: &mut Diagnostics,
) -> f64 {
    let field = fields.read(name, diagnostics, |node: &Node| match node.content {
        Content::Float(number) if range.contains(&number) => Ok(number),
        Content::Integer(whole) if range.contains(&(whole as f64)) => Ok(whole as f64),
        _ if *range.end() == f64::MAX => Err("a number that is not below 0".to_owned()),
        _ => Err(format!("a number from {} to {}", range.start(), range.end())),
    });
    field.into_value().unwrap_or(default)
}

/// The table `[plan]`.
struct PlanSettings {
    objective: Objective,
    scheme: Scheme,
    margin: f64,
    building: f64,
    gap: f64,
}

impl PlanSettings {
    fn read(fields: Option<Fields<'_>>, diagnostics: &mut Diagnostics) -> Option<Self> {
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
            diagnostics,
        );
        let partitions = fields
            .count("partitions", 3, diagnostics)
            .into_value()
            .unwrap_or(2);
        let schemes = [
            ("pooled", Scheme::Pooled { partitions }),
            ("np", Scheme::Np),
            ("dart-r", Scheme::DartR),
        ];
        let scheme = fields
            .word("scheme", &schemes, diagnostics)
            .into_value()
            .unwrap_or(schemes[0].1);
        let goals = [("throughput", false), ("cost", true)];
        let by_cost = fields
            .word("objective", &goals, diagnostics)
            .into_value()
            .unwrap_or(false);
        let rate = fields.positive("rate", diagnostics);
        if by_cost && rate.is_absent() {
            let hint = Some("give the items a second over weight that every model must reach".to_owned());
            diagnostics.add_if_parsed(fields.at, "objective \"cost\" needs `rate`", hint);
        }
        if let (false, Some(spanned)) = (by_cost, rate.given()) {
            diagnostics.add(
                spanned.at,
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
            margin: number(&fields, "margin", 0.0..=0.99, default.margin, diagnostics),
            building: number(&fields, "building", 0.0..=f64::MAX, default.building, diagnostics),
            gap: number(&fields, "gap", 0.0..=0.5, default.gap, diagnostics),
        })
    }
}
