//! One stream for those who watch it: its packets become fragments once, and all of them get the same bytes. Where browsers do not
//! play its video, some of its frames are shown as pictures.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use weir_flow::{Packet, PacketCodec, PacketFormat, PacketObserver};
use weir_operators::media::hevc_record;
use weir_serve::{LiveKind, LiveMessage, LiveQueue, MAX_QUEUED_BYTES};

use super::fragments::{Fragmenter, Sample, Track, header};
use super::{h264, h265};

/// See the module.
#[derive(Default)]
pub(super) struct Channel {
    state: Mutex<State>,
}

struct Watcher {
    queue: Arc<LiveQueue>,
    /// It plays no video.
    pictures: bool,
}

#[derive(Default)]
struct State {
    watchers: Vec<Watcher>,
    /// Its video is not shown: browsers do not play it, or it is withheld.
    is_refused: bool,
    /// Nothing of it is shown.
    is_private: bool,
    /// Arrival of the frame that was shown as a picture last, in milliseconds since 1970 (UTC).
    pictured_ms: Option<u64>,
    format: Option<Arc<PacketFormat>>,
    /// Of what is sent now: the parameter sets of the packets, as MP4 has them.
    record: Vec<u8>,
    fragmenter: Option<Fragmenter>,
    /// Messages that a new watcher needs first.
    setup: Vec<LiveMessage>,
    /// Fragments since the last key frame; empty once they exceed half of a watcher's queue.
    group: Vec<LiveMessage>,
    group_bytes: usize,
}

impl Channel {
    /// One more watches: it gets what has been since the last key frame, or pictures where it plays no video.
    pub(super) fn join(&self, queue: &Arc<LiveQueue>, pictures: bool) {
        let mut state = self.lock();
        if pictures && !state.is_private {
            let codec = state.format.as_ref().map(|format| format.codec.name());
            let reason = format!(
                "this browser does not play its video ({})",
                codec.unwrap_or("unknown")
            );
            queue.push(&refused(&reason));
        } else {
            for message in state.setup.iter().chain(&state.group) {
                queue.push(message);
            }
        }
        state.watchers.push(Watcher {
            queue: Arc::clone(queue),
            pictures,
        });
    }

    pub(super) fn leave(&self, queue: &Arc<LiveQueue>) {
        self.lock()
            .watchers
            .retain(|watcher| !Arc::ptr_eq(&watcher.queue, queue));
    }

    /// The stream was removed.
    pub(super) fn close(&self) {
        for watcher in std::mem::take(&mut self.lock().watchers) {
            watcher.queue.close();
        }
    }

    /// Sends a note to all watchers, such as the objects of a frame.
    pub(super) fn note(&self, text: String) {
        let message = LiveMessage::text(LiveKind::Note, text);
        for watcher in &self.lock().watchers {
            watcher.queue.push(&message);
        }
    }

    /// True if a watcher needs pictures because its browser does not play the video.
    pub(super) fn wants_pictures(&self) -> bool {
        self.lock().pictured().next().is_some()
    }

    /// True if a frame that arrived at `time_ms` is due as a picture: at least `interval_ms` after the last
    /// one.
    pub(super) fn takes_picture(&self, time_ms: u64, interval_ms: u64) -> bool {
        let mut state = self.lock();
        let is_due = state
            .pictured_ms
            .is_none_or(|before| time_ms.abs_diff(before) >= interval_ms);
        let takes = is_due && state.pictured().next().is_some();
        if takes {
            state.pictured_ms = Some(time_ms);
        }
        takes
    }

    /// A frame as a JPEG.
    pub(super) fn picture(&self, jpeg: Vec<u8>) {
        let message = LiveMessage::binary(LiveKind::Note, jpeg);
        for watcher in self.lock().pictured() {
            watcher.queue.push(&message);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PacketObserver for Channel {
    fn on_format(&self, _stream: &Arc<str>, format: &Arc<PacketFormat>) {
        let mut state = self.lock();
        state.end();
        state.is_refused = false;
        state.format = Some(Arc::clone(format));
    }

    fn on_packet(&self, _stream: &Arc<str>, packet: &Packet) {
        let mut state = self.lock();
        let Some(format) = state.format.clone() else {
            return;
        };
        let is_record = format.extradata.first() == Some(&1);
        if packet.key {
            let holds = match format.codec {
                PacketCodec::H264 => h264::holds,
                PacketCodec::H265 => h265::holds,
            };
            let record = match format.codec {
                PacketCodec::H264 => h264::record,
                PacketCodec::H265 => hevc_record,
            };
            let record = if is_record {
                Some(format.extradata.to_vec())
            } else if !state.record.is_empty() && holds(&state.record, &packet.data) {
                // Repeated, or not sent with this one.
                None
            } else {
                // A camera may send others with a key frame.
                let first = || record(&format.extradata).filter(|_| state.record.is_empty());
                record(&packet.data).or_else(first)
            };
            if let Some(record) = record.filter(|record| *record != state.record) {
                state.begin(&format, record, packet.dts_ms);
            }
        }
        let data = if is_record {
            packet.data.to_vec()
        } else {
            match format.codec {
                PacketCodec::H264 => h264::with_lengths(&packet.data),
                PacketCodec::H265 => h265::with_lengths(&packet.data),
            }
        };
        let Some(fragmenter) = &mut state.fragmenter else {
            return;
        };
        let sample = Sample {
            data,
            pts_ms: packet.pts_ms,
            dts_ms: packet.dts_ms,
            key: packet.key,
        };
        if let Some(fragment) = fragmenter.push(sample) {
            let kind = if fragment.key {
                LiveKind::Key
            } else {
                LiveKind::Delta
            };
            state.send(kind, LiveMessage::binary(kind, fragment.bytes));
        }
    }

    fn on_refused(&self, _stream: &Arc<str>, reason: &str) {
        let mut state = self.lock();
        state.end();
        state.format = None;
        state.is_refused = true;
        state.set_up(refused(reason));
    }

    fn on_private(&self, stream: &Arc<str>, reason: &str) {
        self.on_refused(stream, reason);
        self.lock().is_private = true;
    }

    fn is_view(&self) -> bool {
        true
    }
}

/// It has no video that is played; pictures may follow.
fn refused(reason: &str) -> LiveMessage {
    let text = json!({ "type": "refused", "reason": reason }).to_string();
    LiveMessage::text(LiveKind::Begin, text)
}

impl State {
    /// Those that are shown pictures.
    fn pictured(&self) -> impl Iterator<Item = &Watcher> {
        self.watchers
            .iter()
            .filter(|watcher| !self.is_private && (watcher.pictures || self.is_refused))
    }

    /// Those that are shown video.
    fn playing(&self) -> impl Iterator<Item = &Watcher> {
        self.watchers.iter().filter(|watcher| !watcher.pictures)
    }

    /// Nothing of before is continued.
    fn end(&mut self) {
        self.record.clear();
        self.fragmenter = None;
        self.setup.clear();
        self.group.clear();
        self.group_bytes = 0;
    }

    /// Fragments with these parameter sets follow, from that media time on.
    fn begin(&mut self, format: &PacketFormat, record: Vec<u8>, origin_ms: f64) {
        self.end();
        let codec = match format.codec {
            PacketCodec::H264 => h264::codec(&record),
            PacketCodec::H265 => h265::codec(&record),
        };
        let Some(codec) = codec else { return };
        let text = json!({
            "type": "video",
            "mime": format!("video/mp4; codecs=\"{codec}\""),
            "origin_ms": origin_ms,
        });
        // Browsers take the size from the parameter sets.
        let side = |pixels: u32| u16::try_from(pixels).unwrap_or(u16::MAX);
        let header = header(&Track {
            codec: format.codec,
            record: &record,
            size: (side(format.width), side(format.height)),
            turn: format.turn,
            aspect: format.sample_aspect,
        });
        self.record = record;
        self.fragmenter = Some(Fragmenter::new(origin_ms));
        self.set_up(LiveMessage::text(LiveKind::Begin, text.to_string()));
        self.set_up(LiveMessage::binary(LiveKind::Setup, header));
    }

    fn set_up(&mut self, message: LiveMessage) {
        for watcher in self.playing() {
            watcher.queue.push(&message);
        }
        self.setup.push(message);
    }

    fn send(&mut self, kind: LiveKind, message: LiveMessage) {
        for watcher in self.playing() {
            watcher.queue.push(&message);
        }
        if kind == LiveKind::Key {
            self.group.clear();
            self.group_bytes = 0;
        } else if self.group.is_empty() {
            return;
        }
        self.group_bytes += message.bytes();
        if self.group_bytes > MAX_QUEUED_BYTES / 2 {
            // Who comes now waits for the next key frame.
            self.group.clear();
            return;
        }
        self.group.push(message);
    }
}
