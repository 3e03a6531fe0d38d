//! Texts made of what modules found: `{name}` stands for what is known by that name, and what is in `[...]` is left out where
//! a name in it has nothing.

/// A template that was read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Name(String),
    Optional(Vec<Piece>),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// Where it is not as it should be.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut stack: Vec<Vec<Piece>> = vec![Vec::new()];
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}', '[', ']']) {
            let (before, after) = rest.split_at(at);
            let mut pieces = stack.pop().unwrap_or_default();
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            rest = &after[1..];
            match &after[..1] {
                "{" => {
                    let (name, behind) = rest
                        .split_once('}')
                        .filter(|(name, _)| !name.is_empty() && !name.contains(['{', '[', ']']))
                        .ok_or_else(|| format!("\"{text}\": after {{ comes a name and then }}"))?;
                    pieces.push(Piece::Name(name.to_owned()));
                    rest = behind;
                    stack.push(pieces);
                }
                "[" => {
                    stack.push(pieces);
                    stack.push(Vec::new());
                }
                "]" => {
                    let mut outer = stack
                        .pop()
                        .ok_or_else(|| format!("\"{text}\": there is no [ for each ]"))?;
                    outer.push(Piece::Optional(pieces));
                    stack.push(outer);
                }
                _ => return Err(format!("\"{text}\": there is no {{ for each }}")),
            }
        }
        let mut pieces = stack.pop().unwrap_or_default();
        if !stack.is_empty() {
            return Err(format!("\"{text}\": there is no ] for each ["));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The text, by what `value` says of each name; nothing where it says nothing.
    pub(super) fn fill(&self, value: &dyn Fn(&str) -> String) -> String {
        let mut text = String::new();
        fill(&self.0, value, &mut text);
        text
    }
}

/// Adds pieces to `text`; says whether each of their names had something.
fn fill(pieces: &[Piece], value: &dyn Fn(&str) -> String, text: &mut String) -> bool {
    let mut is_whole = true;
    for piece in pieces {
        match piece {
            Piece::Text(own) => text.push_str(own),
            Piece::Name(name) => {
                let value = value(name);
                is_whole &= !value.is_empty();
                text.push_str(&value);
            }
            Piece::Optional(pieces) => {
                let before = text.len();
                if !fill(pieces, value, text) {
                    text.truncate(before);
                }
            }
        }
    }
    is_whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_and_what_has_nothing_is_left_out() {
        let template = Template::read("a {class}[ at {place}][ with {plate}[ of {country}]].").unwrap();
        let check = |known: &[(&str, &str)], expected: &str| {
            let value = |name: &str| {
                let found = known.iter().find(|(key, _)| *key == name);
                found.map_or(String::new(), |(_, value)| (*value).to_owned())
            };
            assert_eq!(template.fill(&value), expected);
        };
        check(&[("class", "car")], "a car.");
        check(&[("class", "car"), ("place", "left")], "a car at left.");
        check(&[("class", "car"), ("plate", "W 1")], "a car with W 1.");
        check(&[("plate", "W 1"), ("country", "A")], "a  with W 1 of A.");
    }

    #[test]
    fn templates_that_are_none_are_refused() {
        for text in ["{", "{}", "a}", "[a", "a]", "{a[b]}"] {
            assert!(Template::read(text).is_err(), "{text}");
        }
        assert_eq!(Template::read("").unwrap().fill(&|_| String::new()), "");
    }
}
