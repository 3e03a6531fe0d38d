//! Pairs the ground truth of attributes with the reported values; each form of attribute has a score of its
//! own.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weir_truth::{TruthAttribute, TruthObject};

use super::choice::{ClassReading, MatchReading};
use super::event::AttributeValue;
use super::measure::{AnglesReading, NumberReading};
use super::points::PointsReading;
use super::share::share;
use super::text::TextReading;
use super::{Detection, Observed};

/// An attribute of a true object, and what the events say of it.
#[derive(Debug, Clone)]
pub(super) struct Claim<'a> {
    pub(super) object: &'a TruthObject,
    pub(super) truth: &'a TruthAttribute,
    pub(super) found: bool,
    pub(super) said: Option<&'a AttributeValue>,
    /// Width and height of its frame.
    pub(super) size: (u32, u32),
}

/// Scores of an attribute, by its form.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "form", rename_all = "kebab-case")]
pub(crate) enum AttributeFigures {
    Text(TextReading),
    /// One of several.
    Class(ClassReading),
    /// A name of the gallery.
    Match(MatchReading),
    Angles(AnglesReading),
    Number(NumberReading),
    Points(PointsReading),
}

/// Numbers of objects that have the attribute, were found, and have a reported value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Coverage {
    /// Objects of the ground truth that have the attribute.
    pub(crate) truths: u64,
    /// Objects among them that were found.
    pub(crate) found: u64,
    /// Objects among them with a reported value of the right form.
    pub(crate) said: u64,
}

impl Coverage {
    pub(super) fn add(&mut self, found: bool, said: bool) {
        self.truths += 1;
        self.found += u64::from(found);
        self.said += u64::from(said);
    }
}

/// Number of right values, and its shares. An object that was not found, or has no reported value, counts as
/// wrong.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct RightCount {
    pub(crate) count: u64,
    /// Share of the found objects, 0 to 1.
    pub(crate) of_found: Option<f64>,
    /// Share of all objects, 0 to 1.
    pub(crate) of_all: Option<f64>,
}

impl RightCount {
    pub(super) fn new(count: u64, asked: &Coverage) -> Self {
        Self {
            count,
            of_found: share(count, asked.found),
            of_all: share(count, asked.truths),
        }
    }
}

/// The figures of the attributes of these `names`. `pairs` says for each frame which finding is of which true thing.
pub(super) fn figures(
    names: &BTreeSet<&str>,
    frames: &[Observed<'_>],
    pairs: &[Vec<Option<usize>>],
) -> BTreeMap<String, AttributeFigures> {
    let figures = claims(names, frames, pairs).into_iter();
    figures
        .filter_map(|(name, claims)| Some((name.to_owned(), figures_for_form(&claims)?)))
        .collect()
}

/// Ground truth and reported values of these attributes, by name; ignored objects are left out.
pub(super) fn claims<'a>(
    names: &BTreeSet<&'a str>,
    frames: &[Observed<'a>],
    pairs: &[Vec<Option<usize>>],
) -> BTreeMap<&'a str, Vec<Claim<'a>>> {
    let mut claims: BTreeMap<&str, Vec<Claim<'_>>> = names.iter().map(|name| (*name, Vec::new())).collect();
    for (frame, pairs) in frames.iter().zip(pairs) {
        for (object, pair) in frame.truth.objects.iter().zip(pairs) {
            if object.ignore {
                continue;
            }
            let seen: Option<&Detection> = pair.and_then(|finding| frame.seen?.get(finding));
            for (name, truth) in &object.attributes {
                let Some(claims) = claims.get_mut(name.as_str()) else {
                    continue;
                };
                claims.push(Claim {
                    object,
                    truth,
                    found: seen.is_some(),
                    said: seen.and_then(|seen| seen.attributes.get(name)),
                    size: frame.size,
                });
            }
        }
    }
    claims
}

/// By the form that the truth gives the attribute; none where none of its things is there.
fn figures_for_form(claims: &[Claim<'_>]) -> Option<AttributeFigures> {
    Some(match claims.first()?.truth {
        TruthAttribute::Text { .. } => AttributeFigures::Text(TextReading::new(claims)),
        TruthAttribute::Class { .. } => AttributeFigures::Class(ClassReading::new(claims)),
        TruthAttribute::Match { .. } => AttributeFigures::Match(MatchReading::new(claims)),
        TruthAttribute::Angles { .. } => AttributeFigures::Angles(AnglesReading::new(claims)),
        TruthAttribute::Number { .. } => AttributeFigures::Number(NumberReading::new(claims)),
        TruthAttribute::Points(_) => AttributeFigures::Points(PointsReading::new(claims)),
    })
}
