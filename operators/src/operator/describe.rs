//! The operator `describe`: a model that generates goes on from what the modules before found.
//!
//! Its prompt is made by a template, for the frame as a whole or for each object of `regions`; what is generated is a text
//! attribute of that object, or of the frame as an object of class `frame`.

use std::sync::Arc;

use weir_flow::{
    Attribute, Frame, Generated, GenerativeModel, Inference, Item, KeyKind, KeySpec, ModuleOutput, Object,
    ObjectAttribute, ObjectRef, Operator, Parts, Rect, RequestResults, Sampling, SequenceEnd, SequenceSpec,
    Settings,
};

use super::error::OperatorError;
use super::seen::Seen;
use super::template::Template;
use super::{ConfiguredOperator, OperatorRequest, crops, output};

/// Keys of the operator.
pub(super) const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "template",
        kind: KeyKind::Text,
        about: "the prompt: {objects} stands for the objects of the frame, or within the region, each by `object`, {count} for \
                their number, {scene} for those of the frame, and for a region the names of `object` for its object; what is in \
                [...] is left out where a name in it has nothing; default \"{objects}\"",
    },
    KeySpec {
        name: "object",
        kind: KeyKind::Text,
        about: "text of {objects} for each object: {class}, {place} (such as top left), and its attributes by their names ({plate}), \
                those of objects found within it and of its `parts` included; default \"{class} {place}\"",
    },
    KeySpec {
        name: "separator",
        kind: KeyKind::Text,
        about: "between two objects; default \", \"",
    },
    KeySpec {
        name: "objects",
        kind: KeyKind::Texts,
        about: "classes that {objects} and {scene} list; default all but those within others and `parts`",
    },
    KeySpec {
        name: "parts",
        kind: KeyKind::Texts,
        about: "classes found in the whole frame that are parts of others, such as [\"plate of car, van\"]: their \
                attributes are added to the objects that they are part of; default none",
    },
    KeySpec {
        name: "max_tokens",
        kind: KeyKind::Integer { min: 1, max: 65_536 },
        about: "maximum number of generated tokens; default 64",
    },
    KeySpec {
        name: "stop",
        kind: KeyKind::Texts,
        about: "texts that end it, such as [\"\\n\"], which are no part of it; default none",
    },
    KeySpec {
        name: "cut_short",
        kind: KeyKind::OneOf(&["keep", "sentence", "leave-out"]),
        about: "handling of a text that reaches `max_tokens` before it ends: keep: as it is; sentence: up to its last \
                full stop; leave-out: no attribute; default keep",
    },
    KeySpec {
        name: "temperature",
        kind: KeyKind::Number { min: 0.0, max: 10.0 },
        about: "divisor of the logits before a token is drawn; 0: always the most probable token; default 0",
    },
    KeySpec {
        name: "top_k",
        kind: KeyKind::Integer { min: 0, max: 1 << 20 },
        about: "number of most probable tokens to draw from; 0: all; default 0",
    },
    KeySpec {
        name: "seed",
        kind: KeyKind::Integer { min: 0, max: 1 << 32 },
        about: "seed of the draws, which differ by frame; default 1",
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutShort {
    Keep,
    Sentence,
    LeaveOut,
}

struct Describe {
    /// Selects its items, and assembles attributes.
    items: ConfiguredOperator,
    model: Arc<dyn GenerativeModel>,
    template: Template,
    object: Template,
    separator: String,
    classes: Vec<String>,
    parts: Parts,
    max_tokens: u32,
    stop: Arc<[String]>,
    cut_short: CutShort,
    sampling: Sampling,
    /// Name of the attribute with the number of tokens.
    tokens: Arc<str>,
}

/// Creates the operator around what selects its items.
///
/// # Errors
/// [`OperatorError`]: a template that is none, or a model that does not generate.
pub(super) fn describe(
    request: &OperatorRequest<'_>,
    items: ConfiguredOperator,
) -> Result<Arc<dyn Operator>, OperatorError> {
    let settings: &Settings = request.settings;
    let model = request.model.and_then(|model| model.generative());
    let model = model.ok_or(OperatorError::NotGenerative)?;
    let template = |key: &'static str, default: &str| {
        let read = Template::read(settings.text(key).unwrap_or(default));
        read.map_err(|reason| OperatorError::Template { key, reason })
    };
    let parts = Parts::read(settings.texts("parts").unwrap_or_default());
    let parts = parts.map_err(|reason| OperatorError::Template { key: "parts", reason })?;
    let whole = |key: &str, default: f64| settings.number(key, default) as u32;
    Ok(Arc::new(Describe {
        template: template("template", "{objects}")?,
        object: template("object", "{class} {place}")?,
        separator: settings.text("separator").unwrap_or(", ").to_owned(),
        classes: settings.texts("objects").unwrap_or_default().to_vec(),
        parts,
        max_tokens: whole("max_tokens", 64.0),
        stop: settings.texts("stop").unwrap_or_default().into(),
        cut_short: match settings.text("cut_short") {
            Some("sentence") => CutShort::Sentence,
            Some("leave-out") => CutShort::LeaveOut,
            _ => CutShort::Keep,
        },
        sampling: Sampling {
            temperature: settings.number("temperature", 0.0) as f32,
            top_k: whole("top_k", 0.0),
            seed: settings.number("seed", 1.0) as u64,
        },
        tokens: format!("{}_tokens", items.attribute).into(),
        items,
        model,
    }))
}

impl Describe {
    /// Texts for `{objects}` in a prompt, at most `max_items`: one per object of the frame, or per object
    /// whose centre lies in the box of `within`. Candidates are left out.
    fn objects(&self, within: Option<(ObjectRef, &Rect)>, seen: &Seen<'_>) -> Vec<String> {
        let is_meant = |(of, object): &(ObjectRef, &Object)| {
            let listed = match &*self.classes {
                [] => (object.parent.is_none() || within.is_some()) && !self.parts.contains(&object.class),
                classes => classes.iter().any(|class| **class == *object.class),
            };
            let is_inside = within.is_none_or(|(own, rect)| {
                let centre = object.rect.centre();
                own != *of
                    && (rect.x0..=rect.x1).contains(&centre.x)
                    && (rect.y0..=rect.y1).contains(&centre.y)
            });
            listed && is_inside && !object.candidate
        };
        let chosen = seen.results.objects().filter(is_meant).take(self.items.max_items);
        chosen
            .map(|found| self.object.fill(&|name| seen.of_object(name, found)))
            .collect()
    }

    fn prompt(&self, item: &Item, results: &RequestResults) -> String {
        let seen = Seen {
            frame: &item.frame,
            results,
            parts: &self.parts,
        };
        let own = item.object.and_then(|of| Some((of, results.object(of)?)));
        let objects = self.objects(own.map(|(of, object)| (of, &object.rect)), &seen);
        self.template.fill(&|name| match (name, own) {
            ("objects", _) => objects.join(&self.separator),
            ("count", _) => objects.len().to_string(),
            ("scene", _) => self.objects(None, &seen).join(&self.separator),
            (name, Some(own)) => seen.of_object(name, own),
            (_, None) => String::new(),
        })
    }
}

impl Operator for Describe {
    fn items(&self, frame: &Arc<Frame>, results: &RequestResults) -> Vec<Item> {
        crops::items(&self.items, frame, results)
    }

    fn sequences(&self, items: &[Item], results: &RequestResults) -> Vec<SequenceSpec> {
        let spec = |item: &Item| SequenceSpec {
            prompt: self.model.encode(&self.prompt(item, results)),
            max_tokens: self.max_tokens,
            stop: Arc::clone(&self.stop),
            sampling: Sampling {
                seed: self.sampling.seed ^ item.frame.index.rotate_left(32),
                ..self.sampling
            },
        };
        items.iter().map(spec).collect()
    }

    fn inference(&self, generated: &Generated) -> Inference {
        let mut text = self.model.decode(&generated.tokens);
        let stops = self.stop.iter().filter(|stop| !stop.is_empty());
        if let Some(at) = stops.filter_map(|stop| text.find(&**stop)).min() {
            text.truncate(at);
        }
        if generated.end == SequenceEnd::MaxTokens {
            match self.cut_short {
                CutShort::Keep => {}
                CutShort::Sentence => text.truncate(text.rfind(['.', '!', '?']).map_or(0, |at| at + 1)),
                CutShort::LeaveOut => text.clear(),
            }
        }
        let text = text.trim().to_owned();
        if text.is_empty() {
            return Inference::default();
        }
        Inference {
            certainty: Some(generated.score),
            tokens: Some(generated.tokens.len() as u32),
            attribute: Some(Attribute::Text {
                text,
                score: generated.score,
            }),
            ..Inference::default()
        }
    }

    fn output(&self, module: u32, items: &[Item], inferences: Vec<Inference>) -> ModuleOutput {
        let counts: Vec<u32> = inferences
            .iter()
            .filter_map(|inference| inference.tokens)
            .collect();
        let mut output = output::module_output(&self.items, module, items, inferences);
        // An attribute for each inference that has tokens, in this order.
        let counts = output
            .attributes
            .iter()
            .zip(counts)
            .map(|(text, count)| ObjectAttribute {
                object: text.object,
                name: Arc::clone(&self.tokens),
                attribute: Attribute::Number { value: count as f32 },
            });
        let counts: Vec<ObjectAttribute> = counts.collect();
        output.attributes.extend(counts);
        output
    }
}
