//! Models that generate, live: emulated instances whose outcome can be computed, and the decoder of the asset pack.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test says what it finds")]

use std::path::Path;

use weir_flow::{Attribute, Delivery, HeadOutput, HeadSpec};
use weir_policy::Report;
use weir_policy::generate::emulated_length;

use crate::common::sinks::Kept;
use crate::common::stories::Stories;
use crate::common::{Parts, assemble, assets, at_own_pace, graph, run, whole_catalog};

/// The catalog with the head and keys of models that generate.
/// A stream into a model that generates, of `instances` emulated instances; a step takes 2 to 4 ms.
fn describing(rate: f64, frames: u64, slo: &str, instances: u32, more: &str) -> String {
    format!(
        r#"
        [app]
        name = "describing"
        slo = "{slo}"
        [sources.camera]
        uri = "emulated:poisson?rate={rate}&frames={frames}&seed=5"
        mode = "live"
        [models.scribe]
        device = "emulated:a"
        head = "generate"
        profile = {{ "1" = "2ms", "64" = "4ms" }}
        max_sequences = 16
        {more}
        [devices."emulated:a"]
        slots = {instances}
        [modules.report]
        operator = "describe"
        model = "scribe"
        inputs = ["camera"]
        max_tokens = 40
        "#
    )
    .replace(
        "max_sequences = 16",
        &format!("max_sequences = 16\nworkers = {instances}"),
    )
}

fn describe(text: &str, record: Option<&Path>) -> Report {
    let catalog = whole_catalog();
    let report = run(
        assemble(graph(text, &catalog), Parts::default()),
        &at_own_pace(record),
    );
    if let Some(path) = record {
        let verified = weir_runtime::verify(path).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            verified.steps > 0 && verified.effects > report.requests.arrived,
            "{verified:?}"
        );
    }
    report
}

#[test]
fn sequences_are_generated_in_continuous_batches_and_decided_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    for instances in [1, 3] {
        let path = folder.path().join(format!("{instances}.jsonl"));
        let text = describing(100.0, 200, "30s", instances, "");
        let report = describe(&text, Some(&path));
        assert_eq!((report.requests.arrived, report.requests.delivered), (200, 200));
        let module = &report.modules["report"];
        // Each token is computed once: the prompt, and all of the text but its last token.
        let tokens: u64 = (0..200)
            .map(|frame| 31 + u64::from(emulated_length(frame, 40)))
            .sum();
        assert_eq!(module.items, tokens);
        assert!(
            module.mean_batch > 1.5,
            "they run together: {}",
            module.mean_batch
        );
        let sum = |count: fn(&weir_policy::generate::InstanceStats) -> u64| -> u64 {
            module.instances.iter().map(count).sum()
        };
        assert_eq!(module.instances.len(), instances as usize);
        assert_eq!((sum(|one| one.tokens), sum(|one| one.finished)), (tokens, 200));
        let steps = module.batches;
        println!("{instances} instances: {tokens} tokens in {steps} steps");
    }
}

#[test]
fn what_cannot_be_in_time_is_dropped_before_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("overload.jsonl");
    // Sixteen at a time for about 50 ms: some 300 a second are all that one instance can do.
    let report = describe(&describing(900.0, 900, "250ms", 1, ""), Some(&path));
    let counts = &report.requests;
    assert_eq!((counts.arrived, counts.in_flight), (900, 0));
    assert!(counts.dropped > 200, "three times the capacity: {counts:?}");
    let reasons: Vec<&str> = report.drops.iter().map(|drop| drop.reason.name()).collect();
    assert!(reasons.contains(&"infeasible"), "{:?}", report.drops);
    println!("{counts:?}, {} of the device time wasted", report.invalid_rate);
}

#[test]
fn a_step_that_fails_costs_its_sequences_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("failing.jsonl");
    let report = describe(&describing(100.0, 200, "30s", 1, "fail_every = 100"), Some(&path));
    let counts = &report.requests;
    assert_eq!((counts.arrived, counts.in_flight, counts.late), (200, 0, 0));
    assert!(report.modules["report"].failed > 0);
    assert!(counts.dropped > 0 && counts.delivered > 50, "{counts:?}");
    assert!(
        report.drops.iter().all(|drop| drop.reason.name() == "failed"),
        "{:?}",
        report.drops
    );
}

#[test]
fn a_sequence_that_the_cache_cannot_hold_is_a_counted_drop() {
    let report = describe(&describing(100.0, 20, "30s", 1, "max_sequence_tokens = 32"), None);
    assert_eq!((report.requests.arrived, report.requests.dropped), (20, 20));
    assert!(
        report
            .drops
            .iter()
            .all(|drop| drop.reason.name() == "memory-full"),
        "{:?}",
        report.drops
    );
}

#[test]
fn a_profile_that_falls_is_one_clear_error() {
    let text = describing(100.0, 20, "30s", 1, "").replace("\"64\" = \"4ms\"", "\"64\" = \"1ms\"");
    let assembly = assemble(graph(&text, &whole_catalog()), Parts::default());
    let error = weir_runtime::run(assembly, &at_own_pace(None), &weir_flow::StopFlag::default());
    let error = error.expect_err("it is refused").to_string();
    assert!(
        error.contains("model scribe") && error.contains("64 tokens takes less"),
        "{error}"
    );
}

#[test]
fn a_decoder_describes_frames_the_same_at_any_load() {
    let Some(assets) = assets() else { return };
    let stories = Stories::of(&assets);
    let mut texts: Vec<Vec<String>> = Vec::new();
    for rate in [20, 400] {
        let model = stories.model();
        let operator = stories.operator(model.as_ref(), 24);
        let text = format!(
            r#"
            [app]
            name = "stories"
            slo = "60s"
            [sources.camera]
            uri = "emulated:uniform?rate={rate}&frames=24"
            mode = "lossless"
            [models.stories]
            model = "{}"
            head = "generate"
            vocabulary = "{}"
            [modules.report]
            operator = "describe"
            model = "stories"
            inputs = ["camera"]
            [sinks.all]
            type = "keep"
            inputs = ["report"]
            "#,
            stories.file.display(),
            stories.vocabulary
        );
        let kept = Kept::default();
        let parts = Parts {
            models: vec![("stories", model)],
            operators: vec![("report", operator)],
            sinks: vec![("all", Box::new(kept.clone()))],
            ..Parts::default()
        };
        let report = run(
            assemble(graph(&text, &whole_catalog()), parts),
            &at_own_pace(None),
        );
        assert_eq!(report.requests.delivered, 24);
        let kept = kept.0.lock().unwrap();
        let text_of = |delivery: &Delivery| {
            let object = &delivery.objects[0];
            assert_eq!(&*object.object.class, "frame");
            let tokens = object
                .attributes
                .iter()
                .find(|(name, _)| &**name == "text_tokens");
            assert!(matches!(tokens, Some((_, Attribute::Number { value })) if *value >= 1.0));
            match object.attributes.iter().find(|(name, _)| &**name == "text") {
                Some((_, Attribute::Text { text, score })) => {
                    assert!((0.0..=1.0).contains(score));
                    text.clone()
                }
                other => panic!("no text: {other:?}"),
            }
        };
        texts.push(kept.iter().map(text_of).collect());
    }
    println!("{}", texts[0][0]);
    assert_eq!(texts[0], texts[1], "at full load as at little");
    let mut distinct = texts[0].clone();
    distinct.sort();
    distinct.dedup();
    assert!(distinct.len() > 4, "draws differ by frame: {distinct:?}");
}

#[test]
fn the_head_is_in_the_catalog_with_its_keys() {
    let heads: Vec<HeadSpec> = weir_operators::heads();
    let head = heads.iter().find(|head| head.name == "generate").unwrap();
    assert_eq!(head.output, HeadOutput::Attribute);
    assert!(head.keys.iter().any(|key| key.name == "vocabulary"));
}
