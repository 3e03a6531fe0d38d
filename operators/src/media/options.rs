//! Options of FFmpeg that a graph may set for a source: those that tune a connection. None opens another file or address,
//! listens, or changes what the engine decides itself, such as time-outs and how lost a source is.

use ffmpeg_next::Dictionary;
use weir_flow::{KeyKind, KeySpec, Settings, Value};

/// The longest time that an option in microseconds may name.
const MINUTE_US: i64 = 60_000_000;

/// The largest amount that an option in bytes may name.
const MAX_BYTES: i64 = 256 << 20;

/// Keys of `options` of a source, with their names and units in FFmpeg.
pub const CONNECTION_OPTIONS: &[KeySpec] = &[
    KeySpec {
        name: "probesize",
        kind: KeyKind::Integer {
            min: 32,
            max: MAX_BYTES,
        },
        about: "maximum number of bytes that are read to detect the contents of a stream; default 5000000",
    },
    KeySpec {
        name: "analyzeduration",
        kind: KeyKind::Integer {
            min: 0,
            max: MINUTE_US,
        },
        about: "maximum length of a stream, in microseconds, that is read to detect its contents; default up to 5000000",
    },
    KeySpec {
        name: "fflags",
        kind: KeyKind::OneOf(&["nobuffer", "discardcorrupt", "genpts", "igndts"]),
        about: "`nobuffer`: less delay at the start; `discardcorrupt`: damaged packets are left out; `genpts`: missing time \
                stamps are made up; `igndts`: decoding times are ignored",
    },
    KeySpec {
        name: "max_delay",
        kind: KeyKind::Integer {
            min: 0,
            max: MINUTE_US,
        },
        about: "microseconds to wait for a missing datagram of RTSP after a later one has arrived; default 100000",
    },
    KeySpec {
        name: "reorder_queue_size",
        kind: KeyKind::Integer { min: 0, max: 10_000 },
        about: "datagrams of RTSP that are held to put them in order; default 500",
    },
    KeySpec {
        name: "buffer_size",
        kind: KeyKind::Integer {
            min: 0,
            max: MAX_BYTES,
        },
        about: "bytes of the socket's buffer, of RTSP and UDP; the system's default",
    },
    KeySpec {
        name: "allowed_media_types",
        kind: KeyKind::OneOf(&["video", "video+audio"]),
        about: "`video+audio`: an RTSP camera is asked for its sound, too, also where it is not used; default `video`, and both with `sound = true`",
    },
    KeySpec {
        name: "user_agent",
        kind: KeyKind::Text,
        about: "the program's name, as RTSP and HTTP servers see it",
    },
    KeySpec {
        name: "tls_verify",
        kind: KeyKind::Flag,
        about: "true: the certificate of an RTSPS camera or an HTTPS server is verified; default true",
    },
    KeySpec {
        name: "ca_file",
        kind: KeyKind::File,
        about: "certificates of the authorities that are trusted, as PEM; default those of the system",
    },
    KeySpec {
        name: "tls_fingerprint",
        kind: KeyKind::Text,
        about: "fingerprint of the only certificate that an RTSPS camera may have, instead of authorities: `sha256:` and 64 \
                hexadecimal digits",
    },
    KeySpec {
        name: "live_start_index",
        kind: KeyKind::Integer {
            min: -1_000,
            max: 1_000,
        },
        about: "first segment of a live HLS stream; negative numbers count from its end; default -3",
    },
    KeySpec {
        name: "video_size",
        kind: KeyKind::Text,
        about: "width and height that a capture device is set to, such as `1280x720`",
    },
    KeySpec {
        name: "framerate",
        kind: KeyKind::Number {
            min: 0.1,
            max: 1_000.0,
        },
        about: "frames per second that a capture device is set to",
    },
    KeySpec {
        name: "input_format",
        kind: KeyKind::Text,
        about: "the format that a capture device is set to, such as `mjpeg`",
    },
];

/// Adds the options to `dictionary`, as FFmpeg writes them.
pub(super) fn add_options(options: &Settings, dictionary: &mut Dictionary<'_>) {
    for (name, value) in &options.0 {
        // A character that ends a text of C would end the option.
        let text = ffmpeg_text(value).replace('\0', "");
        dictionary.set(name, &text);
    }
}

fn ffmpeg_text(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Texts(texts) => texts.join("+"),
        Value::Flag(flag) => u8::from(*flag).to_string(),
        Value::Points(points) => {
            let points = points.iter().map(|[x, y]| format!("{x},{y}"));
            points.collect::<Vec<_>>().join("+")
        }
        Value::Pair([first, second]) => format!("{first}x{second}"),
        Value::Durations(durations) => {
            let durations = durations
                .iter()
                .map(|(name, seconds)| format!("{name}={seconds}"));
            durations.collect::<Vec<_>>().join("+")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_ffmpeg_reads_them() {
        let options = [
            ("probesize", Value::Number(100_000.0)),
            ("framerate", Value::Number(12.5)),
            ("tls_verify", Value::Flag(true)),
            ("user_agent", Value::Text("a\0b c".to_owned())),
        ];
        let options = options.map(|(name, value)| (name.to_owned(), value));
        let mut dictionary = Dictionary::new();
        add_options(&Settings(options.into()), &mut dictionary);
        let written: Vec<(&str, &str)> = dictionary.iter().collect();
        assert_eq!(
            written,
            [
                ("framerate", "12.5"),
                ("probesize", "100000"),
                ("tls_verify", "1"),
                ("user_agent", "ab c")
            ]
        );
    }
}
