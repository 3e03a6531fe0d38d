//! Chat templates of models that run here: the language of Jinja, as Hugging Face's files have it, with bounds on steps and bytes.
//!
//! A file that comes with a model is not trusted. A text that is joined of others may not be joined again after it was stored in a
//! variable, so that no loop doubles it; filters and methods have a bound on the texts that they make. Macros, blocks and namespaces are
//! refused: a folder may have a `chat_template.jinja` without them instead.

use std::collections::BTreeSet;

use minijinja::value::{Kwargs, Value as Any, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Value, json};

use super::super::webhook::{Tag, common_environment, each_tag, json_of, rendered, text_of};
use crate::model::chat::ChatTexts;

/// Bytes of a prompt with its marks, and of each text that a filter makes.
const MAX_TEXT: usize = 64 << 10;

/// Operators of one tag that join texts.
const MAX_JOINS: usize = 64;

/// Statements that chat templates may have.
const STATEMENTS: [&str; 9] = [
    "if", "elif", "else", "endif", "for", "endfor", "raw", "endraw", "set",
];

/// Words before a list, where other words come before an index.
const OPERATORS: [&str; 7] = ["in", "if", "else", "and", "or", "not", "is"];

/// A template that was checked.
#[derive(Debug, Clone)]
pub(super) struct ChatTemplate {
    texts: ChatTexts,
}

impl ChatTemplate {
    /// Checks a template, also by rendering it.
    ///
    /// # Errors
    /// Its first fault, with its file and line.
    pub(super) fn checked(texts: &ChatTexts, system: &str) -> Result<Self, String> {
        let template = Self { texts: texts.clone() };
        scan(&texts.template).map_err(|reason| template.fault(&reason))?;
        template.render(system, "What does the person do?")?;
        Ok(template)
    }

    /// The prompt of one message, with the text of the picture's token for a model that sees pictures. `system`: words that precede it;
    /// empty: none.
    ///
    /// # Errors
    /// It takes too long, has too many bytes, or has not one place for the picture.
    pub(super) fn render(&self, system: &str, prompt: &str) -> Result<String, String> {
        let Some(image) = &self.texts.image else {
            return self.rendered(&messages(system, &json!(prompt), |text| json!(text)));
        };
        let is_right = |text: &String| text.matches(&**image).count() == 1;
        let part = |text: &str| json!({ "type": "text", "text": text });
        let parts = json!([{ "type": "image" }, part(prompt)]);
        let by_parts = self.rendered(&messages(system, &parts, |text| json!([part(text)])));
        if by_parts.as_ref().is_ok_and(is_right) {
            return by_parts;
        }
        // Older templates take texts alone, in which the token stands for the picture.
        let joined = json!(format!("{image}\n{prompt}"));
        let by_text = self.rendered(&messages(system, &joined, |text| json!(text)));
        if by_text.as_ref().is_ok_and(is_right) {
            return by_text;
        }
        by_parts?;
        Err(self.fault(&format!(
            "its text has not one {image}, which stands for the picture"
        )))
    }

    fn rendered(&self, messages: &Value) -> Result<String, String> {
        let variables = json!({
            "messages": messages,
            "add_generation_prompt": true,
            "bos_token": self.texts.begin,
            "eos_token": self.texts.end,
        });
        let text = rendered(&environment(), &self.texts.template, variables, MAX_TEXT);
        text.map_err(|reason| self.fault(&reason))
    }

    fn fault(&self, reason: &str) -> String {
        format!(
            "chat template in {}: {reason}; a simpler one may be in chat_template.jinja beside it",
            self.texts.file.display()
        )
    }
}

/// Messages of the system, if there is one, and of the user.
fn messages(system: &str, content: &Value, of_text: impl Fn(&str) -> Value) -> Value {
    let user = json!({ "role": "user", "content": content });
    let system = (!system.is_empty()).then(|| json!({ "role": "system", "content": of_text(system) }));
    system.into_iter().chain([user]).collect()
}

/// Looks at all tags.
///
/// # Errors
/// The first construct that is refused, with its line.
fn scan(source: &str) -> Result<(), String> {
    let mut assignments = Vec::new();
    each_tag(source, |tag| {
        if let Some(statement) = tag.statement()
            && !STATEMENTS.contains(&statement)
        {
            return Err(format!(
                "`{statement}` is not supported; there are if, for, set and raw"
            ));
        }
        for (_, _, mark) in &tag.marks {
            if matches!(mark, '*' | '{') {
                return Err(format!("`{mark}` in an expression is not supported"));
            }
        }
        if joins(tag, 0).take(MAX_JOINS + 1).count() > MAX_JOINS {
            return Err(format!("it joins more than {MAX_JOINS} texts"));
        }
        assignments.extend(Assignment::of(tag)?);
        Ok(())
    })?;
    let mut grown: BTreeSet<&str> = BTreeSet::new();
    loop {
        let before = grown.len();
        for assignment in &assignments {
            if assignment.is_joined || assignment.reads(&grown) {
                grown.extend(&assignment.targets);
            }
        }
        if grown.len() == before {
            break;
        }
    }
    each_tag(source, |tag| match Assignment::of(tag)? {
        Some(set) if tag.statement() == Some("set") && set.is_joined && set.reads(&grown) => {
            let names = set.targets.join(", ");
            Err(format!("`set {names}` joins a text that is joined already"))
        }
        _ => Ok(()),
    })
}

/// The `+`, `~` and `,` of a tag after its first `from` words, and brackets of lists: they join texts or values.
fn joins<'a>(tag: &'a Tag<'_>, from: usize) -> impl Iterator<Item = char> + 'a {
    let is_join = move |(words, before, mark): &(usize, char, char)| {
        let last = words.checked_sub(1).and_then(|last| tag.words.get(last));
        let is_operator = last.is_some_and(|(_, word)| OPERATORS.contains(word));
        let is_value =
            before.is_alphanumeric() && !is_operator || matches!(before, '_' | ']' | ')' | '"' | '\'');
        *words >= from && (matches!(mark, '+' | '~' | ',') || *mark == '[' && !is_value)
    };
    let marks = tag.marks.iter().copied();
    marks.filter(is_join).map(|(_, _, mark)| mark)
}

/// Variables that a tag gives values to.
struct Assignment<'a> {
    targets: Vec<&'a str>,
    /// Variables in the expression.
    read: Vec<&'a str>,
    is_joined: bool,
}

impl<'a> Assignment<'a> {
    /// # Errors
    /// A form of `set` or `for` that is refused.
    fn of(tag: &Tag<'a>) -> Result<Option<Self>, String> {
        let first = match tag.statement() {
            Some("set") => {
                let equals = tag.marks.iter().find(|(_, _, mark)| *mark == '=');
                let (first, ..) = equals.ok_or("a `set` without `=` is not supported")?;
                *first
            }
            Some("for") => {
                if tag.words.iter().any(|(_, word)| *word == "recursive") {
                    return Err("`recursive` is not supported".to_owned());
                }
                let is_in = |(_, word): &(char, &str)| *word == "in";
                tag.words.iter().position(is_in).ok_or("a `for` has no `in`")?
            }
            _ => return Ok(None),
        };
        let names = |words: &[(char, &'a str)]| {
            let names = words.iter().filter(|(before, _)| *before != '.');
            names.map(|(_, word)| *word).collect::<Vec<_>>()
        };
        let (targets, read) = tag.words.split_at(first);
        if tag
            .marks
            .iter()
            .any(|(words, _, mark)| *words <= first && *mark == '.')
        {
            return Err("a `set` of an attribute is not supported".to_owned());
        }
        Ok(Some(Self {
            targets: names(targets.get(1..).unwrap_or_default()),
            read: names(read),
            is_joined: joins(tag, first).next().is_some(),
        }))
    }

    fn reads(&self, names: &BTreeSet<&str>) -> bool {
        self.read.iter().any(|name| names.contains(name))
    }
}

/// A text within the bound.
fn bounded(text: String) -> Result<Any, Error> {
    if text.len() <= MAX_TEXT {
        return Ok(Any::from(text));
    }
    Err(refused(format!(
        "a filter makes a text of more than {MAX_TEXT} bytes"
    )))
}

fn refused(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.into())
}

/// Filters, tests and functions that chat templates use beside the common ones.
fn environment<'source>() -> Environment<'source> {
    let mut environment = common_environment();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_formatter(|out, _state, value| out.write_str(&text_of(value)).map_err(Error::from));
    environment.set_unknown_method_callback(|_state, value, name, arguments| method(value, name, arguments));
    environment.add_function("raise_exception", |reason: String| {
        Err::<Any, Error>(refused(reason))
    });
    environment.add_filter("capitalize", |value: Any| {
        let text = text_of(&value);
        let mut rest = text.chars();
        let first = rest.next().into_iter().flat_map(char::to_uppercase);
        bounded(first.chain(rest.as_str().to_lowercase().chars()).collect())
    });
    environment.add_filter("first", |value: Any| {
        value.get_item_by_index(0).unwrap_or_default()
    });
    environment.add_filter("join", |value: Any, separator: Option<String>| {
        let separator = separator.unwrap_or_default();
        let mut joined = String::new();
        for (number, item) in value.try_iter()?.enumerate() {
            if number > 0 {
                joined.push_str(&separator);
            }
            joined.push_str(&text_of(&item));
            if joined.len() > MAX_TEXT {
                break;
            }
        }
        bounded(joined)
    });
    environment.add_filter("last", |value: Any| {
        let last = value.len().and_then(|length| length.checked_sub(1));
        last.and_then(|last| value.get_item_by_index(last).ok())
            .unwrap_or_default()
    });
    environment.add_filter("list", |value: Any| {
        Ok::<_, Error>(value.try_iter()?.collect::<Vec<Any>>())
    });
    environment.add_filter("lower", |value: Any| bounded(text_of(&value).to_lowercase()));
    environment.add_filter(
        "selectattr",
        |value: Any, name: String, test: Option<String>, wanted: Option<Any>| {
            let holds = |item: &Any| {
                let found = item.get_attr(&name).unwrap_or_default();
                match (test.as_deref(), &wanted) {
                    (None, _) => Ok(found.is_true()),
                    (Some("equalto" | "eq" | "=="), Some(wanted)) => Ok(found == *wanted),
                    (Some("defined"), None) => Ok(!found.is_undefined()),
                    (Some(other), _) => Err(refused(format!("selectattr has no test \"{other}\""))),
                }
            };
            let items = value.try_iter()?.map(|item| Ok((holds(&item)?, item)));
            let items: Result<Vec<(bool, Any)>, Error> = items.collect();
            Ok::<_, Error>(
                items?
                    .into_iter()
                    .filter(|(holds, _)| *holds)
                    .map(|(_, item)| item)
                    .collect::<Vec<Any>>(),
            )
        },
    );
    environment.add_filter("string", |value: Any| bounded(text_of(&value)));
    // Key words say how the JSON is laid out.
    environment.add_filter("tojson", |value: Any, _layout: Kwargs| bounded(json_of(&value)?));
    environment.add_filter("upper", |value: Any| bounded(text_of(&value).to_uppercase()));
    let kind = |kind: ValueKind| move |value: Any| value.kind() == kind;
    environment.add_test("string", kind(ValueKind::String));
    environment.add_test("number", kind(ValueKind::Number));
    environment.add_test("boolean", kind(ValueKind::Bool));
    environment.add_test("mapping", kind(ValueKind::Map));
    environment.add_test("sequence", kind(ValueKind::Seq));
    environment.add_test("iterable", |value: Any| value.try_iter().is_ok());
    environment.add_test("true", |value: Any| value == Any::from(true));
    environment.add_test("false", |value: Any| value == Any::from(false));
    environment
}

/// Methods of texts and maps in Python.
fn method(value: &Any, name: &str, arguments: &[Any]) -> Result<Any, Error> {
    let Some(text) = value.as_str() else {
        return match name {
            "get" => {
                let (key, other): (String, Option<Any>) = from_args(arguments)?;
                let found = value.get_attr(&key)?;
                Ok(if found.is_undefined() {
                    other.unwrap_or_default()
                } else {
                    found
                })
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        };
    };
    let stripped = |(characters,): (Option<String>,), begin: bool, end: bool| {
        let is_stripped = |c: char| match &characters {
            Some(characters) => characters.contains(c),
            None => c.is_whitespace(),
        };
        let text = if begin {
            text.trim_start_matches(is_stripped)
        } else {
            text
        };
        Any::from(if end {
            text.trim_end_matches(is_stripped)
        } else {
            text
        })
    };
    match name {
        "strip" => Ok(stripped(from_args(arguments)?, true, true)),
        "lstrip" => Ok(stripped(from_args(arguments)?, true, false)),
        "rstrip" => Ok(stripped(from_args(arguments)?, false, true)),
        "startswith" => {
            let (other,): (String,) = from_args(arguments)?;
            Ok(Any::from(text.starts_with(&other)))
        }
        "endswith" => {
            let (other,): (String,) = from_args(arguments)?;
            Ok(Any::from(text.ends_with(&other)))
        }
        "split" => {
            let (separator,): (String,) = from_args(arguments)?;
            if separator.is_empty() {
                return Err(refused("a text is split by nothing"));
            }
            Ok(text.split(&separator).map(Any::from).collect())
        }
        "lower" => bounded(text.to_lowercase()),
        "upper" => bounded(text.to_uppercase()),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

#[cfg(test)]
mod tests;
