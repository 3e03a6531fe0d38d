//! Predictors of the lengths of texts: nets of a model, or a declared error on emulated devices.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_flow::ModelDefaults;
use weir_graph::{Catalog, Graph, LengthPredictor, parse};
use weir_policy::generate::LengthSource;

use crate::common::{environment, folder, generating};

/// One kind of tokens; both say what a bias says.
const NETS: &str = r#"{"kinds": [[3, 4]], "single": [{"weights": [0, 0], "biases": [3]}],
    "experts": {"gate": [{"weights": [0, 0], "biases": [0]}], "experts": [[{"weights": [0, 0], "biases": [2]}]]}}"#;

/// With models that generate: one that ships with nets, and one without.
fn catalog() -> Catalog {
    let mut catalog = generating();
    for (name, lengths) in [("with", Some(NETS)), ("without", None)] {
        let defaults = ModelDefaults {
            head: "generate".to_owned(),
            lengths,
            ..ModelDefaults::default()
        };
        catalog.embedded.insert(name.to_owned(), defaults);
    }
    catalog
}

/// A graph whose model has these keys, from line 7 on; `nets.json` is beside it.
fn read(length: &str, model: &str, nets: &str) -> Result<Graph, String> {
    let folder = folder();
    std::fs::write(folder.path().join("nets.json"), nets).unwrap();
    let text = format!(
        "[app]\nslo = \"1s\"\n[policy]\nlength = \"{length}\"\n[sources.a]\nuri = \"emulated:uniform?rate=1\"\n[models.m]\n\
         {model}\n[modules.r]\noperator = \"say\"\nmodel = \"m\"\ninputs = [\"a\"]\n"
    );
    let path = folder.path().join("graph.toml");
    parse(&text, &path, &catalog(), &environment).map_err(|problems| problems.to_string())
}

const OWN: &str = "model = \"reader.onnx\"\nhead = \"generate\"\nlengths = \"nets.json\"";
const EMULATED: &str = "device = \"emulated:a\"\nhead = \"generate\"\nprofile = { \"1\" = \"1ms\" }";

#[test]
fn nets_ship_with_a_model_or_are_in_a_file_and_emulated_models_declare_an_error() {
    for model in ["model = \"embedded:with\"", OWN] {
        let graph = read("experts", model, NETS).unwrap_or_else(|problems| panic!("{problems}"));
        let Some(LengthPredictor::Nets(nets)) = &graph.models()[0].predictor else {
            panic!("{model} has no nets");
        };
        let lengths = [LengthSource::Experts, LengthSource::Single].map(|by| nets.predict(by, &[3, 9]));
        assert_eq!(lengths, [Some(7), Some(20)], "{model}");
    }
    let graph = read("single", &format!("{EMULATED}\nlength_error = 0.3"), "").unwrap();
    let predictor = &graph.models()[0].predictor;
    assert_eq!(*predictor, Some(LengthPredictor::Emulated { error: 0.3 }));
    for length in ["mean", "history", "stream"] {
        let graph = read(length, "model = \"embedded:without\"", "").unwrap();
        assert_eq!(graph.models()[0].predictor, None);
    }
}

#[test]
fn a_model_without_a_prediction_is_one_clear_error() {
    let refused = |length: &str, model: &str, expected: &[&str]| {
        let problems = read(length, model, NETS).expect_err(model);
        for expected in expected {
            assert!(problems.contains(expected), "{problems}");
        }
    };
    for length in ["experts", "single"] {
        let says =
            format!("length = \"{length}\" of [policy] predicts lengths with nets, and model \"m\" has none");
        refused(
            length,
            "model = \"embedded:without\"",
            &[&says, "lengths = \"FILE.json\"", ":7"],
        );
        refused(length, EMULATED, &[&says, "length_error = 0.3"]);
    }
    let emulated = |more: &str| format!("{EMULATED}\n{more}");
    refused(
        "mean",
        &emulated("lengths = \"nets.json\""),
        &["`lengths` of model \"m\" is for models that run"],
    );
    refused(
        "mean",
        &emulated("length_error = -1"),
        &["`length_error`", "a number from 0 to 2"],
    );
    refused(
        "mean",
        &format!("{OWN}\nlength_error = 0.1"),
        &["`length_error` of model \"m\" is for emulated devices"],
    );
    let missing = OWN.replace("nets.json", "net.json");
    refused(
        "mean",
        &missing,
        &["`lengths`: there is no file \"net.json\"", "nets.json"],
    );
}

#[test]
fn a_file_that_is_none_is_one_clear_error() {
    for (from, to, expected) in [
        ("[3, 4]", "[3, 3]", "token 3 is listed twice"),
        (
            "[[3, 4]]",
            "[[3], [4]]",
            "2 kinds of tokens and their sum are 3 numbers, and the nets take 2",
        ),
        (
            "\"biases\": [3]",
            "\"biases\": []",
            "a net has at least one layer",
        ),
        ("\"single\"", "\"singel\"", "unknown field `singel`"),
        (NETS, "no nets", "expected ident"),
    ] {
        let problems = read("experts", OWN, &NETS.replacen(from, to, 1)).expect_err(to);
        for expected in [expected, "nets.json", ":10", "lengths.py"] {
            assert!(problems.contains(expected), "{to}: {problems}");
        }
    }
}
