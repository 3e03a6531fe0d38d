//! Operators in Python: the model that stands for one, and the folder that it is in.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::Path;

use weir_analytics::transforms::TransformKind;
use weir_flow::{
    HeadOutput, HeadSpec, KeyKind, KeySpec, OperatorInput, OperatorSpec, PYTHON_FUNCTION, PythonPlace,
    Settings, SinkSpec,
};
use weir_graph::{Catalog, Graph, ModelOrigin};
use weir_types::Span;

use crate::common::catalog;

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "max_batch",
        kind: KeyKind::Integer { min: 1, max: 256 },
        about: "",
    },
    KeySpec {
        name: "workers",
        kind: KeyKind::Integer { min: 1, max: 64 },
        about: "",
    },
    KeySpec {
        name: "memory",
        kind: KeyKind::Bytes,
        about: "",
    },
    KeySpec {
        name: "device",
        kind: KeyKind::Text,
        about: "",
    },
];

fn python_catalog(folder: &Path) -> Catalog {
    let mut catalog = catalog();
    catalog.python = Some(folder.canonicalize().unwrap());
    catalog.operators.push(OperatorSpec {
        name: PYTHON_FUNCTION,
        about: "",
        input: OperatorInput::FrameOrBoxes,
        heads: &[],
        attribute: None,
        counts_tokens: false,
        keys: KEYS.into(),
    });
    catalog
}

fn parse(keys: &str, folder: &Path) -> Result<Graph, String> {
    let text = format!(
        "[app]\nslo = \"1s\"\n[sources.camera]\nuri = \"emulated:uniform?rate=10\"\n\
         [modules.first]\ninputs = [\"camera\"]\n{keys}\n"
    );
    let path = folder.join("graph.toml");
    let graph = weir_graph::parse(&text, &path, &python_catalog(folder), &|_| None);
    graph.map_err(|error| error.to_string())
}

#[test]
fn python_operator_becomes_the_model_of_its_module() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    std::fs::write(folder.path().join("inner/look.py"), "").unwrap();
    let keys = "operator = \"python:inner.look.find\"\nmax_batch = 6\nworkers = 2\nmemory = \"1GiB\"";
    let graph = parse(keys, folder.path()).unwrap();
    let module = &graph.modules()[0];
    assert_eq!(module.operator, "python:inner.look.find");
    let model = &graph.models()[module.model];
    let ModelOrigin::Python(node) = &model.origin else {
        panic!("{:?}", model.origin)
    };
    assert_eq!(
        (&*node.place.module, &*node.place.function),
        ("inner.look", "find")
    );
    assert_eq!((node.timeout, node.memory), (Span::from_secs(10), Some(1 << 30)));
    assert!(!node.crops);
    assert_eq!((&model.batch[..], model.workers), (&[1, 2, 4, 6][..], Some(2)));
    assert_eq!(graph.devices()[model.device].name, "cpu");
}

#[test]
fn python_operators_outside_their_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("allowed")).unwrap();
    std::fs::write(folder.path().join("outside.py"), "").unwrap();
    let allowed = folder.path().join("allowed");
    std::os::unix::fs::symlink(folder.path().join("outside.py"), allowed.join("link.py")).unwrap();
    for name in ["outside.find", "link.find", "os.system"] {
        let error = parse(&format!("operator = \"python:{name}\""), &allowed).unwrap_err();
        assert!(error.contains("there is no Python module"), "{name}: {error}");
    }
    for name in ["../outside.find", "find", ".find", "a..find", "a b.find", ""] {
        let error = parse(&format!("operator = \"python:{name}\""), &allowed).unwrap_err();
        assert!(
            error.contains("is no function of a Python module"),
            "{name}: {error}"
        );
    }
}

#[test]
fn python_operator_has_no_model_and_runs_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.py"), "").unwrap();
    for (key, says) in [
        ("model = \"m\"", "has no `model`"),
        (
            "cascade = [{ model = \"a\", certainty = 0.5 }, { model = \"b\" }]",
            "has no `cascade`",
        ),
        ("device = \"emulated:t4\"", "operators in Python run on \"cpu\""),
        ("workers = 65", "`workers` must lie between"),
    ] {
        let error = parse(&format!("operator = \"python:mine.find\"\n{key}"), folder.path()).unwrap_err();
        assert!(error.contains(says), "{key}: {error}");
    }
    assert!(
        parse(
            "operator = \"python:mine.find\"\ndevice = \"cpu:own\"",
            folder.path()
        )
        .is_ok()
    );
}

const TABLES: &str = r#"
[models.any]
model = "any.onnx"
head = "python:mine.head"
[modules.second]
operator = "detect"
model = "any"
inputs = ["camera"]
[transforms.rule]
type = "python:inner.rules.Rule"
inputs = ["first"]
[sinks.own]
type = "python:mine.keep"
inputs = ["first", "rule"]
"#;

/// A catalog with heads and sinks in Python, too.
fn whole_catalog(folder: &Path) -> Catalog {
    let mut catalog = python_catalog(folder);
    let mut operators = catalog.operators.iter_mut();
    operators
        .find(|operator| operator.name == "detect")
        .unwrap()
        .heads = &[PYTHON_FUNCTION];
    catalog.heads.push(HeadSpec {
        name: PYTHON_FUNCTION,
        about: "",
        output: HeadOutput::Boxes,
        classes: &[],
        keys: (&[]).into(),
    });
    catalog.sinks.push(SinkSpec {
        name: PYTHON_FUNCTION,
        about: "",
        keys: &[],
        check: Default::default(),
    });
    catalog
}

#[test]
fn places_of_python_heads_transforms_and_sinks_are_in_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    for file in ["mine.py", "inner/rules.py", "any.onnx"] {
        std::fs::write(folder.path().join(file), "").unwrap();
    }
    let text = format!(
        "[app]\nslo = \"1s\"\n[sources.camera]\nuri = \"emulated:uniform?rate=10\"\n\
         [modules.first]\noperator = \"python:mine.find\"\ninputs = [\"camera\"]\n{TABLES}"
    );
    let path = folder.path().join("graph.toml");
    let parse = |catalog: &Catalog| weir_graph::parse(&text, &path, catalog, &|_| None);
    let graph = parse(&whole_catalog(folder.path())).unwrap();
    let named = |settings: &Settings| {
        let place = PythonPlace::of(settings).unwrap();
        assert_eq!(place.folder, folder.path().canonicalize().unwrap());
        place.name()
    };
    let model = graph.models().iter().find(|model| model.name == "any").unwrap();
    assert_eq!(named(&model.settings), "python:mine.head");
    assert_eq!(model.head.as_deref(), Some(PYTHON_FUNCTION));
    let TransformKind::Python(settings) = &graph.transforms()[0].spec.kind else {
        panic!("{:?}", graph.transforms()[0].spec)
    };
    assert_eq!(named(settings), "python:inner.rules.Rule");
    assert_eq!(named(&graph.sinks()[0].settings), "python:mine.keep");
    let forbidden = Catalog {
        python: None,
        ..whole_catalog(folder.path())
    };
    let error = parse(&forbidden).unwrap_err().to_string();
    for owner in ["the head of model", "the type of transform", "the type of sink"] {
        assert!(error.contains(owner), "{owner}: {error}");
    }
}
