//! One clip: from its beginning, which is in memory, until its incident is over and the time after that has passed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use weir_flow::{BestShot, Incident, Packet, PacketFormat, Phase};

use super::super::event::incident_value;
use super::descriptions;
use crate::media::{PacketFile, VideoPlace, WriteError, Written};

/// End of a clip, in media time of its stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// End in milliseconds; `None` while the incident lasts.
    pub(super) end_ms: Option<f64>,
    /// Latest possible end in milliseconds, by the maximum length of a clip.
    pub(super) limit_ms: f64,
}

/// Reason why a clip ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClipEnd {
    /// It holds what it was to hold.
    Complete,
    /// It is as long as a clip may be.
    TooLong,
    /// Its stream ended, was opened again with another format, or the run ended.
    StreamEnded,
    /// It could not be written any further.
    Failed,
    /// The run was killed; said by the description that is there from its beginning.
    Interrupted,
}

impl ClipEnd {
    const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::TooLong => "max-length",
            Self::StreamEnded => "stream-ended",
            Self::Failed => "write-failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// See the module.
pub(super) struct Clip {
    stream: Arc<str>,
    incident: Incident,
    best: Option<Arc<BestShot>>,
    pub(super) span: Span,
    /// Claimed for the video; taken when the file begins.
    place: Option<VideoPlace>,
    path: PathBuf,
    file: Option<PacketFile>,
    /// When the first packet was read, in milliseconds since 1970 (UTC).
    first_ms: u64,
    is_broken: bool,
}

/// Files of a closed clip, and the failure that ended it, if any.
pub(super) struct ClosedClip {
    /// The files that are there.
    pub(super) files: Vec<PathBuf>,
    /// Whether one of them is a video.
    pub(super) has_video: bool,
    pub(super) failure: Option<WriteError>,
}

impl Clip {
    pub(super) fn new(stream: &Arc<str>, incident: Incident, span: Span, place: VideoPlace) -> Self {
        Self {
            stream: Arc::clone(stream),
            best: incident.best.clone(),
            incident,
            span,
            path: place.path().to_owned(),
            place: Some(place),
            file: None,
            first_ms: 0,
            is_broken: false,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.incident.id
    }

    /// The incident is as far as this now.
    pub(super) fn update(&mut self, incident: Incident, after_ms: f64) {
        if incident.best.is_some() {
            self.best.clone_from(&incident.best);
        }
        let is_begun = self.file.is_some();
        if incident.phase == Phase::Ended {
            self.span.end_ms = Some(incident.pts_ms + after_ms);
        }
        self.incident = incident;
        if is_begun {
            self.describe_early();
        }
    }

    /// Puts down the description of a clip that is being written, for the next run to complete the clip with where this one is
    /// killed.
    fn describe_early(&self) {
        let text = self.description(Some(&self.path), None, ClipEnd::Interrupted);
        let path = descriptions::early(&self.path);
        // The disk of a clip that cannot be written is reported by the clip itself.
        if let Err(error) = fs::write(&path, text) {
            tracing::debug!("{} cannot be written: {error}", path.display());
        }
    }

    /// Writes a packet, or says that the clip ends before it, and how.
    pub(super) fn offer(
        &mut self,
        packet: &Packet,
        format: &PacketFormat,
    ) -> Result<Option<ClipEnd>, WriteError> {
        if self.span.end_ms.is_some_and(|end| packet.dts_ms > end) {
            return Ok(Some(ClipEnd::Complete));
        }
        if packet.dts_ms > self.span.limit_ms {
            return Ok(Some(ClipEnd::TooLong));
        }
        if self.is_broken {
            return Ok(None);
        }
        let written = self.write(packet, format);
        self.is_broken = written.is_err();
        written.map(|()| None)
    }

    fn write(&mut self, packet: &Packet, format: &PacketFormat) -> Result<(), WriteError> {
        if let Some(place) = self.place.take_if(|_| packet.key) {
            self.first_ms = packet.time_ms;
            self.file = Some(PacketFile::begin(place, format)?);
            self.describe_early();
        }
        match &mut self.file {
            Some(file) => file.write(packet),
            None => Ok(()),
        }
    }

    /// Bytes of its video that were written.
    pub(super) fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.written().bytes)
    }

    /// Whether nothing more can be written.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Completes the video, and puts the picture and the description beside it.
    pub(super) fn close(mut self, end: ClipEnd) -> ClosedClip {
        let written = self.file.as_ref().map(PacketFile::written);
        let (video, mut failure) = match self.file.take() {
            Some(file) => {
                let (path, finished) = file.finish();
                (path, finished.err())
            }
            None => (None, None),
        };
        let end = if failure.is_some() { ClipEnd::Failed } else { end };
        let stem = video.clone().unwrap_or_else(|| self.path.clone());
        let mut files: Vec<PathBuf> = video.iter().cloned().collect();
        let best = self.best.as_deref();
        let picture = best.map(|best| (stem.with_extension("jpg"), best.jpeg().to_vec()));
        let picture = picture.filter(|(_, jpeg)| !jpeg.is_empty());
        let description = self.description(video.as_deref(), written, end);
        let description = (stem.with_extension("json"), description.into_bytes());
        for (path, content) in picture.into_iter().chain([description]) {
            match descriptions::put(&path, &content) {
                Ok(()) => files.push(path),
                Err(error) => failure = failure.or(Some(WriteError::of_file(&path, &error))),
            }
        }
        if failure.is_none() || video.is_none() {
            // That of a video without a description is kept for the next run, and goes with the video.
            let _ = fs::remove_file(descriptions::early(&self.path));
        }
        ClosedClip {
            has_video: video.is_some(),
            files,
            failure,
        }
    }

    fn description(&self, video: Option<&Path>, written: Option<Written>, end: ClipEnd) -> String {
        let mut described = incident_value(
            &self.stream,
            &Incident {
                best: self.best.clone(),
                ..self.incident.clone()
            },
        );
        let file = video.and_then(Path::file_name).map(|name| name.to_string_lossy());
        let early = (end == ClipEnd::Interrupted)
            .then(|| json!({ "file": file, "end": end.name(), "time_ms": self.first_ms }));
        let clip = written.map(|written| {
            json!({
                "file": file,
                "end": end.name(),
                "time_ms": self.first_ms,
                "first_pts_ms": written.first_pts_ms,
                "last_pts_ms": written.last_pts_ms,
                "packets": written.packets,
                "bytes": written.bytes,
            })
        });
        if let Value::Object(map) = &mut described {
            map.insert("schema".to_owned(), "weir.clip/1".into());
            map.insert("clip".to_owned(), clip.or(early).unwrap_or(Value::Null));
        }
        format!("{described:#}\n")
    }
}
