//! Streams sent on to a media server: what cameras send, as it came, or the frames with detected objects drawn on them.
//!
//! Packets come from sources, on their threads; a thread for each stream sends them. A server that is away or slow delays neither
//! sources nor other streams: packets are lost and counted, and the stream resumes with a key frame.

mod lane;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_flow::{
    Delivery, KeyFault, KeyKind, KeySpec, Packet, PacketFormat, PacketObserver, Settings, Sink, SinkError,
    SinkFactory, SourceLogin, has_login, host_problem, mask_credentials, raw_in_password, takes_login,
};

use self::lane::{Counts, Destination, Lane};
use super::SinkKind;
use super::mp4::{Drawing, DrawnStream};
use crate::media::{Encoding, address_of, is_output_address};

/// Streams of one sink; each has a connection and a thread.
const MAX_STREAMS: usize = 64;

/// Frames between two key frames of encoded streams, with which a server that was away resumes.
const KEY_FRAME_INTERVAL: u32 = 25;

pub(super) const KIND: SinkKind = SinkKind {
    name: "push",
    about: "each stream to a media server by RTSP, RTMP or SRT, as its camera sent it or with objects drawn on it (docs/how-to/push.md)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "url",
        kind: KeyKind::Text,
        about: "address of the server, `rtsp://`, `rtmp://`, `rtmps://` or `srt://`; `{stream}` in it stands for the stream's name (required)",
    },
    KeySpec {
        name: "user",
        kind: KeyKind::Text,
        about: "user of an `rtsp://` server, not encoded",
    },
    KeySpec {
        name: "password_file",
        kind: KeyKind::File,
        about: "file with the password of `user`",
    },
    KeySpec {
        name: "boxes",
        kind: KeyKind::Flag,
        about: "true: frames are sent with detected objects drawn on them, encoded as H.264; default false: packets are sent as they came",
    },
    KeySpec {
        name: "sound",
        kind: KeyKind::Flag,
        about: "true: the sound of cameras that have `sound = true` is sent, too; default false",
    },
    KeySpec {
        name: "crf",
        kind: KeyKind::Number { min: 0.0, max: 51.0 },
        about: "quality of H.264 with `boxes`: lower is better and larger (default 23)",
    },
    KeySpec {
        name: "score_threshold",
        kind: KeyKind::Number { min: 0.0, max: 1.0 },
        about: "objects below this score are not drawn (default 0: all are)",
    },
];

/// Faults of the keys together.
pub(super) fn faults(settings: &Settings) -> Vec<KeyFault> {
    let mut faults = Vec::new();
    let mut add = |key: &'static str, message: String, hint: &str| {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        faults.push(KeyFault { key, message, hint });
    };
    let url = settings.text("url").unwrap_or_default();
    let shown = mask_credentials(url);
    if url.is_empty() {
        add(
            "url",
            "`url` is missing".to_owned(),
            "url = \"rtsp://127.0.0.1:8554/{stream}\"",
        );
    } else if !is_output_address(url) {
        let hint = "use rtsp://, rtmp://, rtmps:// or srt://";
        add("url", format!("`url`: streams are not sent to {shown}"), hint);
    } else if let Some((raw, code)) = raw_in_password(url) {
        let message = format!("`url`: the password of {shown} contains a `{raw}`, which ends the password");
        add("url", message, &format!("write {code} for it"));
    } else if let Some((problem, hint)) = host_problem(url) {
        add("url", format!("`url`: {shown} {problem}"), hint);
    }
    if let Some(user) = settings.text("user") {
        if !takes_login(url) {
            add(
                "user",
                "`user` is for rtsp:// addresses".to_owned(),
                "write it into `url`",
            );
        } else if has_login(url) {
            add(
                "user",
                "`url` contains a user, too".to_owned(),
                "take it out there",
            );
        } else if user.is_empty() || user.contains(':') {
            add("user", "`user` is empty or has a colon".to_owned(), "");
        }
    } else if settings.text("password_file").is_some() {
        add(
            "password_file",
            "`password_file` has no effect without `user`".to_owned(),
            "",
        );
    }
    if settings.flag("boxes", false) && settings.flag("sound", false) {
        let message = "`sound` has no effect with `boxes = true`".to_owned();
        add("sound", message, "frames are encoded without sound");
    }
    if !settings.flag("boxes", false) {
        for key in ["crf", "score_threshold"] {
            if settings.0.contains_key(key) {
                let message = format!("`{key}` has no effect without `boxes = true`");
                add(key, message, "packets are sent as they came");
            }
        }
    }
    faults
}

fn create(settings: &Settings, streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let url = settings.text("url").unwrap_or_default().to_owned();
    let error = |reason: String| SinkError {
        target: format!("to {}", mask_credentials(&url)),
        reason,
    };
    if let Some(fault) = faults(settings).into_iter().next() {
        return Err(error(fault.message));
    }
    if streams.len() > 1 && !has_name(&url) {
        return Err(error(format!(
            "{} streams would be sent to one address: write {{stream}} into `url`",
            streams.len()
        )));
    }
    let login = settings.text("user").map(|user| SourceLogin {
        user: user.to_owned(),
        password_file: settings.text("password_file").map(PathBuf::from),
    });
    Ok(Box::new(PushFactory {
        url,
        login,
        boxes: settings.flag("boxes", false),
        sound: settings.flag("sound", false),
        crf: settings.number("crf", 23.0),
        score_threshold: settings.number("score_threshold", 0.0) as f32,
    }))
}

fn has_name(url: &str) -> bool {
    url.contains("{stream}")
}

struct PushFactory {
    url: String,
    login: Option<SourceLogin>,
    boxes: bool,
    sound: bool,
    crf: f64,
    score_threshold: f32,
}

impl SinkFactory for PushFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let lanes = Arc::new(Lanes {
            url: self.url.clone(),
            login: self.login.clone(),
            sound: self.sound,
            state: Mutex::default(),
        });
        let drawn = self.boxes.then(|| Drawn {
            encoding: Encoding {
                gop: KEY_FRAME_INTERVAL,
                ..Encoding::live(self.crf)
            },
            score_threshold: self.score_threshold,
            drawing: Drawing::default(),
            encoders: BTreeMap::new(),
        });
        Ok(Box::new(Push { lanes, drawn }))
    }
}

/// The lanes of all streams.
struct Lanes {
    url: String,
    login: Option<SourceLogin>,
    /// Whether sound is sent, too.
    sound: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lanes: BTreeMap<Arc<str>, Lane>,
    /// Counts of lanes that have ended.
    ended: Counts,
    /// Reason why a stream has no lane.
    refused: Option<String>,
    is_closed: bool,
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `then` with the lane of a stream, which is started if there is none.
    fn with_lane(&self, stream: &Arc<str>, then: impl FnOnce(&Lane)) {
        let mut state = self.lock();
        if !state.lanes.contains_key(stream) {
            if state.is_closed {
                return;
            }
            match self.new_lane(stream, state.lanes.len()) {
                Ok(lane) => drop(state.lanes.insert(Arc::clone(stream), lane)),
                Err(reason) => {
                    state.ended.lost += 1;
                    if state.refused.is_none() {
                        tracing::error!(%stream, "it is not sent: {reason}");
                    }
                    state.refused = Some(reason);
                    return;
                }
            }
        }
        if let Some(lane) = state.lanes.get(stream) {
            then(lane);
        }
    }

    fn new_lane(&self, stream: &Arc<str>, others: usize) -> Result<Lane, String> {
        if others > 0 && !has_name(&self.url) {
            return Err("another stream is sent to this address: write {stream} into `url`".to_owned());
        }
        if others >= MAX_STREAMS {
            return Err(format!(
                "{MAX_STREAMS} streams are being sent: take fewer streams"
            ));
        }
        let destination = Destination {
            stream: Arc::clone(stream),
            address: address_of(&self.url, stream),
            login: self.login.clone(),
        };
        Lane::start(destination).map_err(|error| error.reason)
    }

    /// Ends the lane of a stream; `None`: all lanes, and no further one begins.
    fn end(&self, stream: Option<&str>) {
        let mut state = self.lock();
        let ended: Vec<Lane> = match stream {
            Some(stream) => state.lanes.remove(stream).into_iter().collect(),
            None => {
                state.is_closed = true;
                std::mem::take(&mut state.lanes).into_values().collect()
            }
        };
        drop(state);
        ended.iter().for_each(Lane::close);
        for lane in ended {
            let counts = lane.join();
            add(&mut self.lock().ended, counts);
        }
    }
}

fn add(sum: &mut Counts, counts: Counts) {
    sum.sent += counts.sent;
    sum.lost += counts.lost;
    sum.connections += counts.connections;
}

impl PacketObserver for Lanes {
    fn on_format(&self, stream: &Arc<str>, format: &Arc<PacketFormat>) {
        let format = format.with_sound_if(self.sound);
        self.with_lane(stream, |lane| lane.on_format(&format));
    }

    fn on_packet(&self, stream: &Arc<str>, packet: &Packet) {
        self.with_lane(stream, |lane| lane.on_packet(packet));
    }

    fn on_refused(&self, stream: &Arc<str>, reason: &str) {
        tracing::warn!(%stream, "it is not sent: {reason}");
        self.with_lane(stream, |lane| lane.on_refused(reason));
    }

    fn is_view(&self) -> bool {
        true
    }

    fn wants_sound(&self) -> bool {
        self.sound
    }
}

struct Push {
    lanes: Arc<Lanes>,
    drawn: Option<Drawn>,
}

/// Frames that are drawn on and encoded.
struct Drawn {
    encoding: Encoding,
    score_threshold: f32,
    drawing: Drawing,
    /// Encoders by stream; one that fails is not tried again.
    encoders: BTreeMap<Arc<str>, Result<DrawnStream, String>>,
}

impl Drawn {
    fn send(&mut self, delivery: &Delivery, lanes: &Lanes) -> Result<(), String> {
        let stream = &delivery.stream;
        if !self.encoders.contains_key(stream) {
            let encoder = DrawnStream::new(delivery, &self.encoding);
            if let Ok(encoder) = &encoder {
                lanes.on_format(stream, &Arc::new(encoder.format().clone()));
            }
            self.encoders.insert(Arc::clone(stream), encoder);
        }
        let Some(encoder) = self.encoders.get_mut(stream) else {
            return Ok(());
        };
        let encoder = encoder.as_mut().map_err(|reason| reason.clone())?;
        let packets = encoder.encode(&mut self.drawing, delivery, self.score_threshold)?;
        for packet in packets {
            lanes.on_packet(stream, &packet);
        }
        Ok(())
    }
}

impl Sink for Push {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let Some(drawn) = &mut self.drawn else {
            return Ok(());
        };
        drawn.send(delivery, &self.lanes).map_err(|reason| SinkError {
            target: format!("to {}", mask_credentials(&self.lanes.url)),
            reason,
        })
    }

    fn packet_observer(&self) -> Option<Arc<dyn PacketObserver>> {
        self.drawn.is_none().then(|| Arc::clone(&self.lanes) as _)
    }

    fn encodes_video(&self) -> bool {
        self.drawn.is_some()
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        if let Some(drawn) = &mut self.drawn {
            drawn.encoders.remove(stream);
        }
        self.lanes.end(Some(stream));
        Ok(())
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let state = self.lanes.lock();
        let mut sum = state.ended;
        for lane in state.lanes.values() {
            add(&mut sum, lane.counts());
        }
        BTreeMap::from([
            ("packets_sent", sum.sent),
            ("packets_lost", sum.lost),
            ("connections", sum.connections),
        ])
    }

    fn outage(&self) -> Option<String> {
        let state = self.lanes.lock();
        let refused = || state.refused.clone();
        state.lanes.values().find_map(Lane::outage).or_else(refused)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.lanes.end(None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    fn settings(keys: &[(&str, Value)]) -> Settings {
        let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        Settings(keys.collect())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn wrong_keys_are_named_without_secrets() {
        for (keys, expected) in [
            (vec![], "`url` is missing"),
            (
                vec![("url", text("http://u:S3CR3T@server/x"))],
                "are not sent to http://***@server/x",
            ),
            (vec![("url", text("rtsp://u:S3C#RET@server/x"))], "contains a `#`"),
            (vec![("url", text("rtsp://server:x/1"))], "no port"),
            (
                vec![("url", text("srt://server:1")), ("user", text("a"))],
                "`user` is for rtsp://",
            ),
            (
                vec![("url", text("rtsp://u:p@server")), ("user", text("a"))],
                "contains a user, too",
            ),
            (
                vec![("url", text("rtsp://server/x")), ("password_file", text("/x"))],
                "without `user`",
            ),
            (
                vec![("url", text("rtsp://server/x")), ("crf", Value::Number(20.0))],
                "without `boxes = true`",
            ),
            (
                vec![
                    ("url", text("rtsp://server/x")),
                    ("boxes", Value::Flag(true)),
                    ("sound", Value::Flag(true)),
                ],
                "with `boxes = true`",
            ),
        ] {
            let faults = faults(&settings(&keys));
            let shown = format!("{faults:?}");
            assert!(
                faults.len() == 1 && faults[0].message.contains(expected),
                "{expected}: {shown}"
            );
            assert!(!shown.contains("S3C"), "{shown}");
        }
        assert!(faults(&settings(&[("url", text("rtsp://server/{stream}"))])).is_empty());
    }

    #[test]
    fn streams_do_not_share_an_address() {
        let streams = ["north".to_owned(), "south".to_owned()];
        let keys = settings(&[("url", text("rtsp://server/live"))]);
        let Err(refused) = create(&keys, &streams) else {
            panic!("two streams are taken")
        };
        assert!(refused.reason.contains("{stream}"), "{refused}");
        assert!(create(&keys, &streams[..1]).is_ok());
    }
}
