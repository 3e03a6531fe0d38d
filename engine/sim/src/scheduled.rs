//! Streams that start, end and change while a world runs: the schedule, and the times at which each stream
//! exists.
//!
//! A stream whose first change is `Added` does not exist before. Each time that a stream is added or resumed,
//! its arrivals start anew, as those of a live source that is reopened. A removed stream does not return: as
//! in the live engine, its number is not used again.

use weir_policy::StreamShare;
use weir_types::{Span, StreamId};

/// Change of a stream at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScheduledChange {
    /// Time since the start of the run.
    pub at: Span,
    /// Stream that changes.
    pub stream: StreamId,
    /// Kind of change.
    pub kind: ChangeKind,
}

/// Kinds of changes of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChangeKind {
    /// The stream starts.
    Added,
    /// The stream ends. Its requests in flight continue; modules are notified once none is left.
    Removed,
    /// The stream stops sending for a while.
    Paused,
    /// The stream sends again.
    Resumed,
    /// Requests from now on have this SLO; `None`: that of the world.
    Slo(Option<Span>),
    /// The stream gets another share under overload.
    Share(StreamShare),
}

/// Time spans `[from, to)` in which a stream sends, in order, up to `length`. `changes` are in the order of
/// time.
pub(crate) fn presence(changes: &[ScheduledChange], stream: StreamId, length: Span) -> Vec<(Span, Span)> {
    let own = || changes.iter().filter(|change| change.stream == stream);
    let is_added = own().any(|change| change.kind == ChangeKind::Added);
    let mut since = (!is_added).then_some(Span::ZERO);
    let mut spans = Vec::new();
    for change in own() {
        match change.kind {
            ChangeKind::Added | ChangeKind::Resumed => since = since.or(Some(change.at)),
            ChangeKind::Removed | ChangeKind::Paused => {
                spans.extend(since.take().map(|since| (since, change.at.min(length))));
            }
            ChangeKind::Slo(_) | ChangeKind::Share(_) => {}
        }
    }
    spans.extend(since.map(|since| (since, length)));
    spans.retain(|(from, to)| from < to);
    spans
}

/// Finds the first change of a stream that could not happen live, such as a pause of a removed stream;
/// `changes` are in the order of time. Returns its index and the reason.
pub(crate) fn find_problem(changes: &[ScheduledChange], stream: StreamId) -> Option<(usize, &'static str)> {
    let (mut is_removed, mut is_paused, mut seen) = (false, false, false);
    let is_added = changes
        .iter()
        .any(|change| change.stream == stream && change.kind == ChangeKind::Added);
    for (index, change) in changes
        .iter()
        .enumerate()
        .filter(|(_, change)| change.stream == stream)
    {
        let problem = match change.kind {
            _ if is_removed => Some("it was removed before"),
            ChangeKind::Added if seen => Some("it is there before it is added"),
            ChangeKind::Paused if is_paused => Some("it is paused already"),
            ChangeKind::Resumed if !is_paused => Some("it is not paused"),
            kind if is_added && !seen && kind != ChangeKind::Added => Some("it is not added yet"),
            _ => None,
        };
        if let Some(problem) = problem {
            return Some((index, problem));
        }
        seen = true;
        match change.kind {
            ChangeKind::Removed => is_removed = true,
            ChangeKind::Paused => is_paused = true,
            ChangeKind::Resumed => is_paused = false,
            ChangeKind::Added | ChangeKind::Slo(_) | ChangeKind::Share(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(of: &[(u64, ChangeKind)]) -> Vec<ScheduledChange> {
        let change = |&(at, kind): &(u64, ChangeKind)| ScheduledChange {
            at: Span::from_secs(at),
            stream: StreamId(0),
            kind,
        };
        of.iter().map(change).collect()
    }

    #[test]
    fn a_stream_is_there_from_being_added_or_resumed_until_it_is_paused_or_removed() {
        use ChangeKind::{Added, Paused, Removed, Resumed, Slo};
        let check = |of: &[(u64, ChangeKind)], expected: &[(u64, u64)]| {
            let all = changes(of);
            assert_eq!(find_problem(&all, StreamId(0)), None, "{of:?}");
            let spans = presence(&all, StreamId(0), Span::from_secs(60));
            let expected: Vec<_> = expected
                .iter()
                .map(|&(from, to)| (Span::from_secs(from), Span::from_secs(to)))
                .collect();
            assert_eq!(spans, expected, "{of:?}");
        };
        check(&[], &[(0, 60)]);
        check(&[(10, Added)], &[(10, 60)]);
        check(&[(10, Slo(None))], &[(0, 60)]);
        check(&[(10, Removed)], &[(0, 10)]);
        check(
            &[(5, Added), (10, Paused), (20, Resumed), (30, Removed)],
            &[(5, 10), (20, 30)],
        );
        check(&[(10, Paused)], &[(0, 10)]);
        check(&[(70, Removed)], &[(0, 60)]);
    }

    #[test]
    fn what_could_not_happen_live_is_found() {
        use ChangeKind::{Added, Paused, Removed, Resumed};
        let check = |of: &[(u64, ChangeKind)], at: usize, word: &str| {
            let (index, problem) = find_problem(&changes(of), StreamId(0)).unwrap_or_default();
            assert_eq!(index, at, "{of:?}");
            assert!(problem.contains(word), "{of:?}: {problem}");
        };
        check(&[(1, Removed), (2, Added)], 0, "not added yet");
        check(&[(1, Added), (2, Removed), (3, Resumed)], 2, "removed before");
        check(&[(1, Resumed)], 0, "not paused");
        check(&[(1, Paused), (2, Paused)], 1, "paused already");
        check(&[(1, Added), (2, Added)], 1, "there before");
    }
}
