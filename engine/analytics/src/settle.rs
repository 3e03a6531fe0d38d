//! Settled properties of a track, by vote over all of its observations: its class and its attributes.
//!
//! Every reading of an attribute counts for its value with its score, and the value with the greatest sum is
//! settled. Ten correct readings of a plate thus outweigh two confident mistakes. For attributes without
//! values to vote on, such as an angle, the newest reading is settled.

use std::sync::Arc;

use weir_flow::Attribute;

/// Values of one attribute that are kept; of more, those with least support are forgotten.
const MAX_VALUES: usize = 16;
/// Attributes of one track.
const MAX_ATTRIBUTES: usize = 32;

/// A value and the sum of the scores that it was read with.
#[derive(Debug, Clone)]
struct Vote<T> {
    value: T,
    support: f32,
    /// Greatest score that it was read with.
    best: f32,
    /// Number of readings of this value.
    count: u32,
}

/// Votes on values, of which there are few.
#[derive(Debug, Clone)]
struct Votes<T>(Vec<Vote<T>>);

impl<T> Default for Votes<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Votes<T> {
    fn add(&mut self, value: T, score: f32, same: impl Fn(&T, &T) -> bool) {
        let score = if score.is_finite() {
            score.clamp(0.0, 1.0)
        } else {
            0.0
        };
        if let Some(vote) = self.0.iter_mut().find(|vote| same(&vote.value, &value)) {
            vote.support += score;
            vote.count = vote.count.saturating_add(1);
            if score > vote.best {
                // The reading that is shown is the best of this value.
                (vote.value, vote.best) = (value, score);
            }
            return;
        }
        if self.0.len() == MAX_VALUES {
            let support = |index: &usize| self.0[*index].support;
            let least = (0..MAX_VALUES).min_by(|a, b| support(a).total_cmp(&support(b)));
            self.0.swap_remove(least.unwrap_or(0));
        }
        self.0.push(Vote {
            value,
            support: score,
            best: score,
            count: 1,
        });
    }

    /// The one with most support; of equals the one that came first.
    fn winner(&self) -> Option<&Vote<T>> {
        let mut winner = self.0.first()?;
        for vote in &self.0[1..] {
            if vote.support > winner.support {
                winner = vote;
            }
        }
        Some(winner)
    }
}

/// An attribute that a module reads, with the votes on it.
#[derive(Debug, Clone)]
struct Reading {
    module: u32,
    name: Arc<str>,
    votes: Votes<Attribute>,
}

/// Class and attributes of a track.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settled {
    classes: Votes<Arc<str>>,
    readings: Vec<Reading>,
    /// Settled attributes, updated at every reading.
    shown: Arc<[(Arc<str>, Attribute)]>,
}

impl Settled {
    /// An object of the track had that class.
    pub(crate) fn on_class(&mut self, class: &Arc<str>, score: f32) {
        self.classes
            .add(Arc::clone(class), score.max(f32::MIN_POSITIVE), |a, b| a == b);
    }

    /// An attribute was read of it by that module.
    pub(crate) fn on_attribute(&mut self, module: u32, name: &Arc<str>, attribute: &Attribute) {
        let is_it = |known: &Reading| known.module == module && known.name == *name;
        let position = match self.readings.iter().position(is_it) {
            Some(position) => position,
            None if self.readings.len() == MAX_ATTRIBUTES => return,
            None => {
                self.readings.push(Reading {
                    module,
                    name: Arc::clone(name),
                    votes: Votes::default(),
                });
                self.readings.len() - 1
            }
        };
        let reading = &mut self.readings[position];
        let votes = &mut reading.votes;
        match score(attribute) {
            Some(score) => votes.add(without_vector(attribute), score, same_value),
            None => {
                votes.0.clear();
                votes.add(attribute.clone(), 1.0, same_value);
            }
        }
        self.shown = self
            .readings
            .iter()
            .filter_map(|reading| Some((Arc::clone(&reading.name), reading.votes.winner()?.value.clone())))
            .collect();
    }

    /// Returns the certainty, 0 to 1, of the attributes that a module read, the lowest one if there are
    /// several; `None` before any reading. It is the best score of the settled value, times that value's
    /// share of all support; 0 until two readings agree.
    pub(crate) fn certainty(&self, module: u32) -> Option<f32> {
        let readings = self.readings.iter().filter(|reading| reading.module == module);
        let certain = readings.filter_map(|reading| {
            let winner = reading.votes.winner()?;
            let all: f32 = reading.votes.0.iter().map(|vote| vote.support).sum();
            // A model may be sure of what it sees too small: one reading alone is not certain.
            let agreed = winner.count > 1 && all > 0.0;
            let share = if agreed { winner.support / all } else { 0.0 };
            Some(winner.best * share)
        });
        certain.reduce(f32::min)
    }

    /// The class with most support; empty before any.
    pub(crate) fn class(&self) -> Arc<str> {
        self.classes
            .winner()
            .map_or_else(Arc::default, |vote| Arc::clone(&vote.value))
    }

    /// The settled attributes by name, in the order in which they were first read.
    pub(crate) fn attributes(&self) -> Arc<[(Arc<str>, Attribute)]> {
        Arc::clone(&self.shown)
    }
}

/// Returns the weight of a reading in the vote, its score or its cosine; `None` if readings are no values to
/// vote on.
pub(crate) fn score(attribute: &Attribute) -> Option<f32> {
    match attribute {
        Attribute::Text { score, .. } | Attribute::Class { score, .. } => Some(*score),
        Attribute::Match { cosine, .. } => Some(cosine.unwrap_or(0.0)),
        Attribute::Angles { .. }
        | Attribute::Direction { .. }
        | Attribute::Number { .. }
        | Attribute::Points(_)
        | Attribute::Iris { .. } => None,
    }
}

fn same_value(one: &Attribute, other: &Attribute) -> bool {
    match (one, other) {
        (Attribute::Text { text: one, .. }, Attribute::Text { text: other, .. }) => one == other,
        (Attribute::Class { class: one, .. }, Attribute::Class { class: other, .. }) => one == other,
        (Attribute::Match { r#match: one, .. }, Attribute::Match { r#match: other, .. }) => one == other,
        _ => false,
    }
}

/// An embedding is of one frame: a settled match is its name and similarity.
fn without_vector(attribute: &Attribute) -> Attribute {
    match attribute {
        Attribute::Match { r#match, cosine, .. } => Attribute::Match {
            r#match: r#match.clone(),
            cosine: *cosine,
            vector: None,
        },
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, score: f32) -> Attribute {
        Attribute::Text {
            text: text.to_owned(),
            score,
        }
    }

    #[test]
    fn what_was_read_often_stands_against_one_confident_mistake() {
        let mut settled = Settled::default();
        let name: Arc<str> = "plate".into();
        for reading in [
            text("WR 123", 0.6),
            text("WR 128", 0.95),
            text("WR 123", 0.7),
            text("WR 123", 0.5),
        ] {
            settled.on_attribute(1, &name, &reading);
        }
        assert_eq!(
            &*settled.attributes(),
            [(name, text("WR 123", 0.7))],
            "with its best reading"
        );
    }

    #[test]
    fn the_class_is_that_of_most_objects_and_an_angle_is_the_newest() {
        let mut settled = Settled::default();
        assert_eq!(&*settled.class(), "");
        for (class, score) in [("van", 0.9), ("car", 0.6), ("car", 0.6)] {
            settled.on_class(&class.into(), score);
        }
        assert_eq!(&*settled.class(), "car");
        let number = |value| Attribute::Number { value };
        let name: Arc<str> = "level".into();
        settled.on_attribute(1, &name, &number(1.0));
        settled.on_attribute(1, &name, &number(2.0));
        assert_eq!(settled.attributes()[0].1, number(2.0));
    }

    #[test]
    fn values_and_attributes_without_end_are_kept_within_bounds() {
        let mut settled = Settled::default();
        settled.on_attribute(1, &"plate".into(), &text("right", 1.0));
        for number in 0..1000 {
            settled.on_attribute(1, &"plate".into(), &text(&number.to_string(), 0.1));
            settled.on_attribute(1, &number.to_string().into(), &text("x", 0.1));
        }
        assert_eq!(settled.readings.len(), MAX_ATTRIBUTES);
        assert_eq!(settled.readings[0].votes.0.len(), MAX_VALUES);
        assert_eq!(settled.attributes()[0].1, text("right", 1.0));
    }

    #[test]
    fn what_was_read_alike_is_certain_and_what_was_read_in_several_ways_is_not() {
        let mut settled = Settled::default();
        let name: Arc<str> = "plate".into();
        assert_eq!(settled.certainty(1), None);
        settled.on_attribute(1, &name, &text("WR 123", 0.9));
        assert_eq!(settled.certainty(1), Some(0.0), "one reading alone");
        settled.on_attribute(1, &name, &text("WR 123", 0.9));
        assert_eq!(settled.certainty(1), Some(0.9));
        settled.on_attribute(1, &name, &text("WR 128", 0.9));
        settled.on_attribute(1, &name, &text("WR 129", 0.9));
        let certainty = settled.certainty(1).unwrap();
        assert!((certainty - 0.45).abs() < 1e-6, "{certainty}");
        assert_eq!(settled.certainty(2), None, "another module");
    }
}
