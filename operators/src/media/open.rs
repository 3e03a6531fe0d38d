//! Opening an address with FFmpeg, and the reason in one sentence if that fails.

use std::io::ErrorKind;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Once};
use std::time::Duration;

use ffmpeg_next::format::context::{Input, StreamIo};
use ffmpeg_next::util::log as ffmpeg_log;
use ffmpeg_next::{Dictionary, Error, device, format, media};
use rustix::fs::major;
use weir_files::io_reason;
use weir_flow::{Settings, SourceError, StopFlag, Transport, mask_credentials};

use super::access::{self, Access, is_remote, scheme};
use super::driver_thread::DriverThread;
use super::fifo::{Fifo, is_fifo};
use super::options::add_options;
use super::relay::{self, Relay, Trust};
use super::sound::Sound;
use super::{SourceOptions, cannot_open, container, ffi, guarded, log, userinfo};

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

/// Major number of the devices of Video4Linux.
const VIDEO4LINUX: u32 = 81;

/// Whether the input is a raw elementary stream.
pub(super) fn lacks_timestamps(input: &Input) -> bool {
    ELEMENTARY.contains(&input.format().name())
}

/// Whether timestamps come from the source's own clock. For the pictures of an mpjpeg web camera, FFmpeg counts them.
pub(super) fn has_own_clock(input: &Input) -> bool {
    !lacks_timestamps(input) && input.format().name() != "mpjpeg"
}

/// Whether it is a list of segments, of which each comes in one go.
pub(super) fn comes_in_segments(input: &Input) -> bool {
    let format = input.format();
    let mut names = format.name().split(',');
    names.any(|name| matches!(name, "hls" | "applehttp" | "dash"))
}

/// Initialises FFmpeg once, with its log: what matters of it is also reported as errors and counts.
pub(crate) fn init_ffmpeg() -> Result<(), Error> {
    static LOG: Once = Once::new();
    ffmpeg_next::init()?;
    LOG.call_once(|| {
        if !ffi::forward_log() {
            ffmpeg_log::set_level(ffmpeg_log::Level::Quiet);
        }
    });
    Ok(())
}

/// Whether frames arrive in real time: a capture device, or a stream without an end. A recording on a web server has an
/// end.
pub(super) fn is_live(uri: &str, input: &Input) -> bool {
    match scheme(uri).as_deref() {
        Some("http" | "https") => input.duration() <= 0,
        _ => is_capture(uri) || is_remote(uri),
    }
}

/// As [`is_live`] by the address alone; `None` if only the open stream tells.
pub(super) fn is_endless(uri: &str) -> Option<bool> {
    match scheme(uri).as_deref() {
        Some("http" | "https") => None,
        _ => Some(is_capture(uri) || is_remote(uri)),
    }
}

/// Whether the address is that of a capture device: `/dev/video0`, a link to it that stays the same over restarts
/// (`/dev/v4l/by-id/...`), or a name of its own that udev gives it.
pub(super) fn is_capture(uri: &str) -> bool {
    let names = ["/dev/video", "/dev/v4l/"];
    names.iter().any(|name| uri.starts_with(name))
        || uri.starts_with("/dev/") && is_video_device(Path::new(uri))
}

/// Whether a character device, or a link to one, belongs to Video4Linux.
fn is_video_device(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.file_type().is_char_device() && major(found.rdev()) == VIDEO4LINUX)
}

/// Opens `uri`, a capture device on the thread of its driver; raising `stop` interrupts this call and all later reads.
pub(super) fn open(
    driver: &DriverThread,
    uri: &str,
    options: &SourceOptions,
    stop: &StopFlag,
) -> Result<Input, SourceError> {
    if uri.contains('\0') {
        return Err(cannot_open(uri, "the name holds a NUL character"));
    }
    if is_capture(uri) {
        return capture(driver, uri, options, stop);
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
    let login = options.connection.login.as_ref();
    // FFmpeg would read a file name with a colon as an address.
    let address = if local && Path::new(name).exists() {
        format!("file:{name}")
    } else {
        let address = userinfo::with_login(uri, login).map_err(|reason| cannot_open(uri, reason))?;
        with_plain_zone(&weir_flow::with_small_scheme(&address))
    };
    let has_login = userinfo::of(&address).is_some();
    let wait = Duration::from_secs_f64(options.timeout_s.clamp(0.01, 1e6));
    let path = local.then(|| Path::new(name));
    check_trust(&address, options).map_err(|reason| cannot_open(uri, reason))?;
    let relay = relay::is_wanted(&address, options).then(|| Relay::start(&address, options, wait, stop));
    let relay = relay.transpose().map_err(|reason| cannot_open(uri, reason))?;
    let opened_address = relay.as_ref().map_or(&*address, Relay::address);
    let access = Access::new(opened_address, path, &options.connection.options, wait);
    let access = Arc::new(access.map_err(|reason| cannot_open(uri, reason))?);
    let transport = if relay.is_some() {
        Transport::Tcp
    } else {
        options.connection.transport
    };
    let dictionary = dictionary(uri, transport, options, &access);
    let (opened, said) = log::with_last_error(|| guarded::open(opened_address, dictionary, &access, stop));
    if let Err(error) = &opened
        && may_refuse_sound(*error, &address, options)
        && !stop.is_raised()
    {
        let mut silent = options.clone();
        silent.connection.sound = false;
        if let Ok(input) = open(driver, uri, &silent, stop) {
            tracing::warn!(
                "{}: it refuses its sound ({error}); it is used without",
                mask_credentials(uri)
            );
            return Ok(input);
        }
    }
    let opened = opened.map_err(|error| {
        let unknown = || match error {
            Error::HttpUnauthorized if relay.is_none() && has_login && access.is_session() => {
                relay::unknown_to_ffmpeg(uri, stop)
            }
            _ => None,
        };
        let of_relay = || relay.as_ref().and_then(Relay::reason);
        let no_video = || match error {
            Error::InvalidData | Error::Eof if !stop.is_raised() => access.content_problem(),
            _ => None,
        };
        let refusal = access
            .refusal()
            .or_else(of_relay)
            .or_else(unknown)
            .or_else(no_video);
        let reason = refusal.filter(|_| !stop.is_raised());
        cannot_open(
            uri,
            reason.unwrap_or_else(|| self::reason(error, said, &address, Path::new(name), stop)),
        )
    })?;
    // FFmpeg opens a playlist without a stream where it may open none of its parts.
    let lacks_pictures = opened.streams().best(media::Type::Video).is_none();
    match access.refusal() {
        Some(reason) if lacks_pictures => Err(cannot_open(uri, reason)),
        _ => Ok(opened),
    }
}

/// Whether a camera may have refused its track of sound alone: it answers, and refuses something.
fn may_refuse_sound(error: Error, address: &str, options: &SourceOptions) -> bool {
    let is_refusal = matches!(
        error,
        Error::HttpBadRequest
            | Error::HttpForbidden
            | Error::HttpNotFound
            | Error::HttpOther4xx
            | Error::HttpServerError
            | Error::InvalidData
    );
    let is_session = matches!(scheme(address).as_deref(), Some("rtsp" | "rtsps"));
    options.connection.sound && is_refusal && is_session
}

/// The address with a zone of IPv6 (`[fe80::1%25eth0]`, RFC 6874) as the system reads it, without its encoding.
fn with_plain_zone(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    let user = userinfo::of(address).map_or(0, |user| user.len() + 1);
    let (before, place) = rest.split_at(user);
    match place.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        Some((host, after)) => format!("{scheme}://{before}[{}]{after}", host.replacen("%25", "%", 1)),
        None => address.to_owned(),
    }
}

/// Checks the options that say which certificates are trusted.
///
/// # Errors
/// The reason, if they are of no use with `address`.
pub(super) fn check_trust(address: &str, options: &SourceOptions) -> Result<(), String> {
    let Some(scheme) = scheme(address).filter(|_| is_remote(address)) else {
        return Ok(());
    };
    Trust::of(&scheme, &options.connection.options).map(drop)
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

/// The sound of a source that is to have it; why it has none is logged.
pub(super) fn sound_of(input: &Input, uri: &str, options: &SourceOptions, is_live: bool) -> Option<Sound> {
    if !options.connection.sound {
        return None;
    }
    let shown = mask_credentials(uri);
    match Sound::of(input, is_live) {
        Ok(Some(sound)) => return Some(sound),
        Ok(None) => tracing::warn!("{shown}: `sound` is set, and the source sends no sound"),
        Err(reason) => tracing::warn!("{shown}: {reason}; it is used without sound"),
    }
    None
}

/// Why a source without a video stream is none.
pub(super) fn no_video_reason(uri: &str, input: &Input) -> String {
    if !is_remote(uri) {
        return "it holds no video stream: name a file that does".to_owned();
    }
    let kinds = [
        (media::Type::Audio, "sound"),
        (media::Type::Subtitle, "subtitles"),
    ];
    let has = |kind| input.streams().any(|stream| stream.parameters().medium() == kind);
    let sent = kinds.into_iter().find(|(kind, _)| has(*kind));
    match sent {
        Some((_, what)) => format!("it sends {what} but no pictures: check the path of the address"),
        None => "it sends no pictures: check the path of the address".to_owned(),
    }
}

/// Why reading broke off, in words.
pub(super) fn broken_reason(error: Error, options: &SourceOptions) -> String {
    match error {
        Error::Other {
            errno: ffmpeg_next::error::ETIMEDOUT,
        } => format!("no data arrived for {} s", options.timeout_s),
        other => other.to_string(),
    }
}

/// Opens a named pipe and waits for its writer.
fn pipe(uri: &str, path: &Path, options: &SourceOptions, stop: &StopFlag) -> Result<Input, SourceError> {
    let timeout_s = options.timeout_s.clamp(0.01, 1e6);
    let fifo = Fifo::open(path, Duration::from_secs_f64(timeout_s), stop).map_err(|error| {
        let reason = match error.kind() {
            _ if stop.is_raised() => "stopped while opening".to_owned(),
            ErrorKind::TimedOut => {
                format!(
                    "no data was written into this named pipe within {timeout_s} s: start its writer first"
                )
            }
            ErrorKind::UnexpectedEof => "the named pipe was closed before any data was written".to_owned(),
            _ => error.to_string(),
        };
        cannot_open(uri, reason)
    })?;
    let flag = stop.clone();
    let mut dictionary = Dictionary::new();
    dictionary.set("format_whitelist", &access::pipe_demuxers());
    StreamIo::from_read(fifo)
        .and_then(|io| {
            format::input_from_stream_with_interrupt(io, None, Some(dictionary), move || flag.is_raised())
        })
        .map_err(|error| cannot_open(uri, reason(error, None, uri, path, stop)))
}

/// Opens a capture device of the kernel (Video4Linux).
fn capture(
    driver: &DriverThread,
    uri: &str,
    options: &SourceOptions,
    stop: &StopFlag,
) -> Result<Input, SourceError> {
    check_file(uri, Path::new(uri))?;
    init_ffmpeg().map_err(|error| cannot_open(uri, format!("FFmpeg does not start: {error}")))?;
    let (address, options) = (uri.to_owned(), options.connection.options.clone());
    let mut device = Some(move || open_device(&address, &options));
    let opened = driver.start(stop, move || device.take().map(|open| open()));
    let opened = opened.map_err(|error| cannot_open(uri, error.to_string()))?;
    let opened = opened
        .next(stop)
        .ok_or_else(|| cannot_open(uri, "its driver does not answer"))?;
    opened.map_err(|reason| cannot_open(uri, reason))
}

/// Asks the driver of a device; may take as long as that wants.
fn open_device(uri: &str, options: &Settings) -> Result<Input, String> {
    device::register_all();
    let format = device::input::video().find(|format| format.name().contains("v4l2"));
    let format = format.ok_or("this FFmpeg reads no capture devices (v4l2)")?;
    let mut dictionary = Dictionary::new();
    add_options(options, &mut dictionary);
    match format::open_with(uri, &format, dictionary) {
        Ok(format::Context::Input(input)) => Ok(input),
        Ok(format::Context::Output(_)) => Err("it is an output device".to_owned()),
        Err(error) => Err(format!(
            "{error}: is it a camera, and not in use by another program?"
        )),
    }
}

/// Timeouts in microseconds, and how RTSP is sent.
fn dictionary(
    uri: &str,
    transport: Transport,
    options: &SourceOptions,
    access: &Access,
) -> Dictionary<'static> {
    let mut dictionary = Dictionary::new();
    let timeout = format!("{:.0}", (options.timeout_s * 1e6).clamp(1e4, 1e12));
    dictionary.set("rw_timeout", &timeout);
    match scheme(uri).as_deref() {
        Some("rtsp" | "rtsps") => {
            let transport = match transport {
                Transport::Tcp => "tcp",
                Transport::Udp => "udp",
            };
            dictionary.set("rtsp_transport", transport);
            dictionary.set("timeout", &timeout);
            // A camera that refuses its track of sound would refuse all.
            let wanted = if options.connection.sound {
                "video+audio"
            } else {
                "video"
            };
            dictionary.set("allowed_media_types", wanted);
        }
        Some("http" | "https" | "tcp" | "udp") => dictionary.set("timeout", &timeout),
        _ => {}
    }
    add_options(&options.connection.options, &mut dictionary);
    dictionary.set("protocol_whitelist", access.protocols);
    dictionary.set("format_whitelist", &access.demuxers);
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

/// Why it does not open, in one sentence; `said` is FFmpeg's own last word.
fn reason(error: Error, said: Option<String>, uri: &str, path: &Path, stop: &StopFlag) -> String {
    if let Some(truncation) = container::truncation_by_signature(path) {
        return format!("the file was cut off ({truncation}): record or download it again");
    }
    let is_on_no_list = said
        .as_ref()
        .is_some_and(|said| said.contains("not on whitelist"));
    let said = said.map_or_else(String::new, |said| format!(" ({said})"));
    match error {
        _ if stop.is_raised() => "stopped while opening".to_owned(),
        _ if is_on_no_list => format!(
            "its content is of a kind that is not opened {}, such as a text or a list of other addresses: check that it is a \
             video",
            if is_remote(uri) {
                "from such an address"
            } else {
                "from a file"
            }
        ),
        Error::Eof if is_remote(uri) => {
            format!("the connection ended before a picture came{said}: check the address")
        }
        Error::InvalidData if is_remote(uri) => {
            format!("FFmpeg finds no video in what it sends{said}: check the address")
        }
        Error::InvalidData | Error::Eof if has_mp4_head(path) => {
            "the MP4 is cut off before its index: record or download it again".to_owned()
        }
        Error::InvalidData | Error::Eof => {
            "FFmpeg finds no video in it: check that it is a video file, for example with ffprobe".to_owned()
        }
        Error::ProtocolNotFound => {
            "FFmpeg does not support this kind of address: check the part before ://".to_owned()
        }
        // The system's error as FFmpeg passes it on.
        Error::Other { errno } if !is_remote(uri) => io_reason(&std::io::Error::from_raw_os_error(errno)),
        Error::HttpUnauthorized if userinfo::of(uri).is_none() => format!(
            "{error}{said}: it asks for a user and a password: set `user` and `password_file`, or write them before its host, \
             as in {}://USER:PASSWORD@HOST",
            scheme(uri).unwrap_or_default()
        ),
        Error::HttpUnauthorized => format!("{error}{said}: it {REJECTS_LOGIN}"),
        Error::HttpForbidden => {
            format!("{error}{said}: check the permissions of this user in the settings of the camera")
        }
        Error::HttpNotFound => {
            format!("{error}{said}: there is no video at this path: check the path of the address")
        }
        other if is_remote(uri) => {
            format!("{other}{said}: {}", answer_remedy(other, &said))
        }
        other => other.to_string(),
    }
}

/// Reason of a server that answers a login with another challenge, after its name.
pub(super) const REJECTS_LOGIN: &str = "rejects this user and password: check both; within an address, characters such as `@` are \
                                        written as `%40`, while `user` and `password_file` take them as they are";

/// Remedy for an answer of a camera or server that is no success, else for an error of the connection.
fn answer_remedy(error: Error, said: &str) -> &'static str {
    // In the words of FFmpeg for RTSP and for HTTP.
    let has = |status: &str| {
        let words = ["failed: ", "HTTP error "];
        words.iter().any(|word| said.contains(&format!("{word}{status}")))
    };
    if has("461") || has("406") {
        "it does not send in this way: set `transport` of the source to the other one of \"tcp\" and \"udp\""
    } else if has("453") || has("503") {
        "it serves no more viewers now: end other connections to it, or take its smaller stream"
    } else {
        remedy(error, said)
    }
}

/// Remedy for an error of a connection.
pub(super) fn remedy(error: Error, said: &str) -> &'static str {
    if said.contains("resolve hostname") {
        return "no such host is known: check its name, and the name server of this machine";
    }
    match error {
        Error::Other {
            errno: libc::ECONNREFUSED,
        } => "nothing listens there: check the port, and that the camera is on",
        Error::Other {
            errno: libc::ENETUNREACH | libc::EHOSTUNREACH,
        } => "there is no way to this host: check the address and the network",
        Error::Other {
            errno: libc::ETIMEDOUT,
        } => "it does not answer: check the address and the network",
        _ => "check the address, the network and the credentials",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_addresses_are_decoded_and_nothing_else() {
        for (address, expected) in [
            (
                "rtsp://[fe80::1%25eth0]:554/a%25b",
                "rtsp://[fe80::1%eth0]:554/a%25b",
            ),
            ("rtsp://u:p%25[@[fe80::1%25eth0]", "rtsp://u:p%25[@[fe80::1%eth0]"),
            ("rtsp://u:%25@camera/[x%25y]", "rtsp://u:%25@camera/[x%25y]"),
            ("rtsp://[::1]/x", "rtsp://[::1]/x"),
            ("rtsp://[::1", "rtsp://[::1"),
            ("/videos/[a%25b].mp4", "/videos/[a%25b].mp4"),
        ] {
            assert_eq!(with_plain_zone(address), expected);
        }
    }

    #[test]
    fn capture_devices_are_known_by_all_their_names() {
        for name in [
            "/dev/video0",
            "/dev/v4l/by-id/usb-046d_0809_AFB7B98D-video-index0",
            "/dev/v4l/by-path/pci-0000:00:1d.0-usb-0:1.1:1.0-video-index0",
        ] {
            assert!(is_capture(name) && is_endless(name) == Some(true), "{name}");
            assert_eq!(local_path(name), None, "{name}");
        }
        for name in [
            "/dev/null",
            "/dev/none",
            "/videos/dev/video0",
            "rtsp://dev/v4l/by-id/x",
        ] {
            assert!(!is_capture(name), "{name}");
        }
    }

    #[test]
    fn answers_of_cameras_have_their_remedies() {
        let of = |said: &str| answer_remedy(Error::HttpOther4xx, said);
        for said in [
            " (method SETUP failed: 461 Unsupported Transport)",
            " (method SETUP failed: 406 TCP TRANSPORT IS NOT SUPPORTED)",
        ] {
            assert!(of(said).contains("`transport`"), "{said}");
        }
        for said in [
            " (method DESCRIBE failed: 453 Not Enough Bandwidth)",
            " (HTTP error 503 Service Unavailable)",
        ] {
            assert!(of(said).contains("viewers"), "{said}");
        }
        let other = " (Connection to tcp://10.0.0.7:503 failed: Connection timed out)";
        assert!(of(other).contains("credentials"));
    }

    #[test]
    fn each_error_of_a_connection_has_its_remedy() {
        let refused = Error::Other {
            errno: libc::ECONNREFUSED,
        };
        assert!(remedy(refused, "").contains("check the port"));
        let unknown = remedy(
            Error::Other { errno: libc::EIO },
            " (Failed to resolve hostname x)",
        );
        assert!(unknown.contains("check its name"));
        let unreachable = Error::Other {
            errno: libc::EHOSTUNREACH,
        };
        assert!(remedy(unreachable, "").contains("the network"));
    }

    #[test]
    fn reasons_of_connections_have_codes() {
        // FFmpeg has its texts from then on.
        init_ffmpeg().unwrap();
        let stop = StopFlag::default();
        let other = |errno: i32| Error::Other { errno };
        for (error, code) in [
            (Error::HttpUnauthorized, "login-rejected"),
            (Error::HttpForbidden, "forbidden"),
            (Error::HttpNotFound, "path-unknown"),
            (Error::Eof, "connection-ended"),
            (Error::InvalidData, "sends-no-video"),
            (other(libc::ECONNREFUSED), "refused"),
            (other(libc::EHOSTUNREACH), "unreachable"),
            (other(libc::ETIMEDOUT), "no-answer"),
        ] {
            let reason = reason(error, None, "rtsp://ada:s3cret@cam/1", Path::new("none"), &stop);
            let cause = weir_flow::Cause::of_source(&reason);
            assert_eq!(cause.map(|cause| cause.code), Some(code), "{reason}");
        }
    }
}
