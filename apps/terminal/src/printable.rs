//! What others wrote, made fit for a terminal and for logs.
//!
//! Names, paths, labels and messages come from files, addresses, libraries and peers. A terminal obeys what they hold
//! (colours, the window's title, lines that are overwritten, text that runs backwards), so everything that is printed
//! passes through here, and what would be obeyed is shown instead.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with everything that a terminal obeys as `\u{..}`. Ends of lines and tabs stay: tables and hints have them.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_control(c) && c != '\n' && c != '\t')
}

/// The text in one line: ends of lines are shown, too. For names in tables, and for logs.
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

/// Control characters of both sets, what turns the direction of text, other ends of lines, and what has no width.
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
