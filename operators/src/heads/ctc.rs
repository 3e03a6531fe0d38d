//! Text by connectionist temporal classification: a character or a blank at each step; repeats are one character.
//!
//! Gives `[steps, characters + 1]` or that transposed (LPRNet), probabilities or logits. Two alphabets are built in:
//!
//! - `lprnet` wants blue, green, red (x - 127.5) / 128, a plate stretched to its input; the blank is last;
//! - `ppocr-en` wants blue, green, red (x - 127.5) / 127.5, a line as high as the input, its width free and filled to
//!   the right; the blank is first.
//!
//! An alphabet of one's own is a file with a character on each line. Items with four corners are flattened.

use weir_flow::{Attribute, Bearing, Inference, KeyKind, KeySpec, Settings};

use super::classify::Activation;
use super::input::{Align, BYTES, Fit, Input, Placed, Wish};
use super::settings::INPUT;
use super::{Given, Head, Kind, Output, single, unfit};

pub(super) const KIND: Kind = Kind {
    name: "ctc",
    about: "text: BGR (x - 127.5) / 128, plates by corners or lines of free width; [steps, characters + 1] or \
            transposed",
    gives: Bearing::Attribute,
    classes: &[],
    keys: &[KEYS, INPUT],
    wish: Wish {
        mean: [127.5; 3],
        std: [128.0; 3],
        fill: 127.5,
        fit: Fit::Line,
        align: Align::Flat,
        size: (320, 32),
        ..BYTES
    },
    build,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "alphabet",
        kind: KeyKind::Word(&["lprnet", "ppocr-en"]),
        about: "characters in the model's order; by default the built-in one that has the model's number of them",
    },
    KeySpec {
        name: "alphabet_file",
        kind: KeyKind::File,
        about: "file with a character on each line, in the model's order without the blank",
    },
    KeySpec {
        name: "blank",
        kind: KeyKind::Word(&["first", "last"]),
        about: "where the blank is; default: last for lprnet, else first",
    },
    KeySpec {
        name: "max_width",
        kind: KeyKind::Whole { min: 32, max: 8192 },
        about: "widest input for lines of text where the model leaves the width free; default 1280",
    },
    KeySpec {
        name: "min_score",
        kind: KeyKind::Number { min: 0.0, max: 1.0 },
        about: "characters below this probability are left out; default 0",
    },
    KeySpec {
        name: "min_characters",
        kind: KeyKind::Whole { min: 1, max: 1000 },
        about: "text with fewer characters is not given; default 1",
    },
];

/// Characters of Chinese plates as LPRNet orders them: provinces, digits, letters without I and O, then I and O.
const LPRNET: &str =
    "京沪津渝冀晋蒙辽吉黑苏浙皖闽赣鲁豫鄂湘粤桂琼川贵云藏陕甘青宁新0123456789ABCDEFGHJKLMNPQRSTUVWXYZIO";

/// Printable ASCII as PP-OCR's English models order it; the space is there twice.
const PPOCR_EN: &str =
    "0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~!\"#$%&'()*+,-./  ";

struct Ctc {
    alphabet: Vec<String>,
    blank: usize,
    /// True for `[characters, steps]`.
    transposed: bool,
    min_score: f32,
    min_characters: usize,
}

fn build(settings: &Settings, _: &Input, given: &[Given]) -> Result<Box<dyn Head>, String> {
    let wants = "one of [steps, characters + 1] or [characters + 1, steps]";
    let shape = single(given, wants, 2)?;
    let (alphabet, name) = alphabet(settings, &shape)?;
    let symbols = alphabet.len() + 1;
    if !shape.contains(&symbols) {
        let wants = format!("{wants}; the alphabet has {} characters", alphabet.len());
        return Err(unfit(given, &wants));
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
    }))
}

/// The characters, and the name of the alphabet.
fn alphabet<'a>(settings: &'a Settings, shape: &[usize]) -> Result<(Vec<String>, &'a str), String> {
    if let Some(path) = settings.text("alphabet_file") {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("alphabet_file {path} cannot be read: {error}"))?;
        // A line may hold one space: it is a character too.
        return Ok((text.lines().map(str::to_owned).collect(), "file"));
    }
    let built_in = [("lprnet", LPRNET), ("ppocr-en", PPOCR_EN)];
    let fits = |(_, characters): &&(&str, &str)| shape.contains(&(characters.chars().count() + 1));
    let chosen = match settings.text("alphabet") {
        Some(name) => built_in.iter().find(|(known, _)| *known == name),
        None => built_in.iter().find(fits),
    };
    let (name, characters) = chosen.ok_or_else(|| {
        format!("no built-in alphabet fits outputs of {shape:?}; give alphabet or alphabet_file")
    })?;
    Ok((characters.chars().map(String::from).collect(), name))
}

impl Head for Ctc {
    fn decode(&self, outputs: &[Output<'_>], _: &Placed) -> Inference {
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
                text.push_str(&self.alphabet[index]);
                scores.push(score);
            }
            before = symbol;
        }
        let attribute = (scores.len() >= self.min_characters.max(1)).then(|| Attribute::Text {
            text,
            score: scores.iter().sum::<f32>() / scores.len() as f32,
        });
        attribute.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(shape: &[usize], symbols: &[usize]) -> Option<Attribute> {
        let port = [None, Some(3), Some(24), Some(94)];
        let input = Input::read(&KIND.wish, &Settings::default(), &port).expect("read");
        let given = [Given {
            name: "logits".to_owned(),
            shape: shape.to_vec(),
            readable: true,
        }];
        let head = KIND.build(&Settings::default(), &input, &given).expect("fits");
        let mut data = vec![0.0; shape.iter().product()];
        for (step, symbol) in symbols.iter().enumerate() {
            data[if shape[1] == symbols.len() {
                symbol * symbols.len() + step
            } else {
                step * shape[1] + symbol
            }] = 20.0;
        }
        head.decode(&[Output { data: &data }], &Placed::itself(94, 24))
            .attribute
    }

    #[test]
    fn alphabets_have_the_models_sizes() {
        assert_eq!((LPRNET.chars().count(), PPOCR_EN.chars().count()), (67, 96));
    }

    #[test]
    fn repeats_collapse_unless_a_blank_parts_them() {
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
