//! `scribe` and the graph that uses it: what it says of scenes that it was never trained on, given what is truly in them.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "a test says what it finds")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use weir_flow::{
    Attribute, DeviceKind, Frame, GenerativeModel, Image, Model, ModuleOutput, Object, ObjectAttribute,
    ObjectRef, Points, Rect, RequestResults, Sampling, SequenceId, SequenceSpec, SequenceStep, Settings,
    Value,
};
use weir_operators::{LoadRequest, ModelFile, OperatorRequest};
use weir_truth::report::{Scene, facts, sentences};
use weir_truth::{FrameTruth, Truth, TruthAttribute};
use weir_videos::scenes::scene;
use weir_videos::{Part, Seed};

use crate::common::has_runtime;

/// Sentences of so many hundred that are to be right.
const MIN_PERCENT: usize = 95;

/// `scribe`, where models can be run.
fn scribe() -> Option<Arc<dyn Model>> {
    if !has_runtime() {
        return None;
    }
    let shipped = weir_models::find("scribe").unwrap();
    let loaded = weir_operators::load(&LoadRequest {
        name: "scribe",
        file: ModelFile::Bytes(shipped.onnx.into()),
        head: &shipped.head,
        settings: &shipped.settings,
        max_batch: 1,
        dump: None,
    });
    Some(loaded.unwrap_or_else(|error| panic!("{error}")))
}

/// Texts that the model generates for each prompt; sixteen prompts run at a time.
fn reports(model: &dyn GenerativeModel, prompts: &[String]) -> Vec<String> {
    let mut session = model.open(DeviceKind::Cpu).unwrap();
    let mut texts = Vec::new();
    for part in prompts.chunks(16) {
        let mut running: BTreeMap<u64, (u32, Vec<u32>)> = BTreeMap::new();
        for (number, prompt) in (0..).zip(part) {
            let prompt = model.encode(prompt);
            running.insert(number, (prompt.len() as u32, Vec::new()));
            let spec = SequenceSpec {
                prompt,
                max_tokens: 192,
                stop: Arc::new([]),
                sampling: Sampling::default(),
            };
            session.begin(SequenceId(number), spec).unwrap();
        }
        let mut said = BTreeMap::new();
        while !running.is_empty() {
            let step = |(number, (tokens, _)): (&u64, &(u32, Vec<u32>))| SequenceStep {
                sequence: SequenceId(*number),
                tokens: *tokens,
            };
            let steps: Vec<SequenceStep> = running.iter().map(step).collect();
            for given in session.step(&steps).unwrap() {
                let number = given.sequence.0;
                let (tokens, generated) = running.get_mut(&number).unwrap();
                *tokens = 1;
                generated.push(given.token);
                if given.end.is_some() {
                    session.take(given.sequence, false).unwrap();
                    let (_, generated) = running.remove(&number).unwrap();
                    said.insert(number, model.decode(&generated).trim().to_owned());
                }
            }
        }
        texts.extend(said.into_values());
    }
    texts
}

/// Holds what is said of scenes against what is to be said, to the letter.
fn check(model: &dyn GenerativeModel, of: &str, scenes: &[Scene]) {
    let prompts: Vec<String> = scenes.iter().map(Scene::prompt).collect();
    let said = reports(model, &prompts);
    let (mut right, mut count, mut facts_right, mut facts_all, mut whole) = (0, 0, 0, 0, 0);
    let mut shown = 0;
    for (scene, said) in scenes.iter().zip(&said) {
        let expected = scene.sentences();
        let found = sentences(said);
        count += expected.len().max(found.len());
        right += expected
            .iter()
            .zip(&found)
            .filter(|(expected, found)| expected == *found)
            .count();
        let stated = |sentence: &str| facts(sentence).unwrap_or_default();
        let given: Vec<_> = found.iter().flat_map(|sentence| stated(sentence)).collect();
        let to_tell: Vec<_> = expected.iter().flat_map(|sentence| stated(sentence)).collect();
        facts_all += to_tell.len().max(given.len());
        facts_right += to_tell.iter().filter(|fact| given.contains(fact)).count();
        if *said == scene.report() {
            whole += 1;
        } else if shown < 5 {
            println!("{}\n  to say {}\n  said   {said}", scene.prompt(), scene.report());
            shown += 1;
        }
    }
    let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    println!(
        "{of}: {:.2} % of {count} sentences right, {:.2} % of {facts_all} facts, {:.2} % of {} reports",
        percent(right, count),
        percent(facts_right, facts_all),
        percent(whole, scenes.len()),
        scenes.len()
    );
    assert!(
        right * 100 >= MIN_PERCENT * count,
        "{of}: {right} of {count} sentences"
    );
}

fn clip(name: &str) -> Truth {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../videos/{name}.truth.jsonl"));
    Truth::read(BufReader::new(File::open(file).unwrap())).unwrap()
}

#[test]
fn of_scenes_that_it_was_never_trained_on_nearly_all_sentences_are_right() {
    let Some(model) = scribe() else { return };
    let model = model.generative().unwrap();
    let unseen = |number: u64| scene(Seed::new(Part::Clip, number));
    check(
        model.as_ref(),
        "scenes",
        &(0..600).map(unseen).collect::<Vec<_>>(),
    );
    for name in ["street-day", "street-dusk"] {
        let truth = clip(name);
        let size = (truth.clip.width, truth.clip.height);
        let scenes = truth.frames.iter().step_by(5).map(|frame| {
            let mut scene = Scene::of(frame, size);
            let mut vehicles = scene.things.iter().filter(|thing| thing.class != "person");
            scene.new = vehicles.nth((frame.frame % 3) as usize).cloned();
            scene
        });
        check(model.as_ref(), name, &scenes.collect::<Vec<_>>());
    }
}

/// Results of modules that make no mistake, from the ground truth of a frame: objects, plates and names.
fn found(frame: &FrameTruth) -> RequestResults {
    let asked: Vec<_> = frame.objects.iter().filter(|object| !object.ignore).collect();
    let objects = asked.iter().map(|object| {
        let [x0, y0, x1, y1] = object.r#box;
        Object {
            class: object.class.as_str().into(),
            score: 0.9,
            rect: Rect::new(x0, y0, x1, y1),
            parent: None,
            points: Points::None,
            candidate: false,
        }
    });
    let mut results = RequestResults::default();
    results.add(
        0,
        ModuleOutput {
            objects: objects.collect(),
            attributes: Vec::new(),
        },
    );
    let attributes = (0..).zip(&asked).flat_map(|(index, object)| {
        object.attributes.iter().filter_map(move |(name, attribute)| {
            let attribute = match attribute {
                TruthAttribute::Text { text } => Attribute::Text {
                    text: text.clone(),
                    score: 0.9,
                },
                TruthAttribute::Match { r#match } => Attribute::Match {
                    r#match: r#match.as_deref().map(Into::into),
                    cosine: Some(0.9),
                    vector: None,
                },
                _ => return None,
            };
            Some(ObjectAttribute {
                object: ObjectRef { module: 0, index },
                name: name.as_str().into(),
                attribute,
            })
        })
    });
    results.add(
        1,
        ModuleOutput {
            objects: Vec::new(),
            attributes: attributes.collect(),
        },
    );
    results
}

#[test]
fn the_graph_gives_it_prompts_as_in_its_training() {
    let Some(model) = scribe() else { return };
    let graph = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apps/traffic-monitoring/reports.toml");
    let catalog = weir_flow::Catalog {
        operators: weir_operators::operators(),
        tracker_keys: weir_analytics::TRACKER_KEYS,
        heads: weir_operators::heads(),
        sinks: weir_operators::sinks::catalog(),
        embedded: weir_models::shipped()
            .iter()
            .map(|model| {
                let defaults = weir_flow::ModelDefaults {
                    head: model.head.clone(),
                    settings: model.settings.clone(),
                    lengths: model.lengths,
                };
                (model.name.clone(), defaults)
            })
            .collect(),
        ..weir_flow::Catalog::default()
    };
    let text = std::fs::read_to_string(&graph).unwrap();
    let graph =
        weir_graph::parse(&text, &graph, &catalog, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    let node = graph
        .modules()
        .iter()
        .find(|module| module.name == "reports")
        .unwrap();
    let mut settings: Settings = node.settings.clone();
    settings.0.insert("max_items".to_owned(), Value::Number(40.0));
    let operator = weir_operators::operator(&OperatorRequest {
        operator: "describe",
        regions: &node.regions,
        settings: &settings,
        model: Some(model.as_ref()),
    });
    let operator = operator.unwrap_or_else(|error| panic!("{error}"));
    let model = model.generative().unwrap();
    let truth = clip("street-day");
    let size = (truth.clip.width, truth.clip.height);
    let (mut all, mut checked, mut with_plates) = (0, 0, 0);
    for frame in truth.frames.iter().step_by(20) {
        let results = found(frame);
        let picture = Image::from_rgb(size.0, size.1, vec![0; (size.0 * size.1 * 3) as usize]);
        let picture = Arc::new(Frame::new(frame.frame, frame.pts_ms, picture));
        let items = operator.items(&picture, &results);
        let specs = operator.sequences(&items, &results);
        let scene = Scene::of(frame, size);
        // Whose part a plate or face is, the truth knows where two stand in front of each other; a graph takes the nearest.
        let encoded = |scene: &Scene| model.encode(&scene.prompt());
        for spec in &specs {
            let same = scene.things.iter().any(|new| {
                let scene = Scene {
                    new: Some(new.clone()),
                    ..scene.clone()
                };
                encoded(&scene) == *spec.prompt
            });
            all += 1;
            checked += usize::from(same);
        }
        with_plates += scene.things.iter().filter(|thing| thing.plate.is_some()).count();
    }
    println!("{checked} of {all} prompts as in training, {with_plates} plates in their frames");
    assert!(checked * 10 >= all * 9 && all >= 50 && with_plates >= 3);
}
