//! What was found beside what is known.

use std::fmt;

use crate::known::Known;
use crate::run::Found;

/// How far a crossing that was counted may be from the true one, in milliseconds.
const MAX_APART_MS: f64 = 1_000.0;
/// How much a dwell time may be off, in milliseconds, and a speed, in parts.
const DWELL_MS: f64 = 200.0;
const SPEED: f64 = 0.05;

#[derive(Debug, Default)]
pub(crate) struct Sums {
    right: usize,
    missed: usize,
    extra: usize,
    visits: usize,
    visits_found: usize,
    dwell_right: usize,
    speeds: usize,
    speeds_right: usize,
}

impl Sums {
    pub(crate) fn add(&mut self, other: &Self) {
        self.right += other.right;
        self.missed += other.missed;
        self.extra += other.extra;
        self.visits += other.visits;
        self.visits_found += other.visits_found;
        self.dwell_right += other.dwell_right;
        self.speeds += other.speeds;
        self.speeds_right += other.speeds_right;
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |one: usize, of: usize| {
            let percent = 100.0 * one as f64 / of.max(1) as f64;
            format!("{percent:.1} % of {of}")
        };
        let crossings = self.right + self.missed;
        write!(
            f,
            "{} | {} | {} | {} | {} | {}",
            part(self.right, crossings),
            self.missed,
            self.extra,
            part(self.visits_found, self.visits),
            part(self.dwell_right, self.visits_found),
            part(self.speeds_right, self.speeds)
        )
    }
}

fn overlap(a: (f64, f64), b: (f64, f64)) -> f64 {
    (a.1.min(b.1) - a.0.max(b.0)).max(0.0)
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
            .filter(|(_, (direction, ..))| direction == crossing.direction)
            .min_by(|(_, a), (_, b)| apart(a.2).total_cmp(&apart(b.2)))
            .filter(|(_, (_, _, at))| apart(*at) <= MAX_APART_MS)
            .map(|(index, _)| index);
        match near {
            Some(index) => {
                left.swap_remove(index);
                sums.right += 1;
            }
            None => {
                sums.missed += 1;
                if let Some(of) = show {
                    println!("  {of}: missed {crossing:?}: {}", known.sight(crossing));
                }
            }
        }
    }
    sums.extra = left.len();
    if let Some(of) = show {
        left.iter()
            .for_each(|extra| println!("  {of}: too many {extra:?}"));
    }
    sums.visits = known.visits.len();
    for visit in &known.visits {
        let length = visit.1 - visit.0;
        let apart = |other: &(f64, f64)| (other.0 - visit.0).abs() + (other.1 - visit.1).abs();
        let of = got
            .visits
            .iter()
            .filter(|other| overlap(*visit, **other) > 0.5 * length);
        if let Some(best) = of.min_by(|a, b| apart(a).total_cmp(&apart(b))) {
            sums.visits_found += 1;
            let is_right = ((best.1 - best.0) - length).abs() <= DWELL_MS;
            sums.dwell_right += usize::from(is_right);
            if let Some(of) = show.filter(|_| !is_right) {
                println!("  {of}: visit {visit:.0?} was found as {best:.0?}");
            }
        }
    }
    for (begin, end, speed) in &known.speeds {
        let along = |it: &(f64, f64, f64)| overlap((it.0, it.1), (*begin, *end));
        let best = got
            .speeds
            .iter()
            .filter(|it| along(it) > 0.5 * (end - begin))
            .min_by(|a, b| (a.2 / speed - 1.0).abs().total_cmp(&(b.2 / speed - 1.0).abs()));
        if let Some(best) = best {
            sums.speeds += 1;
            let is_right = (best.2 / speed - 1.0).abs() <= SPEED;
            sums.speeds_right += usize::from(is_right);
            if let Some(of) = show.filter(|_| !is_right) {
                println!("  {of}: speed {speed:.1} at {begin:.0} was found as {best:.1?}");
            }
        }
    }
    sums
}
