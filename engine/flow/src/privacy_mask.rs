//! Parts of a frame that pictures of it hide, for the privacy of those who are seen.
//!
//! The mask of a frame begins as pending if its camera hides anything. Modules add what they find, and the delivery
//! settles it. An encoder that meets a pending mask hides the whole frame.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::geometry::{Point, Rect};
use crate::image::Image;

/// Objects of one frame that are hidden; with more than these the whole frame is.
const MAX_OBJECTS: usize = 4_096;

/// Form in which a part of a picture is hidden. The later one hides more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HiddenForm {
    /// Cells of one colour each; few of them span the part.
    Blur,
    /// The part is black.
    Blackout,
}

/// Shape of a hidden part, in source pixels.
#[derive(Debug, Clone, PartialEq)]
pub enum HiddenShape {
    /// Box of an object.
    Box(Rect),
    /// Polygon by its corners.
    Polygon(Vec<Point>),
}

/// A hidden part of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenArea {
    /// Form in which it is hidden.
    pub form: HiddenForm,
    /// Shape in source pixels.
    pub shape: HiddenShape,
}

/// Parts of a frame that are hidden.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HiddenParts<'a> {
    /// The whole frame: it is not known what it shows.
    Whole,
    /// These areas of the frame.
    Areas(&'a [HiddenArea]),
}

/// Mask of a frame; the default hides nothing. Copies share what is added and settled.
#[derive(Debug, Clone, Default)]
pub struct PrivacyMask {
    state: Option<Arc<State>>,
    is_private: bool,
}

#[derive(Debug, Default)]
struct State {
    found: Mutex<Vec<(HiddenForm, Rect)>>,
    areas: OnceLock<Vec<HiddenArea>>,
    /// The picture with its areas hidden.
    picture: OnceLock<Image>,
}

impl PrivacyMask {
    /// Mask of a camera that hides something, before it is known what.
    #[must_use]
    pub fn pending() -> Self {
        Self {
            state: Some(Arc::default()),
            is_private: false,
        }
    }

    /// The mask of a camera whose pictures stay on this machine, or of one whose pictures may leave it.
    #[must_use]
    pub fn with_private(self, is_private: bool) -> Self {
        Self { is_private, ..self }
    }

    /// True if the pictures of the camera stay on this machine.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// Mask with these areas.
    #[must_use]
    pub fn settled(areas: Vec<HiddenArea>) -> Self {
        let mask = Self::pending();
        mask.settle(areas);
        mask
    }

    /// True if the camera hides something.
    #[must_use]
    pub fn hides(&self) -> bool {
        self.state.is_some()
    }

    /// Adds objects that a module found, and that are hidden.
    pub fn add(&self, objects: impl IntoIterator<Item = (HiddenForm, Rect)>) {
        let Some(state) = &self.state else { return };
        let mut found = state.found.lock().unwrap_or_else(PoisonError::into_inner);
        let room = (MAX_OBJECTS + 1).saturating_sub(found.len());
        found.extend(objects.into_iter().take(room));
    }

    /// Objects that were added; `None` if they are too many to be known all.
    #[must_use]
    pub fn found(&self) -> Option<Vec<(HiddenForm, Rect)>> {
        let state = self.state.as_ref()?;
        let found = state.found.lock().unwrap_or_else(PoisonError::into_inner);
        (found.len() <= MAX_OBJECTS).then(|| found.clone())
    }

    /// Sets the areas that are hidden, once.
    pub fn settle(&self, areas: Vec<HiddenArea>) {
        if let Some(state) = &self.state {
            let _ = state.areas.set(areas);
        }
    }

    /// The picture that encoders take in place of `image`, the frame's own. `hide` makes it, once for a settled mask.
    pub fn picture(&self, image: &Image, hide: impl FnOnce(&Image, HiddenParts<'_>) -> Image) -> Image {
        let Some(state) = &self.state else {
            return image.clone();
        };
        match state.areas.get() {
            None => hide(image, HiddenParts::Whole),
            Some(areas) if areas.is_empty() => image.clone(),
            Some(areas) => {
                let picture = state
                    .picture
                    .get_or_init(|| hide(image, HiddenParts::Areas(areas)));
                picture.clone()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image::from_rgb(2, 2, vec![9; 12])
    }

    fn area() -> HiddenArea {
        HiddenArea {
            form: HiddenForm::Blackout,
            shape: HiddenShape::Box(Rect::new(0.0, 0.0, 1.0, 1.0)),
        }
    }

    /// Number of hidden areas in the picture that an encoder gets; `None`: the whole frame is hidden.
    fn hidden(mask: &PrivacyMask) -> Option<usize> {
        let mut hidden = Some(0);
        mask.picture(&image(), |image, parts| {
            hidden = match parts {
                HiddenParts::Whole => None,
                HiddenParts::Areas(areas) => Some(areas.len()),
            };
            image.clone()
        });
        hidden
    }

    #[test]
    fn a_pending_mask_hides_the_whole_frame_until_it_is_settled() {
        let mask = PrivacyMask::pending();
        let copy = mask.clone();
        assert_eq!(hidden(&mask), None);
        copy.add([(HiddenForm::Blur, Rect::default())]);
        assert_eq!(mask.found().map(|found| found.len()), Some(1));
        copy.settle(vec![area()]);
        assert_eq!(hidden(&mask), Some(1));
        assert_eq!(hidden(&PrivacyMask::settled(Vec::new())), Some(0));
        assert!(PrivacyMask::pending().with_private(true).is_private() && !copy.is_private());
        assert!(!PrivacyMask::default().hides() && hidden(&PrivacyMask::default()) == Some(0));
    }

    #[test]
    fn more_objects_than_can_be_kept_are_not_known() {
        let mask = PrivacyMask::pending();
        let object = (HiddenForm::Blur, Rect::default());
        mask.add(std::iter::repeat_n(object, MAX_OBJECTS));
        assert!(mask.found().is_some());
        mask.add(std::iter::repeat_n(object, 1_000_000));
        assert_eq!(mask.found(), None);
    }
}
