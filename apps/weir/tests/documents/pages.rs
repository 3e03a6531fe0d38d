//! Markdown pages: code blocks, code in prose, headings and links.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page by its path from the root of the repository.
pub(super) struct Page {
    pub(super) name: String,
    text: String,
}

/// A fenced code block.
pub(super) struct Block {
    /// Line of its first line of text, from 1.
    pub(super) line: usize,
    /// Word after the opening fence, such as `toml`.
    pub(super) language: String,
    pub(super) text: String,
}

/// All pages of documents, and the README. Templates that reports are written from are no pages.
pub(super) fn pages() -> Vec<Page> {
    let mut files = vec![PathBuf::from("README.md")];
    collect(Path::new("docs"), &mut files);
    files.sort();
    let read = |name: PathBuf| {
        let text = std::fs::read_to_string(root().join(&name)).unwrap();
        Page::new(name.to_str().unwrap(), &text)
    };
    files.into_iter().map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if root().join(&path).is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "md")
            && !path.ends_with("template.md")
        {
            files.push(path);
        }
    }
}

impl Page {
    pub(super) fn new(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }

    pub(super) fn text(&self) -> String {
        self.text.clone()
    }

    /// A complaint about a line of this page.
    pub(super) fn at(&self, line: usize, problem: impl std::fmt::Display) -> String {
        format!("{}:{line}: {problem}", self.name)
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        self.split().0
    }

    /// Lines outside of code blocks, with their numbers.
    pub(super) fn prose(&self) -> Vec<(usize, &str)> {
        self.split().1
    }

    fn split(&self) -> (Vec<Block>, Vec<(usize, &str)>) {
        let (mut blocks, mut prose) = (Vec::new(), Vec::new());
        let mut open: Option<(usize, Block)> = None;
        for (number, line) in (1..).zip(self.text.lines()) {
            let fence = line.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, None) => prose.push((number, line)),
                (None, Some(language)) => {
                    let block = Block {
                        line: number + 1,
                        language: language.trim().to_owned(),
                        text: String::new(),
                    };
                    open = Some((line.len() - line.trim_start().len(), block));
                }
                (Some((indent, block)), None) => {
                    let blank = line.bytes().take_while(|byte| *byte == b' ').count();
                    block.text += &line[blank.min(*indent)..];
                    block.text.push('\n');
                }
                (Some(_), Some(_)) => blocks.extend(open.take().map(|(_, block)| block)),
            }
        }
        (blocks, prose)
    }

    /// Code within prose and its line. A span may go on in the next line of its paragraph.
    pub(super) fn inline_code(&self) -> Vec<(usize, String)> {
        let spans = self.spans().into_iter().filter(|(_, is_code, _)| *is_code);
        let text = |span: &str| span.replace("\\|", "|").replace('\n', " ");
        spans.map(|(line, _, span)| (line, text(&span))).collect()
    }

    /// Paragraphs of prose, cut at every backtick: the line of each span, and true where it is code.
    fn spans(&self) -> Vec<(usize, bool, String)> {
        let mut spans: Vec<(usize, bool, String)> = Vec::new();
        let mut last = 0;
        for (number, line) in self.prose() {
            let mut parts = line.split('`');
            let goes_on = number == last + 1 && !line.trim().is_empty();
            match (spans.last_mut(), parts.next()) {
                (Some((_, _, span)), Some(part)) if goes_on => {
                    span.push('\n');
                    span.push_str(part);
                }
                (_, part) => spans.push((number, false, part.unwrap_or_default().to_owned())),
            }
            for part in parts {
                let is_code = !spans.last().unwrap().1;
                spans.push((number, is_code, part.to_owned()));
            }
            last = number;
        }
        spans
    }

    /// Targets of links and pictures, with the numbers of their lines.
    pub(super) fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        // Code in the text of a link must not part it.
        let mut paragraphs: Vec<(usize, String)> = Vec::new();
        for (line, is_code, span) in self.spans() {
            match paragraphs.last_mut() {
                Some((_, text)) if is_code => text.push_str(&"\n".repeat(span.matches('\n').count())),
                Some((first, text)) if line <= *first + text.matches('\n').count() => text.push_str(&span),
                _ => paragraphs.push((line, span)),
            }
        }
        for (first, text) in paragraphs {
            for (opening, closing) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
                for (at, _) in text.match_indices(opening) {
                    let target = text[at + opening.len()..]
                        .split(closing)
                        .next()
                        .unwrap_or_default();
                    links.push((first + text[..at].matches('\n').count(), target.to_owned()));
                }
            }
        }
        links
    }

    /// Names that links to parts of the page may have after `#`: headings as GitHub and mdBook name them, and `<a name>`.
    pub(super) fn anchors(&self) -> Vec<String> {
        let mut anchors = Vec::new();
        let mut seen = BTreeMap::<String, usize>::new();
        for (_, line) in self.prose() {
            let named = line.split("<a name=\"").skip(1);
            anchors.extend(named.filter_map(|rest| rest.split('"').next().map(str::to_owned)));
            let title = line.trim_start_matches('#');
            if title.len() == line.len() || !title.starts_with(' ') {
                continue;
            }
            let mut slug = String::new();
            for c in title.trim().chars() {
                match c {
                    ' ' => slug.push('-'),
                    '-' | '_' => slug.push(c),
                    c if c.is_alphanumeric() => slug.extend(c.to_lowercase()),
                    _ => {}
                }
            }
            let before = seen.entry(slug.clone()).or_insert(0);
            anchors.push(match *before {
                0 => slug,
                n => format!("{slug}-{n}"),
            });
            *before += 1;
        }
        anchors
    }
}
