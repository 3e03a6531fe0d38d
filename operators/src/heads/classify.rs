//! One class out of several: `classify` for images in general, `expression` for faces.
//!
//! Input: `classify` takes red, green, blue normalised by ImageNet's mean and deviation, centre crop; `expression`
//! takes gray between -1 and 1 (mini-XCEPTION). Output: `[classes]`, probabilities or logits. Softmax is applied unless
//! the values are probabilities already; the key `activation` overrides this.

use std::sync::Arc;

use weir_flow::{Attribute, HeadOutput, Inference, KeyKind, KeySpec, Settings};

use super::detection::best;
use super::input::{BYTES, Fit, Input, InputDefaults, ItemTransform};
use super::labels::Labels;
use super::settings::{INPUT_KEYS, LABEL_KEYS};
use super::{Head, HeadKind, Output, OutputSpec, unfit};
use crate::pixels::Channels;

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "activation",
        kind: KeyKind::OneOf(&["auto", "softmax", "none"]),
        about: "softmax: outputs are logits; none: outputs are probabilities; auto, the default: looks at them",
    },
    KeySpec {
        name: "score_threshold",
        kind: KeyKind::Number { min: 0.0, max: 1.0 },
        about: "a class below this probability is left out; default 0",
    },
    KeySpec {
        name: "certainty",
        kind: KeyKind::OneOf(&["top-1", "margin", "entropy"]),
        about: "certainty of an answer in a cascade: top-1, the default, its probability; margin, that less the \
                second; entropy, 1 less the entropy of all over its largest",
    },
];

pub(super) const KIND: HeadKind = HeadKind {
    name: "classify",
    about: "one class: RGB less ImageNet mean over std, the middle; [classes] probabilities or logits",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        channels: Channels::Rgb,
        mean: [123.675, 116.28, 103.53],
        std: [58.395, 57.12, 57.375],
        fit: Fit::Centre,
        size: (224, 224),
        ..BYTES
    },
    build: |settings, input, specs| build(settings, input, specs, &[]),
};

pub(super) const EXPRESSION: HeadKind = HeadKind {
    name: "expression",
    about: "expression of a face: gray (x - 127.5) / 127.5, stretched; [classes] probabilities or logits",
    output: HeadOutput::Attribute,
    classes: EXPRESSIONS,
    keys: &[KEYS, LABEL_KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        channels: Channels::Luma,
        mean: [127.5; 3],
        std: [127.5; 3],
        fit: Fit::Stretch,
        size: (48, 48),
        ..BYTES
    },
    build: |settings, input, specs| build(settings, input, specs, EXPRESSIONS),
};

const EXPRESSIONS: &[&str] = &["angry", "disgust", "fear", "happy", "sad", "surprise", "neutral"];

/// Whether softmax is applied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Activation {
    Auto,
    Softmax,
    None,
}

impl Activation {
    pub(super) fn read(settings: &Settings) -> Self {
        match settings.text("activation") {
            Some("softmax") => Self::Softmax,
            Some("none") => Self::None,
            _ => Self::Auto,
        }
    }

    /// The class of the highest value, with its probability.
    pub(super) fn best(self, values: &[f32]) -> (usize, f32) {
        let (class, most) = best(values);
        if self.takes_as_they_are(values) {
            return (class, most);
        }
        let sum: f32 = values.iter().map(|value| (value - most).exp()).sum();
        (class, 1.0 / sum)
    }

    /// The probabilities of all classes.
    fn probabilities(self, values: &[f32]) -> Vec<f32> {
        if self.takes_as_they_are(values) {
            return values.to_vec();
        }
        let (_, most) = best(values);
        let sum: f32 = values.iter().map(|value| (value - most).exp()).sum();
        values.iter().map(|value| (value - most).exp() / sum).collect()
    }

    /// Whether the values are probabilities.
    fn takes_as_they_are(self, values: &[f32]) -> bool {
        let is_probability = || {
            let sum: f32 = values.iter().sum();
            values.iter().all(|value| *value >= -1e-4) && (sum - 1.0).abs() < 1e-2
        };
        self == Self::None || (self == Self::Auto && is_probability())
    }
}

/// Measure of certainty of a classification, in a cascade.
#[derive(Debug, Clone, Copy)]
enum Certainty {
    Top1,
    Margin,
    Entropy,
}

impl Certainty {
    /// `None` where it is not asked for.
    fn read(settings: &Settings) -> Option<Self> {
        match settings.text("certainty")? {
            "margin" => Some(Self::Margin),
            "entropy" => Some(Self::Entropy),
            _ => Some(Self::Top1),
        }
    }

    /// 0 to 1, of probabilities.
    fn of(self, probabilities: &[f32]) -> f32 {
        let most = probabilities.iter().fold(0.0_f32, |most, value| most.max(*value));
        let certainty = match self {
            Self::Top1 => most,
            Self::Margin => {
                let mut sorted = probabilities.to_vec();
                sorted.sort_by(|a, b| b.total_cmp(a));
                sorted.first().unwrap_or(&0.0) - sorted.get(1).unwrap_or(&0.0)
            }
            Self::Entropy => {
                let positive = probabilities.iter().filter(|value| **value > 0.0);
                let entropy: f32 = positive.map(|value| -value * value.ln()).sum();
                1.0 - entropy / (probabilities.len().max(2) as f32).ln()
            }
        };
        certainty.clamp(0.0, 1.0)
    }
}

struct Classify {
    labels: Labels,
    activation: Activation,
    threshold: f32,
    certainty: Option<Certainty>,
}

fn build(
    settings: &Settings,
    _: &Input,
    specs: &[OutputSpec],
    names: &[&str],
) -> Result<Box<dyn Head>, String> {
    let classes = match specs {
        [only] if only.readable => only.shape.iter().product(),
        _ => 0,
    };
    let flat = specs
        .first()
        .is_some_and(|only| only.shape.iter().filter(|size| **size > 1).count() <= 1);
    if classes < 2 || !flat {
        return Err(unfit(specs, "one of [classes]"));
    }
    let labels = Labels::read(settings, names, classes)?;
    let threshold = settings.number("score_threshold", 0.0) as f32;
    Ok(Box::new(Classify {
        labels,
        activation: Activation::read(settings),
        threshold,
        certainty: Certainty::read(settings),
    }))
}

impl Head for Classify {
    fn labels(&self) -> Option<&Labels> {
        Some(&self.labels)
    }

    /// It gives no objects.
    fn classes(&self) -> &[Arc<str>] {
        &[]
    }

    fn decode(&self, outputs: &[Output<'_>], _: &ItemTransform) -> Inference {
        let Some(output) = outputs.first() else {
            return Inference::default();
        };
        let (class, score) = self.activation.best(output.data);
        let is_given = score >= self.threshold;
        let certainty = self.certainty.map(|certainty| {
            if is_given {
                certainty.of(&self.activation.probabilities(output.data))
            } else {
                0.0
            }
        });
        Inference {
            attribute: is_given.then(|| Attribute::Class {
                class: self.labels.name(class),
                score,
            }),
            certainty,
            ..Inference::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_kept_and_logits_get_a_softmax() {
        assert_eq!(Activation::Auto.best(&[0.2, 0.7, 0.1]), (1, 0.7));
        let (class, score) = Activation::Auto.best(&[0.0, 2.0, 0.0]);
        assert_eq!(class, 1);
        assert!((score - 2.0_f32.exp() / (2.0 + 2.0_f32.exp())).abs() < 1e-6);
    }

    #[test]
    fn certainty_is_by_the_first_the_second_or_all() {
        let near = |certainty: Certainty, values: &[f32], expected: f32| {
            let found = certainty.of(values);
            assert!(
                (found - expected).abs() < 1e-3,
                "{certainty:?} {values:?}: {found}"
            );
        };
        near(Certainty::Top1, &[0.6, 0.3, 0.1], 0.6);
        near(Certainty::Margin, &[0.3, 0.6, 0.1], 0.3);
        near(Certainty::Entropy, &[0.5, 0.5], 0.0);
        near(Certainty::Entropy, &[1.0, 0.0, 0.0], 1.0);
        near(
            Certainty::Top1,
            &Activation::Softmax.probabilities(&[0.0, 0.0, 0.0, 0.0]),
            0.25,
        );
    }

    #[test]
    fn an_expression_is_named() {
        let port = [None, Some(48), Some(48), Some(1)];
        let input = Input::read(&EXPRESSION.input_defaults, &Settings::default(), &port).expect("read");
        let specs = [OutputSpec {
            name: "predictions".to_owned(),
            shape: vec![7],
            readable: true,
        }];
        let head = EXPRESSION
            .build(&Settings::default(), &input, &specs)
            .expect("fits");
        let data = [0.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.1];
        let attribute = head
            .decode(&[Output { data: &data }], &ItemTransform::identity(48, 48))
            .attribute;
        assert_eq!(
            attribute,
            Some(Attribute::Class {
                class: "happy".into(),
                score: 0.9
            })
        );
    }
}
