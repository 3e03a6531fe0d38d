//! Objects as comma-separated values (RFC 4180): a row each, after one with the names of the columns.

use std::path::PathBuf;

use weir_flow::{DeliveredObject, Delivery, KeyKind, KeySpec, Settings, Sink, SinkError, SinkFactory};

use super::super::event::{attributes_value, utc};
use super::super::{SinkKind, required_path};
use super::whole_files::{Frame, WholeFiles};

pub(in super::super) const KIND: SinkKind = SinkKind {
    name: "csv",
    about: "objects as comma-separated values, a file for each stream",
    keys: KEYS,
    file_per_stream: true,
    create,
};

pub(super) const FILE_PATH: KeySpec = KeySpec {
    name: "path",
    kind: KeyKind::Text,
    about: "file to write, one for each stream, put there when it is complete; `{stream}` in it stands for the stream's name (required)",
};

const KEYS: &[KeySpec] = &[FILE_PATH];

const FRAME: Frame = Frame {
    before: "stream,frame,time,pts_ms,id,class,score,x0,y0,x1,y1,parent,track,attributes\r\n",
    between: "",
    after: "",
};

fn create(settings: &Settings, streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let path = required_path(&KIND, settings)?;
    Ok(Box::new(CsvFactory(WholeFiles::new(path, streams))))
}

struct CsvFactory(WholeFiles);

impl SinkFactory for CsvFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let mut files = self.0.fresh();
        files.claim()?;
        Ok(Box::new(Csv(files)))
    }

    fn targets(&self) -> Vec<PathBuf> {
        self.0.targets()
    }
}

struct Csv(WholeFiles);

impl Sink for Csv {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let rows = delivery.objects.iter().map(|object| row(delivery, object));
        self.0.write(&delivery.stream, FRAME, rows)
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.0.finish_stream(stream, FRAME)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.finish(FRAME)
    }
}

fn row(delivery: &Delivery, object: &DeliveredObject) -> String {
    let rect = object.object.rect;
    let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let attributes = if object.attributes.is_empty() {
        String::new()
    } else {
        quoted(&attributes_value(&object.attributes).to_string())
    };
    format!(
        "{},{},{},{:.1},{},{},{:.4},{:.1},{:.1},{:.1},{:.1},{},{},{attributes}\r\n",
        quoted(&delivery.stream),
        delivery.frame.index,
        utc(delivery.time_ms),
        delivery.frame.pts_ms,
        object.id,
        quoted(&object.object.class),
        object.object.score,
        rect.x0,
        rect.y0,
        rect.x1,
        rect.y1,
        number(object.parent.map(u64::from)),
        number(object.track.as_ref().map(|track| track.id)),
    )
}

/// A text as a field. One that a spreadsheet would take for a formula begins with an apostrophe.
fn quoted(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    if guard.is_empty() && !text.contains([',', '"', '\r', '\n']) {
        return text.to_owned();
    }
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}
