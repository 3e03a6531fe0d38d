//! What a prompt can say of a frame: its objects, their places and what was read of them.

use weir_flow::{Attribute, Frame, Object, ObjectAttribute, ObjectRef, Parts, Rect, RequestResults};

/// What is known of a frame.
pub(super) struct Seen<'a> {
    pub(super) frame: &'a Frame,
    pub(super) results: &'a RequestResults,
    /// What is part of what, beside what was found in the crops of objects.
    pub(super) parts: &'a Parts,
}

impl Seen<'_> {
    /// What a name stands for, of an object.
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

/// Where in the picture a box is, by thirds.
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
