//! `${NAME}` and `${NAME:-default}` in the texts of a document.

use std::borrow::Cow;

/// Looks up an environment variable; `None` where it is not set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A wrong use of a variable, as a message with a hint on how to fix it.
#[derive(Debug, PartialEq)]
pub(crate) struct BadVariable {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// A text with its variables substituted is a path or an address at most; a long variable used often would exceed memory.
const MAX_FILLED_BYTES: usize = 1 << 20;
/// Bad uses of variables in one text that are reported.
const MAX_BAD: usize = 100;

/// Substitutes the variables of a text; `$$` is a dollar sign, and a dollar sign before anything else stays. As in a
/// shell, the default after `:-` also replaces a variable that is set but empty. A variable in the user or the password of an
/// address is percent-encoded where it would end them.
pub(crate) fn substitute(text: &str, environment: Environment<'_>) -> Result<String, Vec<BadVariable>> {
    let (mut filled, mut bad, mut rest) = (String::with_capacity(text.len()), Vec::new(), text);
    while let Some(dollar) = rest.find('$') {
        if bad.len() >= MAX_BAD {
            return Err(bad);
        }
        if filled.len() > MAX_FILLED_BYTES {
            bad.push(BadVariable {
                message: format!(
                    "with its variables the text is longer than {} KiB",
                    MAX_FILLED_BYTES >> 10
                ),
                hint: "set the variables to shorter texts".to_owned(),
            });
            return Err(bad);
        }
        filled.push_str(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        if let Some(next) = after.strip_prefix('$') {
            filled.push('$');
            rest = next;
        } else if let Some(inside) = after.strip_prefix('{') {
            let Some((expression, next)) = inside.split_once('}') else {
                bad.push(BadVariable {
                    message: "\"${\" without its \"}\"".to_owned(),
                    hint: "write ${NAME} or ${NAME:-default}; \"$$\" is a dollar sign".to_owned(),
                });
                break;
            };
            match look_up(expression, environment) {
                Ok(value) if is_before_host(&text[..text.len() - after.len() - 1], next) => {
                    filled.push_str(&encoded(&value));
                }
                Ok(value) => filled.push_str(&value),
                Err(problem) => bad.push(problem),
            }
            rest = next;
        } else {
            filled.push('$');
            rest = after;
        }
    }
    filled.push_str(rest);
    if bad.is_empty() { Ok(filled) } else { Err(bad) }
}

/// Whether a text is one variable and nothing else.
pub(crate) fn is_one_variable(text: &str) -> bool {
    let inside = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
    inside.is_some_and(|inside| !inside.contains('}'))
}

/// Whether a variable between two parts of a text is in the user or the password of an address: an `@` ends them, and none of
/// the characters that begin a path comes before it.
fn is_before_host(before: &str, after: &str) -> bool {
    let begins = before
        .rsplit_once("://")
        .is_some_and(|(_, user)| !outside_variables(user).contains(['/', '?', '#']));
    let after = outside_variables(after);
    begins
        && after
            .find(['/', '?', '#', '@'])
            .is_some_and(|at| after[at..].starts_with('@'))
}

/// The text without its variables.
fn outside_variables(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, inside)) = rest.split_once("${") {
        out.push_str(before);
        rest = inside.split_once('}').map_or("", |(_, next)| next);
    }
    out + rest
}

/// The text with percent-encoding of the characters that end a user or a password; what is encoded already stays.
fn encoded(text: &str) -> Cow<'_, str> {
    const ENDS: [char; 6] = ['/', '?', '#', '@', '[', ']'];
    let is_encoded = |at: usize| {
        let digits = text.as_bytes().get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let is_raw = |at: usize, c: char| {
        ENDS.contains(&c) || c.is_ascii_whitespace() || c.is_ascii_control() || c == '%' && !is_encoded(at)
    };
    if !text.char_indices().any(|(at, c)| is_raw(at, c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        if is_raw(at, c) {
            out.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn look_up(expression: &str, environment: Environment<'_>) -> Result<String, BadVariable> {
    let (name, default) = match expression.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (expression, None),
    };
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !named {
        return Err(BadVariable {
            message: format!("\"{name}\" cannot be the name of a variable"),
            hint: "write ${NAME} or ${NAME:-default}; \"$$\" is a dollar sign".to_owned(),
        });
    }
    // An environment that leaves a variable as written has no value for it.
    let is_left = |value: &str| value == format!("${{{name}}}");
    match (environment(name), default) {
        (Some(value), Some(_)) if !value.is_empty() && !is_left(&value) => Ok(value),
        (Some(value), None) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (Some(empty), None) => Ok(empty),
        (None, None) => Err(BadVariable {
            message: format!("the environment variable {name} is not set"),
            hint: format!("set it, or give a default: ${{{name}:-...}}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let environment = |name: &str| match name {
            "SET" => Some("value".to_owned()),
            "EMPTY" => Some(String::new()),
            "RAW" => Some("p@/?#1%".to_owned()),
            "CODED" => Some("p%231".to_owned()),
            "LEFT" => Some("${LEFT}".to_owned()),
            _ => None,
        };
        match (substitute(text, &environment), expected) {
            (Ok(filled), Ok(expected)) => assert_eq!(filled, expected, "{text}"),
            (Err(bad), Err(part)) => assert!(bad[0].message.contains(part), "{text}: {bad:?}"),
            (got, _) => panic!("{text}: {got:?}"),
        }
    }

    #[test]
    fn variables_are_substituted() {
        check("a ${SET} b", Ok("a value b"));
        check("${SET}${SET:-x}", Ok("valuevalue"));
        check("${UNSET:-a/b:c}", Ok("a/b:c"));
        check("${UNSET:-}", Ok(""));
        check("${EMPTY}", Ok(""));
        check("${EMPTY:-full}", Ok("full"));
        check("${LEFT} ${LEFT:-default}", Ok("${LEFT} default"));
        check("$${SET} $$ $x 5$", Ok("${SET} $ $x 5$"));
        check("${UNSET}", Err("UNSET is not set"));
        check("${SET", Err("without its"));
        check("${}", Err("cannot be the name"));
        check("${9}", Err("cannot be the name"));
    }

    #[test]
    fn users_and_passwords_of_addresses_are_encoded() {
        check(
            "rtsp://${SET}:${RAW}@${SET}/1",
            Ok("rtsp://value:p%40%2F%3F%231%25@value/1"),
        );
        check("rtsp://${RAW}@cam", Ok("rtsp://p%40%2F%3F%231%25@cam"));
        check("rtsp://a:x${RAW}y@cam", Ok("rtsp://a:xp%40%2F%3F%231%25y@cam"));
        check("rtsp://a:${CODED}@cam/@${RAW}", Ok("rtsp://a:p%231@cam/@p@/?#1%"));
        check("rtsp://a:${UNSET:-p/1}@cam", Ok("rtsp://a:p%2F1@cam"));
        check("rtsp://cam/${RAW}@x", Ok("rtsp://cam/p@/?#1%@x"));
        check(
            "http://proxy/?url=rtsp://a:${RAW}@cam",
            Ok("http://proxy/?url=rtsp://a:p%40%2F%3F%231%25@cam"),
        );
        check("rtsp://a@b:${RAW}@cam", Ok("rtsp://a@b:p%40%2F%3F%231%25@cam"));
        check("${RAW}@cam", Ok("p@/?#1%@cam"));
    }

    #[test]
    fn every_unset_variable_is_reported() {
        assert_eq!(substitute("${A} ${B}", &|_| None).unwrap_err().len(), 2);
    }
}
