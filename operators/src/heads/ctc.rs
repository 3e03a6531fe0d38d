//! Text by connectionist temporal classification: a character or a blank at each step; repeats are one character.
//!
//! Output: `[steps, characters + 1]` or transposed (LPRNet), probabilities or logits. Four alphabets are built in:
//!
//! - `lprnet`: input blue, green, red (x - 127.5) / 128, a plate stretched to the input; the blank is last;
//! - `ppocr-en`: input blue, green, red (x - 127.5) / 127.5, a line scaled to the input's height, its width free and
//!   filled on the right; the blank is first;
//! - `plates` (digits, and capitals without I, O and Q) and `digits`: characters only, with the input set by keys; the
//!   blank is first.
//!
//! Models of the PP-OCR family carry their alphabet in their metadata. A custom alphabet is a file with one character on each line. Items with four corners are rectified.

use std::path::Path;

use regex::Regex;
use weir_flow::{Attribute, HeadOutput, Inference, KeyKind, KeySpec, Settings};

use super::classify::Activation;
use super::input::{Align, BYTES, Fit, Input, InputDefaults, ItemTransform};
use super::labels::MAX_LIST_BYTES;
use super::settings::INPUT_KEYS;
use super::{CHARACTERS, Head, HeadKind, Output, OutputSpec, single, unfit};

pub(super) const KIND: HeadKind = HeadKind {
    name: "ctc",
    about: "text: BGR (x - 127.5) / 128, plates by corners or lines of free width; [steps, characters + 1] or \
            transposed",
    output: HeadOutput::Attribute,
    classes: &[],
    keys: &[KEYS, INPUT_KEYS],
    input_defaults: InputDefaults {
        mean: [127.5; 3],
        std: [128.0; 3],
        fill: 127.5,
        fit: Fit::Line,
        align: Align::Quad,
        size: (320, 32),
        ..BYTES
    },
    build,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "alphabet",
        kind: KeyKind::OneOf(&["lprnet", "ppocr-en", "plates", "digits"]),
        about: "characters in the model's order; by default those that the model carries in its metadata `character`, else \
                lprnet or ppocr-en, whichever has its number of them; plates: digits and capitals without I, O, Q",
    },
    KeySpec {
        name: "alphabet_file",
        kind: KeyKind::File,
        about: "file with a character on each line, in the model's order without the blank",
    },
    KeySpec {
        name: "blank",
        kind: KeyKind::OneOf(&["first", "last"]),
        about: "position of the blank; default: last for lprnet, else first",
    },
    KeySpec {
        name: "max_width",
        kind: KeyKind::Integer { min: 32, max: 8192 },
        about: "widest input for lines of text where the model leaves the width free; default 1280",
    },
    KeySpec {
        name: "min_score",
        kind: KeyKind::Number { min: 0.0, max: 1.0 },
        about: "characters below this probability are left out; default 0",
    },
    KeySpec {
        name: "min_characters",
        kind: KeyKind::Integer { min: 1, max: 1000 },
        about: "text with fewer characters is left out; default 1",
    },
    KeySpec {
        name: "leave_out",
        kind: KeyKind::Text,
        about: "characters that are left out of the text, such as the dot between the parts of a plate; default none",
    },
    KeySpec {
        name: "pattern",
        kind: KeyKind::Text,
        about: "regular expression that the whole text must match: one that does not has certainty 0, in a cascade; \
                default any",
    },
    KeySpec {
        name: "certainty",
        kind: KeyKind::OneOf(&["least", "mean"]),
        about: "certainty of an answer in a cascade: the probability of its least certain character, the default, or \
                the mean of all",
    },
];

/// Characters of Chinese plates as LPRNet orders them: provinces, digits, letters without I and O, then I and O.
const LPRNET: &str =
    "京沪津渝冀晋蒙辽吉黑苏浙皖闽赣鲁豫鄂湘粤桂琼川贵云藏陕甘青宁新0123456789ABCDEFGHJKLMNPQRSTUVWXYZIO";

/// Printable ASCII in the order of PP-OCR's English models, which has the space twice.
const PPOCR_EN: &str =
    "0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~!\"#$%&'()*+,-./  ";

/// Digits and the capitals that plates distinguish from them.
const PLATES: &str = "0123456789ABCDEFGHJKLMNPRSTUVWXYZ";

const DIGITS: &str = "0123456789";

struct Ctc {
    alphabet: Vec<String>,
    blank: usize,
    /// True for the transposed output `[characters, steps]`.
    transposed: bool,
    min_score: f32,
    min_characters: usize,
    leave_out: Vec<char>,
    pattern: Option<Regex>,
    certainty: Option<Certainty>,
}

/// Combination of the characters' probabilities into the certainty of a text, in a cascade.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Certainty {
    Least,
    Mean,
}

fn build(settings: &Settings, _: &Input, specs: &[OutputSpec]) -> Result<Box<dyn Head>, String> {
    let expected = "one of [steps, characters + 1] or [characters + 1, steps]";
    let shape = single(specs, expected, 2)?;
    let (alphabet, name) = alphabet(settings, &shape)?;
    let symbols = alphabet.len() + 1;
    if !shape.contains(&symbols) {
        let expected = format!("{expected}; the alphabet has {} characters", alphabet.len());
        return Err(unfit(specs, &expected));
    }
    let last = settings
        .text("blank")
        .map_or(name == "lprnet", |blank| blank == "last");
    Ok(Box::new(Ctc {
        blank: if last { alphabet.len() } else { 0 },
        alphabet,
        transposed: shape[1] != symbols,
        min_score: settings.number("min_score", 0.0) as f32,
        min_characters: settings.number("min_characters", 1.0) as usize,
        leave_out: settings.text("leave_out").unwrap_or_default().chars().collect(),
        pattern: settings.text("pattern").map(pattern).transpose()?,
        certainty: settings.text("certainty").map(|word| match word {
            "mean" => Certainty::Mean,
            _ => Certainty::Least,
        }),
    }))
}

/// The expression that a whole text must match.
fn pattern(text: &str) -> Result<Regex, String> {
    let whole = Regex::new(&format!("^(?:{text})$"));
    whole.map_err(|error| format!("`pattern` is no regular expression: {error}"))
}

/// The characters, and the name of the alphabet.
fn alphabet<'a>(settings: &'a Settings, shape: &[usize]) -> Result<(Vec<String>, &'a str), String> {
    if let Some(path) = settings.text("alphabet_file") {
        let text = weir_files::read_text(Path::new(path), MAX_LIST_BYTES)
            .map_err(|error| format!("alphabet_file {path} cannot be read: {error}"))?;
        // A line may contain a single space, which is a character too.
        return Ok((text.lines().map(str::to_owned).collect(), "file"));
    }
    let named_by_graph = settings.text("alphabet").is_some();
    if let Some(characters) = settings.texts(CHARACTERS).filter(|_| !named_by_graph) {
        let mut characters = characters.to_vec();
        // The blank, and a space that is not listed.
        if shape.contains(&(characters.len() + 2)) {
            characters.push(" ".to_owned());
        }
        return Ok((characters, "model"));
    }
    // Small alphabets must be named: a model's number of steps may match their size by chance.
    let guessed = [("lprnet", LPRNET), ("ppocr-en", PPOCR_EN)];
    let named = [("plates", PLATES), ("digits", DIGITS)];
    let fits = |(_, characters): &&(&str, &str)| shape.contains(&(characters.chars().count() + 1));
    let chosen = match settings.text("alphabet") {
        Some(name) => guessed.iter().chain(&named).find(|(known, _)| *known == name),
        None => guessed.iter().find(fits),
    };
    let (name, characters) = chosen.ok_or_else(|| {
        format!("no built-in alphabet fits outputs of {shape:?}; give alphabet or alphabet_file")
    })?;
    Ok((characters.chars().map(String::from).collect(), name))
}

impl Head for Ctc {
    fn alphabet(&self) -> &[String] {
        &self.alphabet
    }

    fn decode(&self, outputs: &[Output<'_>], _: &ItemTransform) -> Inference {
        let Some(output) = outputs.first() else {
            return Inference::default();
        };
        let symbols = self.alphabet.len() + 1;
        let steps = output.data.len() / symbols;
        let (mut text, mut scores, mut before) = (String::new(), Vec::new(), self.blank);
        let mut column = vec![0.0; symbols];
        for step in 0..steps {
            let values = if self.transposed {
                for (symbol, value) in column.iter_mut().enumerate() {
                    *value = output.data[symbol * steps + step];
                }
                &column
            } else {
                &output.data[step * symbols..(step + 1) * symbols]
            };
            let (symbol, score) = Activation::Auto.best(values);
            if symbol != self.blank && symbol != before && score >= self.min_score {
                let index = if self.blank == 0 { symbol - 1 } else { symbol };
                let characters = &self.alphabet[index];
                if !characters.chars().all(|c| self.leave_out.contains(&c)) {
                    text.push_str(characters);
                    scores.push(score);
                }
            }
            before = symbol;
        }
        if scores.len() < self.min_characters.max(1) {
            return Inference {
                certainty: self.certainty.map(|_| 0.0),
                ..Inference::default()
            };
        }
        let mean = scores.iter().sum::<f32>() / scores.len() as f32;
        let fits = self
            .pattern
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(&text));
        let certainty = self.certainty.map(|certainty| match certainty {
            _ if !fits => 0.0,
            Certainty::Least => scores.iter().fold(1.0, |least, score| score.min(least)),
            Certainty::Mean => mean,
        });
        Inference {
            attribute: Some(Attribute::Text { text, score: mean }),
            certainty,
            ..Inference::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pixels::Channels;
    use weir_flow::Value;

    fn read(shape: &[usize], symbols: &[usize]) -> Option<Attribute> {
        read_as(&Settings::default(), shape, symbols)
    }

    fn read_as(settings: &Settings, shape: &[usize], symbols: &[usize]) -> Option<Attribute> {
        let port = [None, Some(3), Some(24), Some(94)];
        let input = Input::read(&KIND.input_defaults, settings, &port).expect("read");
        let specs = [OutputSpec {
            name: "logits".to_owned(),
            shape: shape.to_vec(),
            readable: true,
        }];
        let head = KIND.build(settings, &input, &specs).expect("fits");
        let mut data = vec![0.0; shape.iter().product()];
        for (step, symbol) in symbols.iter().enumerate() {
            data[if shape[1] == symbols.len() {
                symbol * symbols.len() + step
            } else {
                step * shape[1] + symbol
            }] = 20.0;
        }
        head.decode(&[Output { data: &data }], &ItemTransform::identity(94, 24))
            .attribute
    }

    #[test]
    fn alphabets_have_the_models_sizes() {
        let sizes = [LPRNET, PPOCR_EN, PLATES, DIGITS].map(|alphabet| alphabet.chars().count());
        assert_eq!(sizes, [67, 96, 33, 10]);
        assert!(!PLATES.contains(['I', 'O', 'Q']));
    }

    #[test]
    fn small_alphabets_are_used_only_if_named() {
        let named = |alphabet: &str| {
            let alphabet = Value::Text(alphabet.to_owned());
            Settings([("alphabet".to_owned(), alphabet)].into())
        };
        let text = |said: Option<Attribute>| match said {
            Some(Attribute::Text { text, .. }) => text,
            other => panic!("{other:?}"),
        };
        let plate = read_as(&named("plates"), &[6, 34], &[11, 11, 0, 11, 33, 1]);
        assert_eq!(text(plate), "AAZ0");
        let count = read_as(&named("digits"), &[5, 11], &[0, 5, 5, 0, 3]);
        assert_eq!(text(count), "42");
        let port = [None, Some(3), Some(32), Some(64)];
        let input = Input::read(&KIND.input_defaults, &Settings::default(), &port).expect("read");
        let specs = [OutputSpec {
            name: "output".to_owned(),
            shape: vec![16, 11],
            readable: true,
        }];
        let refused = KIND
            .build(&Settings::default(), &input, &specs)
            .err()
            .unwrap_or_default();
        assert!(refused.contains("give alphabet"), "{refused}");
    }

    #[test]
    fn a_model_of_fixed_width_gets_stretched_gray_boxes() {
        let text = |text: &str| Value::Text(text.to_owned());
        let keys = [
            ("channels", text("gray")),
            ("resize", text("stretch")),
            ("std", text("255")),
        ];
        let settings = Settings(keys.map(|(key, value)| (key.to_owned(), value)).into());
        for settings in [settings, Settings::default()] {
            let port = [None, Some(1), Some(32), Some(64)];
            let input = Input::read(&KIND.input_defaults, &settings, &port).expect("read");
            assert_eq!((input.spec.channels, input.fit), (Channels::Luma, Fit::Stretch));
            assert_eq!((input.item_shape(), input.widest), (vec![1, 32, 64], None));
        }
    }

    #[test]
    fn repeats_collapse_unless_a_blank_separates_them() {
        let Some(Attribute::Text { text, score }) = read(&[68, 6], &[12, 12, 67, 41, 67, 41]) else {
            panic!("no text")
        };
        assert_eq!(text, "皖AA");
        assert!(score > 0.99);
        let Some(Attribute::Text { text, .. }) = read(&[5, 97], &[18, 0, 95, 18, 18]) else {
            panic!("no text")
        };
        assert_eq!(text, "A A");
        assert_eq!(read(&[5, 97], &[0, 0, 0, 0, 0]), None);
    }
}
