//! Models that generate and do what they should not, live: one that never ends, one that goes away with a sequence that has just
//! come, workers with another model, step times that cannot be. Each costs its requests at most, or is one clear error.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_flow::{
    Attribute, Delivery, DeviceKind, GenerativeModel, PartitionLoader, PartitionSession, SessionError,
    StopFlag, Value,
};
use weir_partition::wire::Address;
use weir_partition::{Worker, WorkerOptions};
use weir_policy::Report;
use weir_policy::generate::emulated_length;
use weir_runtime::Clock;

use crate::common::sinks::Kept;
use crate::common::words::{Caches, Leaving, Words};
use crate::common::{Parts, assemble, at_own_pace, graph, run, whole_catalog};

const FRAMES: u64 = 30;
/// Of those that move.
const COUNT: u64 = 150;
/// Devices that take 1, 2 and 4 times as long.
const UNEQUAL: &str = r#"
    devices = ["emulated:fast", "emulated:middle", "emulated:slow"]
    profile = { "1" = "1ms", "64" = "2ms" }
    profiles."emulated:middle" = { "1" = "2ms", "64" = "4ms" }
    profiles."emulated:slow" = { "1" = "4ms", "64" = "8ms" }
    max_sequences = 16
"#;

fn words() -> Words {
    Words {
        vocabulary: 256,
        ends: false,
        leaving: None,
        caches: None,
    }
}

/// Frames that a model on these devices describes.
fn describing(model: &str, frames: u64, slo: &str) -> String {
    format!(
        r#"
        [app]
        name = "faults"
        slo = "{slo}"
        [policy]
        drop = "none"
        route = "just-enough"
        [sources.camera]
        uri = "emulated:poisson?rate=60&frames={frames}&seed=5"
        mode = "live"
        [models.writer]
        head = "generate"
        {model}
        [modules.report]
        operator = "describe"
        model = "writer"
        inputs = ["camera"]
        max_tokens = 200
        [sinks.all]
        type = "keep"
        inputs = ["report"]
        "#
    )
}

const ONE: &str =
    "device = \"emulated:a\"\nprofile = { \"1\" = \"1ms\", \"64\" = \"2ms\" }\nmax_sequences = 16";

fn text_of(delivery: &Delivery) -> Option<String> {
    let mut attributes = delivery.objects.first()?.attributes.iter();
    attributes.find_map(|(name, value)| match value {
        Attribute::Text { text, .. } if &**name == "text" => Some(text.clone()),
        _ => None,
    })
}

/// Runs a graph, and verifies that its recording replays to the same decisions. Returns the generated texts
/// by frame number, and the report.
fn describe(text: &str, model: &Words, settings: &[(&str, Value)]) -> (Vec<(u64, Option<String>)>, Report) {
    let kept = Kept::default();
    let parts = Parts {
        models: vec![("writer", Arc::new(model.clone()))],
        operators: vec![("report", model.operator(settings))],
        sinks: vec![("all", Box::new(kept.clone()))],
        ..Parts::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let report = run(
        assemble(graph(text, &whole_catalog()), parts),
        &at_own_pace(Some(&path)),
    );
    weir_runtime::verify(&path).unwrap_or_else(|error| panic!("{error}"));
    let kept = kept.0.lock().unwrap();
    let mut said: Vec<_> = kept
        .iter()
        .map(|delivery| (delivery.frame.index, text_of(delivery)))
        .collect();
    said.sort();
    (said, report)
}

/// Checks that each text has exactly the tokens that were drawn for its frame.
fn no_token_is_lost_or_repeated(said: &[(u64, Option<String>)]) {
    for (frame, text) in said {
        let length = emulated_length(1 ^ frame.rotate_left(32), 200) as usize;
        let expected = Words::text(length);
        assert_eq!(text.as_deref(), Some(expected.trim()), "frame {frame}");
    }
}

/// Why a graph cannot begin.
fn refusal(text: &str, parts: Parts) -> String {
    let assembly = assemble(graph(text, &whole_catalog()), parts);
    let error = weir_runtime::run(assembly, &at_own_pace(None), &StopFlag::default());
    error.expect_err("it is refused").to_string()
}

#[test]
fn a_model_that_never_ends_is_cut_at_max_tokens_and_its_text_treated_as_cut_short() {
    for (cut_short, expected) in [
        ("keep", Some("It rains. It sh")),
        ("sentence", Some("It rains.")),
        ("leave-out", None),
    ] {
        let settings = [
            ("max_tokens", Value::Number(15.0)),
            ("cut_short", Value::Text(cut_short.to_owned())),
        ];
        let (said, report) = describe(&describing(ONE, FRAMES, "30s"), &words(), &settings);
        assert_eq!(report.requests.delivered, FRAMES, "{:?}", report.requests);
        let instance = report.modules["report"].instances[0];
        assert_eq!((instance.finished, instance.generated), (FRAMES, 15 * FRAMES));
        assert_eq!(said.len() as u64, FRAMES);
        for (frame, text) in said {
            assert_eq!(text.as_deref(), expected, "{cut_short}, frame {frame}");
        }
    }
}

#[test]
fn a_small_cache_holds_few_at_once_and_all_are_generated() {
    let small = format!("{ONE}\ncache_tokens = 128");
    let settings = [("max_tokens", Value::Number(60.0))];
    // They come faster than the first are done.
    let text = describing(&small, FRAMES, "30s").replace("rate=60", "rate=400");
    let (said, report) = describe(&text, &words(), &settings);
    let instance = report.modules["report"].instances[0];
    assert_eq!((instance.finished, instance.dropped), (FRAMES, 0));
    assert!(
        instance.evicted > 0,
        "eight blocks do not hold what runs: {instance:?}"
    );
    for (frame, text) in said {
        assert_eq!(text.as_deref(), Some(Words::text(60).trim()), "frame {frame}");
    }
    // With room for all none goes back.
    let (_, report) = describe(&describing(ONE, FRAMES, "30s"), &words(), &settings);
    assert_eq!(report.modules["report"].instances[0].evicted, 0);
}

#[test]
fn an_instance_that_is_gone_with_a_sequence_that_has_just_moved_there_costs_nothing() {
    let leaving = Arc::new(Leaving::default());
    let model = Words {
        ends: true,
        leaving: Some(Arc::clone(&leaving)),
        ..words()
    };
    let settings = [("max_tokens", Value::Number(200.0))];
    // Long ones are late on the slow device, where all of the expected length are in time.
    let (said, report) = describe(&describing(UNEQUAL, COUNT, "600ms"), &model, &settings);
    let requests = &report.requests;
    assert_eq!(requests.delivered + requests.late, COUNT, "{requests:?}");
    let sequences = report.modules["report"].sequences.as_ref().unwrap();
    assert!(
        leaving.came.load(Ordering::SeqCst) > 0 && sequences.moved > 0,
        "{sequences:?}"
    );
    assert!(
        leaving.is_over.load(Ordering::SeqCst) && sequences.lost > 0,
        "{sequences:?}"
    );
    assert_eq!(sequences.finished, COUNT);
    no_token_is_lost_or_repeated(&said);
}

#[test]
fn a_cache_goes_along_with_a_sequence_that_moves_and_what_does_not_come_of_it_is_computed_again() {
    for are_lost in [false, true] {
        let caches = Arc::new(Caches {
            are_lost,
            ..Caches::default()
        });
        let model = Words {
            ends: true,
            caches: Some(Arc::clone(&caches)),
            ..words()
        };
        let settings = [("max_tokens", Value::Number(200.0))];
        let (said, report) = describe(&describing(UNEQUAL, COUNT, "600ms"), &model, &settings);
        let module = &report.modules["report"];
        let sequences = module.sequences.as_ref().unwrap();
        assert_eq!((sequences.finished, sequences.lost), (COUNT, 0));
        no_token_is_lost_or_repeated(&said);
        let given = u64::from(caches.given.load(Ordering::SeqCst));
        assert!(
            given > 0 && given <= sequences.moved,
            "{given} of {}",
            sequences.moved
        );
        // As the policy has it, nothing is computed again, and each token once, but for the last of each sequence.
        let tokens: u64 = module.instances.iter().map(|instance| instance.tokens).sum();
        let computed = caches.computed.load(Ordering::SeqCst);
        if are_lost {
            assert!(computed > tokens, "{computed} tokens, {tokens} of them in steps");
        } else {
            assert_eq!(computed, tokens);
        }
        let generated: u64 = module.instances.iter().map(|instance| instance.generated).sum();
        let prompts = tokens + COUNT - generated;
        assert_eq!(prompts % COUNT, 0, "prompts are alike: {tokens} of {generated}");
    }
}

#[test]
fn step_times_with_a_hole_or_that_fall_are_one_clear_error_each() {
    for (profile, expected) in [
        ("{ \"1\" = \"2ms\", \"64\" = \"1ms\" }", "64 tokens takes less"),
        ("{ \"4\" = \"2ms\", \"64\" = \"4ms\" }", "a hole after 0 tokens"),
    ] {
        let model = format!("device = \"emulated:a\"\nprofile = {profile}");
        let model = describing(&model, FRAMES, "30s");
        let (first, _) = model.split_once("[sinks.all]").unwrap();
        let found = refusal(first, Parts::default());
        assert!(
            found.contains("model writer") && found.contains(expected),
            "{found}"
        );
    }
}

/// Opens models of 97 different tokens, whatever is sent.
struct Loader;

impl PartitionLoader for Loader {
    fn load(
        &self,
        _partition: &[u8],
        _device: DeviceKind,
        _half: bool,
    ) -> Result<Box<dyn PartitionSession>, SessionError> {
        Err(SessionError::Load {
            model: "words".to_owned(),
            reason: "it has no partitions".to_owned(),
        })
    }

    fn load_generator(&self, _model: &[u8]) -> Result<Arc<dyn GenerativeModel>, SessionError> {
        Ok(Arc::new(Words {
            vocabulary: 97,
            ..words()
        }))
    }
}

#[test]
fn a_worker_whose_model_has_another_vocabulary_is_one_clear_error() {
    let clock = Clock::start();
    let now: weir_partition::Now = Arc::new(move || clock.now());
    let at = "127.0.0.1:0".parse().unwrap();
    let worker = Worker::listen(at, WorkerOptions::default(), Arc::new(Loader), now).unwrap();
    let Address::Tcp(address) = worker.address() else {
        panic!("it listens")
    };
    // The file of the model is not read: the test gives the model.
    let devices = format!(
        "model = \"{}/Cargo.toml\"\ndevices = [\"cpu:here\", \"worker:there\"]\nprofile = {{ \"1\" = \"1ms\", \"64\" = \"2ms\" }}",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = describing(&devices, FRAMES, "30s").replace(
        "[sinks.all]",
        &format!("[workers.there]\nclass = \"edge\"\naddress = \"{address}\"\n[sinks.all]"),
    );
    let kept = Kept::default();
    let model = words();
    let parts = Parts {
        models: vec![("writer", Arc::new(model.clone()))],
        operators: vec![("report", model.operator(&[]))],
        sinks: vec![("all", Box::new(kept))],
        ..Parts::default()
    };
    let found = refusal(&text, parts);
    for part in [
        "writer",
        &address.to_string(),
        "97 different tokens",
        "one of 256",
    ] {
        assert!(found.contains(part), "{part} is not in {found}");
    }
}
