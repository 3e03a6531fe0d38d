//! `describe` sinks whose model runs on this machine, in the layouts of its exports: right ones, wrong ones and hostile ones.

use std::io::Cursor;
use std::path::Path;

use weir_flow::{Incident, Settings, Sink, Value};
use weir_operators::sinks::{local_model, sink};

use super::delivered::{best, incident, open, text};
use super::describe::{ask, done, wait_until};
use crate::common::has_runtime;
use crate::tiny_chat::{TinyChat, TinyDecoder};

const PADDED: TinyDecoder = TinyDecoder {
    takes_ids: false,
    has_positions: true,
    never_ends: false,
};

/// Without positions, sequences run one at a time.
const EXACT: TinyDecoder = TinyDecoder {
    has_positions: false,
    ..PADDED
};

/// A picture of one colour.
fn jpeg(colour: [u8; 3]) -> Vec<u8> {
    let picture = image::RgbImage::from_pixel(32, 24, image::Rgb(colour));
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Jpeg).unwrap();
    bytes.into_inner()
}

fn coloured(number: usize, colour: [u8; 3]) -> Incident {
    Incident {
        best: best(&jpeg(colour)),
        track: Some(number as u64),
        ..incident("north", number)
    }
}

const RED: [u8; 3] = [250, 5, 5];
const GREEN: [u8; 3] = [5, 250, 5];
const BLUE: [u8; 3] = [5, 5, 250];

fn keys<'a>(folder: &Path, more: &[(&'a str, Value)]) -> Vec<(&'a str, Value)> {
    let folder = ("folder", text(&folder.display().to_string()));
    let more = more.iter().cloned();
    [folder, ("model", text("tiny"))]
        .into_iter()
        .chain(more)
        .collect()
}

fn opened(folder: &Path, more: &[(&str, Value)]) -> Box<dyn Sink> {
    open("describe", &keys(folder, more))
}

/// The error of a folder that does not fit, as `weir check` has it.
fn refused(folder: &Path) -> String {
    local_model("describe", &settings(folder, &[]))
        .unwrap()
        .unwrap_err()
        .to_string()
}

fn settings(folder: &Path, more: &[(&str, Value)]) -> Settings {
    let keys = keys(folder, more).into_iter();
    Settings(keys.map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Words by incident.
fn words(sink: &mut dyn Sink) -> Vec<(String, String)> {
    let mut words: Vec<(String, String)> = sink
        .take_descriptions()
        .iter()
        .map(|one| (one.incident.id.to_string(), one.text.to_string()))
        .collect();
    words.sort();
    words
}

fn of(expected: [(&str, &str); 3]) -> Vec<(String, String)> {
    expected
        .map(|(id, words)| (id.to_owned(), words.to_owned()))
        .to_vec()
}

#[test]
fn both_layouts_describe_the_picture_of_each_incident() {
    if !has_runtime() {
        return;
    }
    for (decoder, is_genai, concurrency) in [
        (PADDED, false, 1.0),
        (PADDED, false, 3.0),
        (EXACT, false, 3.0),
        (PADDED, true, 2.0),
        (EXACT, true, 1.0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let tiny = TinyChat(folder.path());
        match is_genai {
            true => tiny.write_genai(decoder),
            false => tiny.write_optimum(decoder),
        }
        let mut sink = opened(
            folder.path(),
            &[
                ("prompt", text("What is it? {{ class }}")),
                ("concurrency", Value::Number(concurrency)),
            ],
        );
        assert!(sink.describes());
        ask(
            &mut *sink,
            [coloured(1, RED), coloured(2, GREEN), coloured(3, BLUE)],
        );
        let counts = wait_until(&*sink, done);
        assert_eq!(
            counts["answered"],
            3,
            "{is_genai} {concurrency}: {counts:?} {:?}",
            sink.outage()
        );
        // "a", a colour, "van" and the end.
        assert_eq!(counts["tokens_out"], 12);
        assert!(counts["tokens_in"] > 3 * 4, "{counts:?}");
        let expected = of([
            ("north/gate/1", "a red van"),
            ("north/gate/2", "a green van"),
            ("north/gate/3", "a blue van"),
        ]);
        assert_eq!(words(&mut *sink), expected, "{is_genai} {concurrency}");
        sink.finish().unwrap();
    }
}

#[test]
fn model_of_words_alone_answers_the_prompt() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    TinyChat(folder.path()).write_words(PADDED);
    let mut sink = opened(
        folder.path(),
        &[(
            "answers",
            Value::Texts(vec!["A red van".to_owned(), "no".to_owned()]),
        )],
    );
    ask(&mut *sink, [coloured(1, GREEN)]);
    let counts = wait_until(&*sink, done);
    assert_eq!(
        (counts["answered"], counts["tokens_out"]),
        (1, 4),
        "{:?}",
        sink.outage()
    );
    assert_eq!(words(&mut *sink)[0].1, "A red van");
}

#[test]
fn answer_of_another_form_is_wrong_and_counts_its_tokens() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    TinyChat(folder.path()).write_optimum(PADDED);
    let fields = Value::Texts(vec!["persons: number".to_owned()]);
    let mut sink = opened(
        folder.path(),
        &[("fields", fields), ("tokens_per_day", Value::Number(500.0))],
    );
    ask(&mut *sink, [coloured(1, RED)]);
    let counts = wait_until(&*sink, done);
    assert_eq!((counts["wrong"], counts["tokens_out"]), (1, 4), "{counts:?}");
    assert!(sink.take_descriptions().is_empty());
    ask(&mut *sink, (2..40).map(|number| coloured(number, RED)));
    let counts = wait_until(&*sink, done);
    assert!(
        counts["over_budget"] > 0 && counts["tokens_in"] + counts["tokens_out"] <= 500,
        "{counts:?}"
    );
}

#[test]
fn decoder_that_never_ends_is_cut_at_its_bounds() {
    if !has_runtime() {
        return;
    }
    let endless = TinyDecoder {
        never_ends: true,
        ..PADDED
    };
    let folder = tempfile::tempdir().unwrap();
    TinyChat(folder.path()).write_optimum(endless);
    let tokens = |keys: &[(&str, Value)]| {
        let mut sink = opened(folder.path(), keys);
        ask(&mut *sink, [coloured(1, RED)]);
        let counts = wait_until(&*sink, done);
        assert_eq!(counts["answered"], 1, "{counts:?}");
        (
            counts["tokens_in"],
            counts["tokens_out"],
            words(&mut *sink)[0].1.clone(),
        )
    };
    let (_, out, said) = tokens(&[("max_tokens", Value::Number(7.0))]);
    assert_eq!((out, &*said), (7, "a red van a red van a"));
    let bounds = [
        ("max_tokens", Value::Number(100_000.0)),
        ("context", Value::Number(64.0)),
    ];
    let (prompt, out, _) = tokens(&bounds);
    assert_eq!(prompt + out, 64);
    let long = [
        ("prompt", text(&"what ".repeat(80))),
        ("context", Value::Number(64.0)),
    ];
    let mut sink = opened(folder.path(), &long);
    ask(&mut *sink, [coloured(1, RED)]);
    let counts = wait_until(&*sink, done);
    assert_eq!(counts["refused"], 1, "{counts:?}");
    let outage = sink.outage().unwrap();
    assert!(
        outage.contains("the prompt has 8") && outage.contains("`context`"),
        "{outage}"
    );
}

#[test]
fn answer_that_is_late_is_given_up() {
    if !has_runtime() {
        return;
    }
    let endless = TinyDecoder {
        never_ends: true,
        ..PADDED
    };
    let folder = tempfile::tempdir().unwrap();
    TinyChat(folder.path()).write_optimum(endless);
    let bounds = [
        ("max_tokens", Value::Number(100_000.0)),
        ("context", Value::Number(32_768.0)),
        ("timeout", Value::Number(0.05)),
        ("finish", Value::Number(0.05)),
        ("concurrency", Value::Number(2.0)),
    ];
    let mut sink = opened(folder.path(), &bounds);
    ask(&mut *sink, [coloured(1, RED), coloured(2, GREEN)]);
    let counts = wait_until(&*sink, |counts| counts["timed_out"] > 0);
    assert_eq!(counts["answered"], 0, "{counts:?}");
    sink.finish().unwrap();
}

#[test]
fn marks_in_a_prompt_have_no_meaning() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    TinyChat(folder.path()).write_optimum(PADDED);
    let prompt = text("<image> <im<end>age> is <end> it? {{ class }}");
    let mut sink = opened(folder.path(), &[("prompt", prompt), ("system", text("<image>"))]);
    let plated = Incident {
        class: Some("<image>".into()),
        ..coloured(1, BLUE)
    };
    ask(&mut *sink, [plated]);
    let counts = wait_until(&*sink, done);
    assert_eq!(counts["answered"], 1, "{counts:?} {:?}", sink.outage());
    assert_eq!(words(&mut *sink)[0].1, "a blue van");
}

#[test]
fn picture_that_is_none_fails_and_the_next_is_described() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    TinyChat(folder.path()).write_optimum(PADDED);
    let mut sink = opened(folder.path(), &[]);
    let broken = Incident {
        best: best(b"\xff\xd8 no picture"),
        ..incident("north", 1)
    };
    ask(&mut *sink, [broken]);
    let counts = wait_until(&*sink, done);
    assert_eq!(counts["refused"], 1, "{counts:?}");
    ask(&mut *sink, [coloured(2, RED)]);
    let counts = wait_until(&*sink, done);
    assert_eq!(counts["answered"], 1, "{counts:?}");
}

#[test]
fn folder_that_does_not_fit_is_an_error_with_what_is_missing() {
    if !has_runtime() {
        return;
    }
    type Spoil = fn(&TinyChat<'_>);
    let remove = |tiny: &TinyChat<'_>, name: &str| std::fs::remove_file(tiny.0.join(name)).unwrap();
    let optimum: [(Spoil, &[&str]); 9] = [
        (
            |tiny| drop(tiny.write("onnx/decoder_model_merged.onnx", "")),
            &["decoder_model_merged.onnx", "empty"],
        ),
        (
            |tiny| {
                drop(std::fs::copy(
                    tiny.0.join("onnx/embed_tokens.onnx"),
                    tiny.0.join("onnx/decoder_model_merged.onnx"),
                ))
            },
            &["decoder ", "attention_mask", "input_ids"],
        ),
        (
            |tiny| {
                drop(std::fs::copy(
                    tiny.0.join("onnx/decoder_model_merged.onnx"),
                    tiny.0.join("onnx/embed_tokens.onnx"),
                ))
            },
            &["embeddings ", "inputs_embeds", "is not filled", "input_ids"],
        ),
        (
            |tiny| {
                drop(std::fs::copy(
                    tiny.0.join("onnx/embed_tokens.onnx"),
                    tiny.0.join("onnx/vision_encoder.onnx"),
                ))
            },
            &["picture encoder ", "input_ids", "pixel_values"],
        ),
        (
            |tiny| drop(tiny.write("config.json", "{}")),
            &["config.json", "image_token_id"],
        ),
        (
            |tiny| drop(tiny.write("config.json", "[")),
            &["config.json", "no JSON"],
        ),
        (
            |tiny| drop(tiny.write("config.json", "{\"image_token_id\": 4000000000}")),
            &["tokenizer.json", "4000000000"],
        ),
        (
            |tiny| drop(tiny.write("tokenizer_config.json", "{}")),
            &["chat template", "tokenizer_config.json"],
        ),
        (
            |tiny| drop(tiny.write("chat_template.jinja", "\n{% macro a() %}{% endmacro %}")),
            &["chat template in", "chat_template.jinja", "line 2", "`macro`"],
        ),
    ];
    for (spoil, expected) in optimum {
        let folder = tempfile::tempdir().unwrap();
        let tiny = TinyChat(folder.path());
        tiny.write_optimum(PADDED);
        spoil(&tiny);
        let error = refused(folder.path());
        assert!(
            expected.iter().all(|part| error.contains(part)),
            "{expected:?}: {error}"
        );
    }
    for (missing, expected) in [
        ("onnx/decoder_model_merged.onnx", "model.onnx"),
        ("onnx/embed_tokens.onnx", "no embed_tokens.onnx"),
        ("preprocessor_config.json", "preparation of pictures"),
        ("tokenizer.json", "tokenizer.json"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let tiny = TinyChat(folder.path());
        tiny.write_optimum(PADDED);
        remove(&tiny, missing);
        let error = refused(folder.path());
        assert!(error.contains(expected), "{missing}: {error}");
    }
}

#[test]
fn questions_to_a_model_that_does_not_open_are_refused_with_its_file() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tiny = TinyChat(folder.path());
    tiny.write_optimum(PADDED);
    tiny.write("onnx/embed_tokens.onnx", "no graph");
    let mut described = opened(folder.path(), &[]);
    ask(&mut *described, [coloured(1, RED), coloured(2, GREEN)]);
    let counts = wait_until(&*described, done);
    assert_eq!(counts["refused"], 2, "{counts:?}");
    let outage = described.outage().unwrap();
    assert!(outage.contains("embed_tokens.onnx"), "{outage}");
    described.finish().unwrap();
    // What the texts of the folder show is an error of the graph.
    tiny.write("tokenizer.json", "{}");
    let error = sink("describe", &settings(folder.path(), &[]))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
}

#[test]
fn files_that_genai_names_stay_below_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = TinyChat(folder.path());
    tiny.write_genai(EXACT);
    let config = std::fs::read_to_string(folder.path().join("genai_config.json")).unwrap();
    for name in ["../writes.onnx", "/etc/passwd", "./../x", "none.onnx"] {
        tiny.write("genai_config.json", config.replace("writes.onnx", name));
        let error = refused(folder.path());
        assert!(
            error.contains("model.decoder.filename") && error.contains(name),
            "{error}"
        );
    }
    tiny.write("genai_config.json", "{\"model\": 5}");
    let error = refused(folder.path());
    assert!(error.contains("model.decoder.filename"), "{error}");
}

#[test]
fn variant_is_taken_and_memory_is_in_words() {
    if !has_runtime() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tiny = TinyChat(folder.path());
    tiny.write_optimum(PADDED);
    let decoder = folder.path().join("onnx/decoder_model_merged.onnx");
    std::fs::rename(&decoder, folder.path().join("onnx/decoder_model_merged_q4.onnx")).unwrap();
    let more = [
        ("variant", text("q4")),
        ("context", Value::Number(4_096.0)),
        ("concurrency", Value::Number(4.0)),
    ];
    let said = local_model("describe", &settings(folder.path(), &more))
        .unwrap()
        .unwrap();
    assert_eq!(
        said,
        "onnx/vision_encoder.onnx, onnx/embed_tokens.onnx, onnx/decoder_model_merged_q4.onnx of tiny; pictures of 16 x 16; 4 answers at a \
         time, 4096 tokens each with their prompt; memory: 1 MiB of weights, 4 MiB of caches at most"
    );
}
