//! Names of classes in the metadata of an ONNX file, as Ultralytics writes them under `names`: a dictionary or a list, in the
//! notation of Python or of JSON.

use std::iter::Peekable;
use std::str::Chars;

/// Largest text that is read.
const MAX_BYTES: usize = 4 << 20;
/// Largest number of a class.
const MAX_CLASSES: usize = 1 << 16;
/// Characters of a name that are kept.
const MAX_CHARACTERS: usize = 256;

/// The names in the order of the classes; a class without a name has an empty one. `None` if the text has another form.
pub(crate) fn parse(text: &str) -> Option<Vec<String>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut rest = text.trim().chars().peekable();
    let (close, is_numbered) = match rest.next()? {
        '{' => ('}', true),
        '[' => (']', false),
        '(' => (')', false),
        _ => return None,
    };
    let mut names: Vec<String> = Vec::new();
    loop {
        skip_spaces(&mut rest);
        if rest.next_if_eq(&close).is_some() {
            break;
        }
        let first = token(&mut rest)?;
        let (class, name) = match is_numbered {
            false => (names.len(), first),
            true => {
                skip_spaces(&mut rest);
                rest.next_if_eq(&':')?;
                skip_spaces(&mut rest);
                (first.trim().parse().ok()?, token(&mut rest)?)
            }
        };
        if class >= MAX_CLASSES {
            return None;
        }
        if class >= names.len() {
            names.resize(class + 1, String::new());
        }
        names[class] = plain(&name);
        skip_spaces(&mut rest);
        if rest.next_if_eq(&',').is_none() && rest.peek() != Some(&close) {
            return None;
        }
    }
    skip_spaces(&mut rest);
    (rest.next().is_none() && !names.is_empty()).then_some(names)
}

/// Names of key points, as Ultralytics writes them under `kpt_names`: a list, or a dictionary with a list for each class. `None` if the
/// text has another form, or classes have other names than the first.
pub(crate) fn parse_lists(text: &str) -> Option<Vec<String>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut first: Option<Vec<String>> = None;
    let mut rest = text;
    while let Some((before, list)) = rest.split_once('[') {
        // A quote outside of a list belongs to another form.
        if before.contains(['\'', '"']) {
            return None;
        }
        let (list, behind) = list.split_once(']')?;
        let names = parse(&format!("[{list}]"))?;
        match &first {
            Some(first) if *first != names => return None,
            Some(_) => {}
            None => first = Some(names),
        }
        rest = behind;
    }
    first
}

fn skip_spaces(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|c| c.is_whitespace()).is_some() {}
}

/// A quoted text, or a number.
fn token(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut read = String::new();
    let Some(quote) = rest.next_if(|c| matches!(c, '\'' | '"')) else {
        while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || matches!(c, '-' | '+' | '.' | '_')) {
            read.push(c);
        }
        return (!read.is_empty()).then_some(read);
    };
    loop {
        match rest.next()? {
            c if c == quote => return Some(read),
            '\\' => read.push(escaped(rest)?),
            c => read.push(c),
        }
    }
}

fn escaped(rest: &mut Peekable<Chars<'_>>) -> Option<char> {
    let digits = match rest.next()? {
        'n' | 'r' | 't' => return Some(' '),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        c => return Some(c),
    };
    let number = (0..digits).try_fold(0, |number: u32, _| {
        Some(number.checked_mul(16)? + rest.next()?.to_digit(16)?)
    });
    // Halves of a surrogate pair have no character of their own.
    Some(char::from_u32(number?).unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// The name in one line of bounded length.
pub(crate) fn plain(name: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let line: String = name.chars().take(MAX_CHARACTERS).map(visible).collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_key_points_are_read_for_all_classes_alike() {
        let expected = Some(vec!["nose".to_owned(), "left_eye".to_owned()]);
        for text in [
            "{0: ['nose', 'left_eye']}",
            "['nose', 'left_eye']",
            "{0: ['nose', 'left_eye'], 1: ['nose', 'left_eye']}",
        ] {
            assert_eq!(parse_lists(text), expected, "{text}");
        }
        for text in [
            "{0: ['nose', 'left_eye'], 1: ['nose', 'tail']}",
            "{0: 'nose'}",
            "{'a[': ['b']}",
            "{0: ['no]se']}",
            "[",
            "",
        ] {
            assert_eq!(parse_lists(text), None, "{text}");
        }
    }

    #[test]
    fn dictionaries_and_lists_are_read() {
        for (text, names) in [
            (
                "{0: 'person', 1: \"driver's cab\"}",
                &["person", "driver's cab"][..],
            ),
            ("{'0': 'a', '1': 'b', }", &["a", "b"]),
            ("{\"1\": \"b\", \"0\": \"a, {x}: y\"}", &["a, {x}: y", "b"]),
            (" ['it\\'s', 'b\\\\c', '\\u00e9\\x41'] ", &["it's", "b\\c", "éA"]),
            ("[\"a\\nb\"]", &["a b"]),
            ("('x', 'y')", &["x", "y"]),
            ("{0: 'a', 2: 'c'}", &["a", "", "c"]),
            ("{0: 7, 1: 'Kfz \u{1f697}'}", &["7", "Kfz \u{1f697}"]),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(parse(text), Some(names), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_read() {
        for text in [
            "",
            "{",
            "{}",
            "[]",
            "person",
            "{0: 'a'",
            "{0: 'a' 1: 'b'}",
            "{'person': 0}",
            "{0 'a'}",
            "{-1: 'a'}",
            "{99999999999: 'a'}",
            "{65536: 'a'}",
            "['a\\",
            "['\\u12']",
            "['a'] ['b']",
            "{0: {1: 'a'}}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("['{}']", "a".repeat(MAX_BYTES))), None);
    }

    #[test]
    fn any_text_is_read_or_refused() {
        let mut state = 7_u64;
        for _ in 0..20_000 {
            let mut text = String::from("{");
            for _ in 0..24 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let pieces = ["0", "'", "\"", ":", ",", "\\", "u", "}", "[", " ", "x", "é"];
                text.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            }
            let _ = parse(&text);
            let _ = parse_lists(&text);
        }
    }
}
