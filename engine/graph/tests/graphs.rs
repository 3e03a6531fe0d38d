//! The contents of a checked graph, the paths through it, and its drawings.

use std::collections::BTreeSet;

use weir_flow::Value;
use weir_graph::{
    DeviceClass, Graph, ModelOrigin, SourceMode, SourceNode, Successor, Vertex, WhenSlow, bare_execution,
    load,
};
use weir_policy::Order;
use weir_types::Span;

use crate::common::{VALID, catalog, environment, read};

/// Two branches of unlike length that meet again, and a second source beside them.
const DIAMOND: &str = r#"
[app]
slo = "1s"
[sources.a]
uri = "emulated:uniform?rate=1"
[sources.b]
uri = "emulated:uniform?rate=1"
mode = "lossless"
loop = true
[models.m]
device = "emulated:t4"
profile = { "1" = "8ms", "2" = "12ms" }
batch = [1, 2]
[modules.join]
operator = "emulate"
model = "m"
inputs = ["short", "long-2"]
[modules.long-2]
operator = "emulate"
model = "m"
inputs = ["long-1"]
[modules.long-1]
operator = "emulate"
model = "m"
inputs = ["first"]
[modules.short]
operator = "emulate"
model = "m"
inputs = ["first"]
weight = 2
[modules.first]
operator = "emulate"
model = "m"
inputs = ["a"]
[modules.other]
operator = "emulate"
model = "m"
inputs = ["b", "a"]
[sinks.out]
type = "null"
inputs = ["join", "other"]
when_slow = "skip"
"#;

fn graph(toml: &str) -> Graph {
    read(toml).unwrap_or_else(|problems| panic!("{problems}"))
}

fn index(graph: &Graph, name: &str) -> usize {
    graph
        .modules()
        .iter()
        .position(|module| module.name == name)
        .expect("a module of that name")
}

fn set(graph: &Graph, names: &[&str]) -> BTreeSet<usize> {
    names.iter().map(|name| index(graph, name)).collect()
}

#[test]
fn all_tables_of_a_valid_graph_are_read() {
    let graph = graph(VALID);
    assert_eq!((graph.name(), graph.slo()), ("traffic", Span::from_millis(400)));
    assert_eq!(graph.policy().order, Some(Order::Adaptive));
    let north = &graph.sources()[0];
    assert!(
        north.uri.starts_with('/') && north.uri.ends_with("/crossing.mp4"),
        "{}",
        north.uri
    );
    assert_eq!(
        (north.mode, graph.sources()[1].fps),
        (SourceMode::Live, Some(12.5))
    );
    assert_eq!(graph.sources()[1].uri, "rtsp://user:secret@camera/stream?x=1");
    assert_eq!(
        (&graph.devices()[0].class, graph.devices()[0].slot_count(8)),
        (&DeviceClass::Cpu, 2)
    );
    let detector = &graph.models()[0];
    assert_eq!(
        detector.origin,
        ModelOrigin::Embedded("street-detector".to_owned())
    );
    assert_eq!(
        (detector.head.as_deref(), detector.workers),
        (Some("yolox"), Some(2))
    );
    assert_eq!(detector.batch, [1, 2, 4]);
    assert_eq!(detector.settings.number("threshold", 0.0), 0.4);
    assert_eq!(graph.models()[1].batch, [1]);
    assert_eq!(graph.modules()[0].inputs, [Vertex::Source(0), Vertex::Source(1)]);
    assert_eq!(graph.modules()[1].regions, ["plate"]);
    let sink = &graph.sinks()[0];
    assert!(sink.settings.text("path").unwrap().ends_with("/out/events.jsonl"));
    assert_eq!(
        (sink.when_slow, &sink.inputs[..]),
        (WhenSlow::Wait, &[Vertex::Module(0), Vertex::Module(1)][..])
    );
    assert_eq!(graph.warnings(), []);
}

/// The example of the design, with the table that it leaves out.
#[test]
fn the_example_of_the_design_is_a_graph() {
    let toml = r#"
[app]
name = "traffic-monitoring"
slo  = "400ms"

[policy]                                  # optional, these are the defaults
drop  = { rule = "pard", quantile = 0.1, window = "5s" }
order = "adaptive"

[sources.north]
uri  = "../../videos/crossing.mp4"        # file, rtsp://, http(s)://, /dev/video0, a folder of images
mode = "live"

[devices.cpu]                             # optional: cpu with one slot a core is the default
slots = 2

[models.detector]
model   = "embedded:street-detector"      # or "zoo:yolox-nano", or a path to an .onnx
device  = "cpu"                           # cuda:0, emulated:t4
batch   = [1, 2, 4]
workers = 2                               # on how many of the device's slots it is placed; all by default

[models.plate-reader]
model = "plates.onnx"
head  = "ctc"

[modules.detect]
operator = "detect"
model    = "detector"
inputs   = ["north"]

[modules.plates]
operator = "read-text"
model    = "plate-reader"
inputs   = ["detect"]
regions  = ["plate"]                      # this module's items: the crops of these classes

[sinks.events]
type   = "jsonl"
path   = "out/events.jsonl"
inputs = ["detect", "plates"]
"#;
    let folder = tempfile::tempdir().unwrap();
    let app = folder.path().join("apps/traffic");
    std::fs::create_dir_all(&app).unwrap();
    std::fs::create_dir_all(folder.path().join("videos")).unwrap();
    std::fs::write(folder.path().join("videos/crossing.mp4"), "").unwrap();
    std::fs::write(app.join("plates.onnx"), "").unwrap();
    let path = app.join("graph.toml");
    std::fs::write(&path, toml).unwrap();
    let graph = load(&path, &catalog(), &environment).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(graph.policy().summary(), "pard");
    assert!(std::path::Path::new(&graph.sources()[0].uri).exists());
    assert_eq!(graph.warnings(), []);
}

#[test]
fn settings_of_the_graph_override_those_of_the_zoo() {
    let graph = graph(&VALID.replace("workers = 2", "threshold = 0.7"));
    assert_eq!(graph.models()[0].settings.number("threshold", 0.0), 0.7);
    assert!(matches!(graph.models()[0].settings.0["labels"], Value::Texts(_)));
}

#[test]
fn modules_are_in_topological_order() {
    let graph = graph(DIAMOND);
    let names: Vec<&str> = graph
        .modules()
        .iter()
        .map(|module| module.name.as_str())
        .collect();
    assert_eq!(names, ["first", "long-1", "long-2", "short", "join", "other"]);
    assert_eq!(graph.name(), "graph");
    assert_eq!(graph.devices()[0].class, DeviceClass::Emulated("t4".to_owned()));
    assert_eq!(graph.models()[0].origin, ModelOrigin::Emulated);
    assert_eq!(graph.modules()[index(&graph, "short")].weight, 2.0);
    for (place, module) in graph.modules().iter().enumerate() {
        let before = |vertex: &Vertex| !matches!(vertex, Vertex::Module(input) if *input >= place);
        assert!(module.inputs.iter().all(before), "{}", module.name);
    }
}

#[test]
fn successors_ancestors_and_paths_of_a_graph() {
    let graph = graph(DIAMOND);
    let at = |name: &str| index(&graph, name);
    assert_eq!(graph.entry_modules(0), [at("first"), at("other")]);
    assert_eq!(graph.reachable_from(1), set(&graph, &["other"]));
    assert_eq!(graph.reachable_from(0).len(), 6);
    assert_eq!(
        graph.ancestors(at("join")),
        set(&graph, &["first", "short", "long-1", "long-2"])
    );
    assert_eq!(
        graph.successors(Vertex::Module(at("first"))),
        [Successor::Module(at("long-1")), Successor::Module(at("short"))]
    );
    assert_eq!(graph.successors(Vertex::Module(at("join"))), [Successor::Sink(0)]);
    let ways = [
        vec![at("long-1"), at("long-2"), at("join")],
        vec![at("short"), at("join")],
    ];
    assert_eq!(graph.paths(Vertex::Module(at("first"))), ways);
    assert_eq!(graph.paths(Vertex::Module(at("join"))), [Vec::<usize>::new()]);
}

#[test]
fn the_bare_execution_is_the_critical_path() {
    let graph = graph(DIAMOND);
    let millis = |name: &str| match name {
        "first" => 1,
        "long-1" => 2,
        "long-2" => 3,
        "short" => 4,
        "join" => 5,
        _ => 9,
    };
    let durations: Vec<Span> = graph
        .modules()
        .iter()
        .map(|module| Span::from_millis(millis(&module.name)))
        .collect();
    assert_eq!(bare_execution(&graph, &durations), Span::from_millis(11));
    assert_eq!(bare_execution(&graph, &[]), Span::ZERO);
}

#[test]
fn streams_replace_sources_in_turn() {
    let graph = graph(DIAMOND);
    let (first, other) = (index(&graph, "first"), index(&graph, "other"));
    let stream = |name: &str| SourceNode {
        name: name.to_owned(),
        ..graph.sources()[0].clone()
    };
    let five = graph
        .clone()
        .with_streams(["p", "q", "r", "s", "t"].map(stream).to_vec());
    let sources = |numbers: &[usize]| numbers.iter().copied().map(Vertex::Source).collect::<Vec<_>>();
    assert_eq!(five.sources().len(), 5);
    assert_eq!(five.modules()[first].inputs, sources(&[0, 2, 4]));
    assert_eq!(five.modules()[other].inputs, sources(&[1, 3, 0, 2, 4]));
    let one = graph.clone().with_streams(vec![stream("p")]);
    assert_eq!(one.modules()[other].inputs, sources(&[0]));
}

#[test]
fn likely_mistakes_are_warnings() {
    let toml = format!(
        "{VALID}[models.unused]\nmodel = \"reader.onnx\"\nhead = \"ctc\"\ndevice = \"cuda:0\"\n\
         [sources.east]\nuri = \"rtsp://east\"\n[devices.\"cuda:0\"]\nslots = 4\n"
    )
    .replace(
        "inputs = [\"detect\", \"plates\"]",
        "inputs = [\"detect\", \"detect\"]",
    );
    let graph = graph(&toml);
    let warnings: Vec<String> = graph
        .warnings()
        .iter()
        .map(|warning| format!("{}: {}", warning.line, warning.message))
        .collect();
    assert_eq!(
        warnings,
        [
            "34: nothing takes what module \"plates\" finds",
            "43: `inputs` names \"detect\" twice",
            "44: no module uses model \"unused\"",
            "48: no module or sink uses the frames of source \"east\"",
        ]
    );
    assert_eq!((graph.models().len(), graph.devices().len()), (2, 1));
}

#[test]
fn sources_whose_certificates_are_not_verified_are_warned_of() {
    for (uri, options, is_warned) in [
        ("rtsps://camera", "tls_verify = false", true),
        ("HTTPS://camera", "tls_verify = false", true),
        ("rtsps://camera", "tls_verify = true", false),
        (
            "rtsps://camera",
            "tls_verify = false, tls_fingerprint = \"x\"",
            false,
        ),
        ("rtsp://camera", "tls_verify = false", false),
    ] {
        let source = format!("[sources.east]\nuri = \"{uri}\"\noptions = {{ {options} }}\n");
        let toml = format!("{VALID}{source}").replace("inputs = [\"north\"", "inputs = [\"east\", \"north\"");
        let graph = graph(&toml);
        let warned = graph.warnings().iter().any(|warning| {
            warning
                .message
                .contains("source \"east\" does not verify the certificate")
        });
        assert_eq!(warned, is_warned, "{uri} {options}: {:?}", graph.warnings());
    }
}

#[test]
fn a_graph_is_drawn_as_mermaid() {
    let expected = r#"flowchart LR
    s0(["<b>north</b><br/>crossing.mp4<br/>live"]):::source
    s1(["<b>south</b><br/>rtsp://camera/stream<br/>live"]):::source
    m0["<b>detect</b><br/>detect: detector<br/>cpu, batch 1/2/4"]:::module
    m1["<b>plates</b><br/>read-text: reader<br/>of plate<br/>cpu, batch 1"]:::module
    k0[/"<b>events</b><br/>jsonl<br/>events.jsonl"/]:::sink
    s0 --> m0
    s1 --> m0
    m0 --> m1
    m0 --> k0
    m1 --> k0
    classDef source fill:#e3f2fd,stroke:#1565c0,color:#0d2f4f
    classDef module fill:#fff8e1,stroke:#ef6c00,color:#4a2a00
    classDef sink fill:#e8f5e9,stroke:#2e7d32,color:#12351a
"#;
    assert_eq!(graph(VALID).to_mermaid(), expected);
}

#[test]
fn a_graph_is_drawn_as_dot() {
    let graph = graph(&VALID.replace("name = \"traffic\"", "name = 'a \"b\" \\'"));
    let dot = graph.to_dot();
    assert!(
        dot.starts_with("digraph \"a \\\"b\\\" \\\\\" {\n    rankdir=LR;\n"),
        "{dot}"
    );
    assert!(
        dot.contains("    m1 [label=\"plates\\nread-text: reader\\nof plate\\ncpu, batch 1\", shape=box,"),
        "{dot}"
    );
    assert!(dot.contains("    m0 -> k0;\n") && dot.ends_with("}\n"), "{dot}");
}

#[test]
fn reserves_beyond_a_device_are_a_warning() {
    let warnings = |reserve: &str| {
        // 8 ms alone, 20 ms for four: 200 a second on the one slot that is declared.
        let toml = VALID
            .replace(
                "mode = \"live\"",
                &format!("mode = \"live\"\nreserve = {reserve}"),
            )
            .replace("workers = 2", "profile = { \"1\" = \"8ms\", \"4\" = \"20ms\" }")
            .replace("slots = 2", "slots = 1");
        let warnings = graph(&toml).warnings().to_vec();
        let reserves = warnings
            .iter()
            .filter(|warning| warning.message.contains("reserve"));
        reserves
            .map(|warning| (warning.line, warning.message.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(warnings("190"), []);
    let expected = "the sources reserve 125 % of the capacity of device \"cpu\" by the declared profiles";
    assert_eq!(warnings("250"), [(12, expected.to_owned())]);
}

#[test]
fn planned_order_of_modules_that_follow_each_other_is_a_warning() {
    let warned = |queues: &str, memory: &str| -> Vec<(usize, String)> {
        let toml = VALID
            .replace("order = \"adaptive\"", &format!("order = \"adaptive\"\n{queues}"))
            .replace("slots = 2", &format!("slots = 2\n{memory}"));
        let warnings = graph(&toml).warnings().to_vec();
        let of_queues = warnings
            .iter()
            .filter(|warning| warning.message.contains("queues"));
        of_queues
            .map(|warning| (warning.line, warning.message.clone()))
            .collect()
    };
    let memory = "memory = \"96MiB\"";
    for queues in ["virtual", "shepherd"] {
        let expected = "planned `queues` order the work of each module by itself, and module \"plates\" follows \"detect\" on \
                        device \"cpu\": they start work that later modules have no time to finish";
        let warnings = warned(&format!("queues = \"{queues}\""), memory);
        assert_eq!(warnings, [(5, expected.to_owned())]);
    }
    for queues in ["", "queues = \"sticky\"", "queues = \"edf\""] {
        assert_eq!(warned(queues, memory), [], "{queues}");
    }
}

#[test]
fn drawings_are_escaped() {
    let stream = SourceNode::new("<b>\"x\"#\n`", "a\\b");
    let graph = graph(VALID).with_streams(vec![stream]);
    assert!(
        graph
            .to_mermaid()
            .contains("([\"<b>#lt;b#gt;#quot;x#quot;#35; #96;</b>"),
        "{}",
        graph.to_mermaid()
    );
    assert!(
        graph
            .to_dot()
            .contains("label=\"<b>\\\"x\\\"# `\\na\\\\b\\nlive\""),
        "{}",
        graph.to_dot()
    );
}

#[test]
fn an_empty_path_counts_as_absent() {
    let without = graph(VALID);
    let empty = graph(&VALID.replace("workers = 2", "workers = 2\nlabels = \"${NOT_SET:-}\""));
    assert_eq!(empty.models()[0].settings, without.models()[0].settings);
}

/// The file of a detector says which head reads it.
#[test]
fn a_file_without_a_head_is_a_detector_whose_head_is_found() {
    let own = VALID.replace("embedded:street-detector", "reader.onnx");
    let graph = read(&own).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(graph.models()[0].head.as_deref(), Some("auto"));
}
