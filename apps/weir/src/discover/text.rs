//! Texts of devices as names of a graph, and texts with percent signs.

/// The text of `%20` and the like; bytes that are no UTF-8 are replaced.
pub(super) fn percent_decoded(text: &str) -> String {
    String::from_utf8_lossy(&weir_flow::percent_decoded(text)).into_owned()
}

/// A name for a table of a graph: small letters, digits and `-`; empty if nothing remains.
pub(super) fn table_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        if name.len() >= 40 {
            break;
        }
    }
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_that_are_no_bytes_stay() {
        assert_eq!(percent_decoded("a%20b%C3%A4%zz%2"), "a b\u{e4}%zz%2");
    }

    #[test]
    fn names_have_plain_characters_only() {
        for (text, name) in [
            ("Front Door", "front-door"),
            ("HIKVISION DS-2CD2142", "hikvision-ds-2cd2142"),
            ("../../etc/passwd", "etc-passwd"),
            ("\u{e4}\u{1b}[31m", "31m"),
            ("\u{fc}", ""),
        ] {
            assert_eq!(table_name(text), name, "{text}");
        }
        assert!(table_name(&"a ".repeat(1_000)).len() <= 40);
    }
}
