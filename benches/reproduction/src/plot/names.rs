//! The names of categories below their bars, on as many lines as they need.

use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::page::{Drawn, Page, SMALL, pixels, text};

const LINE: f64 = 14.0;

/// The names, each in its lines.
pub(super) struct Names(Vec<Vec<String>>);

impl Names {
    /// Names that share `room` pixels of the page across.
    pub(super) fn within(names: &[String], room: i32, page: &Page<'_>) -> Self {
        let slot = room / names.len().max(1) as i32 - pixels(6.0);
        let wide = |line: &str| {
            let size = page.estimate_text_size(line, &text(SMALL));
            size.map_or(i32::MAX, |(wide, _)| wide as i32)
        };
        Self(
            names
                .iter()
                .map(|name| wrapped(name, |line| wide(line) <= slot))
                .collect(),
        )
    }

    /// Height of the tallest name, in figure units.
    pub(super) fn height(&self) -> f64 {
        LINE * self.0.iter().map(Vec::len).max().unwrap_or(0) as f64
    }

    /// Writes them on the page, each below the place that `foot` gives for its index, in pixels of the page.
    pub(super) fn draw(&self, page: &Page<'_>, foot: impl Fn(usize) -> (i32, i32)) -> Drawn {
        let style = text(SMALL).pos(Pos::new(HPos::Center, VPos::Top));
        for (index, lines) in self.0.iter().enumerate() {
            let (x, y) = foot(index);
            for (row, line) in lines.iter().enumerate() {
                page.draw_text(line, &style, (x, y + pixels(6.0 + LINE * row as f64)))?;
            }
        }
        Ok(())
    }
}

/// Lines that fit, where words allow: a break is possible after a space, `-`, `/`, `_` or `+`.
fn wrapped(name: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split_inclusive([' ', '-', '/', '_', '+']) {
        match lines.last_mut() {
            Some(line) if fits(format!("{line}{word}").trim_end()) => line.push_str(word),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_broken_after_its_parts_and_never_within() {
        let check = |name: &str, letters: usize, lines: &[&str]| {
            assert_eq!(
                wrapped(name, |line| line.len() <= letters),
                lines,
                "{name} in {letters}"
            );
        };
        check("da-dynamic-wiki", 20, &["da-dynamic-wiki"]);
        check("da-dynamic-wiki", 11, &["da-dynamic-", "wiki"]);
        check("da-dynamic-wiki", 3, &["da-", "dynamic-", "wiki"]);
        check("100 devices", 3, &["100 ", "devices"]);
    }
}
