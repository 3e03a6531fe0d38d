//! One out of several: a class, or a person of a gallery.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use weir_truth::TruthAttribute;

use super::attributes::{Claim, Coverage, RightCount};
use super::event::AttributeValue;

/// Accuracy of a class attribute, such as a colour.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ClassReading {
    #[serde(flatten)]
    pub(crate) asked: Coverage,
    pub(crate) accuracy: RightCount,
    /// Pairs of true and reported class, the most frequent first.
    pub(crate) confusions: Vec<Confusion>,
}

/// One class taken for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Confusion {
    pub(crate) truth: String,
    pub(crate) said: String,
    pub(crate) count: u64,
}

impl ClassReading {
    pub(super) fn new(claims: &[Claim<'_>]) -> Self {
        let (mut asked, mut right) = (Coverage::default(), 0);
        let mut confused: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for claim in claims {
            let TruthAttribute::Class { class } = claim.truth else {
                continue;
            };
            let said = match claim.said {
                Some(AttributeValue::Class(said)) => Some(said),
                _ => None,
            };
            asked.add(claim.found, said.is_some());
            match said {
                Some(said) if said == class => right += 1,
                Some(said) => *confused.entry((class, said)).or_default() += 1,
                None => {}
            }
        }
        let confusions = confused.into_iter().map(|((truth, said), count)| Confusion {
            truth: truth.to_owned(),
            said: said.to_owned(),
            count,
        });
        let mut confusions: Vec<Confusion> = confusions.collect();
        confusions.sort_by_key(|confusion| Reverse(confusion.count));
        Self {
            asked,
            accuracy: RightCount::new(right, &asked),
            confusions,
        }
    }
}

/// Accuracy of recognised persons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MatchReading {
    /// Persons in the gallery.
    #[serde(flatten)]
    pub(crate) asked: Coverage,
    pub(crate) top_1: RightCount,
    /// Persons who are not in the gallery.
    pub(crate) strangers: Coverage,
    /// Persons who are not in the gallery and were reported with a name.
    pub(crate) strangers_named: u64,
}

impl MatchReading {
    pub(super) fn new(claims: &[Claim<'_>]) -> Self {
        let (mut asked, mut strangers) = (Coverage::default(), Coverage::default());
        let (mut right, mut strangers_named) = (0, 0);
        for claim in claims {
            let TruthAttribute::Match { r#match: truth } = claim.truth else {
                continue;
            };
            let said = match claim.said {
                Some(AttributeValue::Match { name, .. }) => Some(name.as_ref()),
                _ => None,
            };
            let name = said.flatten();
            match truth {
                Some(truth) => {
                    asked.add(claim.found, said.is_some());
                    right += u64::from(name == Some(truth));
                }
                None => {
                    strangers.add(claim.found, said.is_some());
                    strangers_named += u64::from(name.is_some());
                }
            }
        }
        Self {
            asked,
            top_1: RightCount::new(right, &asked),
            strangers,
            strangers_named,
        }
    }
}
