//! Templates of bodies and headers, in the language of Jinja: variables, `if`, `for` and some filters, with bounds on steps and
//! bytes. There is no way to build a value out of itself, so that memory is bounded by the template and its event.

use std::io;

use minijinja::value::{Value as Any, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;
use serde_json::Value;

use super::template_scan::scan;
use super::variables::{self, NAMES};

/// Bytes of a template.
const MAX_SOURCE: usize = 16 << 10;

/// Steps of one rendering.
const MAX_STEPS: u64 = 20_000;

/// Form in which values of variables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sinks) enum Escape {
    /// As they are.
    Plain,
    /// As they stand between the quotes of a JSON text; the whole is a JSON document.
    Json,
}

/// A template that was checked.
#[derive(Debug, Clone)]
pub(in crate::sinks) struct Template {
    source: String,
    escape: Escape,
    max_bytes: usize,
}

impl Template {
    /// Checks a template whose output has at most `max_bytes`, also by rendering it for sample events.
    ///
    /// # Errors
    /// Its first fault, with its line.
    pub(in crate::sinks) fn checked(source: &str, escape: Escape, max_bytes: usize) -> Result<Self, String> {
        if source.len() > MAX_SOURCE {
            return Err(format!("it has more than {MAX_SOURCE} bytes"));
        }
        scan(source)?;
        let environment = environment(escape);
        let parsed = environment
            .template_from_str(source)
            .map_err(|error| explained(&error))?;
        let mut used: Vec<String> = parsed.undeclared_variables(false).into_iter().collect();
        used.sort();
        if let Some(unknown) = used.iter().find(|name| !NAMES.contains(&name.as_str())) {
            return Err(format!(
                "{}\"{unknown}\" is no variable: there are {}",
                line_of(source, unknown),
                NAMES.join(", ")
            ));
        }
        let template = Self {
            source: source.to_owned(),
            escape,
            max_bytes,
        };
        for event in variables::samples() {
            template.render(&event, &weir_analytics::transforms::TimeZone::UTC)?;
        }
        Ok(template)
    }

    /// The text for an event line.
    ///
    /// # Errors
    /// It takes too long, has too many bytes, or is no JSON where it must be.
    pub(in crate::sinks) fn render(
        &self,
        event: &Value,
        zone: &weir_analytics::transforms::TimeZone,
    ) -> Result<String, String> {
        let environment = environment(self.escape);
        let variables = variables::variables(event, zone);
        let text = rendered(&environment, &self.source, variables, self.max_bytes)?;
        if self.escape == Escape::Json
            && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text)
        {
            return Err(format!(
                "its text is no JSON ({error}): put texts in quotes, and write other values as `{{{{ track|tojson }}}}`"
            ));
        }
        Ok(text)
    }
}

/// The text of a template of at most `max_bytes`.
///
/// # Errors
/// Its first fault, or it takes too long or has too many bytes.
pub(in crate::sinks) fn rendered<'source>(
    environment: &Environment<'source>,
    source: &'source str,
    variables: impl Serialize,
    max_bytes: usize,
) -> Result<String, String> {
    let template = environment.template_from_str(source);
    let template = template.map_err(|error| explained(&error))?;
    let mut out = Bounded {
        bytes: Vec::new(),
        max_bytes,
        is_full: false,
    };
    let rendered = template.render_captured_to(variables, &mut out).map(drop);
    if out.is_full {
        return Err(format!("its text has more than {max_bytes} bytes"));
    }
    rendered.map_err(|error| explained(&error))?;
    String::from_utf8(out.bytes).map_err(|_| "its text is no UTF-8".to_owned())
}

/// A writer that fails beyond its bound.
struct Bounded {
    bytes: Vec<u8>,
    max_bytes: usize,
    is_full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + piece.len() > self.max_bytes {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An environment with a bound on steps, in which missing values are empty. It has tests of presence, and filters that lengthen no text.
pub(in crate::sinks) fn common_environment<'source>() -> Environment<'source> {
    let mut environment = Environment::empty();
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.add_filter(
        "default",
        |value: Any, other: Any| {
            if is_nothing(&value) { other } else { value }
        },
    );
    environment.add_filter("length", |value: Any| value.len().unwrap_or(0));
    environment.add_filter("trim", |value: Any| text_of(&value).trim().to_owned());
    environment.add_test("defined", |value: Any| !value.is_undefined());
    environment.add_test("none", |value: Any| value.is_none());
    environment.add_test("undefined", |value: Any| value.is_undefined());
    environment
}

fn environment<'source>(escape: Escape) -> Environment<'source> {
    // An attribute that one event lacks costs no alarm.
    let mut environment = common_environment();
    environment.set_formatter(move |out, _state, value| {
        let text = text_of(value);
        let is_inner = escape == Escape::Json && value.kind() == ValueKind::String && !value.is_safe();
        let text = if is_inner { json_inner(&text) } else { text };
        out.write_str(&text).map_err(Error::from)
    });
    environment.add_filter("join", |value: Any, separator: Option<String>| {
        let separator = separator.unwrap_or_default();
        match value.try_iter() {
            Ok(items) => items
                .map(|item| text_of(&item))
                .collect::<Vec<_>>()
                .join(&separator),
            Err(_) => text_of(&value),
        }
    });
    environment.add_filter("lower", |value: Any| text_of(&value).to_lowercase());
    environment.add_filter("round", |value: Any, digits: Option<u32>| round(value, digits));
    environment.add_filter("tojson", |value: Any| json_of(&value).map(Any::from_safe_string));
    environment.add_filter("truncate", |value: Any, characters: usize| {
        text_of(&value).chars().take(characters).collect::<String>()
    });
    environment.add_filter("upper", |value: Any| text_of(&value).to_uppercase());
    environment.add_filter("urlencode", |value: Any| url_encoded(&text_of(&value)));
    environment
}

fn is_nothing(value: &Any) -> bool {
    value.is_undefined() || value.is_none()
}

/// A value as text: nothing is empty, lists and maps are JSON.
pub(in crate::sinks) fn text_of(value: &Any) -> String {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => String::new(),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => json_of(value).unwrap_or_default(),
        _ => value.to_string(),
    }
}

pub(in crate::sinks) fn json_of(value: &Any) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("no JSON: {error}")))
}

/// A text as it stands between the quotes of a JSON text.
fn json_inner(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// A number with so many digits after the point; other values are unchanged.
fn round(value: Any, digits: Option<u32>) -> Any {
    let Ok(number) = f64::try_from(value.clone()) else {
        return value;
    };
    let digits = digits.unwrap_or(0).min(9);
    let scale = 10_f64.powi(digits as i32);
    let rounded = (number * scale).round() / scale;
    if digits == 0 && rounded.abs() < 9e15 {
        Any::from(rounded as i64)
    } else {
        Any::from(rounded)
    }
}

/// A text with all but letters and digits of ASCII, `-`, `.`, `_` and `~` percent-encoded.
pub(super) fn url_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encoded).collect()
}

fn explained(error: &Error) -> String {
    let line = error
        .line()
        .map_or_else(String::new, |line| format!("line {line}: "));
    if error.kind() == ErrorKind::OutOfFuel {
        return format!("{line}it takes more than {MAX_STEPS} steps: leave out loops within loops");
    }
    match error.detail() {
        Some(detail) => format!("{line}{detail}"),
        None => format!("{line}{}", error.kind()),
    }
}

/// The line of a name in a template, for messages.
fn line_of(source: &str, name: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let found = source.match_indices(name).find(|(at, _)| {
        let before = source[..*at].chars().next_back();
        let after = source[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    });
    found.map_or_else(String::new, |(at, _)| {
        format!("line {}: ", 1 + source[..at].matches('\n').count())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, escape: Escape) -> Result<Template, String> {
        Template::checked(source, escape, 64 << 10)
    }

    fn rendered(source: &str, escape: Escape) -> String {
        let template = check(source, escape).expect(source);
        let [event, _] = variables::samples();
        let zone = weir_analytics::transforms::TimeZone::UTC;
        template.render(&event, &zone).expect(source)
    }

    #[test]
    fn templates_write_events_as_text_and_json() {
        for (source, expected) in [
            ("{{ stream }} {{ class|upper }}", "north PERSON"),
            ("{{ values.dwell_s|round }} s, {{ score|round(1) }}", "13 s, 0.9"),
            (
                "{{ attributes.plate.text }}{{ attributes.none.text }}",
                "AB \"12\"",
            ),
            ("{{ zones|join(\", \") }} ({{ zones|length }})", "gate, yard (2)"),
            ("{% for zone in zones %}<{{ zone }}>{% endfor %}", "<gate><yard>"),
            ("{% if held_back %}{{ held_back }} more{% endif %}", "2 more"),
            (
                "{{ best.url|default(\"-\") }}{{ \"a b&\"|urlencode }}",
                "-a%20b%26",
            ),
            (
                "{% if best is defined and best is not none %}yes{% endif %}",
                "yes",
            ),
            ("{{ text|truncate(6) }}{# a comment #}", "person"),
            ("{% raw %}{{ stream }}{% endraw %}", "{{ stream }}"),
        ] {
            assert_eq!(rendered(source, Escape::Plain), expected, "{source}");
        }
        let json = rendered(
            r#"{"plate": "{{ attributes.plate.text }}", "track": {{ track|tojson }}, "all": {{ event|tojson }}}"#,
            Escape::Json,
        );
        let json: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((&json["plate"], &json["track"]), (&"AB \"12\"".into(), &7.into()));
        assert_eq!(json["all"], variables::samples()[0]);
    }

    #[test]
    fn faults_of_templates_are_found_with_their_line() {
        for (source, expected) in [
            ("a\n{{ strem }}", "line 2: \"strem\" is no variable"),
            ("{{ stream", "line 1"),
            ("{{ stream|shout }}", "no filter \"shout\""),
            (
                "{% if false %}\n{{ stream|shout }}{% endif %}",
                "line 2: there is no filter \"shout\"",
            ),
            ("{% if stream is odd %}{% endif %}", "no test \"odd\""),
            ("{% set x = stream %}", "no `set`"),
            ("{%- macro a() %}{% endmacro %}", "no `macro`"),
            ("{{ range(9) }}", "\"range\" is no variable"),
            ("{{ stream.upper() }}", "line 1"),
        ] {
            let error = check(source, Escape::Plain).expect_err(source);
            assert!(error.contains(expected), "{source}: {error}");
        }
        // Without a track it is no JSON.
        for source in [r#"{"track": {{ track }}}"#, "{{ stream }}", "{"] {
            let error = check(source, Escape::Json).expect_err(source);
            assert!(error.contains("no JSON"), "{source}: {error}");
        }
    }

    #[test]
    fn endless_and_huge_templates_are_cut_off_within_bounded_memory() {
        let nested = |depth: usize, inner: &str| {
            let begin: String = (0..depth)
                .map(|at| format!("{{% for x{at} in zones %}}"))
                .collect();
            format!("{begin}{inner}{}", "{% endfor %}".repeat(depth))
        };
        let many = |depth: usize| nested(depth, &"a".repeat(1_000));
        for source in [
            "{% for zone in zones recursive %}{{ loop(zones) }}{% endfor %}".to_owned(),
            nested(20, "{{ stream }}"),
            many(17),
            "{{ event|tojson }}".repeat(900),
            "a".repeat(100 << 20),
        ] {
            let allocated = allocation_counter::measure(|| {
                assert!(check(&source, Escape::Plain).is_err(), "{}", &source[..60]);
            });
            assert!(
                allocated.bytes_max < 8 << 20,
                "{}: {} bytes of memory",
                &source[..60],
                allocated.bytes_max
            );
        }
    }
}
