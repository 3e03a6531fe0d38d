//! Compares counts, visits and speeds that transforms found with the ground truth.

use std::fmt;

use crate::known::Known;
use crate::run::{Found, Span};

/// Maximum time between a counted crossing and the true one, in milliseconds.
const MAX_APART_MS: f64 = 1_000.0;
/// Tolerance of a dwell time in milliseconds, and of a speed as a fraction.
const DWELL_MS: f64 = 200.0;
const SPEED: f64 = 0.05;

/// Number of true events, and of those that were found correctly.
#[derive(Debug, Default, Clone, Copy)]
struct Share {
    all: usize,
    right: usize,
}

impl Share {
    fn count(&mut self, is_right: bool) {
        self.all += 1;
        self.right += usize::from(is_right);
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.right += other.right;
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.right as f64 / self.all.max(1) as f64;
        write!(f, "{percent:.1} % of {}", self.all)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Sums {
    crossings: Share,
    /// Crossings among these that are not hidden.
    in_sight: Share,
    extra: usize,
    /// Visits whose begin and end are visible: those found, and those with the right duration.
    visits: Share,
    dwell: Share,
    /// Passages whose speed was measured.
    speeds: Share,
}

impl Sums {
    pub(crate) fn add(&mut self, other: &Self) {
        self.crossings.add(other.crossings);
        self.in_sight.add(other.in_sight);
        self.extra += other.extra;
        self.visits.add(other.visits);
        self.dwell.add(other.dwell);
        self.speeds.add(other.speeds);
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            crossings,
            in_sight,
            extra,
            visits,
            dwell,
            speeds,
        } = self;
        write!(
            f,
            "{crossings} | {in_sight} | {extra} | {visits} | {dwell} | {speeds}"
        )
    }
}

/// The one that is most like `span`, of those that overlap it by more than half of the longer of the two.
fn nearest<'a, T>(all: &'a [T], span: &Span, of: impl Fn(&T) -> Span) -> Option<&'a T> {
    let longer = |it: &T| of(it).length().max(span.length());
    let near = all.iter().filter(|it| of(it).overlap(span) > 0.5 * longer(it));
    near.min_by(|a, b| of(a).apart(span).total_cmp(&of(b).apart(span)))
}

/// Prints what was missed where `show` says of what.
pub(crate) fn compare(known: &Known, got: &Found, show: Option<&str>) -> Sums {
    let mut sums = Sums::default();
    let mut left = got.crossings.clone();
    for crossing in &known.crossings {
        let apart = |at: f64| (at - crossing.pts_ms).abs();
        let near = left
            .iter()
            .enumerate()
            .filter(|(_, (direction, _, at))| direction == crossing.direction && apart(*at) <= MAX_APART_MS)
            .min_by(|(_, a), (_, b)| apart(a.2).total_cmp(&apart(b.2)))
            .map(|(index, _)| index);
        sums.crossings.count(near.is_some());
        if !crossing.is_hidden {
            sums.in_sight.count(near.is_some());
        }
        match (near, show) {
            (Some(index), _) => drop(left.swap_remove(index)),
            (None, Some(of)) => println!("  {of}: missed {crossing:?}: {}", known.sight(crossing)),
            (None, None) => {}
        }
    }
    sums.extra = left.len();
    if let Some(of) = show {
        left.iter()
            .for_each(|extra| println!("  {of}: too many {extra:?}"));
    }
    for (visit, _) in known.visits.iter().filter(|(_, in_sight)| *in_sight) {
        let best = nearest(&got.visits, visit, |it| *it);
        sums.visits.count(best.is_some());
        let Some(best) = best else { continue };
        let is_right = (best.length() - visit.length()).abs() <= DWELL_MS;
        sums.dwell.count(is_right);
        if let Some(of) = show.filter(|_| !is_right) {
            println!("  {of}: {visit:.0?} was found as {best:.0?}");
        }
    }
    for (span, speed) in &known.speeds {
        let Some((best, measured)) = nearest(&got.speeds, span, |it| it.0) else {
            continue;
        };
        let is_right = (measured / speed - 1.0).abs() <= SPEED;
        sums.speeds.count(is_right);
        if let Some(of) = show.filter(|_| !is_right) {
            println!("  {of}: {speed:.1} km/h in {span:.0?} was found as {measured:.1} in {best:.0?}");
        }
    }
    sums
}
