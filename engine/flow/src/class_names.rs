//! Names of the classes of a model in a file of their own.

use std::collections::BTreeSet;

/// Largest number of a class.
const MAX_CLASSES: usize = 1 << 16;

/// Names of classes as a file has them, one on each line; empty lines are no classes.
///
/// Label files of TensorFlow, Coral and Frigate have the number of each class before its name, such as `0  person`. These numbers are
/// no part of the names: they are the order of the classes, from 0 or 1 on, and a class between them without a line is called by its
/// number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassNames {
    /// Names in the order of the classes.
    pub names: Vec<String>,
    /// True if the lines have numbers before their names.
    pub are_numbered: bool,
}

impl ClassNames {
    /// Reads the text of a file.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<&str> = lines.collect();
        match numbered(&lines) {
            Some(names) => Self {
                names,
                are_numbered: true,
            },
            None => Self {
                names: lines.into_iter().map(str::to_owned).collect(),
                are_numbered: false,
            },
        }
    }
}

/// Names of the classes that lines have numbers of; `None` if they are not numbered: names such as `2 door car` are not.
fn numbered(lines: &[&str]) -> Option<Vec<String>> {
    let numbered: Vec<(usize, &str)> = lines
        .iter()
        .map(|line| numbered_name(line))
        .collect::<Option<_>>()?;
    let (first, last) = (numbered.first()?.0, numbered.last()?.0);
    let is_ascending = numbered.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let names: BTreeSet<&str> = numbered.iter().map(|(_, name)| *name).collect();
    let are_different = names.len() == numbered.len() && names.len() > 1;
    if first > 1 || last >= MAX_CLASSES || !is_ascending || !are_different {
        return None;
    }
    let mut names: Vec<String> = (first..=last).map(|number| number.to_string()).collect();
    for (number, name) in numbered {
        name.clone_into(&mut names[number - first]);
    }
    Some(names)
}

/// A number with the name behind it.
fn numbered_name(line: &str) -> Option<(usize, &str)> {
    let end = line.find(|c: char| !c.is_ascii_digit())?;
    let (number, rest) = line.split_at(end);
    let name = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ':' | ','));
    let is_separate = name.len() < rest.len() && !name.is_empty();
    Some((number.parse().ok()?, name)).filter(|_| is_separate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str], are_numbered: bool) {
        let read = ClassNames::parse(text);
        let names: Vec<&str> = read.names.iter().map(String::as_str).collect();
        assert_eq!(
            (&names[..], read.are_numbered),
            (expected, are_numbered),
            "{text:?}"
        );
    }

    #[test]
    fn numbers_before_names_are_the_order_of_classes() {
        check(
            "0  person\n1  bicycle\r\n2  car\n",
            &["person", "bicycle", "car"],
            true,
        );
        check(
            "1: person\n2: traffic light\n",
            &["person", "traffic light"],
            true,
        );
        check("0 skip\n\n2,notice\n", &["skip", "1", "notice"], true);
        check("1 person\n4 car\n", &["person", "2", "3", "car"], true);
    }

    #[test]
    fn names_that_begin_with_digits_stay_as_they_are() {
        for text in [
            "person\nbicycle",
            "2 door\n4 door",
            "1 euro\n2 euro",
            "1 cent\n2 cents\n1 euro",
            "0 only",
            "0 a\nb",
            "0\n1",
            "80s\n90s",
            "0 a\n70000 b",
            "0 a\n99999999999999999999 b",
        ] {
            let lines: Vec<&str> = text.lines().collect();
            check(text, &lines, false);
        }
        check(" a \n\n b\r\n", &["a", "b"], false);
        check("", &[], false);
    }
}
