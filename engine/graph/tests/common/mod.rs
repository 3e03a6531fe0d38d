//! A small catalog, a folder with the files that graphs name, and the one function that checks what is reported.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_analytics::TRACKER_KEYS;
use weir_config::ConfigError;
use weir_flow::{
    Catalog, HeadOutput, HeadSpec, KeyKind, KeySpec, ModelDefaults, OperatorInput, OperatorSpec, Settings,
    SinkSpec, Value,
};
use weir_graph::{Graph, parse, planning};
use weir_planner::{BlockTimes, Blocks, Class, Objective, Plan, Problem, Scheme, ServedModel, solve};
use weir_types::Span;

/// One vertex of every kind; most tests change a line of it.
pub(crate) const VALID: &str = r#"[app]
name = "traffic"
slo = "400ms"

[policy]
drop = { rule = "pard", quantile = 0.1, window = "5s" }
order = "adaptive"

[sources.north]
uri = "crossing.mp4"
mode = "live"

[sources.south]
uri = "rtsp://user:secret@camera/stream?x=1"
fps = 12.5

[devices.cpu]
slots = 2

[models.detector]
model = "embedded:street-detector"
batch = [1, 2, 4]
workers = 2

[models.reader]
model = "reader.onnx"
head = "ctc"

[modules.detect]
operator = "detect"
model = "detector"
inputs = ["north", "south"]

[modules.plates]
operator = "read-text"
model = "reader"
inputs = ["detect"]
regions = ["plate"]

[sinks.events]
type = "jsonl"
path = "out/events.jsonl"
inputs = ["detect", "plates"]
"#;

const THRESHOLD: KeySpec = KeySpec {
    name: "threshold",
    kind: KeyKind::Number { min: 0.0, max: 1.0 },
    about: "least score",
};
const ALIGN: KeySpec = KeySpec {
    name: "align",
    kind: KeyKind::OneOf(&["face", "none"]),
    about: "whether items are turned upright",
};
const LIMIT: KeySpec = KeySpec {
    name: "limit",
    kind: KeyKind::Integer { min: 1, max: 100 },
    about: "most items",
};
const ITEMS: KeySpec = KeySpec {
    name: "items",
    kind: KeyKind::OneOf(&["frame"]),
    about: "what its items are",
};
const CUT: KeySpec = KeySpec {
    name: "cut",
    kind: KeyKind::OneOf(&["box", "square"]),
    about: "how objects are cut",
};
const ATTRIBUTE: KeySpec = KeySpec {
    name: "attribute",
    kind: KeyKind::Text,
    about: "name of the attribute",
};
const DETECTOR_KEYS: &[KeySpec] = &[
    THRESHOLD,
    KeySpec {
        name: "labels",
        kind: KeyKind::Texts,
        about: "classes",
    },
    KeySpec {
        name: "labels",
        kind: KeyKind::File,
        about: "a class a line",
    },
    KeySpec {
        name: "size",
        kind: KeyKind::Integer { min: 32, max: 4096 },
        about: "pixels",
    },
    KeySpec {
        name: "fit",
        kind: KeyKind::OneOf(&["letterbox", "stretch"]),
        about: "how",
    },
    KeySpec {
        name: "swap",
        kind: KeyKind::Flag,
        about: "channels",
    },
];

fn head(name: &'static str, output: HeadOutput, classes: &'static [&'static str]) -> HeadSpec {
    let keys = match (name, output) {
        (_, HeadOutput::Boxes) => DETECTOR_KEYS,
        ("embed", _) => &[ALIGN],
        _ => &[THRESHOLD],
    };
    HeadSpec {
        name,
        about: "",
        output,
        classes,
        keys: keys.into(),
    }
}

fn operator(name: &'static str, input: OperatorInput, heads: &'static [&'static str]) -> OperatorSpec {
    let keys: &'static [KeySpec] = match name {
        "match" => &[
            KeySpec {
                name: "gallery",
                kind: KeyKind::Folder,
                about: "known faces",
            },
            ITEMS,
        ],
        "detect" => &[
            KeySpec {
                name: "labels",
                kind: KeyKind::Texts,
                about: "classes that are kept",
            },
            LIMIT,
        ],
        "read-text" => &[LIMIT, ITEMS, CUT, ATTRIBUTE],
        _ => &[LIMIT, ITEMS, CUT],
    };
    OperatorSpec {
        name,
        about: "",
        input,
        heads,
        attribute: match name {
            "classify" => Some("class"),
            "match" => Some("embedding"),
            _ => Some("text"),
        },
        counts_tokens: false,
        keys: keys.into(),
    }
}

pub(crate) fn catalog() -> Catalog {
    let street = ModelDefaults {
        head: "yolox".to_owned(),
        settings: Settings(BTreeMap::from([
            (
                "labels".to_owned(),
                Value::Texts(vec!["car".to_owned(), "plate".to_owned()]),
            ),
            ("threshold".to_owned(), Value::Number(0.4)),
        ])),
        lengths: None,
    };
    let yolox = ModelDefaults {
        head: "yolox".to_owned(),
        settings: Settings::default(),
        lengths: None,
    };
    let sink_keys: &[KeySpec] = &[KeySpec {
        name: "path",
        kind: KeyKind::Text,
        about: "the file",
    }];
    Catalog {
        tracker_keys: TRACKER_KEYS,
        operators: vec![
            operator(
                "detect",
                OperatorInput::FrameOrBoxes,
                &["yolox", "yunet", "corners", "auto"],
            ),
            operator("classify", OperatorInput::Boxes, &["classify"]),
            operator("match", OperatorInput::Faces, &["embed"]),
            operator("read-text", OperatorInput::Quads, &["ctc"]),
        ],
        heads: vec![
            head("yolox", HeadOutput::Boxes, &["person", "car", "bicycle"]),
            head("yunet", HeadOutput::Faces, &["face"]),
            head("corners", HeadOutput::Quads, &["plate"]),
            head("classify", HeadOutput::Attribute, &[]),
            head("embed", HeadOutput::Attribute, &[]),
            head("ctc", HeadOutput::Attribute, &[]),
            head("auto", HeadOutput::Boxes, &[]),
        ],
        sinks: vec![
            SinkSpec {
                name: "jsonl",
                about: "",
                keys: sink_keys,
                check: Default::default(),
            },
            SinkSpec {
                name: "null",
                about: "",
                keys: &[],
                check: Default::default(),
            },
        ],
        connection_options: &[
            KeySpec {
                name: "probesize",
                kind: KeyKind::Integer {
                    min: 32,
                    max: 1_000_000,
                },
                about: "",
            },
            KeySpec {
                name: "user_agent",
                kind: KeyKind::Text,
                about: "",
            },
            KeySpec {
                name: "tls_verify",
                kind: KeyKind::Flag,
                about: "",
            },
            KeySpec {
                name: "tls_fingerprint",
                kind: KeyKind::Text,
                about: "",
            },
        ],
        zoo: BTreeMap::from([("yolox-nano".to_owned(), yolox)]),
        embedded: BTreeMap::from([("street-detector".to_owned(), street)]),
        python: None,
    }
}

/// Returns the catalog with a head of models that generate, and an operator that runs them.
pub(crate) fn generating() -> Catalog {
    let mut catalog = catalog();
    catalog.heads.push(HeadSpec {
        name: "generate",
        about: "",
        output: HeadOutput::Attribute,
        classes: &[],
        keys: (&[]).into(),
    });
    catalog.operators.push(OperatorSpec {
        name: "say",
        about: "",
        input: OperatorInput::FrameOrBoxes,
        heads: &["generate"],
        attribute: Some("text"),
        counts_tokens: true,
        keys: (&[]).into(),
    });
    catalog
}

/// The model `reader` in three blocks on one fast device and one slow one, which is too slow for all of it.
fn plan() -> String {
    let class = |name: &str| Class {
        name: name.to_owned(),
        count: 1,
        per_server: 1,
        bandwidth_bps: 1_000_000_000,
        cost: 1.0,
    };
    let times = |class: &str, us: u64| BlockTimes {
        class: class.to_owned(),
        shares: 1,
        batch: vec![1],
        us: vec![vec![us]; 3],
        whole_us: Vec::new(),
    };
    let problem = Problem {
        classes: vec![class("fast"), class("slow")],
        models: vec![ServedModel {
            name: "reader".to_owned(),
            slo: Span::from_millis(60),
            weight: 1.0,
            blocks: Blocks {
                model: "reader".to_owned(),
                layers: vec![0, 4, 9],
                boundary_bytes: vec![1_000, 1_000],
                times: vec![times("fast", 10_000), times("slow", 20_000)],
            },
        }],
        objective: Objective::Throughput,
        scheme: Scheme::Pooled { partitions: 2 },
        margin: 0.1,
        building: 0.0,
        gap: 1e-6,
    };
    let solution = solve(&problem).expect("the problem has a plan");
    planning::plan_text(&Plan { solution, problem }).expect("a plan is a text")
}

/// A folder with `plan.toml`, `crossing.mp4`, `reader.onnx`, `labels.txt`, `profile.toml`, `bad-profile.toml`, traces and `faces/`.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a test folder can be plan_file");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("a test folder can be plan_file")
    };
    write("crossing.mp4", "");
    write("reader.onnx", "");
    write("labels.txt", "tram\nbus\n");
    write("profile.toml", "[durations]\n\"1\" = \"8ms\"\n\"4\" = \"30ms\"\n");
    write(
        "bad-profile.toml",
        "[durations]\none = \"8ms\"\n\"4\" = \"fast\"\n",
    );
    write("day.csv", "# a day\nt_s,rate_rps\n0,1.5\n60,0\n120,4\n");
    write("bad-day.csv", "t_s,rate_rps\n0,1.5\n60,many\n");
    write("silent.csv", "t_s,rate_rps\n0,0\n60,0\n");
    write("plan.toml", &plan());
    std::fs::create_dir(folder.path().join("faces")).expect("a test folder can be written");
    folder
}

pub(crate) fn environment(name: &str) -> Option<String> {
    match name {
        "CAMERA" => Some("rtsp://cam".to_owned()),
        "CLIP" => Some("crossing.mp4".to_owned()),
        _ => None,
    }
}

/// Reads a graph that stands in a folder of its own as `graph.toml`.
pub(crate) fn read(toml: &str) -> Result<Graph, ConfigError> {
    let folder = folder();
    parse(
        toml,
        &PathBuf::from(folder.path()).join("graph.toml"),
        &catalog(),
        &environment,
    )
}

/// Checks that exactly these problems are reported, each given as `line: part of its text or hint`.
#[track_caller]
pub(crate) fn check(toml: &str, expected: &[&str]) {
    let got: Vec<String> = match read(toml) {
        Ok(_) => Vec::new(),
        Err(problems) => problems
            .iter()
            .map(|problem| {
                let hint = problem.hint.as_deref().unwrap_or_default();
                format!("{}: {} | {hint}", problem.line, problem.message)
            })
            .collect(),
    };
    let fits = |(got, expected): (&String, &&str)| {
        let (line, part) = expected.split_once(": ").expect("expectations are `line: part`");
        got.starts_with(&format!("{line}: ")) && got.contains(part)
    };
    let all = got.len() == expected.len() && got.iter().zip(expected).all(fits);
    let numbered: Vec<String> = toml
        .lines()
        .enumerate()
        .map(|(at, line)| format!("{:3} {line}", at + 1))
        .collect();
    assert!(
        all,
        "expected {expected:#?}\ngot {got:#?}\nof\n{}",
        numbered.join("\n")
    );
}

/// As [`check`], of the valid graph with one part of it put otherwise.
#[track_caller]
pub(crate) fn check_with(part: &str, other: &str, expected: &[&str]) {
    assert!(VALID.contains(part), "the valid graph has no {part}");
    check(&VALID.replacen(part, other, 1), expected);
}

/// A graph without problems.
pub(crate) fn graph(text: &str) -> Graph {
    match read(text) {
        Ok(graph) => graph,
        Err(problems) => panic!("{problems}"),
    }
}
