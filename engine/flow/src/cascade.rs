//! Answers of a cascade for one request, as they stand between its stages.

use crate::item::{Inference, Item};

/// The answer to an item so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Answer that counts so far: that of the last stage, or a combination.
    pub inference: Inference,
    /// True if no further stage is asked.
    pub is_accepted: bool,
    /// True if any stage has answered.
    pub is_answered: bool,
}

/// An answer that is handed on in regions of its item.
#[derive(Debug, Clone, Default)]
pub struct SplitAnswer {
    /// Part of the answer outside of all regions, which is accepted.
    pub rest: Inference,
    /// Each region as an item of its own, with the part of the answer inside it.
    pub regions: Vec<(Item, Inference)>,
}

/// The items of a request in a cascade with the answers to each.
#[derive(Debug, Clone, Default)]
pub struct CascadeAnswers {
    items: Vec<Item>,
    answers: Vec<Answer>,
}

impl CascadeAnswers {
    /// No item has an answer yet.
    #[must_use]
    pub fn new(items: Vec<Item>) -> Self {
        Self {
            answers: vec![Answer::default(); items.len()],
            items,
        }
    }

    /// The items that are handed on, with their places.
    pub fn open(&self) -> impl Iterator<Item = (usize, &Item)> {
        let items = self.items.iter().enumerate().zip(&self.answers);
        items.filter_map(|(item, answer)| (!answer.is_accepted).then_some(item))
    }

    /// The item in that place.
    #[must_use]
    pub fn item(&self, place: usize) -> Option<&Item> {
        self.items.get(place)
    }

    /// The answer to the item in that place.
    pub fn answer_mut(&mut self, place: usize) -> Option<&mut Answer> {
        self.answers.get_mut(place)
    }

    /// Splits the item in that place into regions, as `split` divides its answer. The part outside of all
    /// regions is accepted, and each region becomes an item with an answer that is handed on. Without effect
    /// if `split` returns `None`.
    pub fn split(&mut self, place: usize, split: impl FnOnce(&Item, &Inference) -> Option<SplitAnswer>) {
        let (Some(item), Some(answer)) = (self.items.get(place), self.answers.get_mut(place)) else {
            return;
        };
        let Some(SplitAnswer { rest, regions }) = split(item, &answer.inference) else {
            return;
        };
        (answer.inference, answer.is_accepted) = (rest, true);
        for (item, inference) in regions {
            self.items.push(item);
            self.answers.push(Answer {
                inference,
                is_accepted: false,
                is_answered: true,
            });
        }
    }

    /// All items and the inferences that count for them, in order.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Item>, Vec<Inference>) {
        let inferences = self.answers.into_iter().map(|answer| answer.inference);
        (self.items, inferences.collect())
    }
}
