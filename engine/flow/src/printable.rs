//! Escapes text from outside for terminals and logs.
//!
//! Names, paths, labels and messages come from files, addresses, libraries and peers. A terminal executes the
//! control characters in them (colours, the window's title, overwritten lines, text that runs backwards), so
//! all printed text passes through here, and control characters are shown as text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes control characters as `\u{..}`. Line breaks and tabs stay, since tables and hints have them.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_control(c) && c != '\n' && c != '\t')
}

/// Escapes control characters, line breaks and tabs, so that the text is one line: for names in tables, and
/// for logs.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_control)
}

fn escape(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !hidden(c) => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c => {
                // Writing to a string does not fail.
                let _ = write!(shown, "{}", c.escape_unicode());
            }
        }
    }
    Cow::Owned(shown)
}

/// Control characters of both sets (C0 and C1), marks that change the direction of text, other line
/// separators, and characters without width.
fn is_control(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let unseen = matches!(
        c,
        '\u{200b}' | '\u{2028}' | '\u{2029}' | '\u{2060}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    );
    c.is_control() || turns || unseen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        let check = |given: &str, shown: &str| assert_eq!(text(given), shown, "{given:?}");
        check(
            "plain, with umlauts: ä, and \"quotes\"",
            "plain, with umlauts: ä, and \"quotes\"",
        );
        check("two\n\tlines", "two\n\tlines");
        check(
            "\u{1b}[31mred\u{1b}]0;title\u{7}",
            "\\u{1b}[31mred\\u{1b}]0;title\\u{7}",
        );
        check("over\rwritten", "over\\rwritten");
        check("\u{9b}31m and \u{7f}", "\\u{9b}31m and \\u{7f}");
        check("clip\u{202e}4pm.exe", "clip\\u{202e}4pm.exe");
        check("\u{2066}a\u{2069}\u{200b}", "\\u{2066}a\\u{2069}\\u{200b}");
        assert_eq!(line("north\nerror: none"), "north\\nerror: none");
    }
}
