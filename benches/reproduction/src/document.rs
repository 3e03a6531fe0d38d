//! Document of an evaluation: a template written by hand whose `{{names}}` are replaced by tables and
//! figures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::plot::{Figure, PlotError};

/// Reason why the document cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The template and what fills it do not fit each other.
    #[error("the template: {0}; see template.md beside the document")]
    Template(String),
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// File that was read or written.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A figure could not be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

/// Writes the figures (as SVG) and `README.md`, made from `template.md`, into `folder`. The name of a figure
/// is its file name.
///
/// # Errors
/// [`DocumentError`] if the template does not fit, or a file cannot be read or written.
pub fn write(folder: &Path, mut filling: Filling, figures: &[(&str, Figure)]) -> Result<(), DocumentError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| DocumentError::File { path, source }
    };
    let path = folder.join("template.md");
    let template = std::fs::read_to_string(&path).map_err(failed(&path))?;
    for (name, figure) in figures {
        figure.write(&folder.join(format!("{name}.svg")))?;
        filling.add(name, format!("![{}]({name}.svg)", figure.title));
    }
    let path = folder.join("README.md");
    std::fs::write(&path, filling.fill(&template)?).map_err(failed(&path))
}

/// Values for the placeholders of a template, by name.
#[derive(Debug, Clone, Default)]
pub struct Filling(BTreeMap<String, String>);

impl Filling {
    /// Adds the text for one placeholder.
    pub fn add(&mut self, name: &str, text: impl Into<String>) {
        self.0.insert(name.to_owned(), text.into());
    }

    /// Replaces the placeholders of the template.
    ///
    /// # Errors
    /// [`DocumentError::Template`] if a placeholder has no value, or a value has no placeholder.
    pub fn fill(&self, template: &str) -> Result<String, DocumentError> {
        let mut out = String::new();
        let mut asked = Vec::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            let Some((name, after)) = after.split_once("}}") else {
                return Err(DocumentError::Template("a {{ has no }}".to_owned()));
            };
            let text = self.0.get(name);
            let text =
                text.ok_or_else(|| DocumentError::Template(format!("nothing is called {{{{{name}}}}}")))?;
            out.push_str(text.trim_end());
            asked.push(name.to_owned());
            rest = after;
        }
        out.push_str(rest);
        match self.0.keys().find(|name| !asked.contains(name)) {
            Some(name) => Err(DocumentError::Template(format!(
                "{{{{{name}}}}} is shown nowhere"
            ))),
            None => Ok(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_shows_all_there_is_and_nothing_else() {
        let mut filling = Filling::default();
        filling.add("a", "one\n");
        let check = |template: &str, expected: Option<&str>| {
            assert_eq!(filling.fill(template).ok().as_deref(), expected, "{template}");
        };
        check("x {{a}} y {{a}}", Some("x one y one"));
        check("x", None);
        check("{{a}} {{b}}", None);
        check("{{a}} {{a", None);
    }
}
