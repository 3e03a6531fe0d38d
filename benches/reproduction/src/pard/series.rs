//! Second by second: what was sent and what of it was lost, over windows.

use super::outcome::Outcome;

/// The greatest share of requests lost in any window of `seconds` (by when they were sent).
#[must_use]
pub fn max_window_loss(outcome: &Outcome, seconds: usize) -> f64 {
    let seconds = seconds.min(outcome.sent.len()).max(1);
    let (mut sent, mut lost, mut worst) = (0.0, 0.0, 0.0_f64);
    let total: f64 = outcome.sent.iter().map(|&sent| f64::from(sent)).sum();
    // Windows count with at least half the mean rate, since a second with hardly any requests is not
    // representative.
    let least = 0.5 * total / outcome.sent.len().max(1) as f64 * seconds as f64;
    for second in 0..outcome.sent.len() {
        sent += at(&outcome.sent, second);
        lost += at(&outcome.lost, second);
        if second >= seconds {
            sent -= at(&outcome.sent, second - seconds);
            lost -= at(&outcome.lost, second - seconds);
        }
        if second + 1 >= seconds && sent >= least && sent > 0.0 {
            worst = worst.max(lost / sent);
        }
    }
    worst
}

/// The share of requests lost over time: `(seconds, share)` by spans of `seconds`.
#[must_use]
pub fn loss_over_time(outcome: &Outcome, seconds: usize) -> Vec<(f64, f64)> {
    let spans = (0..outcome.sent.len()).step_by(seconds.max(1));
    let of = |begin: usize| {
        let sum = |series: &[u32]| {
            (begin..begin + seconds)
                .map(|second| at(series, second))
                .sum::<f64>()
        };
        let sent = sum(&outcome.sent);
        let share = if sent > 0.0 {
            sum(&outcome.lost) / sent
        } else {
            f64::NAN
        };
        (begin as f64, share)
    };
    spans.map(of).collect()
}

/// Start of the stretch of `seconds` in which the most requests are lost, in seconds.
#[must_use]
pub fn stretch_of_loss(outcome: &Outcome, seconds: usize) -> usize {
    let seconds = seconds.min(outcome.sent.len());
    let lost = |begin: &usize| {
        (*begin..begin + seconds)
            .map(|second| u64::from(outcome.lost.get(second).copied().unwrap_or(0)))
            .sum::<u64>()
    };
    // Among equals, the first stretch counts.
    (0..=outcome.sent.len() - seconds)
        .rev()
        .max_by_key(lost)
        .unwrap_or(0)
}

fn at(series: &[u32], second: usize) -> f64 {
    series.get(second).copied().map_or(0.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_slide_and_the_worst_counts() {
        let outcome = Outcome {
            sent: vec![10, 10, 10, 10],
            lost: vec![0, 10, 5],
            ..Outcome::default()
        };
        assert_eq!(max_window_loss(&outcome, 1), 1.0);
        assert_eq!(max_window_loss(&outcome, 2), 0.75);
        assert_eq!(max_window_loss(&outcome, 100), 15.0 / 40.0);
        assert_eq!(loss_over_time(&outcome, 2), [(0.0, 0.5), (2.0, 0.25)]);
        assert_eq!(stretch_of_loss(&outcome, 2), 1);
    }
}
