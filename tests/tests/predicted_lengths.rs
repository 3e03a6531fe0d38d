//! Lengths of texts that are predicted beside the policy, live: they come into it as numbers, and are closer than the mean.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test says what it finds")]

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{
    Frame, Generated, GenerativeModel, Inference, Item, Model, ModuleOutput, Operator, RequestResults,
    SequenceSpec, Settings, Value,
};
use weir_operators::{LoadRequest, ModelFile, OperatorRequest, RuntimeLibraryError};
use weir_truth::Truth;
use weir_truth::report::Scene;

use crate::common::{Parts, assemble, at_own_pace, graph, run, whole_catalog};

/// Mean difference between expected and actual lengths of a run, which is decided the same again by its event log; and
/// whether predictions are in the log.
fn length_error(text: &str, parts: Parts, delivered: u64) -> (f64, bool) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    let report = run(
        assemble(graph(text, &whole_catalog()), parts),
        &at_own_pace(Some(&log)),
    );
    assert_eq!(report.requests.delivered, delivered, "{:?}", report.requests);
    let verified = weir_runtime::verify(&log).unwrap_or_else(|error| panic!("{error}"));
    assert!(verified.steps > 0);
    let log = std::fs::read_to_string(&log).unwrap();
    let mut predictions = log.split("\"predicted\":[").skip(1);
    let is_predicted = predictions.any(|after| !after.starts_with(']'));
    let sequences = report.modules["report"].sequences.clone().unwrap();
    (sequences.length_error_mean, is_predicted)
}

#[test]
fn emulated_models_are_predicted_as_far_off_as_they_declare() {
    let error_of = |length: &str, error: f64| {
        let text = format!(
            r#"
            [app]
            name = "emulated"
            slo = "30s"
            [policy]
            length = "{length}"
            [sources.camera]
            uri = "emulated:poisson?rate=200&frames=200&seed=5"
            mode = "lossless"
            [models.scribe]
            device = "emulated:a"
            head = "generate"
            profile = {{ "1" = "1ms", "64" = "2ms" }}
            max_sequences = 32
            length_error = {error}
            [devices."emulated:a"]
            slots = 1
            [modules.report]
            operator = "describe"
            model = "scribe"
            inputs = ["camera"]
            max_tokens = 40
            "#
        );
        length_error(&text, Parts::default(), 200)
    };
    let mean = error_of("mean", 0.3);
    let [exact, near, far] = [0.0, 0.1, 0.4].map(|error| error_of("experts", error));
    println!("mean {mean:?}, predicted {exact:?}, {near:?}, {far:?}");
    assert!(!mean.1 && exact.1 && near.1 && far.1);
    assert_eq!(exact.0, 0.0);
    assert!(0.5 < near.0 && near.0 < far.0 && far.0 < mean.0);
    assert_eq!(
        error_of("single", 0.1).0,
        near.0,
        "nothing but the numbers counts"
    );
}

#[test]
fn shared_beginnings_and_later_predictions_are_decided_the_same_again() {
    let text = r#"
        [app]
        name = "emulated"
        slo = "30s"
        [policy]
        length = "experts"
        [sources.camera]
        uri = "emulated:poisson?rate=200&frames=100&seed=5"
        mode = "lossless"
        [models.scribe]
        device = "emulated:a"
        head = "generate"
        profile = { "1" = "1ms", "64" = "2ms" }
        max_sequences = 32
        prefix_tokens = 64
        length_error = 0.3
        [devices."emulated:a"]
        slots = 1
        [modules.report]
        operator = "describe"
        model = "scribe"
        inputs = ["camera"]
        max_tokens = 120
        "#;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    let assembled = assemble(graph(text, &whole_catalog()), Parts::default());
    let report = run(assembled, &at_own_pace(Some(&log)));
    assert_eq!(report.requests.delivered, 100, "{:?}", report.requests);
    weir_runtime::verify(&log).unwrap_or_else(|error| panic!("{error}"));
    let log = std::fs::read_to_string(&log).unwrap();
    // The first prompt shares nothing yet; prompts of 32 equal tokens share a block of 16.
    assert!(log.contains("\"prefixes\":[null]"));
    assert!(log.matches("\"tokens\":16}").count() >= 90);
    assert!(
        log.contains("\"predicted\":[["),
        "sequences of 50 tokens are predicted again"
    );
}

/// The operator `describe` with prompts of its own, one a frame.
struct OfScenes {
    describe: Arc<dyn Operator>,
    model: Arc<dyn GenerativeModel>,
    prompts: Vec<String>,
}

impl Operator for OfScenes {
    fn items(&self, frame: &Arc<Frame>, results: &RequestResults) -> Vec<Item> {
        self.describe.items(frame, results)
    }

    fn sequences(&self, items: &[Item], results: &RequestResults) -> Vec<SequenceSpec> {
        let made = self.describe.sequences(items, results);
        let of_scene = |(item, spec): (&Item, SequenceSpec)| SequenceSpec {
            prompt: self
                .model
                .encode(&self.prompts[item.frame.index as usize % self.prompts.len()]),
            ..spec
        };
        items.iter().zip(made).map(of_scene).collect()
    }

    fn inference(&self, generated: &Generated) -> Inference {
        self.describe.inference(generated)
    }

    fn output(&self, module: u32, items: &[Item], inferences: Vec<Inference>) -> ModuleOutput {
        self.describe.output(module, items, inferences)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// `scribe`, where models can be run.
fn scribe() -> Option<Arc<dyn Model>> {
    if let Err(reason @ RuntimeLibraryError::NotInstalled) = weir_operators::find_runtime() {
        println!("skipped: {reason}");
        return None;
    }
    let loaded = weir_operators::load(&LoadRequest {
        name: "scribe",
        file: ModelFile::Path(root().join("models/scribe.onnx")),
        head: "generate",
        settings: &Settings::default(),
        max_batch: 1,
        dump: None,
    });
    Some(loaded.unwrap())
}

/// Prompts from the ground truth of frames of both clips; their texts are about 15 to 100 tokens long.
fn prompts() -> Vec<String> {
    let mut prompts = Vec::new();
    for name in ["street-day", "street-dusk"] {
        let file = root().join(format!("videos/{name}.truth.jsonl"));
        let truth = Truth::read(BufReader::new(File::open(file).unwrap())).unwrap();
        let size = (truth.clip.width, truth.clip.height);
        prompts.extend(truth.frames.iter().step_by(11).map(|frame| {
            let mut scene = Scene::of(frame, size);
            let mut vehicles = scene.things.iter().filter(|thing| thing.class != "person");
            scene.new = vehicles.nth((frame.frame % 3) as usize).cloned();
            scene.prompt()
        }));
    }
    prompts
}

#[test]
fn the_nets_of_scribe_are_closer_than_the_mean_of_what_it_said() {
    let Some(model) = scribe() else { return };
    let prompts = prompts();
    let frames = prompts.len() as u64;
    assert!(frames > 40, "{frames}");
    let error_of = |length: &str| {
        let text = format!(
            r#"
            [app]
            name = "reports"
            slo = "120s"
            [policy]
            length = "{length}"
            [sources.camera]
            uri = "emulated:uniform?rate=50&frames={frames}"
            mode = "lossless"
            [models.scribe]
            model = "../models/scribe.onnx"
            head = "generate"
            lengths = "../models/scribe-lengths.json"
            max_sequences = 16
            [modules.report]
            operator = "describe"
            model = "scribe"
            inputs = ["camera"]
            max_tokens = 192
            "#
        );
        let max_tokens = [("max_tokens".to_owned(), Value::Number(192.0))];
        let describe = weir_operators::operator(&OperatorRequest {
            operator: "describe",
            regions: &[],
            settings: &Settings(max_tokens.into()),
            model: Some(model.as_ref()),
        });
        let operator = OfScenes {
            describe: describe.unwrap(),
            model: model.generative().unwrap(),
            prompts: prompts.clone(),
        };
        let parts = Parts {
            models: vec![("scribe", Arc::clone(&model))],
            operators: vec![("report", Arc::new(operator))],
            ..Parts::default()
        };
        length_error(&text, parts, frames)
    };
    let [mean, experts, single] = ["mean", "experts", "single"].map(error_of);
    println!(
        "{frames} reports, error of lengths in tokens: mean {mean:?}, experts {experts:?}, single {single:?}"
    );
    assert!(!mean.1 && experts.1 && single.1);
    assert!(experts.0 < 0.7 * mean.0 && single.0 < 0.7 * mean.0);
}
