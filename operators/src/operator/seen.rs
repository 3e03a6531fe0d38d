//! Facts about a frame for prompts: its objects, their places and their attributes.

use weir_flow::{Attribute, Frame, Object, ObjectAttribute, ObjectRef, Parts, Rect, RequestResults};

/// A frame with its results so far.
pub(super) struct Seen<'a> {
    pub(super) frame: &'a Frame,
    pub(super) results: &'a RequestResults,
    /// Rules that assign parts to their owners; objects that were found in the crop of another object belong
    /// to it anyway.
    pub(super) parts: &'a Parts,
}

impl Seen<'_> {
    /// Text that replaces the placeholder `name` for one object.
    pub(super) fn of_object(&self, name: &str, (of, object): (ObjectRef, &Object)) -> String {
        match name {
            "class" => object.class.to_string(),
            "place" => place(&object.rect, self.frame).to_owned(),
            _ => self.attribute(of, name),
        }
    }

    /// An attribute of an object, of one that was found within it, or of a part; nothing where it has none that is a word or a
    /// number.
    fn attribute(&self, of: ObjectRef, name: &str) -> String {
        let belongs = |attribute: &&ObjectAttribute| {
            let found = attribute.object;
            *attribute.name == *name
                && (found == of
                    || self.results.object(found).and_then(|object| object.parent) == Some(of)
                    || self.parts.owner(self.results, found, &|_| true) == Some(of))
        };
        let all = self.results.outputs().flat_map(|(_, output)| &output.attributes);
        let words = all.filter(belongs).map(|attribute| words(&attribute.attribute));
        words
            .into_iter()
            .find(|words| !words.is_empty())
            .unwrap_or_default()
    }
}

fn words(attribute: &Attribute) -> String {
    match attribute {
        Attribute::Text { text, .. } => text.clone(),
        Attribute::Class { class, .. } => class.to_string(),
        Attribute::Match { r#match, .. } => r#match.as_ref().map_or(String::new(), ToString::to_string),
        Attribute::Number { value } => format!("{value:.0}"),
        _ => String::new(),
    }
}

/// Name of the ninth of the picture that holds the centre of a box, such as "top left".
fn place(rect: &Rect, frame: &Frame) -> &'static str {
    let third = |at: f32, size: u32| match 3.0 * at / size.max(1) as f32 {
        at if at < 1.0 => 0,
        at if at < 2.0 => 1,
        _ => 2,
    };
    let centre = rect.centre();
    let column = third(centre.x, frame.image.width);
    let row = third(centre.y, frame.image.height);
    [
        ["top left", "top", "top right"],
        ["left", "centre", "right"],
        ["bottom left", "bottom", "bottom right"],
    ][row][column]
}
