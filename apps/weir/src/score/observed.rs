//! Frames that arrived, each with its truth and, where it was delivered, what was said of it.

use std::collections::BTreeMap;

use thiserror::Error;
use weir_truth::{FrameTruth, Truth};

use super::Detection;

/// A frame that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Observed<'a> {
    /// Number of the round and stream; objects keep their identity within one.
    pub(crate) sequence: u64,
    /// Width and height in pixels.
    pub(crate) size: (u32, u32),
    /// Ground truth of the frame.
    pub(crate) truth: &'a FrameTruth,
    /// Reported objects; `None` if the frame was not delivered.
    pub(crate) seen: Option<&'a [Detection]>,
}

/// A stream that was played.
#[derive(Debug, Clone)]
pub(crate) struct PlayedStream<'a> {
    pub(crate) stream: &'a str,
    /// Ground truth of the clip.
    pub(crate) truth: &'a Truth,
    /// Number of frames that arrived: frame 0 up to this number.
    pub(crate) arrived: u64,
    /// True if the clip starts again at its end.
    pub(crate) repeats: bool,
    /// Reported objects by frame; `None` if nothing was delivered.
    pub(crate) events: Option<&'a BTreeMap<u64, Vec<Detection>>>,
}

/// Events and truth are not of the same clip.
#[derive(Debug, Error)]
pub(crate) enum Mismatch {
    /// The ground truth has no frame.
    #[error("the ground truth of stream {0} has no frames")]
    NoFrame(String),
    /// More frames than are scored.
    #[error("stream {0} has {1} frames, which is more than can be scored: is a frame's number wrong?")]
    TooMany(String, u64),
    /// Frames that the truth does not have.
    #[error(
        "the ground truth of stream {stream} has no frame {first}{}: does it belong to this clip? If the clip was looped, \
         give --loop", others_note(*.count)
    )]
    Unknown { stream: String, first: u64, count: u64 },
}

fn others_note(count: u64) -> String {
    match count {
        0 | 1 => String::new(),
        2 => " and 1 other".to_owned(),
        count => format!(" and {} others", count - 1),
    }
}

/// Frames of one stream that are scored: a wrong number in a line cannot fill the memory, days of video fit.
const MAX_FRAMES: u64 = 20_000_000;

/// Pairs every frame that arrived with its ground truth and its reported objects, by stream and in order.
///
/// # Errors
/// [`Mismatch`] where a frame is not in the truth.
pub(crate) fn observe<'a>(plays: &[PlayedStream<'a>]) -> Result<Vec<Observed<'a>>, Mismatch> {
    let mut frames = Vec::new();
    let mut sequence = 0;
    for play in plays {
        observe_stream(play, &mut sequence, &mut frames)?;
        sequence += 1;
    }
    Ok(frames)
}

fn observe_stream<'a>(
    play: &PlayedStream<'a>,
    sequence: &mut u64,
    frames: &mut Vec<Observed<'a>>,
) -> Result<(), Mismatch> {
    let clip = &play.truth.clip;
    let truths = play.truth.frames.iter().map(|truth| (truth.frame, truth));
    let truths: BTreeMap<u64, &FrameTruth> = truths.collect();
    let Some(last) = truths.keys().next_back().filter(|_| clip.frames > 0) else {
        return Err(Mismatch::NoFrame(play.stream.to_owned()));
    };
    let said = |frame: u64| play.events?.get(&frame);
    let last_said = play.events.and_then(|events| events.keys().next_back());
    let came = last_said
        .map_or(0, |last| last.saturating_add(1))
        .max(play.arrived);
    let end = if play.repeats {
        came
    } else {
        came.min(last.saturating_add(1))
    };
    if end > MAX_FRAMES {
        return Err(Mismatch::TooMany(play.stream.to_owned(), end));
    }
    let mut unknown = Vec::new();
    for frame in 0..end {
        let of_clip = if play.repeats { frame % clip.frames } else { frame };
        if play.repeats && of_clip == 0 {
            *sequence += 1;
        }
        match truths.get(&of_clip) {
            Some(truth) => frames.push(Observed {
                sequence: *sequence,
                size: (clip.width, clip.height),
                truth,
                seen: said(frame).map(Vec::as_slice),
            }),
            None => unknown.push(frame),
        }
    }
    // Beyond the truth's end: what arrived there, and what only the events know of.
    let arrived = play.arrived.max(end);
    let beyond = play
        .events
        .map_or(0, |events| events.range(arrived..).count() as u64);
    let beyond = (arrived - end) + beyond;
    let first = unknown.first().copied().or((beyond > 0).then_some(end));
    match first {
        None => Ok(()),
        Some(first) => Err(Mismatch::Unknown {
            stream: play.stream.to_owned(),
            first,
            count: unknown.len() as u64 + beyond,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{car, clip, detection};
    use super::*;

    fn play<'a>(
        truth: &'a Truth,
        arrived: u64,
        events: Option<&'a BTreeMap<u64, Vec<Detection>>>,
    ) -> PlayedStream<'a> {
        PlayedStream {
            stream: "street",
            truth,
            arrived,
            repeats: false,
            events,
        }
    }

    #[test]
    fn a_frame_without_an_event_was_not_delivered() {
        let truth = clip(vec![vec![car(1, 0.0)]; 3]);
        let events = [(1, vec![detection("car", 0.5, 0.0)])].into();
        let frames = observe(&[play(&truth, 3, Some(&events))]).expect("all are in the truth");
        let delivered: Vec<bool> = frames.iter().map(|frame| frame.seen.is_some()).collect();
        assert_eq!(delivered, [false, true, false]);
    }

    #[test]
    fn a_loop_goes_through_the_truth_again_as_another_sequence() {
        let truth = clip(vec![Vec::new(); 3]);
        let looped = PlayedStream {
            repeats: true,
            ..play(&truth, 7, None)
        };
        let frames = observe(&[looped.clone(), looped]).expect("it repeats");
        let of_clip: Vec<u64> = frames.iter().map(|frame| frame.truth.frame).collect();
        assert_eq!(of_clip, [0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 0, 1, 2, 0]);
        let sequences: std::collections::BTreeSet<u64> = frames.iter().map(|frame| frame.sequence).collect();
        assert_eq!(sequences.len(), 6);
    }

    #[test]
    fn frames_that_the_truth_lacks_are_counted() {
        let truth = clip(vec![Vec::new(); 3]);
        let check = |arrived: u64, said: &[u64], first: u64, count: u64| {
            let events = said.iter().map(|frame| (*frame, Vec::new())).collect();
            match observe(&[play(&truth, arrived, Some(&events))]) {
                Err(Mismatch::Unknown {
                    first: f, count: c, ..
                }) => {
                    assert_eq!((f, c), (first, count), "{arrived} {said:?}");
                }
                other => panic!("{other:?}"),
            }
        };
        check(5, &[], 3, 2);
        check(5, &[4, 7], 3, 3);
        check(0, &[3, 4], 3, 2);
        check(3, &[u64::MAX], 3, 1);
        let gap = Truth {
            frames: truth.frames[1..].to_vec(),
            ..truth.clone()
        };
        let error = observe(&[play(&gap, 3, None)]).expect_err("frame 0 is not there");
        assert!(error.to_string().contains("has no frame 0:"), "{error}");
    }

    #[test]
    fn a_wrong_number_does_not_fill_the_memory() {
        let truth = clip(vec![Vec::new(); 3]);
        let events = [(u64::MAX, Vec::new())].into();
        let looped = PlayedStream {
            repeats: true,
            ..play(&truth, 3, Some(&events))
        };
        assert!(matches!(observe(&[looped]), Err(Mismatch::TooMany(..))));
        let empty = Truth {
            frames: Vec::new(),
            ..truth.clone()
        };
        assert!(matches!(
            observe(&[play(&empty, 3, None)]),
            Err(Mismatch::NoFrame(_))
        ));
    }
}
