//! Forms of answers: any words, one of a list, or an object with named values; and what is no such answer.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use weir_flow::IncidentValue;

use super::super::webhook::shortened;

/// Characters of a text that are kept.
pub(super) const MAX_TEXT: usize = 1_000;

/// Characters of the words of a model in a message.
const MAX_SHOWN: usize = 80;

/// Fields of an answer, and choices of one.
pub(super) const MAX_FIELDS: usize = 16;

/// Form that an answer must have.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AnswerForm {
    /// Any words that the model says.
    Words,
    /// One of these, in any case.
    OneOf(Vec<Arc<str>>),
    /// An object of JSON with these fields.
    Fields(Vec<Field>),
}

/// A value that the model is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    name: Arc<str>,
    kind: FieldKind,
}

#[derive(Debug, Clone, PartialEq)]
enum FieldKind {
    Number,
    Text,
    OneOf(Vec<Arc<str>>),
}

/// An answer of the form that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// Words in one line.
    pub(super) text: String,
    pub(super) fields: Vec<(Arc<str>, IncidentValue)>,
}

impl Field {
    /// Reads a field as `name: number`, `name: text` or `name: one, another`.
    ///
    /// # Errors
    /// The fault of the text.
    pub(super) fn parsed(text: &str) -> Result<Self, String> {
        let (name, kind) = text
            .split_once(':')
            .ok_or_else(|| format!("\"{text}\" has no colon"))?;
        let name = name.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.len() > 40 || !name.chars().all(is_name) {
            return Err(format!(
                "\"{name}\" is no name of a field: it has letters of ASCII, digits and _, at most 40"
            ));
        }
        let words: Vec<Arc<str>> = kind
            .split(',')
            .map(|word| word.trim().into())
            .filter(|word: &Arc<str>| !word.is_empty())
            .collect();
        let kind = match &words[..] {
            [] => return Err(format!("\"{name}\" has no kind")),
            [word] if &**word == "number" => FieldKind::Number,
            [word] if &**word == "text" => FieldKind::Text,
            [word] => return Err(format!("\"{word}\" is the only choice of \"{name}\"")),
            _ if words.len() > MAX_FIELDS => {
                return Err(format!("\"{name}\" has more than {MAX_FIELDS} choices"));
            }
            _ => FieldKind::OneOf(words),
        };
        Ok(Self {
            name: name.into(),
            kind,
        })
    }

    /// The field in a JSON Schema.
    fn schema(&self) -> Value {
        match &self.kind {
            FieldKind::Number => json!({ "type": "number" }),
            FieldKind::Text => json!({ "type": "string" }),
            FieldKind::OneOf(words) => json!({ "type": "string", "enum": words }),
        }
    }

    /// The value of the field in an answer; `None` if it has none of its kind.
    fn value(&self, answer: &Map<String, Value>) -> Option<IncidentValue> {
        let value = answer.get(&*self.name)?;
        match &self.kind {
            FieldKind::Number => value
                .as_f64()
                .filter(|number| number.is_finite())
                .map(IncidentValue::Number),
            FieldKind::Text => Some(IncidentValue::Text(one_line(value.as_str()?).into())),
            FieldKind::OneOf(words) => {
                let word = chosen(words, value.as_str()?)?;
                Some(IncidentValue::Text(Arc::clone(word)))
            }
        }
    }
}

impl AnswerForm {
    /// Sentence that asks the model for this form; `None` for any words.
    pub(super) fn instruction(&self) -> Option<String> {
        match self {
            Self::Words => None,
            Self::OneOf(words) => Some(format!(
                "Answer with one of these and nothing else: {}.",
                words.join(", ")
            )),
            Self::Fields(_) => Some(format!(
                "Answer with a JSON object of this schema and nothing else: {}",
                self.schema().unwrap_or_default()
            )),
        }
    }

    /// JSON Schema of the answer, if it is an object.
    pub(super) fn schema(&self) -> Option<Value> {
        let Self::Fields(fields) = self else { return None };
        let properties: Map<String, Value> = fields
            .iter()
            .map(|field| (field.name.to_string(), field.schema()))
            .collect();
        let required: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
        Some(json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }))
    }

    /// Reads the words of a model.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn read(&self, content: &str) -> Result<Answer, String> {
        let text = one_line(content);
        if text.is_empty() {
            return Err("the model answers nothing".to_owned());
        }
        match self {
            Self::Words => Ok(Answer {
                text,
                fields: Vec::new(),
            }),
            Self::OneOf(words) => match chosen(words, &text) {
                Some(word) => Ok(Answer {
                    text: word.to_string(),
                    fields: Vec::new(),
                }),
                None => Err(format!(
                    "the model answers \"{}\", which is none of the `answers`",
                    shortened(&text, MAX_SHOWN)
                )),
            },
            Self::Fields(fields) => read_fields(fields, content),
        }
    }
}

fn read_fields(fields: &[Field], content: &str) -> Result<Answer, String> {
    let wrong = |what: &str| {
        let shown = shortened(&one_line(content), MAX_SHOWN);
        format!("the model answers \"{shown}\", {what}")
    };
    // Some models put JSON between fences of Markdown.
    let json = content
        .find('{')
        .zip(content.rfind('}'))
        .and_then(|(begin, end)| content.get(begin..=end));
    let object = json.and_then(|json| serde_json::from_str::<Map<String, Value>>(json).ok());
    let object = object.ok_or_else(|| wrong("which is no JSON object"))?;
    let mut values = Vec::new();
    for field in fields {
        let value = field.value(&object);
        let value = value.ok_or_else(|| wrong(&format!("without a right value of \"{}\"", field.name)))?;
        values.push((Arc::clone(&field.name), value));
    }
    let words = values.iter().map(|(name, value)| match value {
        IncidentValue::Number(number) => format!("{name} {number}"),
        IncidentValue::Text(text) => format!("{name} {text}"),
    });
    Ok(Answer {
        text: shortened(&words.collect::<Vec<_>>().join(", "), MAX_TEXT),
        fields: values,
    })
}

/// The entry of a list that equals a text apart from case, quotes and punctuation around it.
fn chosen<'a>(words: &'a [Arc<str>], text: &str) -> Option<&'a Arc<str>> {
    let is_around = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '.' | '!' | '`' | '*');
    let text = text.trim_matches(is_around).to_lowercase();
    words
        .iter()
        .find(|word| word.trim_matches(is_around).to_lowercase() == text)
}

/// A text in one line without control characters, of at most [`MAX_TEXT`] characters.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if line.len() > 4 * MAX_TEXT {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    shortened(&line, MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(texts: &[&str]) -> AnswerForm {
        AnswerForm::Fields(
            texts
                .iter()
                .map(|text| Field::parsed(text).expect("a field"))
                .collect(),
        )
    }

    #[test]
    fn words_are_one_bounded_line_without_control_characters() {
        let read = |content: &str| AnswerForm::Words.read(content).map(|answer| answer.text);
        assert_eq!(
            read(" A van\n\tstops.\u{1b}[31m "),
            Ok("A van stops. [31m".to_owned())
        );
        assert!(read(" \n\u{0} ").is_err());
        let long = read(&"long words ".repeat(9_000)).expect("words");
        assert_eq!(long.chars().count(), MAX_TEXT);
        assert_eq!(
            read(&"x".repeat(1 << 20)).map(|text| text.chars().count()),
            Ok(MAX_TEXT)
        );
    }

    #[test]
    fn choice_is_found_in_any_case_and_with_a_full_stop() {
        let form = AnswerForm::OneOf(vec!["yes".into(), "no".into(), "not visible".into()]);
        let read = |content: &str| form.read(content).map(|answer| answer.text);
        assert_eq!(read("\"Yes.\"\n"), Ok("yes".to_owned()));
        assert_eq!(read("**Not visible**"), Ok("not visible".to_owned()));
        for wrong in ["yes, a van", "maybe", "", "nonono"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let reason = read(&"blah ".repeat(99)).expect_err("no choice");
        assert!(reason.len() < 200, "{reason}");
    }

    #[test]
    fn object_has_every_field_with_a_value_of_its_kind() {
        let form = fields(&["persons: number", "vehicle: car, van, none", "colour: text"]);
        let right =
            "```json\n{\"persons\": 2, \"vehicle\": \"Van\", \"colour\": \"dark\\nred\", \"more\": []}\n```";
        let answer = form.read(right).expect("right");
        assert_eq!(answer.text, "persons 2, vehicle van, colour dark red");
        assert_eq!(
            answer.fields[1],
            ("vehicle".into(), IncidentValue::Text("van".into()))
        );
        for wrong in [
            "two persons",
            "[1]",
            "{\"persons\": 2}",
            "{\"persons\": \"2\", \"vehicle\": \"van\", \"colour\": \"red\"}",
            "{\"persons\": 2, \"vehicle\": \"boat\", \"colour\": \"red\"}",
            "}{",
        ] {
            assert!(form.read(wrong).is_err(), "{wrong}");
        }
        let schema = form.schema().expect("a schema");
        assert_eq!(schema["properties"]["vehicle"]["enum"][1], "van");
        assert_eq!(schema["required"][2], "colour");
    }

    #[test]
    fn faults_of_fields_say_what_is_wrong() {
        for (text, fault) in [
            ("persons", "has no colon"),
            ("two words: text", "is no name"),
            (": text", "is no name"),
            ("kind:", "has no kind"),
            ("kind: boat", "is the only choice"),
        ] {
            let found = Field::parsed(text).expect_err(text);
            assert!(found.contains(fault), "{found}");
        }
    }
}
