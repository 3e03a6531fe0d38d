//! Markdown tables, aligned so that they read well as plain text too.

/// A table with a header; every column is as wide as its widest cell.
///
/// Cells are escaped (`|`, `\`) and line breaks become spaces. A short row is filled with empty cells, a long one is
/// cut to the header. Columns whose cells are all numbers (or empty) are aligned to the right. Ends with a line break;
/// a table without columns is the empty string.
pub fn markdown<H: AsRef<str>, C: AsRef<str>>(header: &[H], rows: &[Vec<C>]) -> String {
    if header.is_empty() {
        return String::new();
    }
    let head: Vec<String> = header.iter().map(|cell| escaped(cell.as_ref())).collect();
    let body: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            (0..head.len())
                .map(|i| row.get(i).map_or_else(String::new, |cell| escaped(cell.as_ref())))
                .collect()
        })
        .collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|i| {
            body.iter()
                .map(|row| letters(&row[i]))
                .fold(letters(&head[i]).max(3), usize::max)
        })
        .collect();
    let right: Vec<bool> = (0..head.len())
        .map(|i| !body.is_empty() && body.iter().all(|row| row[i].is_empty() || numeric(&row[i])))
        .collect();
    let rule: Vec<String> = widths
        .iter()
        .zip(&right)
        .map(|(width, right)| {
            if *right {
                format!("{}:", "-".repeat(width - 1))
            } else {
                "-".repeat(*width)
            }
        })
        .collect();
    let mut out = line(&head, &widths, &right);
    out.push_str(&line(&rule, &widths, &right));
    for row in &body {
        out.push_str(&line(row, &widths, &right));
    }
    out
}

fn line(cells: &[String], widths: &[usize], right: &[bool]) -> String {
    let mut out = String::from("|");
    for ((cell, width), right) in cells.iter().zip(widths).zip(right) {
        let fill = " ".repeat(width - letters(cell));
        let cell = if *right {
            format!(" {fill}{cell} |")
        } else {
            format!(" {cell}{fill} |")
        };
        out.push_str(&cell);
    }
    out.push('\n');
    out
}

fn letters(text: &str) -> usize {
    text.chars().count()
}

/// True if a cell is a number, possibly with a unit such as `%`, `x` or `ms`.
fn numeric(cell: &str) -> bool {
    let number = cell.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%' || c == ' ');
    number.parse::<f64>().is_ok()
}

fn escaped(cell: &str) -> String {
    cell.trim()
        .replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace("\r\n", " ")
        .replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::markdown;

    #[test]
    fn numbers_align_right_and_bars_are_escaped() {
        let rows = vec![vec!["a|b", "1.5 %"], vec!["long name", "12 %"], vec!["short"]];
        let text = markdown(&["policy", "drop"], &rows);
        assert_eq!(
            text,
            "| policy    |  drop |\n| --------- | ----: |\n| a\\|b      | 1.5 % |\n| long name |  12 % |\n| short     |       |\n"
        );
    }

    #[test]
    fn every_line_is_equally_long_whatever_the_cells() {
        let rows = vec![
            vec!["\u{e9}\u{4e2d}", "x\ny"],
            vec!["", "\\"],
            vec!["NaN", "-", "too many"],
        ];
        let text = markdown(&["a", "b"], &rows);
        let lengths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(lengths.len(), 5);
        assert!(lengths.iter().all(|length| *length == lengths[0]), "{text}");
    }

    #[test]
    fn no_columns_no_table() {
        assert_eq!(markdown::<&str, &str>(&[], &[]), "");
    }
}
