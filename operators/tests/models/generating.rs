//! Decoders that generate text: that of the asset pack, and `scribe`, which ships.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use weir_flow::{
    GeneratedToken, GenerativeModel, GenerativeSession, Sampling, SequenceEnd, SequenceId, SequenceSpec,
    SequenceState, SequenceStep, SessionError,
};

use super::*;
use crate::common::has_runtime;

fn decoder(assets: &Path, settings: &[(&str, Value)]) -> Result<Arc<dyn Model>, LoadError> {
    let vocabulary = assets.join("models/tok512.bin").display().to_string();
    let mut all = vec![("vocabulary", Value::Text(vocabulary))];
    all.extend_from_slice(settings);
    try_model(
        &assets.join("models/stories260k_decoder.onnx"),
        "generate",
        &keys(&all),
    )
}

/// The decoder that ships, where models can be run.
fn scribe() -> Option<Arc<dyn GenerativeModel>> {
    scribe_with(&[])
}

/// The same with further settings.
fn scribe_with(more: &[(&str, Value)]) -> Option<Arc<dyn GenerativeModel>> {
    if !has_runtime() {
        return None;
    }
    let shipped = weir_models::find("scribe").expect("scribe ships");
    let mut settings = shipped.settings.clone();
    settings.0.extend(keys(more).0);
    let model = load(&LoadRequest {
        name: "scribe",
        file: ModelFile::Bytes(shipped.onnx.into()),
        head: &shipped.head,
        settings: &settings,
        max_batch: 1,
        dump: None,
    });
    Some(model.expect("loads").generative().expect("it generates"))
}

fn generative(assets: &Path) -> Arc<dyn GenerativeModel> {
    let model = decoder(assets, &[]).expect("loads");
    model.generative().expect("it generates")
}

/// Draws of one seed (SplitMix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) % bound as u64) as usize
    }
}

const BEGINNINGS: [&str; 8] = [
    "Once upon a time",
    "Lily and Tom went to the park",
    "The big red car",
    "One day, a little dog named Max saw a bird in the tree and",
    "Sam",
    "\"Can I play with you?\" asked the",
    "There was a girl who liked to eat cake. Her mom said",
    "It was dark",
];

/// A random beginning of a story, as a prompt.
fn beginning(draws: &mut Draws) -> String {
    let name = ["", " Ben", " Mia", " the cat", " and the frog", " Anna"][draws.below(6)];
    format!("{}{name}", BEGINNINGS[draws.below(8)])
}

/// A random prompt for the model `scribe`: a new object in a street, and all objects there.
fn street(draws: &mut Draws) -> String {
    let mut thing = || {
        let class = ["car", "van", "bus", "bicycle", "person", "person"][draws.below(6)];
        let place = ["top left", "top", "left", "centre", "right", "bottom right"][draws.below(6)];
        let plate = match draws.below(4) {
            0 => format!("#AB{}X ", 100 + draws.below(900)),
            _ => String::new(),
        };
        format!("{plate}{class} {place}")
    };
    let new = thing();
    let more: Vec<String> = (0..3).map(|_| thing()).collect();
    format!("New: {new}. Seen: {new} {}.", more[..1 + new.len() % 3].join(" "))
}

fn specs(
    model: &dyn GenerativeModel,
    prompt: fn(&mut Draws) -> String,
    count: usize,
    seed: u64,
) -> Vec<SequenceSpec> {
    let mut draws = Draws(seed);
    let spec = |number: usize| {
        let sampling = match number % 3 {
            0 => Sampling {
                temperature: 0.8,
                top_k: 20,
                seed: number as u64,
            },
            _ => Sampling::default(),
        };
        SequenceSpec {
            prompt: model.encode(&prompt(&mut draws)),
            max_tokens: 4 + draws.below(50) as u32,
            stop: Arc::new([]),
            sampling,
        }
    };
    (0..count).map(spec).collect()
}

fn one_step(
    session: &mut dyn GenerativeSession,
    steps: &[(u64, u32)],
) -> Result<Vec<GeneratedToken>, SessionError> {
    let steps: Vec<SequenceStep> = steps
        .iter()
        .map(|&(sequence, tokens)| SequenceStep {
            sequence: SequenceId(sequence),
            tokens,
        })
        .collect();
    session.step(&steps)
}

/// Tokens that a sequence generates if no other sequence is in the session.
fn alone(session: &mut dyn GenerativeSession, spec: &SequenceSpec) -> Vec<u32> {
    session.begin(SequenceId(0), spec.clone()).expect("begins");
    let mut tokens = spec.prompt.len() as u32;
    let mut generated = Vec::new();
    loop {
        let given = one_step(session, &[(0, tokens)]).expect("runs");
        generated.push(given[0].token);
        if given[0].end.is_some() {
            session.take(SequenceId(0), false).expect("it is here");
            return generated;
        }
        tokens = 1;
    }
}

/// State of a sequence in a driver that knows only the reports of sessions.
struct Place {
    session: usize,
    computed: u32,
    tokens: u32,
    generated: Vec<u32>,
}

/// Steps of random sequences, chunks, evictions and moves between two sessions, until all have ended.
fn at_random(
    model: &dyn GenerativeModel,
    specs: &[SequenceSpec],
    max_batch: usize,
    seed: u64,
) -> Vec<Vec<u32>> {
    let mut draws = Draws(seed);
    let mut sessions = [(), ()].map(|()| model.open(DeviceKind::Cpu).expect("opens"));
    let mut waiting: Vec<usize> = (0..specs.len()).collect();
    let mut here: BTreeMap<u64, Place> = BTreeMap::new();
    let mut done: Vec<Vec<u32>> = vec![Vec::new(); specs.len()];
    while !(waiting.is_empty() && here.is_empty()) {
        while !waiting.is_empty() && here.len() < 2 * max_batch && draws.below(3) > 0 {
            let number = waiting.swap_remove(draws.below(waiting.len()));
            let session = draws.below(2);
            let id = SequenceId(number as u64);
            sessions[session]
                .begin(id, specs[number].clone())
                .expect("begins");
            let place = Place {
                session,
                computed: 0,
                tokens: specs[number].prompt.len() as u32,
                generated: Vec::new(),
            };
            here.insert(number as u64, place);
        }
        for (number, place) in &mut here {
            let id = SequenceId(*number);
            match draws.below(40) {
                0 => {
                    sessions[place.session].evict(id);
                    place.computed = 0;
                }
                1 | 2 => {
                    let with_cache = draws.below(2) == 0;
                    let state = sessions[place.session].take(id, with_cache).expect("it is here");
                    assert_eq!(state.generated, place.generated, "taken out with what it has");
                    place.session = 1 - place.session;
                    let kept = sessions[place.session].put(id, state).expect("is put in");
                    assert_eq!(kept, if with_cache { place.computed } else { 0 });
                    place.computed = kept;
                }
                _ => {}
            }
        }
        let chosen = draws.below(2);
        let mut steps: Vec<(u64, u32)> = Vec::new();
        let batch = 1 + draws.below(max_batch);
        for (number, place) in &here {
            if place.session == chosen && steps.len() < batch && draws.below(5) > 0 {
                let pending = place.tokens - place.computed;
                let most = if draws.below(3) == 0 {
                    pending
                } else {
                    pending.min(7)
                };
                steps.push((*number, 1 + draws.below(most as usize) as u32));
            }
        }
        if steps.is_empty() {
            continue;
        }
        let given = one_step(sessions[chosen].as_mut(), &steps).expect("runs");
        for (number, tokens) in &steps {
            here.get_mut(number).expect("it is here").computed += tokens;
        }
        for token in given {
            let number = token.sequence.0;
            let place = here.get_mut(&number).expect("it is here");
            assert_eq!(
                place.computed, place.tokens,
                "only a complete sequence is given a token"
            );
            place.generated.push(token.token);
            place.tokens += 1;
            if token.end.is_some() {
                sessions[chosen].take(token.sequence, false).expect("it is here");
                let place = here.remove(&number).expect("it is here");
                done[number as usize] = place.generated;
            }
        }
    }
    assert_eq!(sessions.each_ref().map(|session| session.sequences()), [0, 0]);
    done
}

#[test]
fn batches_evictions_and_moves_give_what_each_sequence_gives_alone() {
    if let Some(assets) = assets() {
        same_as_alone(generative(&assets).as_ref(), beginning);
    }
    if let Some(model) = scribe() {
        same_as_alone(model.as_ref(), street);
    }
}

fn same_as_alone(model: &dyn GenerativeModel, prompt: fn(&mut Draws) -> String) {
    let specs = specs(model, prompt, 64, 17);
    let mut session = model.open(DeviceKind::Cpu).expect("opens");
    let expected: Vec<Vec<u32>> = specs.iter().map(|spec| alone(session.as_mut(), spec)).collect();
    for (max_batch, seed) in [(1, 1), (2, 2), (5, 3), (16, 4), (32, 5)] {
        println!("batches up to {max_batch}, seed {seed}");
        let found = at_random(model, &specs, max_batch, seed);
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let texts = (model.decode(found), model.decode(expected));
            assert_eq!(found, expected, "sequence {number}: {texts:?}, seed {seed}");
        }
    }
}

#[test]
fn prompts_that_reuse_a_stored_beginning_give_the_same_texts() {
    if let Some(assets) = assets() {
        let model = decoder(&assets, &[("prefix_tokens", Value::Number(64.0))]).expect("loads");
        same_with_prefixes(model.generative().expect("it generates").as_ref(), beginning);
    }
    if let Some(model) = scribe_with(&[("prefix_tokens", Value::Number(64.0))]) {
        same_with_prefixes(model.as_ref(), street);
    }
}

/// Each prompt is computed from half of the one before it on, which it begins with.
fn same_with_prefixes(model: &dyn GenerativeModel, prompt: fn(&mut Draws) -> String) {
    assert_eq!(model.prefix_tokens(), 64);
    let mut session = model.open(DeviceKind::Cpu).expect("opens");
    let mut beginning: Vec<u32> = Vec::new();
    let mut reused = 0;
    for (number, mut spec) in specs(model, prompt, 24, 5).into_iter().enumerate() {
        spec.prompt = [&beginning[..], &spec.prompt].concat();
        let expected = alone(session.as_mut(), &spec);
        let id = SequenceId(1);
        session.begin(id, spec.clone()).expect("begins");
        let wanted = beginning.len() as u32;
        let mut computed = if wanted == 0 {
            0
        } else {
            session.reuse_prefix(id, wanted)
        };
        assert!(computed == 0 || computed == wanted, "{computed} of {wanted}");
        reused += computed;
        let half = (spec.prompt.len() / 2).clamp(1, 64);
        let mut generated = Vec::new();
        let mut is_kept = false;
        while generated.len() < expected.len() {
            let tokens = (spec.prompt.len() + generated.len()) as u32;
            // Chunks of three tokens at most, then one token a step.
            let chunk = (tokens - computed).min(3);
            let given = one_step(session.as_mut(), &[(1, chunk)]).expect("runs");
            computed += chunk;
            generated.extend(given.iter().map(|given| given.token));
            if !is_kept && computed as usize >= half {
                session.keep_prefix(id, half as u32);
                is_kept = true;
            }
        }
        let texts = (model.decode(&generated), model.decode(&expected));
        assert_eq!(generated, expected, "sequence {number}: {texts:?}");
        session.take(id, false).expect("it is here");
        beginning = spec.prompt[..half].to_vec();
    }
    assert!(reused > 0);
}

#[test]
fn a_story_goes_on_and_ends_for_each_reason() {
    let Some(assets) = assets() else { return };
    let model = generative(&assets);
    let mut session = model.open(DeviceKind::Cpu).expect("opens");
    let prompt = model.encode("Once upon a time");
    let mut end = |max_tokens, stop: Vec<String>| {
        let spec = SequenceSpec {
            prompt: prompt.clone(),
            max_tokens,
            stop: stop.into(),
            sampling: Sampling::default(),
        };
        session.begin(SequenceId(1), spec).expect("begins");
        let (mut tokens, mut all) = (prompt.len() as u32, Vec::new());
        loop {
            let given = one_step(session.as_mut(), &[(1, tokens)]).expect("runs")[0];
            assert!((0.0..=1.0).contains(&given.probability));
            all.push(given.token);
            tokens = 1;
            if let Some(end) = given.end {
                session.take(SequenceId(1), false).expect("it is here");
                return (end, model.decode(&all));
            }
        }
    };
    let (reason, text) = end(12, Vec::new());
    println!("{text}");
    assert_eq!(reason, SequenceEnd::MaxTokens);
    assert!(text.starts_with(", there was a"), "{text}");
    let (reason, text) = end(60, vec![".".to_owned()]);
    assert_eq!(reason, SequenceEnd::StopText, "{text}");
    assert!(text.contains('.') && text.len() < 200, "{text}");
    let (reason, _) = end(480, Vec::new());
    assert_eq!(reason, SequenceEnd::StopToken);
}

#[test]
fn sequences_that_cannot_be_are_refused() {
    let Some(assets) = assets() else { return };
    let model = generative(&assets);
    let mut session = model.open(DeviceKind::Cpu).expect("opens");
    let spec = |prompt: Vec<u32>| SequenceSpec {
        prompt,
        max_tokens: 4,
        stop: Arc::new([]),
        sampling: Sampling::default(),
    };
    let mut reason = |id, prompt| {
        let begun = session.begin(SequenceId(id), spec(prompt));
        begun.expect_err("is refused").to_string()
    };
    assert!(reason(1, vec![]).contains("prompt of sequence 1 is empty"));
    assert!(reason(1, vec![5; 512]).contains("512 at most"));
    assert!(reason(1, vec![1, 512]).contains("token 512 is not one of 512"));
    session.begin(SequenceId(1), spec(vec![1, 5])).expect("begins");
    let error = |steps: &[(u64, u32)], session: &mut dyn GenerativeSession| {
        one_step(session, steps).expect_err("fails").to_string()
    };
    for (steps, expected) in [
        (&[(2, 1)][..], "sequence 2 is not here"),
        (&[(1, 3)], "has 2 tokens, of which 0 are computed"),
        (&[(1, 0)], "0 more cannot be"),
        (&[(1, 1), (1, 1)], "in the step twice"),
    ] {
        let found = error(steps, session.as_mut());
        assert!(found.contains(expected), "{found}");
    }
    let taken = session.take(SequenceId(1), true).expect("it is here");
    let again = SequenceState::new(taken.spec.clone());
    assert_eq!(session.put(SequenceId(1), taken).expect("is put in"), 0);
    assert!(session.put(SequenceId(1), again).is_err(), "it is here already");
}

#[test]
fn a_decoder_that_does_not_fit_is_refused_with_what_it_has() {
    let Some(assets) = assets() else { return };
    let text = |text: &str| Value::Text(text.to_owned());
    for (setting, expected) in [
        (
            ("past", text("kv")),
            "none of its inputs input_ids, position_ids, attn_mask, past_kv begins with \"kv\"",
        ),
        (("present", text("logits")), "cannot be both the logits"),
        (
            ("present", text("x")),
            "1 inputs begin with \"past\", and 0 outputs with \"x\"",
        ),
        (
            ("logits", text("scores")),
            "set `logits` to one of logits, present_kv",
        ),
        (("logits", text("present_kv")), "cannot be both the logits"),
        (("input_ids", text("words")), "`input_ids`: it has no input words"),
        (("stop_tokens", text("one")), "whole numbers are expected"),
        (("stop_tokens", text("600")), "token 600"),
    ] {
        let found = decoder(&assets, &[setting])
            .err()
            .expect("is refused")
            .to_string();
        assert!(found.contains(expected), "{found}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let pieces = folder.path().join("pieces.txt");
    std::fs::write(&pieces, "<unk>\n<s>\n</s>\na\n").expect("is written");
    let setting = ("vocabulary", Value::Text(pieces.display().to_string()));
    let found = decoder(&assets, &[setting])
        .err()
        .expect("is refused")
        .to_string();
    assert!(
        found.contains("it gives logits for 512 tokens") && found.contains("pieces.txt has 4 pieces"),
        "{found}"
    );
    let other = assets.join("models/yunet_n_320.onnx");
    let found = try_model(&other, "generate", &keys(&[]))
        .err()
        .expect("is refused")
        .to_string();
    assert!(found.contains("is `input_ids`"), "{found}");
}
