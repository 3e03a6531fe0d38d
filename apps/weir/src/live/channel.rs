//! One stream for those who watch it: its packets become fragments once, and all of them get the same bytes. Where browsers do not
//! play its video, some of its frames are shown as pictures; so are they to a watcher that came after the last key frame, until the
//! next one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use weir_flow::{Cause, Frame, Packet, PacketCodec, PacketFormat, PacketObserver};
use weir_operators::media::{hevc_record, is_interlaced};
use weir_serve::{LiveKind, LiveMessage, LiveQueue, MAX_QUEUED_BYTES};

use super::fragments::{Fragmenter, Sample, Track, header};
use super::sink::{PICTURES, frame_picture};
use super::{h264, h265, sound};

/// Reason for pictures in place of interlaced video.
const INTERLACED: &str = "its video is interlaced, which browsers show with combs where something moves";

/// Longest wait of a watcher for a key frame in milliseconds, by the arrival of frames; then it is shown pictures. Most cameras send
/// a key frame each one to four seconds. Some send none for minutes, or a single one and then refresh parts of each picture.
const KEY_TIMEOUT_MS: u64 = 5_000;

/// Least time in milliseconds between two pictures of a stream outside its schedule.
const IDLE_INTERVAL_MS: u64 = 1_000;

/// See the module.
pub(super) struct Channel {
    /// Whether its fragments have sound, where the camera has sound.
    sound: bool,
    state: Mutex<State>,
}

struct Watcher {
    queue: Arc<LiveQueue>,
    /// It plays no video.
    pictures: bool,
    /// Arrival of the first frame since its video waits for a key frame, in milliseconds since 1970 (UTC).
    waits_since_ms: Option<u64>,
    /// It is shown pictures until a key frame comes.
    lacks_key: bool,
}

#[derive(Default)]
struct State {
    watchers: Vec<Watcher>,
    /// Its video is not shown: browsers do not play it, or it is withheld.
    is_refused: bool,
    /// Nothing of it is shown.
    is_private: bool,
    format: Option<Arc<PacketFormat>>,
    /// Of what is sent now: the parameter sets of the packets, as MP4 has them.
    record: Vec<u8>,
    fragmenter: Option<Fragmenter>,
    /// Of the sound, where there is sound.
    sound: Option<Fragmenter>,
    /// Messages that a new watcher needs first.
    setup: Vec<LiveMessage>,
    /// Fragments since the last key frame; empty once they exceed half of a watcher's queue.
    group: Vec<LiveMessage>,
    group_bytes: usize,
    /// The last picture outside the schedule of the stream and its time; `None` while frames are delivered.
    idle: Option<(LiveMessage, u64)>,
}

impl Channel {
    pub(super) fn new(sound: bool) -> Self {
        Self {
            sound,
            state: Mutex::default(),
        }
    }

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
        if let Some((jpeg, time_ms)) = &state.idle
            && (pictures || state.is_refused)
        {
            push_idle(queue, jpeg, *time_ms);
        }
        state.watchers.push(Watcher {
            queue: Arc::clone(queue),
            pictures,
            waits_since_ms: None,
            lacks_key: false,
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

    /// Sends the note of a frame that arrived at `time_ms`, such as its objects, to all watchers.
    pub(super) fn on_frame(&self, note: &LiveMessage, time_ms: u64) {
        let mut state = self.lock();
        // Without a format, no key frame is to come.
        let (has_video, has_begun) = (state.format.is_some(), state.fragmenter.is_some());
        state.idle = None;
        for watcher in &mut state.watchers {
            if has_video && !watcher.pictures {
                watcher.check_key(has_begun, time_ms);
            }
            watcher.queue.push(note);
        }
    }

    /// True if a watcher needs a picture of a frame that arrived at `time_ms`, since its browser does not play the video.
    pub(super) fn wants_picture(&self, time_ms: u64) -> bool {
        let state = self.lock();
        state
            .pictured()
            .any(|watcher| watcher.queue.wants_picture(time_ms))
    }

    /// Sends a JPEG of a frame that arrived at `time_ms` to the watchers that want it.
    pub(super) fn picture(&self, jpeg: &LiveMessage, time_ms: u64) {
        for watcher in self.lock().pictured() {
            watcher.queue.push_picture(jpeg, time_ms);
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
        if packet.sound {
            return state.on_sound(packet);
        }
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
                state.begin(&format, record, (packet.dts_ms, self.sound));
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
        self.lock().refuse(reason);
    }

    fn on_private(&self, _stream: &Arc<str>, reason: &str) {
        // Under one lock: an encoder that has a picture must not find the stream refused and not yet private.
        let mut state = self.lock();
        state.is_private = true;
        state.idle = None;
        state.refuse(reason);
    }

    fn on_idle_frame(&self, _stream: &Arc<str>, frame: &Frame, time_ms: u64) {
        let is_recent = |(_, before_ms): &(LiveMessage, u64)| time_ms.abs_diff(*before_ms) < IDLE_INTERVAL_MS;
        if self.lock().idle.as_ref().is_some_and(is_recent) {
            return;
        }
        // Not under the lock, which all watchers take.
        let Some(jpeg) = frame_picture(frame, PICTURES) else {
            return;
        };
        let jpeg = LiveMessage::binary(LiveKind::Note, jpeg);
        let mut state = self.lock();
        if state.is_private {
            return;
        }
        for watcher in state.pictured() {
            push_idle(&watcher.queue, &jpeg, time_ms);
        }
        state.idle = Some((jpeg, time_ms));
    }

    fn is_view(&self) -> bool {
        true
    }

    fn wants_sound(&self) -> bool {
        self.sound
    }
}

impl Watcher {
    /// Begins pictures if frames have come for [`KEY_TIMEOUT_MS`] without a key frame, the last one at `time_ms`. `has_begun` is true
    /// if a key frame has come since the source was opened.
    fn check_key(&mut self, has_begun: bool, time_ms: u64) {
        if has_begun && !self.queue.waits_for_key() {
            self.waits_since_ms = None;
            return;
        }
        let since_ms = *self.waits_since_ms.get_or_insert(time_ms);
        if !self.lacks_key && time_ms.abs_diff(since_ms) >= KEY_TIMEOUT_MS {
            self.lacks_key = true;
            let reason = format!(
                "no key frame has come for {} s; shorten the key frame interval of the camera",
                KEY_TIMEOUT_MS / 1_000
            );
            self.queue.push(&refused(&reason));
        }
    }
}

/// It has no video that is played; pictures may follow.
fn refused(reason: &str) -> LiveMessage {
    let mut note = json!({ "type": "refused", "reason": reason });
    if let Some(cause) = Cause::of_view(reason) {
        note["cause"] = json!(cause);
    }
    LiveMessage::text(LiveKind::Begin, note.to_string())
}

/// Sends a picture outside the schedule of the stream after its time, if the watcher can be sent one.
fn push_idle(queue: &LiveQueue, jpeg: &LiveMessage, time_ms: u64) {
    if queue.wants_picture(time_ms) {
        let note = json!({ "type": "idle", "time_ms": time_ms });
        queue.push(&LiveMessage::text(LiveKind::Note, note.to_string()));
        queue.push_picture(jpeg, time_ms);
    }
}

impl State {
    /// Those that are shown pictures.
    fn pictured(&self) -> impl Iterator<Item = &Watcher> {
        self.watchers
            .iter()
            .filter(|watcher| !self.is_private && (watcher.pictures || watcher.lacks_key || self.is_refused))
    }

    /// Those that are shown video.
    fn playing(&self) -> impl Iterator<Item = &Watcher> {
        self.watchers.iter().filter(|watcher| !watcher.pictures)
    }

    /// There is no video until the next format; pictures may be shown.
    fn refuse(&mut self, reason: &str) {
        self.end();
        self.format = None;
        self.is_refused = true;
        self.set_up(refused(reason));
    }

    /// Nothing of before is continued.
    fn end(&mut self) {
        self.record.clear();
        self.fragmenter = None;
        self.sound = None;
        self.setup.clear();
        self.group.clear();
        self.group_bytes = 0;
    }

    /// Fragments with these parameter sets follow, from that media time on, with sound or without.
    fn begin(&mut self, format: &PacketFormat, record: Vec<u8>, (origin_ms, has_sound): (f64, bool)) {
        if is_interlaced(format.codec, &record) {
            return self.refuse(INTERLACED);
        }
        self.end();
        let codec = match format.codec {
            PacketCodec::H264 => h264::codec(&record),
            PacketCodec::H265 => h265::codec(&record),
        };
        let Some(mut codec) = codec else { return };
        let own_sound = format.sound.as_ref().filter(|_| has_sound);
        if let Some(own_sound) = own_sound {
            codec = format!("{codec},{}", sound::codec(own_sound));
        }
        let text = json!({
            "type": "video",
            "mime": format!("video/mp4; codecs=\"{codec}\""),
            "origin_ms": origin_ms,
            "sound": match (&format.sound, has_sound) {
                (Some(_), true) => "on",
                (Some(_), false) => "off",
                (None, _) => "none",
            },
        });
        // Browsers take the size from the parameter sets.
        let side = |pixels: u32| u16::try_from(pixels).unwrap_or(u16::MAX);
        let track = Track {
            codec: format.codec,
            record: &record,
            size: (side(format.width), side(format.height)),
            turn: format.turn,
            aspect: format.sample_aspect,
        };
        let header = header(&track, own_sound);
        self.sound = own_sound.map(|sound| Fragmenter::of_sound(sound.rate, origin_ms));
        self.record = record;
        self.fragmenter = Some(Fragmenter::new(origin_ms));
        for watcher in &mut self.watchers {
            (watcher.waits_since_ms, watcher.lacks_key) = (None, false);
        }
        self.set_up(LiveMessage::text(LiveKind::Begin, text.to_string()));
        self.set_up(LiveMessage::binary(LiveKind::Setup, header));
    }

    fn on_sound(&mut self, packet: &Packet) {
        let Some(fragmenter) = &mut self.sound else {
            return;
        };
        let sample = Sample {
            data: packet.data.to_vec(),
            pts_ms: packet.pts_ms,
            dts_ms: packet.dts_ms,
            key: true,
        };
        if let Some(fragment) = fragmenter.push(sample) {
            self.send(
                LiveKind::Delta,
                LiveMessage::binary(LiveKind::Delta, fragment.bytes),
            );
        }
    }

    fn set_up(&mut self, message: LiveMessage) {
        for watcher in self.playing() {
            watcher.queue.push(&message);
        }
        self.setup.push(message);
    }

    fn send(&mut self, kind: LiveKind, message: LiveMessage) {
        for watcher in self.watchers.iter_mut().filter(|watcher| !watcher.pictures) {
            if kind == LiveKind::Key && std::mem::take(&mut watcher.lacks_key) {
                // It has shown pictures, and begins anew.
                for message in &self.setup {
                    watcher.queue.push(message);
                }
            }
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

#[cfg(test)]
mod tests {
    use weir_flow::{Image, SoundCodec, SoundFormat};

    use super::*;

    /// `avcC` of a picture of 640 by 360 pixels.
    const RECORD: [u8; 11] = [1, 0x64, 0, 0x1f, 0xff, 0xe1, 0, 1, 0x67, 1, 0];

    fn format(sound: bool) -> Arc<PacketFormat> {
        Arc::new(PacketFormat {
            codec: PacketCodec::H264,
            extradata: RECORD.into(),
            width: 640,
            height: 360,
            turn: None,
            sample_aspect: None,
            sound: sound.then(|| SoundFormat {
                codec: SoundCodec::Aac,
                extradata: [0x15, 0x88].into(),
                rate: 8_000,
                channels: 1,
            }),
        })
    }

    fn packet(dts_ms: f64, sound: bool) -> Packet {
        Packet {
            data: [0, 0, 0, 1, 9].into(),
            pts_ms: dts_ms,
            dts_ms,
            duration_ms: 0.0,
            key: !sound && dts_ms == 0.0,
            sound,
            time_ms: 0,
        }
    }

    /// The announcement of a channel, its header, and the numbers of the tracks of its fragments.
    fn sent(hears: bool, has_sound: bool) -> (String, Vec<u8>, Vec<u8>) {
        let (channel, stream) = (Channel::new(hears), Arc::from("north"));
        channel.on_format(&stream, &format(has_sound));
        for (dts_ms, sound) in [
            (0.0, false),
            (0.0, true),
            (40.0, false),
            (128.0, true),
            (256.0, true),
        ] {
            channel.on_packet(&stream, &packet(dts_ms, sound));
        }
        let state = channel.lock();
        let bytes = |message: &LiveMessage| message.content().to_vec();
        let [begin, header] = &state.setup[..] else {
            panic!("{} messages", state.setup.len())
        };
        let track = |message: &LiveMessage| {
            let content = bytes(message);
            let at = content
                .windows(4)
                .position(|kind| kind == b"tfhd")
                .expect("a box");
            content[at + 11]
        };
        (
            String::from_utf8(bytes(begin)).expect("a text"),
            bytes(header),
            state.group.iter().map(track).collect(),
        )
    }

    #[test]
    fn interlaced_video_is_shown_as_pictures() {
        /// Parameter sets of libx264 with `interlaced=1`, 64 by 48 pixels.
        const INTERLACED_RECORD: &[u8] =
            b"\x01\x64\0\x15\xff\xe1\0\x19\x67\x64\0\x15\xac\xd9\x44\x4f\xcb\x80\x88\0\0\x03\0\
            \x08\0\0\x03\x01\x90\xf8\xa1\x4c\xb0\x01\0\x06\x68\xfb\xa3\xcb\x22\xc0";
        let (channel, stream) = (Channel::new(false), Arc::from("north"));
        let interlaced = PacketFormat {
            extradata: INTERLACED_RECORD.into(),
            ..PacketFormat::clone(&format(false))
        };
        channel.on_format(&stream, &Arc::new(interlaced));
        channel.on_packet(&stream, &packet(0.0, false));
        channel.on_packet(&stream, &packet(40.0, false));
        let state = channel.lock();
        let texts: Vec<String> = state
            .setup
            .iter()
            .map(|message| String::from_utf8_lossy(message.content()).into_owned())
            .collect();
        assert!(
            state.is_refused && state.group.is_empty() && texts.len() == 1,
            "{texts:?}"
        );
        assert!(texts[0].contains("\"view-interlaced\""), "{texts:?}");
    }

    /// Kinds of the messages that wait for a watcher: the type of a text, the first box of a header or fragment.
    fn take(queue: &LiveQueue) -> Vec<String> {
        let (messages, _) = queue.take();
        let kind = |message: &LiveMessage| {
            let content = message.content();
            let text = serde_json::from_slice::<serde_json::Value>(content).ok();
            let kind = text.as_ref().and_then(|text| text["type"].as_str());
            kind.map_or_else(
                || String::from_utf8_lossy(&content[4..8]).into_owned(),
                str::to_owned,
            )
        };
        messages.iter().map(kind).collect()
    }

    /// A frame arrives: whether a picture of it is wanted.
    fn on_frame(channel: &Channel, time_ms: u64) -> bool {
        let note = LiveMessage::text(LiveKind::Note, json!({ "type": "frame" }).to_string());
        channel.on_frame(&note, time_ms);
        channel.wants_picture(time_ms)
    }

    /// A key frame and two pictures after it: its fragment is complete with the first of them.
    fn on_key_frame(channel: &Channel, stream: &Arc<str>, from_ms: f64) {
        let key = Packet {
            key: true,
            ..packet(from_ms, false)
        };
        channel.on_packet(stream, &key);
        channel.on_packet(stream, &packet(from_ms + 40.0, false));
        channel.on_packet(stream, &packet(from_ms + 80.0, false));
    }

    #[test]
    fn watcher_without_a_key_frame_is_shown_pictures_until_one_comes() {
        let (channel, stream) = (Channel::new(false), Arc::from("north"));
        let queue = Arc::<LiveQueue>::default();
        channel.join(&queue, false);
        // A source that is not open, or without video, has none to wait for.
        assert!(!on_frame(&channel, 1_000) && !on_frame(&channel, 9_000));
        channel.on_format(&stream, &format(false));
        take(&queue);
        assert!(!on_frame(&channel, 10_000) && !on_frame(&channel, 10_000 + KEY_TIMEOUT_MS - 1));
        assert_eq!(take(&queue), ["frame", "frame"]);
        assert!(on_frame(&channel, 10_000 + KEY_TIMEOUT_MS));
        assert_eq!(take(&queue), ["refused", "frame"]);
        assert!(on_frame(&channel, 20_000));
        assert_eq!(take(&queue), ["frame"], "the reason is given once");
        channel.on_packet(&stream, &packet(0.0, false));
        assert!(!on_frame(&channel, 20_040));
        assert_eq!(take(&queue), ["video", "ftyp", "frame"]);
        channel.on_packet(&stream, &packet(40.0, false));
        assert!(!on_frame(&channel, 90_000));
        assert_eq!(take(&queue), ["moof", "frame"]);
        // The source was opened again.
        channel.on_format(&stream, &format(false));
        assert!(!on_frame(&channel, 90_040) && on_frame(&channel, 90_040 + KEY_TIMEOUT_MS));
    }

    #[test]
    fn pictures_outside_the_schedule_reach_watchers_without_video_and_those_that_come_later() {
        let (channel, stream) = (Channel::new(false), Arc::from("north"));
        let [pictured, playing, late, last]: [Arc<LiveQueue>; 4] = std::array::from_fn(|_| Arc::default());
        channel.join(&pictured, true);
        channel.join(&playing, false);
        take(&pictured);
        let samples = (0..64 * 48 * 3_u32).map(|at| (at % 251) as u8).collect();
        let frame = Frame::new(0, 0.0, Image::from_rgb(64, 48, samples));
        channel.on_idle_frame(&stream, &frame, 5_000);
        channel.on_idle_frame(&stream, &frame, 5_000 + IDLE_INTERVAL_MS - 1);
        let sent = take(&pictured);
        assert!(sent.len() == 2 && sent[0] == "idle", "{sent:?}");
        assert!(take(&playing).is_empty());
        channel.join(&late, true);
        let sent = take(&late);
        assert!(sent.len() == 3 && sent[..2] == ["refused", "idle"], "{sent:?}");
        // Frames are delivered again.
        on_frame(&channel, 9_000);
        channel.join(&last, true);
        assert_eq!(take(&last), ["refused"]);
    }

    #[test]
    fn late_watcher_begins_anew_with_the_next_key_frame_and_others_play_on() {
        let (channel, stream) = (Channel::new(false), Arc::from("north"));
        let [first, late]: [Arc<LiveQueue>; 2] = std::array::from_fn(|_| Arc::default());
        channel.on_format(&stream, &format(false));
        channel.join(&first, false);
        on_key_frame(&channel, &stream, 0.0);
        take(&first);
        // A group that grew too long is kept for no watcher.
        channel.lock().group.clear();
        channel.join(&late, false);
        assert_eq!(take(&late), ["video", "ftyp"]);
        assert!(!on_frame(&channel, 1_000) && on_frame(&channel, 1_000 + KEY_TIMEOUT_MS));
        assert_eq!(take(&first), ["frame", "frame"]);
        assert_eq!(take(&late), ["refused", "frame"]);
        let jpeg = LiveMessage::binary(LiveKind::Note, b"    JPEG".to_vec());
        channel.picture(&jpeg, 1_000 + KEY_TIMEOUT_MS);
        assert_eq!(take(&late), ["JPEG"]);
        assert!(take(&first).is_empty());
        on_key_frame(&channel, &stream, 10_000.0);
        assert_eq!(take(&late)[..3], ["video", "ftyp", "moof"]);
        assert!(take(&first).iter().all(|kind| kind == "moof"));
        assert!(!on_frame(&channel, 20_000));
    }

    #[test]
    fn fragments_have_sound_where_it_is_asked_for_and_there() {
        for (hears, has_sound, expected, tracks) in [
            (true, true, "on", vec![1, 2, 2]),
            (false, true, "off", vec![1]),
            (true, false, "none", vec![1]),
        ] {
            let (begin, header, found) = sent(hears, has_sound);
            assert!(begin.contains(&format!("\"sound\":\"{expected}\"")), "{begin}");
            assert_eq!(
                begin.contains("avc1.64001f,mp4a.40.2"),
                expected == "on",
                "{begin}"
            );
            let has_track = header.windows(4).any(|kind| kind == b"mp4a");
            assert_eq!(has_track, expected == "on");
            assert_eq!(found, tracks, "{expected}");
        }
    }
}
