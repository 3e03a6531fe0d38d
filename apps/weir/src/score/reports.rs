//! Scores of report texts: the facts that their sentences state, against the ground truth of the frame.
//!
//! A sentence is right if each of its facts is right and it is complete: it names all places of a class. A
//! fact that is true of ignored objects only is neither right nor wrong. The grammar is in
//! `weir_truth::report`.

use std::collections::BTreeSet;

use serde::Serialize;
use weir_truth::report::{Fact, TrueThing, facts, sentences, things};

use super::Observed;
use super::event::AttributeValue;
use super::share::share;

/// The attribute that is scored as a report.
pub(super) const ATTRIBUTE: &str = "report";

/// Scores of reports, over all frames with one.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Reports {
    pub(crate) reports: u64,
    pub(crate) sentences: Stated,
    pub(crate) facts: Stated,
    /// Facts that are true of the frames with a report.
    pub(crate) true_facts: u64,
    /// True facts that the report states.
    pub(crate) reported: u64,
    pub(crate) reported_of_true: Option<f64>,
}

/// Number of stated sentences or facts, and of the right ones.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Stated {
    pub(crate) stated: u64,
    pub(crate) right: u64,
    pub(crate) of_stated: Option<f64>,
}

impl Stated {
    fn add(&mut self, verdict: Verdict) {
        self.stated += u64::from(verdict != Verdict::Open);
        self.right += u64::from(verdict == Verdict::Right);
        self.of_stated = share(self.right, self.stated);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// True of ignored things alone.
    Open,
    Right,
    Wrong,
}

/// The figures of all reports of these frames; none where there is no report.
pub(super) fn figures(frames: &[Observed<'_>]) -> Option<Reports> {
    let mut all = Reports::default();
    for frame in frames {
        let said = frame.seen.unwrap_or_default().iter();
        let said = said.filter_map(|seen| match seen.attributes.get(ATTRIBUTE) {
            Some(AttributeValue::Text(text)) => Some(text),
            _ => None,
        });
        let mut truth = None;
        for report in said {
            let truth = truth.get_or_insert_with(|| things(frame.truth, frame.size));
            all.add(report, truth);
        }
    }
    all.reported_of_true = share(all.reported, all.true_facts);
    (all.reports > 0).then_some(all)
}

impl Reports {
    fn add(&mut self, report: &str, truth: &[TrueThing]) {
        self.reports += 1;
        let mut stated = BTreeSet::new();
        for sentence in sentences(report) {
            let Some(facts) = facts(sentence) else {
                self.sentences.add(Verdict::Wrong);
                continue;
            };
            let mut of_sentence = Verdict::Open;
            for fact in &facts {
                let verdict = judge(fact, truth);
                self.facts.add(verdict);
                of_sentence = of_sentence.max(verdict);
            }
            if leaves_out(&facts, truth) {
                of_sentence = Verdict::Wrong;
            }
            self.sentences.add(of_sentence);
            stated.extend(facts);
        }
        let to_tell = to_tell(truth);
        self.true_facts += to_tell.len() as u64;
        self.reported += to_tell.iter().filter(|fact| fact.is_in(&stated)).count() as u64;
    }
}

fn judge(fact: &Fact, truth: &[TrueThing]) -> Verdict {
    match fact {
        Fact::Count { class, amount } => {
            let (least, most) = counts(class, truth);
            right_if((least..=most).any(|count| amount.is(count)))
        }
        Fact::New { class, place } | Fact::At { class, place } => {
            let mut there = truth
                .iter()
                .filter(|it| it.thing.class == *class && it.thing.place == place)
                .peekable();
            match (there.peek().is_some(), there.any(|it| it.is_asked)) {
                (_, true) => Verdict::Right,
                (true, false) => Verdict::Open,
                (false, false) => Verdict::Wrong,
            }
        }
        Fact::Plate { text, class, place } => right_if(truth.iter().any(|it| {
            let thing = &it.thing;
            thing.class == *class && thing.place == place && thing.plate.as_ref() == Some(text)
        })),
        Fact::Name(name) => right_if(truth.iter().any(|it| it.thing.name.as_ref() == Some(name))),
    }
}

fn right_if(is_right: bool) -> Verdict {
    if is_right { Verdict::Right } else { Verdict::Wrong }
}

/// Number of objects of a class without ignored ones, and with them.
fn counts(class: &str, truth: &[TrueThing]) -> (usize, usize) {
    let of_class = || truth.iter().filter(|it| it.thing.class == class);
    let asked = of_class().filter(|it| it.is_asked).count();
    (asked, of_class().count())
}

/// True if a sentence names places of a class and leaves one of them out.
fn leaves_out(facts: &[Fact], truth: &[TrueThing]) -> bool {
    let Some(Fact::Count { class, .. }) = facts.iter().find(|fact| matches!(fact, Fact::Count { .. })) else {
        return false;
    };
    let is_named = |place: &str| {
        let mut facts = facts.iter();
        facts.any(|fact| matches!(fact, Fact::At { place: named, .. } if named == place))
    };
    let says_places = facts.iter().any(|fact| matches!(fact, Fact::At { .. }));
    let mut asked = truth.iter().filter(|it| it.is_asked && it.thing.class == *class);
    says_places && asked.any(|it| !is_named(it.thing.place))
}

/// A fact that a whole report states.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ToTell<'a> {
    Count(&'a str, usize),
    At(&'a str, &'a str),
    Plate(&'a str),
    Name(&'a str),
}

impl ToTell<'_> {
    fn is_in(&self, stated: &BTreeSet<Fact>) -> bool {
        let mut stated = stated.iter();
        stated.any(|fact| match (self, fact) {
            (Self::Count(class, count), Fact::Count { class: of, amount }) => {
                of == class && amount.is(*count)
            }
            (Self::At(class, place), Fact::At { class: of, place: at }) => of == class && at == place,
            (Self::Plate(plate), Fact::Plate { text, .. }) => text == plate,
            (Self::Name(name), Fact::Name(named)) => named == name,
            _ => false,
        })
    }
}

/// Facts that a complete report of the frame states. The number of a class counts only if none of its objects
/// is ignored.
fn to_tell(truth: &[TrueThing]) -> BTreeSet<ToTell<'_>> {
    let asked = truth.iter().filter(|it| it.is_asked);
    asked
        .flat_map(|it| {
            let class = it.thing.class.as_str();
            let (least, most) = counts(class, truth);
            let plate = it.thing.plate.as_deref().filter(|_| it.plate_is_asked);
            let name = it.thing.name.as_deref().filter(|_| it.name_is_asked);
            [
                (least == most).then_some(ToTell::Count(class, least)),
                Some(ToTell::At(class, it.thing.place)),
                plate.map(ToTell::Plate),
                name.map(ToTell::Name),
            ]
        })
        .flatten()
        .collect()
}
