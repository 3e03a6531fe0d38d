//! Texts that the operator `describe` makes of generated tokens, with stop texts and with texts that are cut
//! short.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::Arc;

use weir_flow::{
    Attribute, Batching, DeviceKind, Generated, GenerativeLimits, GenerativeModel, GenerativeSession,
    Inference, Model, Operator, SequenceEnd, Session, SessionError, Settings, Value,
};
use weir_operators::{OperatorRequest, operator};

/// A model whose tokens are characters; it never runs.
struct Characters;

fn never() -> SessionError {
    SessionError::Load {
        model: "characters".to_owned(),
        reason: "it never runs".to_owned(),
    }
}

impl Model for Characters {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn generative(&self) -> Option<Arc<dyn GenerativeModel>> {
        Some(Arc::new(Self))
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Err(never())
    }
}

impl GenerativeModel for Characters {
    fn limits(&self) -> GenerativeLimits {
        GenerativeLimits {
            vocabulary: 256,
            max_sequence_tokens: 512,
        }
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        text.chars().map(u32::from).collect()
    }

    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().copied().filter_map(char::from_u32).collect()
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn GenerativeSession>, SessionError> {
        Err(never())
    }
}

fn describe(settings: &[(&str, Value)]) -> Arc<dyn Operator> {
    let settings = settings.iter().cloned();
    let settings = Settings(settings.map(|(key, value)| (key.to_owned(), value)).collect());
    let request = OperatorRequest {
        operator: "describe",
        regions: &[],
        settings: &settings,
        model: Some(&Characters),
    };
    operator(&request).unwrap()
}

fn said(settings: &[(&str, Value)], text: &str, end: SequenceEnd) -> Inference {
    describe(settings).inference(&Generated {
        tokens: Characters.encode(text),
        score: 0.5,
        end,
    })
}

fn text_of(inference: &Inference) -> Option<&str> {
    match &inference.attribute {
        Some(Attribute::Text { text, score }) => {
            assert!((score - 0.5).abs() < f32::EPSILON);
            Some(text)
        }
        _ => None,
    }
}

#[test]
fn a_text_that_is_cut_short_is_kept_cut_to_its_sentences_or_left_out() {
    let cases = [
        ("keep", "A car. A van is", Some("A car. A van is")),
        ("keep", "", None),
        ("sentence", "A car. A van is", Some("A car.")),
        ("sentence", "Is it? It is! No", Some("Is it? It is!")),
        ("sentence", "A car. A van.", Some("A car. A van.")),
        ("sentence", "A van is", None),
        ("leave-out", "A car. A van is", None),
    ];
    for (cut_short, text, expected) in cases {
        let settings = [("cut_short", Value::Text(cut_short.to_owned()))];
        let cut = said(&settings, text, SequenceEnd::MaxTokens);
        assert_eq!(text_of(&cut), expected, "{cut_short}: {text:?}");
        assert_eq!(cut.tokens, expected.map(|_| text.len() as u32));
        // One that ended by itself is as it is.
        for end in [SequenceEnd::StopToken, SequenceEnd::StopText] {
            let whole = said(&settings, text, end);
            assert_eq!(
                text_of(&whole),
                Some(text).filter(|text| !text.is_empty()),
                "{end:?}"
            );
        }
    }
    // Without the key it is kept.
    let cut = said(&[], "A car. A van is", SequenceEnd::MaxTokens);
    assert_eq!(text_of(&cut), Some("A car. A van is"));
}

#[test]
fn a_text_ends_before_the_first_of_the_texts_that_end_it() {
    let stop = |texts: &[&str]| {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        [("stop", Value::Texts(texts))]
    };
    for (texts, text, expected) in [
        (&["\n"][..], "A car.\nA van", Some("A car.")),
        (&["van", "car"], "A car and a van", Some("A")),
        (&["van", "\n"], " A car \n", Some("A car")),
        (&["bus"], "A car", Some("A car")),
        (&[""], "A car", Some("A car")),
        (&["A"], "A car", None),
    ] {
        let found = said(&stop(texts), text, SequenceEnd::StopText);
        assert_eq!(text_of(&found), expected, "{texts:?}: {text:?}");
    }
    // What is stopped is no sentence that was cut short before.
    let mut settings = stop(&["\n"]).to_vec();
    settings.push(("cut_short", Value::Text("sentence".to_owned())));
    let found = said(&settings, "A car. It\nA van.", SequenceEnd::MaxTokens);
    assert_eq!(text_of(&found), Some("A car."));
}
