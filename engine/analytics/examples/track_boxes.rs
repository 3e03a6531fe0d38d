//! Tracks boxes given as text, for measurements: `scripts/track-score.py` writes and reads it.
//!
//! Standard input has a line `F INDEX PTS_MS` for each frame and after it a line `D X0 Y0 X1 Y1 SCORE CLASS` for each of its
//! boxes, with the values of its embedding behind it where it has one; standard output has a line `INDEX ID X0 Y0 X1 Y1` for each box that has a track. `KEY=VALUE` as arguments are
//! settings.

use std::error::Error;
use std::io::{BufWriter, Read, Write, stdin, stdout};
use std::sync::Arc;

use weir_analytics::{Detection, FrameTime, TrackIds, Tracker, TrackerSettings};
use weir_flow::Rect;

/// Box, score, class, embedding.
type Seen = (Rect, f32, Arc<str>, Option<Vec<f32>>);

struct Frame {
    index: u64,
    time: FrameTime,
    boxes: Vec<Seen>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut settings = TrackerSettings::default();
    for argument in std::env::args().skip(1) {
        let (key, value) = argument.split_once('=').ok_or("settings are KEY=VALUE")?;
        match key {
            "lost_after_ms" => settings.lost_after_ms = value.parse()?,
            "high" => settings.high = value.parse()?,
            "begin" => settings.begin = value.parse()?,
            "low" => settings.low = value.parse()?,
            "min_hits" => settings.min_hits = value.parse()?,
            "min_overlap" => settings.min_overlap = value.parse()?,
            "min_similarity" => settings.min_similarity = value.parse()?,
            "remember_ms" => settings.remember_ms = value.parse()?,
            other => return Err(format!("there is no setting {other}").into()),
        }
    }
    let mut text = String::new();
    stdin().read_to_string(&mut text)?;
    let (mut tracker, mut ids) = (Tracker::new(settings), TrackIds::default());
    let mut out = BufWriter::new(stdout());
    for frame in frames(&text)? {
        let boxes = frame.boxes.iter();
        let detections: Vec<Detection<'_>> = boxes
            .map(|(rect, score, class, appearance)| Detection {
                rect: *rect,
                score: *score,
                class,
                appearance: appearance.as_deref(),
                candidate: false,
            })
            .collect();
        let (tracks, _) = tracker.on_frame(frame.time, &detections, &mut ids);
        for (detection, track) in detections.iter().zip(tracks) {
            let Some(id) = track.and_then(|track| tracker.id(track)) else {
                continue;
            };
            let Rect { x0, y0, x1, y1 } = detection.rect;
            writeln!(out, "{} {id} {x0} {y0} {x1} {y1}", frame.index)?;
        }
    }
    Ok(out.flush()?)
}

fn frames(text: &str) -> Result<Vec<Frame>, Box<dyn Error>> {
    let mut frames: Vec<Frame> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["F", index, pts_ms] => frames.push(Frame {
                index: index.parse()?,
                time: FrameTime {
                    pts_ms: pts_ms.parse()?,
                    time_ms: 0,
                },
                boxes: Vec::new(),
            }),
            ["D", x0, y0, x1, y1, score, class, ref embedding @ ..] => {
                let rect = Rect::new(x0.parse()?, y0.parse()?, x1.parse()?, y1.parse()?);
                let frame = frames.last_mut().ok_or("a box before any frame")?;
                let embedding: Result<Vec<f32>, _> = embedding.iter().map(|value| value.parse()).collect();
                let embedding = embedding.map(|values| (!values.is_empty()).then_some(values))?;
                frame.boxes.push((rect, score.parse()?, class.into(), embedding));
            }
            _ => return Err(format!("no frame and no box: {line}").into()),
        }
    }
    Ok(frames)
}
