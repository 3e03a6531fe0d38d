//! A look at the tags of a template: statements, filters and tests that Weir has none of are found also in branches that no sample
//! event takes.

/// Statements that templates may have. Others make values of any size, or name other templates.
const STATEMENTS: [&str; 8] = ["if", "elif", "else", "endif", "for", "endfor", "raw", "endraw"];

/// Filters that templates may call.
const FILTERS: [&str; 10] = [
    "default",
    "join",
    "length",
    "lower",
    "round",
    "tojson",
    "trim",
    "truncate",
    "upper",
    "urlencode",
];

/// Tests that templates may call.
const TESTS: [&str; 3] = ["defined", "none", "undefined"];

/// Looks at all tags.
///
/// # Errors
/// The first construct that there is none of, with its line.
pub(super) fn scan(source: &str) -> Result<(), String> {
    each_tag(source, |tag| {
        if let Some(statement) = tag.statement()
            && !STATEMENTS.contains(&statement)
        {
            return Err(format!(
                "templates have no `{statement}`; they have if, for and raw"
            ));
        }
        check_calls(&tag.words)
    })
}

/// Looks at all tags but comments, in their order.
///
/// # Errors
/// The first error of `visit`, with its line.
pub(in crate::sinks) fn each_tag<'a>(
    source: &'a str,
    mut visit: impl FnMut(&Tag<'a>) -> Result<(), String>,
) -> Result<(), String> {
    let mut at = 0;
    while let Some((open, kind)) = next_tag(source, at) {
        if kind == '#' {
            let end = source[open..].find("#}");
            at = end.map_or(source.len(), |end| open + end + 2);
            continue;
        }
        let tag = Tag::read(&source[open + 2..], kind == '%');
        let line = || 1 + source[..open].matches('\n').count();
        visit(&tag).map_err(|reason| format!("line {}: {reason}", line()))?;
        at = open + 2 + tag.bytes;
        if tag.statement() == Some("raw") {
            let end = source[at..].find("endraw");
            at = end.map_or(source.len(), |end| at + end);
        }
    }
    Ok(())
}

/// The next tag from a byte on: its place, and its second character.
fn next_tag(source: &str, from: usize) -> Option<(usize, char)> {
    let kinds = [("{{", '{'), ("{%", '%'), ("{#", '#')];
    let found = kinds
        .iter()
        .filter_map(|(open, kind)| Some((from + source.get(from..)?.find(open)?, *kind)));
    found.min()
}

/// The words and marks of a tag outside of quoted texts.
pub(in crate::sinks) struct Tag<'a> {
    is_statement: bool,
    /// Each with the character before it.
    pub(in crate::sinks) words: Vec<(char, &'a str)>,
    /// Characters that are no part of a word, each with the number of words before it and with the character before it.
    pub(in crate::sinks) marks: Vec<(usize, char, char)>,
    /// Bytes up to the end of the tag.
    bytes: usize,
}

impl<'a> Tag<'a> {
    /// Returns the name of a statement, such as `for`; `None` for an expression.
    pub(in crate::sinks) fn statement(&self) -> Option<&'a str> {
        let first = self.words.first().map_or("", |(_, word)| word);
        self.is_statement.then_some(first)
    }

    fn read(text: &'a str, is_statement: bool) -> Self {
        let close = if is_statement { "%}" } else { "}}" };
        let (mut words, mut marks) = (Vec::new(), Vec::new());
        let (mut before, mut skip_until) = (' ', 0);
        for (at, c) in text.char_indices() {
            if at < skip_until {
                continue;
            }
            let rest = &text[at..];
            if rest.starts_with(close) {
                return Self {
                    is_statement,
                    words,
                    marks,
                    bytes: at + close.len(),
                };
            }
            if c == '"' || c == '\'' {
                skip_until = at + quoted_bytes(rest, c);
            } else if c.is_alphanumeric() || c == '_' {
                let is_part = |c: char| c.is_alphanumeric() || c == '_';
                let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
                skip_until = at + end;
                words.push((before, &rest[..end]));
            } else if !c.is_whitespace() {
                marks.push((words.len(), before, c));
            }
            if !c.is_whitespace() {
                before = c;
            }
        }
        Self {
            is_statement,
            words,
            marks,
            bytes: text.len(),
        }
    }
}

/// Bytes of a quoted text, with its quotes.
fn quoted_bytes(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

fn check_calls(words: &[(char, &str)]) -> Result<(), String> {
    for (before, word) in words {
        if *before == '|' && !FILTERS.contains(word) {
            return Err(format!(
                "there is no filter \"{word}\": there are {}",
                FILTERS.join(", ")
            ));
        }
    }
    let after_is = words.windows(2).filter_map(|pair| match pair {
        [(before, "is"), (_, word)] if *before != '.' => Some(*word),
        _ => None,
    });
    let after_not = words.windows(3).filter_map(|triple| match triple {
        [(before, "is"), (_, "not"), (_, word)] if *before != '.' => Some(*word),
        _ => None,
    });
    let mut tests = after_is.filter(|word| *word != "not").chain(after_not);
    match tests.find(|test| !TESTS.contains(test)) {
        Some(test) => Err(format!(
            "there is no test \"{test}\": there are {}",
            TESTS.join(", ")
        )),
        None => Ok(()),
    }
}
