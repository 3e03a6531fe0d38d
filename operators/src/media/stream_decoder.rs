//! The decoder of a stream: on a device where there is one, and on the CPU after a device that keeps failing.
//!
//! ```text
//! on a device --key packet fails before its first picture, or MAX_FAILURES in a row--> on the CPU
//! ```

use ffmpeg_next::codec::threading;
use ffmpeg_next::{Dictionary, Discard, Error, Packet, Rational, codec, decoder, frame};
use weir_flow::VideoDecoder;

use super::SourceOptions;
use super::hardware::{self, Accelerator, warn_of_cpu};

/// Consecutive failures of a device after which the CPU decodes: a second of video.
const MAX_FAILURES: u32 = 25;

/// Decodes one stream.
pub(super) struct StreamDecoder {
    decoder: decoder::Video,
    device: Option<Device>,
    /// Whether pictures that the CPU decodes are counted.
    wants_device: bool,
    skip: Discard,
}

/// A device that decodes, and what is needed to continue without it.
struct Device {
    accelerator: Accelerator,
    parameters: codec::Parameters,
    options: SourceOptions,
    uri: String,
    gave_picture: bool,
    /// Failures since its last picture.
    failures: u32,
}

impl StreamDecoder {
    /// The decoder of a stream of `uri` with these parameters.
    ///
    /// # Errors
    /// FFmpeg's, of the decoder on the CPU.
    pub(super) fn open(
        parameters: codec::Parameters,
        uri: &str,
        options: &SourceOptions,
    ) -> Result<Self, Error> {
        let mut context = context(&parameters, options)?;
        let chosen = hardware::choose_device(&mut context, uri, options.decoder);
        let is_named = !matches!(options.decoder, VideoDecoder::Cpu | VideoDecoder::Auto);
        let on_cpu = |decoder| Self {
            decoder,
            device: None,
            wants_device: is_named,
            skip: Discard::Default,
        };
        let Some((accelerator, codec)) = chosen else {
            return Ok(on_cpu(context.decoder().video()?));
        };
        // Quick Sync would hold back four pictures.
        let mut own = Dictionary::new();
        if accelerator == Accelerator::Qsv {
            own.set("async_depth", "1");
        }
        let opened = context
            .decoder()
            .open_as_with(codec, own)
            .and_then(decoder::Opened::video);
        match opened {
            Ok(decoder) => Ok(Self {
                decoder,
                device: Some(Device {
                    accelerator,
                    parameters,
                    options: options.clone(),
                    uri: uri.to_owned(),
                    gave_picture: false,
                    failures: 0,
                }),
                wants_device: true,
                skip: Discard::Default,
            }),
            Err(error) => {
                warn_of_cpu(
                    uri,
                    &format!("its decoder on {} does not open: {error}", accelerator.name()),
                );
                open_on_cpu(&parameters, options).map(on_cpu)
            }
        }
    }

    /// The GPU whose memory its surfaces are in, where models can read them.
    pub(super) fn gpu(&self) -> Option<u32> {
        match self.device.as_ref()?.accelerator {
            Accelerator::Cuda(ordinal) => Some(ordinal),
            Accelerator::Qsv | Accelerator::Vaapi => None,
        }
    }

    /// Name of the device that decodes; `None` where the CPU does.
    pub(super) fn device_name(&self) -> Option<&'static str> {
        Some(self.device.as_ref()?.accelerator.name())
    }

    /// Whether a picture was decoded on the CPU although a device is to decode it.
    pub(super) fn misses_device(&self, picture: &frame::Video) -> bool {
        self.wants_device && !hardware::is_surface(picture)
    }

    /// Gives it a packet; one that makes it leave its device is decoded on the CPU.
    ///
    /// # Errors
    /// FFmpeg's.
    pub(super) fn send_packet(&mut self, packet: &Packet) -> Result<(), Error> {
        let sent = self.decoder.send_packet(packet);
        match sent {
            Err(error) if self.on_error(error, packet.is_key()) => self.decoder.send_packet(packet),
            _ => sent,
        }
    }

    /// The next picture.
    ///
    /// # Errors
    /// FFmpeg's.
    pub(super) fn receive_frame(&mut self, picture: &mut frame::Video) -> Result<(), Error> {
        let received = self.decoder.receive_frame(picture);
        match (received, &mut self.device) {
            (Ok(()), Some(device)) => {
                device.gave_picture = true;
                device.failures = 0;
            }
            (Err(error), _) => {
                self.on_error(error, false);
            }
            (Ok(()), None) => {}
        }
        received
    }

    /// Counts a failure of the device. Returns whether the CPU decodes from here on.
    fn on_error(&mut self, error: Error, is_key: bool) -> bool {
        let is_usual = matches!(
            error,
            Error::Eof
                | Error::Other {
                    errno: ffmpeg_next::error::EAGAIN
                }
        );
        let Some(device) = self.device.as_mut().filter(|_| !is_usual) else {
            return false;
        };
        device.failures += 1;
        let is_refused = is_key && !device.gave_picture;
        if !is_refused && device.failures < MAX_FAILURES {
            return false;
        }
        let Ok(mut decoder) = open_on_cpu(&device.parameters, &device.options) else {
            return false;
        };
        decoder.skip_frame(self.skip);
        let name = device.accelerator.name();
        let reason = if is_refused {
            format!("{name} does not decode it ({error})")
        } else {
            format!("{name} failed {} times in a row ({error})", device.failures)
        };
        warn_of_cpu(&device.uri, &reason);
        self.decoder = decoder;
        self.device = None;
        true
    }

    /// No more packets are sent.
    ///
    /// # Errors
    /// FFmpeg's, where this was said before.
    pub(super) fn send_eof(&mut self) -> Result<(), Error> {
        self.decoder.send_eof()
    }

    pub(super) fn flush(&mut self) {
        self.decoder.flush();
    }

    /// Frames that are not decoded.
    pub(super) fn skip_frame(&mut self, skip: Discard) {
        self.skip = skip;
        self.decoder.skip_frame(skip);
    }

    pub(super) fn id(&self) -> codec::Id {
        self.decoder.id()
    }

    /// Width and height in pixels; zero where no packet said it yet.
    pub(super) fn size(&self) -> (u32, u32) {
        (self.decoder.width(), self.decoder.height())
    }

    pub(super) fn aspect_ratio(&self) -> Rational {
        self.decoder.aspect_ratio()
    }

    pub(super) fn frame_rate(&self) -> Option<Rational> {
        self.decoder.frame_rate()
    }
}

fn context(parameters: &codec::Parameters, options: &SourceOptions) -> Result<codec::Context, Error> {
    let mut context = codec::Context::from_parameters(parameters.clone())?;
    // One thread means no thread besides the caller's, and no delay of frames.
    let kind = if options.threads > 1 {
        threading::Type::Frame
    } else {
        threading::Type::None
    };
    context.set_threading(threading::Config {
        kind,
        count: options.threads.max(1),
        ..threading::Config::default()
    });
    Ok(context)
}

fn open_on_cpu(parameters: &codec::Parameters, options: &SourceOptions) -> Result<decoder::Video, Error> {
    context(parameters, options)?.decoder().video()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ffmpeg_next::{format, media};

    use super::*;

    const CLIP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../videos/street-day.mp4");
    const PACKETS: usize = 100;

    /// Parameters and packets of the beginning of a clip that ships.
    fn clip() -> (codec::Parameters, Vec<Packet>) {
        super::super::init_ffmpeg().expect("FFmpeg starts");
        let mut input = format::input(&Path::new(CLIP)).expect("the clip opens");
        let stream = input.streams().best(media::Type::Video).expect("it has video");
        let (index, parameters) = (stream.index(), stream.parameters().clone());
        let packets = input.packets().filter(|(stream, _)| stream.index() == index);
        let packets = packets.map(|(_, packet)| packet).take(PACKETS).collect();
        (parameters, packets)
    }

    fn named(decoder: VideoDecoder) -> SourceOptions {
        SourceOptions {
            decoder,
            ..SourceOptions::default()
        }
    }

    /// A decoder on a device that refuses every packet: it is one of another codec.
    fn on_failing_device(parameters: &codec::Parameters, gave_picture: bool) -> StreamDecoder {
        let other = codec::decoder::find(codec::Id::PNG).expect("FFmpeg decodes PNG");
        let failing = codec::Context::new_with_codec(other)
            .decoder()
            .video()
            .expect("it opens");
        StreamDecoder {
            decoder: failing,
            device: Some(Device {
                accelerator: Accelerator::Vaapi,
                parameters: parameters.clone(),
                options: SourceOptions::default(),
                uri: "rtsp://camera/live".to_owned(),
                gave_picture,
                failures: 0,
            }),
            wants_device: true,
            skip: Discard::Default,
        }
    }

    /// Number of pictures of the packets, and of those that count as missing their device.
    fn decoded(decoder: &mut StreamDecoder, packets: &[Packet]) -> (usize, usize) {
        let (mut pictures, mut missing) = (0, 0);
        let mut receive = |decoder: &mut StreamDecoder| {
            let mut picture = frame::Video::empty();
            while decoder.receive_frame(&mut picture).is_ok() {
                pictures += 1;
                missing += usize::from(decoder.misses_device(&picture));
            }
        };
        for packet in packets {
            let _ = decoder.send_packet(packet);
            receive(decoder);
        }
        let _ = decoder.send_eof();
        receive(decoder);
        (pictures, missing)
    }

    #[test]
    fn a_stream_that_its_device_refuses_loses_no_picture() {
        let (parameters, packets) = clip();
        let mut decoder = on_failing_device(&parameters, false);
        assert_eq!(decoder.device_name(), Some("vaapi"));
        assert_eq!(decoded(&mut decoder, &packets), (PACKETS, PACKETS));
        assert_eq!(decoder.device_name(), None);
    }

    #[test]
    fn a_device_that_fails_in_the_middle_is_left_after_a_second() {
        let (parameters, packets) = clip();
        let mut decoder = on_failing_device(&parameters, true);
        for packet in &packets[1..MAX_FAILURES as usize] {
            decoder.send_packet(packet).expect_err("the device fails");
        }
        assert_eq!(decoder.device_name(), Some("vaapi"));
        // The last failure is that of a key packet, with which the CPU begins.
        assert_eq!(decoded(&mut decoder, &packets), (PACKETS, PACKETS));
        assert_eq!(decoder.device_name(), None);
    }

    #[test]
    fn without_a_device_the_cpu_decodes() {
        let (parameters, packets) = clip();
        // No machine has so many.
        for (decoder, missing) in [(VideoDecoder::Cpu, 0), (VideoDecoder::Cuda(4_000), PACKETS)] {
            let mut decoder =
                StreamDecoder::open(parameters.clone(), CLIP, &named(decoder)).expect("the CPU decodes it");
            assert_eq!(decoder.device_name(), None);
            assert_eq!(decoded(&mut decoder, &packets), (PACKETS, missing));
        }
    }

    #[test]
    fn auto_decodes_on_any_machine() {
        let (parameters, packets) = clip();
        let mut decoder =
            StreamDecoder::open(parameters, CLIP, &named(VideoDecoder::Auto)).expect("a decoder opens");
        let has_device = decoder.device_name().is_some();
        let (pictures, missing) = decoded(&mut decoder, &packets);
        assert_eq!(pictures, PACKETS);
        assert!(
            has_device || missing == 0,
            "{missing} pictures miss a device that nobody named"
        );
    }
}
