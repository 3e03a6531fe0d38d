//! The people of a street.

use super::walkers;
use crate::person::Identity;
use crate::seed::{Part, mix};

/// The people of a street: those of the gallery, and others.
pub(super) struct Crowd {
    gallery: Vec<(Identity, String)>,
    others: Vec<Identity>,
}

impl Crowd {
    /// Number of people who are in no gallery.
    const OTHERS: u64 = 24;

    pub(super) fn new(part: Part) -> Self {
        let gallery = (0..walkers::GALLERY).map(|number| Identity::of(part, number));
        let others = (0..Self::OTHERS).map(|number| Identity::of(part, walkers::GALLERY + number));
        Self {
            gallery: gallery
                .map(|who| {
                    let name = who.name();
                    (who, name)
                })
                .collect(),
            others: others.collect(),
        }
    }

    pub(super) fn walker(&self, number: u64) -> (&Identity, Option<&str>) {
        match self.gallery.get(number as usize) {
            Some((who, name)) => (who, Some(name)),
            None => (self.rider(number), None),
        }
    }

    /// Height of the person in metres.
    pub(super) fn height(number: u64) -> f32 {
        1.60 + 0.26 * (mix(number) % 100) as f32 / 100.0
    }

    pub(super) fn rider(&self, number: u64) -> &Identity {
        &self.others[(number % Self::OTHERS) as usize]
    }
}
