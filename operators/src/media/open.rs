//! Opening an address with FFmpeg, and the reason in one sentence if that fails.

use std::io::ErrorKind;
use std::io::Read;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use ffmpeg_next::format::context::{Input, StreamIo};
use ffmpeg_next::util::log;
use ffmpeg_next::{Dictionary, Error, device, format};
use weir_files::io_reason;
use weir_flow::{SourceError, StopFlag};

use super::fifo::{Fifo, is_fifo};
use super::{SourceOptions, cannot_open, container};

/// FFmpeg's names of raw elementary streams. They carry no timestamps; those that FFmpeg reports assume a rate.
const ELEMENTARY: [&str; 15] = [
    "h264",
    "hevc",
    "m4v",
    "mpegvideo",
    "mjpeg",
    "mjpeg_2000",
    "h261",
    "h263",
    "vc1",
    "av1",
    "obu",
    "dirac",
    "dnxhd",
    "avs2",
    "cavsvideo",
];

/// Whether the input is a raw elementary stream.
pub(super) fn lacks_timestamps(input: &Input) -> bool {
    ELEMENTARY.contains(&input.format().name())
}

/// Whether timestamps come from the source's own clock. For the pictures of an mpjpeg web camera, FFmpeg counts them.
pub(super) fn has_own_clock(input: &Input) -> bool {
    !lacks_timestamps(input) && input.format().name() != "mpjpeg"
}

/// Initialises FFmpeg once and silences its log: what matters is reported as errors and counts.
pub(crate) fn init_ffmpeg() -> Result<(), Error> {
    static QUIET: Once = Once::new();
    ffmpeg_next::init()?;
    QUIET.call_once(|| log::set_level(log::Level::Quiet));
    Ok(())
}

/// Whether frames arrive in real time: a capture device, or a stream without an end. A recording on a web server has an
/// end.
pub(super) fn is_live(uri: &str, input: &Input) -> bool {
    match scheme(uri) {
        Some("http" | "https") => input.duration() <= 0,
        _ => is_capture(uri) || is_remote(uri),
    }
}

/// As [`is_live`] by the address alone; `None` if only the open stream tells.
pub(super) fn is_endless(uri: &str) -> Option<bool> {
    match scheme(uri) {
        Some("http" | "https") => None,
        _ => Some(is_capture(uri) || is_remote(uri)),
    }
}

fn is_capture(uri: &str) -> bool {
    uri.starts_with("/dev/video")
}

fn is_remote(uri: &str) -> bool {
    const REMOTE: [&str; 11] = [
        "rtsp", "rtsps", "http", "https", "rtmp", "rtmps", "rtp", "udp", "tcp", "srt", "mmsh",
    ];
    scheme(uri).is_some_and(|scheme| REMOTE.contains(&scheme))
}

fn scheme(uri: &str) -> Option<&str> {
    uri.split_once("://").map(|(scheme, _)| scheme)
}

/// Opens `uri`; raising `stop` interrupts this call and all later reads.
pub(super) fn open(uri: &str, options: SourceOptions, stop: &StopFlag) -> Result<Input, SourceError> {
    if uri.contains('\0') {
        return Err(cannot_open(uri, "the name holds a NUL character"));
    }
    if is_capture(uri) {
        return capture(uri);
    }
    let local = local_path(uri).is_some();
    let name = uri.strip_prefix("file:").unwrap_or(uri);
    if local {
        check_file(uri, Path::new(name))?;
    }
    init_ffmpeg().map_err(|error| cannot_open(uri, format!("FFmpeg does not start: {error}")))?;
    if local && is_fifo(Path::new(name)) {
        return pipe(uri, Path::new(name), options, stop);
    }
    // FFmpeg would read a file name with a colon as an address.
    let address = if local && Path::new(name).exists() {
        format!("file:{name}")
    } else {
        uri.to_owned()
    };
    let flag = stop.clone();
    format::input_with_interrupt_and_dictionary(&address, move || flag.is_raised(), dictionary(uri, options))
        .map_err(|error| cannot_open(uri, reason(error, uri, Path::new(name), stop)))
}

/// The path of a local file.
pub(super) fn local_path(uri: &str) -> Option<&Path> {
    let local = (scheme(uri).is_none() || uri.starts_with("file:")) && !is_capture(uri);
    local.then(|| Path::new(uri.strip_prefix("file:").unwrap_or(uri)))
}

/// Whether the address is that of a named pipe.
pub(super) fn is_pipe(uri: &str) -> bool {
    local_path(uri).is_some_and(is_fifo)
}

/// Why reading broke off, in words.
pub(super) fn broken_reason(error: Error, options: SourceOptions) -> String {
    match error {
        Error::Other {
            errno: ffmpeg_next::error::ETIMEDOUT,
        } => format!("no data arrived for {} s", options.timeout_s),
        other => other.to_string(),
    }
}

/// Opens a named pipe and waits for its writer.
fn pipe(uri: &str, path: &Path, options: SourceOptions, stop: &StopFlag) -> Result<Input, SourceError> {
    let timeout_s = options.timeout_s.clamp(0.01, 1e6);
    let fifo = Fifo::open(path, Duration::from_secs_f64(timeout_s), stop).map_err(|error| {
        let reason = match error.kind() {
            _ if stop.is_raised() => "stopped while opening".to_owned(),
            ErrorKind::TimedOut => {
                format!(
                    "nothing was written into this named pipe within {timeout_s} s: start its writer first"
                )
            }
            ErrorKind::UnexpectedEof => "the named pipe was closed without a byte in it".to_owned(),
            _ => error.to_string(),
        };
        cannot_open(uri, reason)
    })?;
    let flag = stop.clone();
    StreamIo::from_read(fifo)
        .and_then(|io| format::input_from_stream_with_interrupt(io, None, None, move || flag.is_raised()))
        .map_err(|error| cannot_open(uri, reason(error, uri, path, stop)))
}

/// Opens a capture device of the kernel (Video4Linux).
fn capture(uri: &str) -> Result<Input, SourceError> {
    check_file(uri, Path::new(uri))?;
    init_ffmpeg().map_err(|error| cannot_open(uri, format!("FFmpeg does not start: {error}")))?;
    device::register_all();
    let format = device::input::video().find(|format| format.name().contains("v4l2"));
    let format = format.ok_or_else(|| cannot_open(uri, "this FFmpeg reads no capture devices (v4l2)"))?;
    match format::open_with(uri, &format, Dictionary::new()) {
        Ok(format::Context::Input(input)) => Ok(input),
        Ok(format::Context::Output(_)) => Err(cannot_open(uri, "it is an output device")),
        Err(error) => Err(cannot_open(
            uri,
            format!("{error}: is it a camera, and not in use by another program?"),
        )),
    }
}

/// Timeouts in microseconds, and RTSP over TCP: lost datagrams would damage pictures.
fn dictionary(uri: &str, options: SourceOptions) -> Dictionary<'static> {
    let mut dictionary = Dictionary::new();
    let timeout = format!("{:.0}", (options.timeout_s * 1e6).clamp(1e4, 1e12));
    dictionary.set("rw_timeout", &timeout);
    match scheme(uri) {
        Some("rtsp" | "rtsps") => {
            dictionary.set("rtsp_transport", "tcp");
            dictionary.set("timeout", &timeout);
        }
        Some("http" | "https" | "tcp" | "udp") => dictionary.set("timeout", &timeout),
        _ => {}
    }
    dictionary
}

/// Checks a file before FFmpeg opens it.
fn check_file(uri: &str, path: &Path) -> Result<(), SourceError> {
    if uri.starts_with("pipe:") || uri == "-" {
        return Ok(());
    }
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && uri.contains(':') => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(cannot_open(uri, "there is no such file: check the path"))
        }
        Err(error) => Err(cannot_open(uri, io_reason(&error))),
        Ok(found) if found.is_file() && found.len() == 0 => {
            Err(cannot_open(uri, "the file is empty: record or download it again"))
        }
        Ok(_) => Ok(()),
    }
}

fn reason(error: Error, uri: &str, path: &Path, stop: &StopFlag) -> String {
    if let Some(truncation) = container::truncation_by_signature(path) {
        return format!("the file was cut off ({truncation}): record or download it again");
    }
    match error {
        _ if stop.is_raised() => "stopped while opening".to_owned(),
        Error::InvalidData | Error::Eof if has_mp4_head(path) => {
            "the MP4 is cut off before its index: record or download it again".to_owned()
        }
        Error::InvalidData | Error::Eof => {
            "FFmpeg finds no video in it: check that it is a video file, for example with ffprobe".to_owned()
        }
        Error::ProtocolNotFound => {
            "FFmpeg does not know this kind of address: check its beginning".to_owned()
        }
        // The system's error as FFmpeg passes it on.
        Error::Other { errno } if !is_remote(uri) => io_reason(&std::io::Error::from_raw_os_error(errno)),
        other if is_remote(uri) => format!("{other}: check the address, the network and the credentials"),
        other => other.to_string(),
    }
}

/// Whether the file begins as MP4 and QuickTime do, though FFmpeg could not read it.
fn has_mp4_head(path: &Path) -> bool {
    let mut head = [0_u8; 8];
    // Opening a pipe would wait for a writer.
    if !path.is_file() {
        return false;
    }
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut head))
        .is_ok()
        && &head[4..] == b"ftyp"
}
