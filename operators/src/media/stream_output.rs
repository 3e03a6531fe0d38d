//! Packets to a media server, by the muxers and protocols of FFmpeg: RTSP, RTMP, SRT. Each call has a deadline.
#![expect(
    unsafe_code,
    reason = "an output gets the callback that interrupts it before its address is opened, for which FFmpeg's wrapper has nothing"
)]

use std::ffi::CString;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ffmpeg_next::format::context::Output;
use ffmpeg_next::util::interrupt::{self, InterruptGuard};
use ffmpeg_next::{Codec, Dictionary, Error, Rational, ffi};
use weir_flow::{PacketFormat, SoundCodec, SourceLogin, StopFlag, mask_credentials};

use super::access::scheme;
use super::open::remedy;
use super::packet_clock::{PacketClock, TICKS};
use super::{init_ffmpeg, log, packet_file, parameter_sets, userinfo};

/// Schemes of servers that streams are sent to, each with the muxer of FFmpeg.
const MUXERS: [(&str, &str); 4] = [
    ("rtsp", "rtsp"),
    ("rtmp", "flv"),
    ("rtmps", "flv"),
    ("srt", "mpegts"),
];

/// Longest wait for the server to take the end of a stream.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// True if streams are sent to addresses of this scheme.
pub(crate) fn is_output_address(address: &str) -> bool {
    scheme(address).is_some_and(|scheme| MUXERS.iter().any(|(known, _)| *known == scheme))
}

/// The address with the name of a stream in the place of `{stream}`, percent-encoded.
pub(crate) fn address_of(address: &str, stream: &str) -> String {
    address.replace("{stream}", &userinfo::encoded(stream))
}

/// Deadline of the call of FFmpeg that runs.
#[derive(Debug)]
struct Deadline {
    at: Mutex<Option<Instant>>,
    stop: StopFlag,
}

impl Deadline {
    #[expect(
        clippy::disallowed_methods,
        reason = "the silence of a server is measured, whatever the engine's clock is"
    )]
    fn set(&self, wait: Duration) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now().checked_add(wait);
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the silence of a server is measured, whatever the engine's clock is"
    )]
    fn is_over(&self) -> bool {
        let at = *self.at.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.is_raised() || at.is_some_and(|at| Instant::now() >= at)
    }
}

/// A stream that is being sent.
pub(crate) struct StreamOutput {
    output: Output,
    clock: PacketClock,
    deadline: Arc<Deadline>,
    timeout: Duration,
    /// Dropped after the output, which calls it.
    _interrupt: InterruptGuard,
}

impl StreamOutput {
    /// Connects to the server and announces a stream that begins with the packet `first`. Raising `stop` interrupts this and all
    /// later calls.
    ///
    /// # Errors
    /// The reason in one sentence, without secrets.
    pub(crate) fn open(
        address: &str,
        login: Option<&SourceLogin>,
        format: &PacketFormat,
        first: &weir_flow::Packet,
        timeout: Duration,
        stop: &StopFlag,
    ) -> Result<Self, String> {
        init_ffmpeg().map_err(|error| format!("FFmpeg does not start: {error}"))?;
        let scheme = scheme(address).unwrap_or_default();
        let muxer = MUXERS.iter().find(|(known, _)| *known == scheme);
        let (_, muxer) = muxer.ok_or_else(|| format!("streams are not sent to `{scheme}` addresses"))?;
        let address = userinfo::with_login(address, login)?;
        // The announcement has the parameter sets, which some cameras send with key frames only.
        let from_key_frame = format
            .extradata
            .is_empty()
            .then(|| parameter_sets::new_format(format, &first.data))
            .flatten();
        let format = from_key_frame.as_ref().unwrap_or(format);
        let deadline = Arc::new(Deadline {
            at: Mutex::default(),
            stop: stop.clone(),
        });
        deadline.set(timeout);
        let (opened, said) = log::with_last_error(|| begin(&address, muxer, format, &deadline));
        let (interrupt, output) = opened.map_err(|error| reason(error, said, &scheme, &deadline))?;
        Ok(Self {
            clock: PacketClock::new(&output),
            output,
            deadline,
            timeout,
            _interrupt: interrupt,
        })
    }

    /// Sends a packet; the first has to be a key frame. Sound before it is left out, as is all sound that the server does not take.
    ///
    /// # Errors
    /// The reason; the connection is of no further use.
    pub(crate) fn write(&mut self, packet: &weir_flow::Packet) -> Result<(), String> {
        self.deadline.set(self.timeout);
        let Some(stamped) = self.clock.stamp(packet) else {
            return Ok(());
        };
        // Packets come in the order of time.
        let (written, said) = log::with_last_error(|| stamped.write(&mut self.output));
        written
            .map(drop)
            .map_err(|error| reason(error, said, "", &self.deadline))
    }
}

impl Drop for StreamOutput {
    fn drop(&mut self) {
        // Also after an error: the muxer closes its connections here.
        self.deadline.set(END_TIMEOUT);
        let _ = self.output.write_trailer();
    }
}

/// Opens an output with a stream of pictures, and one of sound where there is sound that the muxer takes, up to its header.
fn begin(
    address: &str,
    muxer: &str,
    format: &PacketFormat,
    deadline: &Arc<Deadline>,
) -> Result<(InterruptGuard, Output), Error> {
    // The guard is dropped after the output, which calls it.
    let (interrupt, mut output) = connect(address, muxer, deadline)?;
    let parameters = packet_file::parameters(format, None).ok_or(Error::InvalidData)?;
    let mut stream = output.add_stream(None::<Codec>)?;
    stream.set_parameters(parameters);
    stream.set_time_base(Rational::new(1, TICKS));
    // RTMP has no Opus.
    let sound = format.sound.as_ref();
    if let Some(sound) = sound.filter(|sound| muxer != "flv" || sound.codec == SoundCodec::Aac) {
        packet_file::add_sound(&mut output, sound)?;
    }
    let mut options = Dictionary::new();
    match muxer {
        "rtsp" => options.set("rtsp_transport", "tcp"),
        "flv" => options.set("flvflags", "no_duration_filesize"),
        _ => {}
    }
    output.write_header_with(options).map(drop)?;
    Ok((interrupt, output))
}

/// Allocates an output, and connects to its address unless the muxer does that itself.
fn connect(address: &str, muxer: &str, deadline: &Arc<Deadline>) -> Result<(InterruptGuard, Output), Error> {
    let text = |text: &str| {
        CString::new(text).map_err(|_| Error::Other {
            errno: ffmpeg_next::error::EINVAL,
        })
    };
    let (url, muxer) = (text(address)?, text(muxer)?);
    let mut options = Dictionary::new();
    // Of RTMPS; others ignore it.
    options.set("tls_verify", "1");
    let polled = Arc::clone(deadline);
    let interrupt = interrupt::new(Box::new(move || polled.is_over()));
    // SAFETY: the texts outlive the calls that read them. The context is this function's own until it is wrapped, and its wrapper
    // frees it. The callback lives as long as the guard, which is returned beside the output and dropped after it.
    unsafe {
        let mut context = ptr::null_mut();
        let made = ffi::avformat_alloc_output_context2(
            &raw mut context,
            ptr::null_mut(),
            muxer.as_ptr(),
            url.as_ptr(),
        );
        if made < 0 || context.is_null() {
            return Err(Error::MuxerNotFound);
        }
        (*context).interrupt_callback = interrupt.interrupt;
        let mut opened = 0;
        if (*(*context).oformat).flags & ffi::AVFMT_NOFILE == 0 {
            let mut disowned = options.disown();
            opened = ffi::avio_open2(
                &raw mut (*context).pb,
                url.as_ptr(),
                ffi::AVIO_FLAG_WRITE,
                &raw const (*context).interrupt_callback,
                &raw mut disowned,
            );
            drop(Dictionary::own(disowned));
        }
        let output = Output::wrap(context);
        if opened < 0 {
            return Err(Error::from(opened));
        }
        Ok((interrupt.guard, output))
    }
}

/// Reason of a failed call, in words; `scheme` is empty once the stream is announced.
fn reason(error: Error, said: Option<String>, scheme: &str, deadline: &Deadline) -> String {
    if deadline.stop.is_raised() {
        return "stopped".to_owned();
    }
    let said = said.map_or_else(String::new, |said| format!(" ({})", mask_credentials(&said)));
    match error {
        Error::ProtocolNotFound | Error::MuxerNotFound => {
            format!(
                "this FFmpeg cannot send by {scheme}: install one that was built with it, or use another scheme"
            )
        }
        // FFmpeg before 6.1, with its own word for the muxer of RTMP.
        _ if said.contains("not compatible with flv") => format!(
            "this FFmpeg sends no H.265 by {scheme}{said}: send it by rtsp:// or srt://, set the camera to H.264, or install FFmpeg \
             6.1 or newer"
        ),
        Error::Exit if deadline.is_over() => {
            "the server does not answer: check the address and the network".to_owned()
        }
        Error::HttpUnauthorized | Error::HttpForbidden => {
            format!(
                "{error}{said}: it rejects this user and password: check both, and that the user may publish"
            )
        }
        Error::HttpNotFound | Error::HttpBadRequest => {
            format!("{error}{said}: check the path of the address, and that the server takes streams there")
        }
        other if scheme.is_empty() => format!("the connection broke off: {other}{said}"),
        other => format!("{other}{said}: {}", remedy(other, &said)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h265_by_an_rtmp_that_has_none_has_its_remedy() {
        let deadline = Deadline {
            at: Mutex::default(),
            stop: StopFlag::default(),
        };
        let error = Error::Other { errno: libc::ENOSYS };
        let said = "Video codec hevc not compatible with flv".to_owned();
        let found = reason(error, Some(said), "rtmp", &deadline);
        assert!(
            found.contains("no H.265 by rtmp") && found.contains("rtsp://"),
            "{found}"
        );
        let other = reason(error, None, "rtmp", &deadline);
        assert!(other.contains("check the address"), "{other}");
    }

    #[test]
    fn streams_are_sent_to_servers_alone() {
        for address in [
            "rtsp://server/{stream}",
            "RTMPS://u:p@server/live",
            "srt://server:9000",
        ] {
            assert!(is_output_address(address), "{address}");
        }
        for address in [
            "rtsps://server/x",
            "http://server/x",
            "file:///x",
            "/x",
            "udp://server:1",
            "",
        ] {
            assert!(!is_output_address(address), "{address}");
        }
        let address = address_of("rtsp://server/{stream}?a={stream}", "north door/1");
        assert_eq!(address, "rtsp://server/north%20door%2F1?a=north%20door%2F1");
    }
}
