//! The document: a template by hand whose `{{names}}` are filled with tables and figures.

use std::collections::BTreeMap;

use super::ReproduceError;

/// What fills a template, by name.
#[derive(Debug, Clone, Default)]
pub struct Filling(BTreeMap<String, String>);

impl Filling {
    /// Adds a text.
    pub fn add(&mut self, name: &str, text: impl Into<String>) {
        self.0.insert(name.to_owned(), text.into());
    }

    /// The template, filled.
    ///
    /// # Errors
    /// [`ReproduceError::Template`] where it asks for what there is not, or does not ask for what there is.
    pub fn fill(&self, template: &str) -> Result<String, ReproduceError> {
        let mut out = String::new();
        let mut asked = Vec::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            let Some((name, after)) = after.split_once("}}") else {
                return Err(ReproduceError::Template("a {{ has no }}".to_owned()));
            };
            let text = self.0.get(name);
            let text =
                text.ok_or_else(|| ReproduceError::Template(format!("nothing is called {{{{{name}}}}}")))?;
            out.push_str(text.trim_end());
            asked.push(name.to_owned());
            rest = after;
        }
        out.push_str(rest);
        match self.0.keys().find(|name| !asked.contains(name)) {
            Some(name) => Err(ReproduceError::Template(format!(
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
