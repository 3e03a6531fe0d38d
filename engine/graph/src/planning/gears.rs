//! Planning problems of gears as TOML (KEN 4): a graph, samples of its cascades, the load to plan for, and how to search.
//!
//! ```toml
//! [gears]
//! graph   = "graph.toml"           # its cascades and devices
//! samples = "samples.jsonl"
//! trace   = "day.csv"              # the load to plan for: t_s,rate_rps
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_config::{
    ConfigError, Content, Diagnostics, Entry, Environment, Fields, absolute, parse_bytes, report_missing,
    spelling,
};
use weir_planner::gears::{Beam, LoadOrder, Operators, Overload, Scoring};
use weir_types::Span;

use super::{needs, number};
use crate::shift_file::{ShiftFile, ShiftMeasure};

/// Objective that a good plan minimises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PlannedLatency {
    /// A quantile of latency, from 0 to 1.
    Quantile(f64),
    /// Fraction of the requests that exceed the latency objective of the graph.
    DropRate,
}

/// Cascades that plans may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedCascades {
    /// Any cascades, which may change with the load (KEN).
    Gears,
    /// Any cascades, the same at all loads (AlpaServe+ in KEN 5.2).
    Static,
    /// Single models, which may change with the load (MS+).
    Switching,
    /// Single models, the same at all loads.
    Single,
}

/// Plans that are simulated on the graph with its policy, which drops requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyScored {
    /// Those that the search found.
    Found,
    /// Each plan that the search compares.
    All,
    /// None: no request is dropped, as in the paper.
    None,
}

/// Queues of a stage on several slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedQueues {
    /// Each replica has a queue, a share and a trigger, as in the paper.
    Replica,
    /// All replicas have one queue, and the slot that is free first takes the next batch, within shares.
    Shared,
}

/// Search for plans over the assignments of cascades to ranges of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanSearch {
    /// A walk from the most accurate cascades to the cheapest, and the neighbours of what it finds.
    Walk,
    /// All assignments are evaluated, if there are few enough of them.
    Exhaustive,
    /// This many assignments are drawn at random.
    Random(u32),
}

/// A planning problem of gears, read from its file.
#[derive(Debug, Clone, PartialEq)]
pub struct GearsPlanning {
    /// File of the graph.
    pub graph: PathBuf,
    /// File of the samples of its cascades.
    pub samples: PathBuf,
    /// File of the load.
    pub trace: PathBuf,
    /// Bytes for the sessions of one slot; `None`: as many as they take.
    pub memory: Option<u64>,
    /// Bytes that a session takes, by model, in place of what was measured with the samples.
    pub sessions: BTreeMap<String, u64>,
    /// Slots of the device; `None`: as on this machine.
    pub slots: Option<u32>,
    /// Ranges of load.
    pub ranges: u32,
    /// Cascades that an operator may choose from, at most.
    pub cascades: u32,
    /// Latency objective that plans are compared by.
    pub latency: PlannedLatency,
    /// Score by which the walk chooses its next step.
    pub scoring: Scoring,
    /// Order in which the cascades of several operators are changed.
    pub operators: Operators,
    /// Treatment of a plan that cannot sustain a range of load.
    pub overload: Overload,
    /// Rule for the cascades of higher ranges of load: whether they may cost more.
    pub order: LoadOrder,
    /// Cascades that plans may use.
    pub plans: PlannedCascades,
    /// Search for plans.
    pub search: PlanSearch,
    /// Plans that are scored with the policy of the graph.
    pub policy: PolicyScored,
    /// Queues of stages that a plan has on several slots.
    pub queues: PlannedQueues,
    /// Maximum number of neighbours that are evaluated in addition to the search.
    pub refine: u32,
    /// Size of the placement search.
    pub beam: Beam,
    /// Seed of the arrivals and of the random search.
    pub seed: u64,
    /// Rule for shifting gears that goes into the plan.
    pub shift: ShiftFile,
}

const KEYS: [&str; 21] = [
    "graph",
    "samples",
    "trace",
    "memory",
    "sessions",
    "slots",
    "ranges",
    "cascades",
    "latency",
    "score",
    "operators",
    "overload",
    "order",
    "plans",
    "search",
    "policy",
    "queues",
    "refine",
    "beam",
    "seed",
    "shift",
];

/// Bounds of what a search takes: beyond them it does not end in a day.
const MAX_RANGES: u32 = 200;
const MAX_CASCADES: u32 = 200;
const MAX_LOOKED_AT: u32 = 1_000_000;
const MAX_BEAM: u32 = 100;
const MAX_SLOTS: u32 = 1_000;

/// Reads the problem at `path`, and gives every file that was read.
///
/// # Errors
/// All [`ConfigError`] at once, each with its file, line and hint.
pub fn load(path: &Path, environment: Environment<'_>) -> Result<(GearsPlanning, Vec<PathBuf>), ConfigError> {
    let text = weir_config::read_text(path).map_err(|reason| {
        let hint = Some("give the path of a planning problem of gears, a TOML file".to_owned());
        ConfigError::for_file(path, format!("cannot be read: {reason}"), hint)
    })?;
    let mut diagnostics = Diagnostics::new(path, &text);
    let document = weir_config::parse(&text, environment, &mut diagnostics);
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = whole.parent().unwrap_or(&whole);
    let mut planning = None;
    for entry in &document {
        if entry.name == "gears" {
            planning = Fields::open("[gears]".to_owned(), entry, &mut diagnostics)
                .and_then(|mut fields| read(&mut fields, folder, &mut diagnostics));
        } else {
            let hint = spelling::hint(&entry.name, "tables", ["gears"]);
            diagnostics.add(entry.at, format!("there is no table [{}]", entry.name), hint);
        }
    }
    if document.iter().all(|entry| entry.name != "gears") {
        let hint = Some("add [gears] with graph, samples and trace".to_owned());
        diagnostics.add_if_parsed(0, "there is no table [gears]", hint);
    }
    let files = diagnostics.files();
    diagnostics.finish()?;
    let planning = planning.map(|planning| (planning, files));
    planning.ok_or_else(|| ConfigError::for_file(path, "cannot be made into a planning problem", None))
}

fn read(fields: &mut Fields<'_>, folder: &Path, diagnostics: &mut Diagnostics) -> Option<GearsPlanning> {
    fields.expect(&KEYS, false, diagnostics);
    let file = |name: &str, what: &str, diagnostics: &mut Diagnostics| {
        let field = fields.text(name, diagnostics);
        needs(fields, name, &field, what, diagnostics);
        let spanned = field.given()?;
        let path = absolute(folder, &spanned.value);
        if !path.is_file() {
            let message = format!("`{name}`: there is no file \"{}\"", spanned.value);
            report_missing(&message, &path, spanned.at, diagnostics);
            return None;
        }
        diagnostics.record_file(&path);
        Some(path)
    };
    let graph = file("graph", "the path of the graph", diagnostics);
    let samples = file(
        "samples",
        "the path of the samples that weir gears sample wrote",
        diagnostics,
    );
    let trace = file(
        "trace",
        "the path of the load to plan for, a CSV file with t_s,rate_rps",
        diagnostics,
    );
    let memory = fields.text("memory", diagnostics).and_then(|spanned| {
        let bytes = parse_bytes(&spanned.value);
        if bytes.is_none() {
            let hint = Some("write an amount with a unit, such as \"64MiB\"".to_owned());
            diagnostics.add(
                spanned.at,
                format!("`memory`: \"{}\" is no amount of bytes", spanned.value),
                hint,
            );
        }
        bytes
    });
    let settings = Settings { fields, diagnostics };
    // All of it, so that all that is wrong is said at once.
    let planning = settings.read();
    Some(GearsPlanning {
        graph: graph?,
        samples: samples?,
        trace: trace?,
        memory: memory.into_value(),
        ..planning
    })
}

struct Settings<'a, 'd> {
    fields: &'a Fields<'d>,
    diagnostics: &'a mut Diagnostics,
}

impl<'d> Settings<'_, 'd> {
    /// Reads all keys except `memory` and those that name files. Invalid keys are reported and keep their
    /// defaults.
    fn read(mut self) -> GearsPlanning {
        let words = [
            ("gears", PlannedCascades::Gears),
            ("static", PlannedCascades::Static),
            ("switching", PlannedCascades::Switching),
            ("single", PlannedCascades::Single),
        ];
        GearsPlanning {
            sessions: self.sessions(),
            slots: self
                .fields
                .count("slots", MAX_SLOTS, self.diagnostics)
                .into_value(),
            ranges: self.count("ranges", MAX_RANGES, 10),
            cascades: self.count("cascades", MAX_CASCADES, 20),
            latency: self.latency(),
            scoring: self.word("score", &[("trade", Scoring::Trade), ("ratio", Scoring::Ratio)]),
            operators: self.word(
                "operators",
                &[
                    ("together", Operators::Together),
                    ("one-by-one", Operators::OneByOne),
                ],
            ),
            overload: self.word(
                "overload",
                &[("prune", Overload::Prune), ("evaluate", Overload::Evaluate)],
            ),
            order: self.word(
                "order",
                &[("falling", LoadOrder::Falling), ("free", LoadOrder::Free)],
            ),
            plans: self.word("plans", &words),
            search: self.search(),
            policy: self.word(
                "policy",
                &[
                    ("found", PolicyScored::Found),
                    ("all", PolicyScored::All),
                    ("none", PolicyScored::None),
                ],
            ),
            queues: self.word(
                "queues",
                &[
                    ("replica", PlannedQueues::Replica),
                    ("shared", PlannedQueues::Shared),
                ],
            ),
            refine: number(
                self.fields,
                "refine",
                0.0..=f64::from(MAX_LOOKED_AT),
                100.0,
                self.diagnostics,
            ) as u32,
            beam: self.beam(),
            seed: number(
                self.fields,
                "seed",
                0.0..=f64::from(u32::MAX),
                1.0,
                self.diagnostics,
            ) as u64,
            shift: self.shift(),
            graph: PathBuf::new(),
            samples: PathBuf::new(),
            trace: PathBuf::new(),
            memory: None,
        }
    }

    /// The value of one of these words; of the first where none is given.
    fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> T {
        let given = self.fields.word(name, words, self.diagnostics).into_value();
        given.unwrap_or(words[0].1)
    }

    fn count(&mut self, name: &str, most: u32, default: u32) -> u32 {
        let given = self.fields.count(name, most, self.diagnostics).into_value();
        given.unwrap_or(default)
    }

    /// `p95`, `p99.9` or `drop-rate`.
    fn latency(&mut self) -> PlannedLatency {
        let field = self.fields.text("latency", self.diagnostics);
        let Some(spanned) = field.given() else {
            return PlannedLatency::Quantile(0.95);
        };
        let percent = spanned
            .value
            .strip_prefix('p')
            .and_then(|percent| percent.parse::<f64>().ok());
        match (spanned.value.as_str(), percent) {
            ("drop-rate", _) => PlannedLatency::DropRate,
            (_, Some(percent)) if percent > 0.0 && percent <= 100.0 => {
                PlannedLatency::Quantile(percent / 100.0)
            }
            (other, _) => {
                let hint = Some("write a quantile, such as \"p95\", or \"drop-rate\"".to_owned());
                self.diagnostics
                    .add(spanned.at, format!("`latency` cannot be \"{other}\""), hint);
                PlannedLatency::Quantile(0.95)
            }
        }
    }

    /// `walk`, `exhaustive`, or `random` with the number of plans that are looked at.
    fn search(&mut self) -> PlanSearch {
        let words = [
            ("walk", PlanSearch::Walk),
            ("exhaustive", PlanSearch::Exhaustive),
            ("random", PlanSearch::Random(1_000)),
        ];
        self.word("search", &words)
    }

    fn beam(&mut self) -> Beam {
        let default = Beam::default();
        let Some(fields) = self.table("beam", &["width", "tries"]) else {
            return default;
        };
        let mut size = |name: &str, default: usize| {
            let given = fields.count(name, MAX_BEAM, self.diagnostics).into_value();
            given.map_or(default, |count| count as usize)
        };
        Beam {
            width: size("width", default.width),
            tries: size("tries", default.tries),
        }
    }

    fn shift(&mut self) -> ShiftFile {
        let keys = [
            "window", "waiting", "dwell", "by", "first", "full", "release", "losses",
        ];
        let Some(fields) = self.table("shift", &keys) else {
            return ShiftFile::default();
        };
        let by = fields
            .word("by", &ShiftMeasure::WORDS, self.diagnostics)
            .into_value();
        let text = |name: &str, diagnostics: &mut Diagnostics| -> Option<String> {
            let span: Option<Span> = fields.span(name, diagnostics).into_value();
            span.and_then(|_| fields.text(name, diagnostics).into_value())
        };
        let shift = ShiftFile {
            window: text("window", self.diagnostics),
            dwell: text("dwell", self.diagnostics),
            // Plans are for all requests together, as their traces are.
            scope: None,
            by,
            waiting: self.optional_number(&fields, "waiting"),
            first: self.optional_number(&fields, "first"),
            full: self.optional_number(&fields, "full"),
            release: self.optional_number(&fields, "release"),
            losses: self.optional_number(&fields, "losses"),
        };
        if let Err(reason) = shift.rule() {
            self.diagnostics.add(fields.at, reason, None);
        }
        shift
    }

    /// A number of at least 0; `None` where the key is absent.
    fn optional_number(&mut self, fields: &Fields<'_>, name: &str) -> Option<f64> {
        fields
            .entry(name)
            .map(|_| number(fields, name, 0.0..=f64::MAX, 1.0, self.diagnostics))
    }

    fn table(&mut self, name: &str, keys: &[&str]) -> Option<Fields<'d>> {
        let entry: &'d Entry = self.fields.entry(name)?;
        let mut fields = Fields::open(format!("`{name}`"), entry, self.diagnostics)?;
        fields.expect(keys, false, self.diagnostics);
        Some(fields)
    }

    /// Bytes by model; any name may be a model's.
    fn sessions(&mut self) -> BTreeMap<String, u64> {
        let Some(entry) = self.fields.entry("sessions") else {
            return BTreeMap::new();
        };
        let Content::Table(entries) = &entry.node.content else {
            let message = "`sessions` must hold bytes by model, such as { reader = \"12MiB\" }";
            self.diagnostics.add(entry.at, message, None);
            return BTreeMap::new();
        };
        let mut sessions = BTreeMap::new();
        for entry in entries {
            let bytes = match &entry.node.content {
                Content::Text(text) => parse_bytes(text),
                _ => None,
            };
            match bytes {
                Some(bytes) => drop(sessions.insert(entry.name.clone(), bytes)),
                None => self.diagnostics.add(
                    entry.at,
                    format!("`sessions`: what \"{}\" has is no amount of bytes", entry.name),
                    Some("write an amount with a unit, such as \"64MiB\"".to_owned()),
                ),
            }
        }
        sessions
    }
}
