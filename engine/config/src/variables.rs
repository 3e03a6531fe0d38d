//! `${NAME}` and `${NAME:-default}` in the texts of a document.

/// Looks up an environment variable; `None` where it is not set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is wrong with one use of a variable, and how to fix it.
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
/// shell, the default after `:-` also replaces a variable that is set but empty.
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
    match (environment(name), default) {
        (Some(value), _) if !value.is_empty() => Ok(value),
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
        check("$${SET} $$ $x 5$", Ok("${SET} $ $x 5$"));
        check("${UNSET}", Err("UNSET is not set"));
        check("${SET", Err("without its"));
        check("${}", Err("cannot be the name"));
        check("${9}", Err("cannot be the name"));
    }

    #[test]
    fn every_unset_variable_is_reported() {
        assert_eq!(substitute("${A} ${B}", &|_| None).unwrap_err().len(), 2);
    }
}
