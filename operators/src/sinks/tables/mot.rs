//! Tracked objects in the form of the MOTChallenge (motchallenge.net): `frame, id, left, top, width, height, confidence, -1, -1,
//! -1`, frames from 1. Tracks are numbered from 1 in each file: evaluators want small numbers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_flow::{DeliveredObject, Delivery, KeySpec, Settings, Sink, SinkError, SinkFactory};

use super::super::{SinkKind, required_path};
use super::csv::FILE_PATH;
use super::whole_files::{Frame, WholeFiles};

pub(in super::super) const KIND: SinkKind = SinkKind {
    name: "mot",
    about: "tracked objects as text of the MOTChallenge, a file for each stream",
    keys: KEYS,
    file_per_stream: true,
    create,
};

const KEYS: &[KeySpec] = &[FILE_PATH];

const FRAME: Frame = Frame {
    before: "",
    between: "",
    after: "",
};

fn create(settings: &Settings, streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let path = required_path(&KIND, settings)?;
    Ok(Box::new(MotFactory(WholeFiles::new(path, streams))))
}

struct MotFactory(WholeFiles);

impl SinkFactory for MotFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let mut files = self.0.fresh();
        files.claim()?;
        Ok(Box::new(Mot {
            files,
            numbers: BTreeMap::new(),
        }))
    }

    fn targets(&self) -> Vec<PathBuf> {
        self.0.targets()
    }
}

struct Mot {
    files: WholeFiles,
    /// Numbers of tracks by stream: some bytes a track.
    numbers: BTreeMap<String, BTreeMap<u64, u64>>,
}

impl Sink for Mot {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let numbers = self.numbers.entry(delivery.stream.to_string()).or_default();
        let mut row = |object: &DeliveredObject| {
            let id = object.track.as_ref()?.id;
            let next = numbers.len() as u64 + 1;
            let number = *numbers.entry(id).or_insert(next);
            let (rect, score) = (object.object.rect, object.object.score);
            let (width, height) = (rect.x1 - rect.x0, rect.y1 - rect.y0);
            Some(format!(
                "{},{number},{:.2},{:.2},{width:.2},{height:.2},{score:.4},-1,-1,-1\n",
                delivery.frame.index + 1,
                rect.x0,
                rect.y0,
            ))
        };
        let rows: Vec<String> = delivery.objects.iter().filter_map(&mut row).collect();
        self.files.write(&delivery.stream, FRAME, rows.into_iter())
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.numbers.remove(stream);
        self.files.finish_stream(stream, FRAME)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.files.finish(FRAME)
    }
}
