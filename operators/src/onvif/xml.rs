//! XML of devices, read within bounds: no document types, no entities but those of XML itself, a bounded depth and number of
//! elements. Elements are found by their names without prefixes, which differ without their namespaces.

use std::sync::Arc;

use quick_xml::Reader;
use quick_xml::escape::{resolve_predefined_entity, unescape};
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// Elements within each other. ONVIF needs about twelve.
const MAX_DEPTH: usize = 32;

/// Elements of an answer. A recorder with 64 channels has about 15,000.
const MAX_ELEMENTS: usize = 50_000;

/// Characters of an error of the parser, which may quote the answer.
const MAX_REASON: usize = 120;

/// Attributes that are kept.
const ATTRIBUTES: [&str; 4] = ["token", "Name", "Value", "PropertyOperation"];

/// Namespaces that are declared at one place, at most: an answer of ONVIF has about thirty.
const MAX_NAMESPACES: usize = 256;

/// An element with few of its attributes.
#[derive(Debug, Default, PartialEq)]
pub struct Element {
    /// Name without its prefix.
    pub name: String,
    /// Namespace of its name; empty if none is declared.
    pub namespace: Arc<str>,
    attributes: Vec<(&'static str, String)>,
    text: String,
    children: Vec<Element>,
}

/// Namespaces that are declared so far: number of elements around each declaration, its prefix and its name.
#[derive(Default)]
struct Namespaces(Vec<(usize, Vec<u8>, Arc<str>)>);

impl Namespaces {
    /// Takes in the declarations of an element that begins within `depth` others.
    fn open(&mut self, start: &BytesStart<'_>, depth: usize) {
        for attribute in attributes(start) {
            let key = attribute.key.as_ref();
            let prefix = match key.strip_prefix(b"xmlns") {
                Some(b"") => &b""[..],
                Some([b':', prefix @ ..]) => prefix,
                _ => continue,
            };
            if self.0.len() < MAX_NAMESPACES {
                let name = String::from_utf8_lossy(&attribute.value);
                self.0.push((depth, prefix.to_owned(), name.as_ref().into()));
            }
        }
    }

    /// Forgets the declarations of an element that ended within `depth` others.
    fn close(&mut self, depth: usize) {
        while self.0.last().is_some_and(|(of, _, _)| *of >= depth) {
            self.0.pop();
        }
    }

    /// The namespace of a name with its prefix.
    fn of(&self, name: &[u8]) -> Arc<str> {
        let end = name.iter().position(|byte| *byte == b':').unwrap_or(0);
        let mut known = self.0.iter().rev();
        let known = known.find(|(_, prefix, _)| prefix == &name[..end]);
        known.map_or_else(|| Arc::from(""), |(_, _, name)| Arc::clone(name))
    }
}

/// Attributes of an element. Comparing all names with each other would take too long for a hostile answer.
fn attributes<'s>(start: &'s BytesStart<'_>) -> impl Iterator<Item = Attribute<'s>> {
    let mut attributes = start.attributes();
    attributes.with_checks(false);
    attributes.flatten()
}

/// The root element of a document.
///
/// # Errors
/// Reason why the text is not read.
pub fn parse(text: &str) -> Result<Element, String> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    // Some devices write addresses with a bare `&`.
    config.allow_dangling_amp = true;
    let mut open: Vec<Element> = Vec::new();
    let mut namespaces = Namespaces::default();
    let mut elements = 0;
    loop {
        let event = reader.read_event().map_err(|error| not_xml(&error.to_string()))?;
        match event {
            Event::Start(start) => {
                elements += 1;
                if elements > MAX_ELEMENTS {
                    return Err(format!("its answer has more than {MAX_ELEMENTS} elements"));
                }
                if open.len() >= MAX_DEPTH {
                    return Err(format!(
                        "its answer has more than {MAX_DEPTH} elements within each other"
                    ));
                }
                namespaces.open(&start, open.len());
                open.push(Element::of(&start, &namespaces));
            }
            Event::End(_) => {
                let Some(element) = open.pop() else {
                    return Err(not_xml("an element ends that did not begin"));
                };
                namespaces.close(open.len());
                match open.last_mut() {
                    Some(parent) => parent.children.push(element),
                    None => return Ok(element),
                }
            }
            Event::Text(text) => add(
                &mut open,
                &text.decode().map_err(|error| not_xml(&error.to_string()))?,
            ),
            Event::CData(text) => add(
                &mut open,
                &text.decode().map_err(|error| not_xml(&error.to_string()))?,
            ),
            Event::GeneralRef(reference) => add(&mut open, &resolved(&reference)?),
            Event::DocType(_) => return Err("its answer has a document type, which is not read".to_owned()),
            Event::Eof => return Err("its answer is no XML, or is cut off".to_owned()),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) | Event::Empty(_) => {}
        }
    }
}

fn not_xml(reason: &str) -> String {
    let reason: String = reason.chars().take(MAX_REASON).collect();
    format!("its answer is not XML: {reason}")
}

/// Adds text to the innermost element; text outside of elements is left out.
fn add(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

/// The character that a reference stands for. Entities that a document defines are errors.
fn resolved(reference: &BytesRef<'_>) -> Result<String, String> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Ok(character.to_string());
    }
    let name = reference.decode().map_err(|error| not_xml(&error.to_string()))?;
    let text = resolve_predefined_entity(&name).map(str::to_owned);
    text.ok_or_else(|| not_xml(&format!("it names the entity {name}")))
}

impl Element {
    fn of(start: &BytesStart<'_>, namespaces: &Namespaces) -> Self {
        let value = |attribute: &Attribute<'_>| {
            let raw = String::from_utf8_lossy(&attribute.value).into_owned();
            unescape(&raw).map_or_else(|_| raw.clone(), |text| text.into_owned())
        };
        let kept = ATTRIBUTES.into_iter().filter_map(|name| {
            let mut found = attributes(start);
            let found = found.find(|attribute| attribute.key.as_ref() == name.as_bytes())?;
            Some((name, value(&found)))
        });
        let name = start.name();
        Self {
            name: String::from_utf8_lossy(start.local_name().as_ref()).into_owned(),
            namespace: namespaces.of(name.as_ref()),
            attributes: kept.collect(),
            ..Self::default()
        }
    }

    /// The value of one of the attributes that are kept; empty if the element lacks it.
    #[must_use]
    pub fn attribute(&self, name: &str) -> &str {
        let mut known = self.attributes.iter();
        let known = known.find(|(known, _)| *known == name);
        known.map_or("", |(_, value)| value)
    }

    /// All its children.
    #[must_use]
    pub fn children(&self) -> &[Self] {
        &self.children
    }

    /// Its text without blanks around it.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.trim()
    }

    /// Children of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Takes the first child of that name out.
    pub fn take_at(&mut self, name: &str) -> Option<Self> {
        let at = self.children.iter().position(|child| child.name == name)?;
        Some(self.children.swap_remove(at))
    }

    /// Takes the first child out.
    pub fn take_first(&mut self) -> Option<Self> {
        (!self.children.is_empty()).then(|| self.children.remove(0))
    }

    /// The first element at the end of a path of names.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        let Some((name, rest)) = path.split_first() else {
            return Some(self);
        };
        let mut found = self.children.iter().filter(|child| child.name == *name);
        found.find_map(|child| child.at(rest))
    }

    /// Text at the end of a path of names, without blanks around it; `None` if it is absent or empty.
    #[must_use]
    pub fn text_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)
            .map(|element| element.text.trim())
            .filter(|text| !text.is_empty())
    }

    /// Texts of all elements of that name below this one.
    #[must_use]
    pub fn texts_below(&self, name: &str) -> Vec<&str> {
        let mut texts = Vec::new();
        for child in &self.children {
            if child.name == name {
                texts.push(child.text.trim());
            }
            texts.extend(child.texts_below(name));
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_names_without_prefixes() {
        let text = "<?xml version=\"1.0\"?><!-- a --><a:A xmlns:a=\"x\"><b token=\"t&amp;1\" x='2'><c> one &lt;&#50;> </c></b><b/>\
                    <c><![CDATA[<two>]]></c></a:A><junk";
        let root = parse(text).unwrap();
        assert_eq!(root.name, "A");
        assert_eq!(root.text_at(&["b", "c"]), Some("one <2>"));
        assert_eq!(root.text_at(&["c"]), Some("<two>"));
        assert_eq!((root.text_at(&["b"]), root.text_at(&["d", "c"])), (None, None));
        let tokens: Vec<&str> = root.all("b").map(|b| b.attribute("token")).collect();
        assert_eq!(tokens, ["t&1", ""]);
        assert_eq!(root.texts_below("c"), ["one <2>", "<two>"]);
    }

    #[test]
    fn bare_ampersands_are_text() {
        let root = parse("<a>rtsp://h/x?a=1&b=2&amp;c=3</a>").unwrap();
        assert_eq!(root.text_at(&[]), Some("rtsp://h/x?a=1&b=2&c=3"));
    }

    #[test]
    fn answers_beyond_the_bounds_are_refused() {
        let deep = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
        let wide = format!("<a>{}</a>", "<b/>".repeat(MAX_ELEMENTS));
        let bomb = "<!DOCTYPE a [<!ENTITY b \"bb\"><!ENTITY c \"&b;&b;\">]><a>&c;</a>";
        for (text, reason) in [
            (deep.as_str(), "within each other"),
            (&wide, "more than 50000 elements"),
            (bomb, "document type"),
            ("<a>&c;</a>", "the entity c"),
            ("<a><b></a>", "not XML"),
            ("</a>", "not XML"),
            ("<a><b></b>", "cut off"),
            ("", "no XML"),
            ("\u{0}\u{1}hello", "no XML"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{reason}: {error}");
        }
    }

    #[test]
    fn many_attributes_take_no_long_comparison() {
        let attributes: String = (0..100_000).map(|number| format!(" a{number}=''")).collect();
        let root = parse(&format!("<a{attributes} token='last'/>")).unwrap();
        assert_eq!(root.attribute("token"), "last");
    }

    #[test]
    fn namespaces_are_those_of_the_nearest_declaration() {
        let text = "<a xmlns='one' xmlns:p='two'><p:b/><c xmlns='three' xmlns:p='four'><p:d/><e/></c><p:f/><q:g/></a>";
        let root = parse(text).unwrap();
        let of = |path: &[&str]| root.at(path).unwrap().namespace.to_string();
        let found = [&["b"][..], &["c", "d"], &["c", "e"], &["f"], &["g"]].map(of);
        assert_eq!(found, ["two", "four", "three", "two", ""]);
        assert_eq!(&*root.namespace, "one");
    }
}
