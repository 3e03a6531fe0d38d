//! An experiment's file: one variant of it at a time, all lists of sweeps already chosen from.

use weir_config::{Content, Diagnostics, Entry, Fields, Spanned, spelling};
use weir_graph::ArrivalProcess;
use weir_graph::MAX_CV;
use weir_policy::{AutoscaleRule, Policy};
use weir_types::Span;

use super::changes::{self, RawChange};
use super::values::{number, seeds, span};
use super::world_module::{self, MAX_WORKERS};
use crate::demand::Crops;
use crate::interference::Interference;

pub(super) const SECTIONS: &[&str] = &[
    "experiment",
    "arrivals",
    "policy",
    "scaling",
    "failures",
    "changes",
    "interference",
    "accuracy",
    "items",
];

/// Contents of one variant of the experiment file, after substitution of swept values.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) head: Head,
    pub(super) arrivals: RawArrivals,
    pub(super) policy: Option<Policy>,
    pub(super) scaling: Option<RawScaling>,
    pub(super) failures: Vec<RawFailure>,
    pub(super) changes: Vec<RawChange>,
    pub(super) interference: Option<Interference>,
    /// Share of right answers by module.
    pub(super) accuracy: Vec<(Spanned<String>, f64)>,
    /// Items that requests bring, by module.
    pub(super) items: Vec<(Spanned<String>, Crops)>,
}

/// `[experiment]`.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) name: Option<String>,
    pub(super) seeds: Option<Vec<u64>>,
    pub(super) world: Option<Spanned<String>>,
    pub(super) graph: Option<Spanned<String>>,
    /// Path of a gears file, or "none".
    pub(super) gears: Option<Spanned<String>>,
    pub(super) slo: Option<Span>,
    pub(super) hop: Option<Span>,
    pub(super) noise: Option<f64>,
    pub(super) handover: Option<Span>,
    pub(super) timer_delay: Option<Span>,
    /// True if the lengths of generated sequences are known in advance; false: the mean of earlier ones is
    /// expected. `None`: not set in the file.
    is_foretold: Option<bool>,
    /// Error of lengths known in advance: standard deviation of the logarithm; 0: exact.
    length_error: Option<f64>,
}

impl Head {
    /// Error of predicted lengths, or `None` if lengths are not predicted. `declared` is the error that the
    /// model declares; it applies if the experiment sets neither `lengths` nor `length_error`.
    pub(super) fn length_error(&self, declared: Option<f64>) -> Option<f64> {
        match (self.is_foretold, self.length_error) {
            (Some(false), _) => None,
            (Some(true), error) => Some(error.unwrap_or(0.0)),
            (None, error) => error.or(declared),
        }
    }
}

/// `[arrivals]`.
#[derive(Debug)]
pub(super) struct RawArrivals {
    pub(super) trace: Option<Spanned<String>>,
    pub(super) length: Span,
    pub(super) process: ArrivalProcess,
    /// Position of the key `process` in the file, for diagnostics.
    pub(super) process_at: Option<usize>,
    /// Mean rate of the arrivals; `None`: that of the world's own streams, or a load of 1.
    pub(super) amount: Option<LoadLevel>,
}

impl Default for RawArrivals {
    fn default() -> Self {
        Self {
            trace: None,
            length: Span::from_secs(60),
            process: ArrivalProcess::Poisson,
            process_at: None,
            amount: None,
        }
    }
}

/// Mean rate of arrivals, absolute or relative to the world's capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LoadLevel {
    /// Requests per second.
    Rate(f64),
    /// Rate divided by the capacity of the world, see `capacity`.
    Load(f64),
}

/// `[scaling]`: pools of a module's own that come and go.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawScaling {
    pub(super) headroom: f64,
    pub(super) patience: Span,
    pub(super) cold_start: Span,
    pub(super) min: u32,
    pub(super) max: Option<u32>,
    pub(super) max_workers: Option<u32>,
}

impl RawScaling {
    /// The rule of a pool that has `workers` in the world's file.
    pub(super) fn rule(&self, workers: u32) -> AutoscaleRule {
        let max = self.max.unwrap_or(workers.saturating_mul(2));
        AutoscaleRule {
            min_workers: self.min.min(max),
            max_workers: max,
            headroom: self.headroom,
            scale_down_delay: self.patience,
        }
    }
}

/// Entry of `[[failures]]`.
#[derive(Debug)]
pub(super) struct RawFailure {
    pub(super) module: Spanned<String>,
    pub(super) worker: u32,
    pub(super) at: Span,
    pub(super) lasts: Span,
}

/// Reads the sections; what is wrong is reported.
pub(super) fn read(document: &[Entry], diagnostics: &mut Diagnostics) -> Raw {
    let mut raw = Raw::default();
    for entry in document {
        match entry.name.as_str() {
            "experiment" => raw.head = head(entry, diagnostics).unwrap_or_default(),
            "arrivals" => raw.arrivals = arrivals(entry, diagnostics).unwrap_or_default(),
            "policy" => raw.policy = Some(weir_graph::read_policy(entry, diagnostics)),
            "scaling" => raw.scaling = scaling(entry, diagnostics),
            "failures" => raw.failures = failures(entry, diagnostics),
            "changes" => raw.changes = changes::read(entry, diagnostics),
            "interference" => raw.interference = interference(entry, diagnostics),
            "accuracy" => raw.accuracy = accuracy(entry, diagnostics),
            "items" => raw.items = items(entry, diagnostics),
            other => {
                let hint = spelling::hint(other, "sections", SECTIONS.iter().copied());
                diagnostics.add(
                    entry.at,
                    format!("there is no section \"{other}\" in an experiment"),
                    hint,
                );
            }
        }
    }
    if !document.iter().any(|entry| entry.name == "experiment") {
        let hint = Some("begin with [experiment] and world = \"FILE.toml\"".to_owned());
        diagnostics.add_if_parsed(0, "there is no [experiment]", hint);
    }
    raw
}

/// Values of the key `lengths`: sequences are expected to have the mean length of earlier ones (`mean`) or
/// the length that they will have (`true`).
const LENGTHS: &[(&str, bool)] = &[("mean", false), ("true", true)];

fn head(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Head> {
    let mut fields = Fields::open("[experiment]".to_owned(), entry, diagnostics)?;
    let keys = [
        "name",
        "seeds",
        "world",
        "graph",
        "gears",
        "slo",
        "hop",
        "noise",
        "handover",
        "timer_delay",
        "lengths",
        "length_error",
    ];
    fields.expect(&keys, false, diagnostics);
    let world = fields.text("world", diagnostics);
    let graph = fields.text("graph", diagnostics);
    let hint = || Some("world = \"worlds/tm.toml\", or graph = \"graph.toml\"".to_owned());
    match (world.is_absent(), graph.is_absent()) {
        (true, true) => diagnostics.add_if_parsed(fields.at, "[experiment] names no `world`", hint()),
        (false, false) => diagnostics.add(fields.at, "[experiment] names a `world` and a `graph`", hint()),
        _ => {}
    }
    Some(Head {
        name: fields.text("name", diagnostics).into_value(),
        seeds: seeds(&fields, diagnostics),
        world: world.given().cloned(),
        graph: graph.given().cloned(),
        gears: fields.text("gears", diagnostics).given().cloned(),
        slo: fields.span("slo", diagnostics).into_value(),
        hop: span(&fields, "hop", diagnostics),
        noise: number(&fields, "noise", 0.0, 2.0, diagnostics),
        handover: span(&fields, "handover", diagnostics),
        timer_delay: span(&fields, "timer_delay", diagnostics),
        is_foretold: fields.word("lengths", LENGTHS, diagnostics).into_value(),
        length_error: number(&fields, "length_error", 0.0, 2.0, diagnostics),
    })
}

/// `[accuracy]`: module = share.
fn accuracy(entry: &Entry, diagnostics: &mut Diagnostics) -> Vec<(Spanned<String>, f64)> {
    let Some(fields) = Fields::open("[accuracy]".to_owned(), entry, diagnostics) else {
        return Vec::new();
    };
    let Content::Table(entries) = &entry.node.content else {
        return Vec::new();
    };
    let mut of = |entry: &Entry| {
        let share = number(&fields, &entry.name, 0.0, 1.0, diagnostics)?;
        Some((Spanned::new(entry.name.clone(), entry.at), share))
    };
    entries.iter().filter_map(&mut of).collect()
}

/// `[items]`: module = table, as `items` of a module of a world.
fn items(entry: &Entry, diagnostics: &mut Diagnostics) -> Vec<(Spanned<String>, Crops)> {
    if Fields::open("[items]".to_owned(), entry, diagnostics).is_none() {
        return Vec::new();
    }
    let Content::Table(entries) = &entry.node.content else {
        return Vec::new();
    };
    let mut of = |entry: &Entry| {
        let crops = world_module::items(entry, diagnostics)?;
        Some((Spanned::new(entry.name.clone(), entry.at), crops))
    };
    entries.iter().filter_map(&mut of).collect()
}

fn arrivals(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<RawArrivals> {
    let mut fields = Fields::open("[arrivals]".to_owned(), entry, diagnostics)?;
    fields.expect(
        &["trace", "length", "process", "cv", "load", "rate"],
        false,
        diagnostics,
    );
    let default = RawArrivals::default();
    let cv = number(&fields, "cv", 0.0, MAX_CV, diagnostics);
    let gamma = ArrivalProcess::Gamma {
        cv: cv.unwrap_or(1.0),
    };
    let words = [
        ("poisson", ArrivalProcess::Poisson),
        ("uniform", ArrivalProcess::Uniform),
        ("gamma", gamma),
    ];
    let load = number(&fields, "load", 1e-6, 1e3, diagnostics).map(LoadLevel::Load);
    let rate = number(&fields, "rate", 1e-6, 1e6, diagnostics).map(LoadLevel::Rate);
    if load.is_some() && rate.is_some() {
        let hint = Some("leave one of them".to_owned());
        diagnostics.add(fields.at, "[arrivals] has a `load` and a `rate`", hint);
    }
    let process = fields.word("process", &words, diagnostics).into_value();
    let is_gamma = matches!(process, Some(ArrivalProcess::Gamma { .. }));
    if is_gamma != fields.entry("cv").is_some() {
        let hint = Some("process = \"gamma\" and cv = 2.0 belong together".to_owned());
        let message = "gamma gaps, and they alone, have a coefficient of variation `cv`";
        diagnostics.add_if_parsed(fields.at, message, hint);
    }
    Some(RawArrivals {
        trace: fields.text("trace", diagnostics).given().cloned(),
        length: fields
            .span("length", diagnostics)
            .into_value()
            .unwrap_or(default.length),
        process: process.unwrap_or(default.process),
        process_at: fields.entry("process").map(|entry| entry.at),
        amount: load.or(rate),
    })
}

fn scaling(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<RawScaling> {
    let mut fields = Fields::open("[scaling]".to_owned(), entry, diagnostics)?;
    let keys = [
        "headroom",
        "patience",
        "cold_start",
        "least",
        "most",
        "workers_most",
    ];
    fields.expect(&keys, false, diagnostics);
    Some(RawScaling {
        headroom: number(&fields, "headroom", 1.0, 10.0, diagnostics).unwrap_or(AutoscaleRule::HEADROOM),
        patience: span(&fields, "patience", diagnostics).unwrap_or(AutoscaleRule::SCALE_DOWN_DELAY),
        cold_start: span(&fields, "cold_start", diagnostics).unwrap_or(Span::from_secs(5)),
        min: fields
            .count("least", MAX_WORKERS, diagnostics)
            .into_value()
            .unwrap_or(1),
        max: fields.count("most", MAX_WORKERS, diagnostics).into_value(),
        max_workers: fields.count("workers_most", u32::MAX, diagnostics).into_value(),
    })
}

/// Reads `interference`; `loops = 0` gives `None`, so that a sweep can include a run without it.
fn interference(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Interference> {
    let mut fields = Fields::open("[interference]".to_owned(), entry, diagnostics)?;
    fields.expect(&["loops", "half_period", "slice", "stay"], false, diagnostics);
    let loops = number(&fields, "loops", 0.0, 64.0, diagnostics).unwrap_or(1.0) as u32;
    let span = |name, diagnostics: &mut Diagnostics| fields.span(name, diagnostics).into_value();
    let half_period = span("half_period", diagnostics).unwrap_or(Span::from_secs(5));
    let plain = Interference::new(loops, half_period);
    let given = Interference {
        slice: span("slice", diagnostics).unwrap_or(plain.slice),
        stay: span("stay", diagnostics).unwrap_or(plain.stay),
        ..plain
    };
    (loops > 0).then_some(given)
}

fn failures(entry: &Entry, diagnostics: &mut Diagnostics) -> Vec<RawFailure> {
    let Content::List(list) = &entry.node.content else {
        let hint = Some("[[failures]], with module, worker, at and lasts".to_owned());
        diagnostics.add(entry.at, "`failures` is a list of tables", hint);
        return Vec::new();
    };
    list.iter()
        .filter_map(|node| {
            let entry = Entry {
                name: "failures".to_owned(),
                at: node.at,
                node: node.clone(),
            };
            failure(&entry, diagnostics)
        })
        .collect()
}

fn failure(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<RawFailure> {
    let mut fields = Fields::open("[[failures]]".to_owned(), entry, diagnostics)?;
    fields.expect(&["module", "worker", "at", "lasts"], false, diagnostics);
    let worker = number(&fields, "worker", 0.0, f64::from(MAX_WORKERS), diagnostics).unwrap_or(0.0);
    let (module, at, lasts) = (
        fields.text("module", diagnostics),
        span(&fields, "at", diagnostics),
        span(&fields, "lasts", diagnostics),
    );
    for name in ["module", "at", "lasts"] {
        if fields.entry(name).is_none() {
            diagnostics.add_if_parsed(fields.at, format!("[[failures]] has no `{name}`"), None);
        }
    }
    Some(RawFailure {
        module: module.given().cloned()?,
        worker: worker as u32,
        at: at?,
        lasts: lasts?,
    })
}
