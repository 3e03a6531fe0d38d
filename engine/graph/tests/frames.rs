//! `items = "frame"`: what a module whose items are whole frames needs, and what it may not say.

use weir_flow::{KeyKind, KeySpec, SinkCheck, SinkSpec, Value};
use weir_graph::parse;

use crate::common::{VALID, catalog, check, check_with, environment, folder, read};

#[test]
fn whole_frames_need_nothing_upstream_and_go_with_no_regions() {
    let plates = "inputs = [\"detect\"]\nregions = [\"plate\"]";
    let with = |lines: &str, expected: &[&str]| check_with(plates, lines, expected);
    with("inputs = [\"north\"]\nitems = \"frame\"", &[]);
    with("inputs = [\"detect\"]\nitems = \"frame\"", &[]);
    with("inputs = [\"north\"]\nregions = []\nitems = \"frame\"", &[]);
    let both = "38: module \"plates\" has both `items` and `regions`: its items are whole frames, or crops of objects \
                | leave out `items` for crops, `regions` for whole frames";
    with(
        "inputs = [\"detect\"]\nregions = [\"plate\"]\nitems = \"frame\"",
        &[both],
    );
    with(
        "inputs = [\"north\"]\nregions = [\"plate\"]\nitems = \"frame\"",
        &[both],
    );
    // The intended word is unknown, so a missing source of corners is not reported: that would be a guess.
    with(
        "inputs = [\"north\"]\nitems = \"frames\"",
        &["38: `items` cannot be \"frames\" | did you mean \"frame\"?"],
    );
    with(
        "inputs = [\"north\"]\nitems = \"crops\"",
        &["38: `items` cannot be \"crops\" | one of: frame"],
    );
    with("inputs = [\"north\"]\nitems = 1", &["38: `items` must be a text"]);
    with(
        "inputs = [\"north\"]\nitem = \"frame\"",
        &["38: no key \"item\" | did you mean \"items\"?"],
    );
    with(
        "inputs = [\"north\"]",
        &["35: ; for whole frames, such as a folder of crops: items = \"frame\""],
    );
    for (operator, model) in [("match", "embed"), ("classify", "classify")] {
        let module =
            format!("operator = \"{operator}\"\nmodel = \"m\"\ninputs = [\"north\"]\nitems = \"frame\"");
        let plates = format!("operator = \"read-text\"\nmodel = \"reader\"\n{plates}");
        let model = format!("[models.m]\nmodel = \"reader.onnx\"\nhead = \"{model}\"\n");
        check(&(VALID.replacen(&plates, &module, 1) + &model), &[]);
    }
}

#[test]
fn keys_of_crops_beside_whole_frames_are_warned_of() {
    let toml = VALID.replace(
        "regions = [\"plate\"]",
        "items = \"frame\"\ncut = \"square\"\nlimit = 3",
    );
    let graph = read(&toml).expect("no problems");
    let module = graph.modules().iter().find(|module| module.name == "plates");
    let module = module.expect("it is there");
    assert!(module.settings.takes_frames() && module.regions.is_empty());
    let [warning] = graph.warnings() else {
        panic!("{:?}", graph.warnings())
    };
    assert_eq!(warning.line, 38);
    assert_eq!(
        warning.message,
        "module \"plates\" takes whole frames, which leaves `cut` without effect"
    );
}

#[test]
fn sinks_of_transforms_alone_leave_frames_out_unless_they_ask_for_them() {
    const TABLES: &str = r#"
[modules.tracks]
operator = "track"
inputs = ["detect"]
[transforms.yard]
type = "zone"
inputs = ["tracks"]
points = [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9]]
"#;
    let with_frames: [(&str, Option<bool>); 7] = [
        ("inputs = [\"yard\"]", Some(false)),
        ("inputs = [\"*\"]", Some(false)),
        ("inputs = [\"yard\"]\nframes = true", Some(true)),
        ("inputs = [\"tracks\", \"yard\"]", None),
        ("inputs = [\"detect\", \"*\"]", None),
        ("inputs = [\"north\"]", None),
        ("inputs = [\"tracks\"]\nframes = false", Some(false)),
    ];
    let mut catalog = catalog();
    catalog.sinks.push(SinkSpec {
        name: "lines",
        about: "",
        keys: &[KeySpec {
            name: "frames",
            kind: KeyKind::Flag,
            about: "whether there are lines of frames",
        }],
        check: SinkCheck::default(),
    });
    for (keys, expected) in with_frames {
        let text = format!("{VALID}{TABLES}[sinks.found]\ntype = \"lines\"\n{keys}\n");
        let folder = folder();
        let graph = parse(&text, &folder.path().join("graph.toml"), &catalog, &environment);
        let graph = graph.unwrap_or_else(|problems| panic!("{keys}: {problems}"));
        let settings = |name: &str| {
            let sink = graph.sinks().iter().find(|sink| sink.name == name);
            let frames = sink.and_then(|sink| sink.settings.0.get("frames"));
            frames.cloned()
        };
        assert_eq!(settings("found"), expected.map(Value::Flag), "{keys}");
        assert_eq!(settings("events"), None, "a sink without the key is left alone");
    }
}
