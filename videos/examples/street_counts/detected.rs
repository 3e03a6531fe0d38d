//! Reads the objects that a detector found in a rendered clip from events of a `jsonl` sink, best with its
//! `candidates`.

use std::fs::File;
use std::io::{BufRead, BufReader};

use serde_json::Value;
use weir_flow::Rect;

use crate::Outcome;
use crate::known::{Known, time};
use crate::run::{Frame, Seen};

/// Reads the objects of each frame, in frame order; dropped frames are missing.
pub(crate) fn read(path: &str, known: &Known) -> Outcome<Vec<Frame>> {
    let mut frames: Vec<(u64, Frame)> = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let event: Value = serde_json::from_str(&line?)?;
        if event["type"] != "frame" {
            continue;
        }
        let number = event["frame"].as_u64().ok_or("a frame without its number")?;
        let Some(truth) = known.frames.get(number as usize) else {
            continue;
        };
        let objects = event["objects"].as_array().ok_or("a frame without objects")?;
        let mut frame = Frame {
            at: time(truth),
            boxes: Vec::new(),
            candidates: Vec::new(),
        };
        for object in objects {
            let seen = seen(object).ok_or("an object without class, score or box")?;
            let kind = if object["candidate"] == true {
                &mut frame.candidates
            } else {
                &mut frame.boxes
            };
            if !["plate", "face"].contains(&&*seen.0) {
                kind.push(seen);
            }
        }
        frames.push((number, frame));
    }
    frames.sort_by_key(|(number, _)| *number);
    Ok(frames.into_iter().map(|(_, frame)| frame).collect())
}

fn seen(object: &Value) -> Option<Seen> {
    let side = |index: usize| Some(object["box"].get(index)?.as_f64()? as f32);
    Some((
        object["class"].as_str()?.into(),
        object["score"].as_f64()? as f32,
        Rect::new(side(0)?, side(1)?, side(2)?, side(3)?),
    ))
}
