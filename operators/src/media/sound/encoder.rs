//! Sound of any codec that FFmpeg decodes, as AAC without gaps, by FFmpeg's own encoder.

use std::collections::VecDeque;
use std::sync::Arc;

use ffmpeg_next::codec::threading;
use ffmpeg_next::encoder::audio::Encoder;
use ffmpeg_next::format::Sample;
use ffmpeg_next::format::sample::Type;
use ffmpeg_next::{ChannelLayout, Error, Packet, Rational, codec, decoder, encoder, frame};
use weir_flow::{SoundCodec, SoundFormat};

use super::super::ffi;
use super::piece;

/// Samples of a frame of AAC.
pub(super) const FRAME: usize = 1_024;

/// Channels that are encoded; cameras have one or two.
const MAX_CHANNELS: u16 = 2;

/// Bits per second of one channel: of speech at up to 16 kHz, and of more.
const LOW_BIT_RATE: usize = 32_000;
const HIGH_BIT_RATE: usize = 64_000;

/// Deviation in milliseconds of a packet from where it is expected that is no gap.
const MAX_JITTER_MS: f64 = 60.0;

/// Longest gap that is filled with silence, in milliseconds; after a longer one, sound begins anew.
const MAX_FILL_MS: f64 = 20_000.0;

/// Encodes samples, one after the other.
struct AacEncoder {
    encoder: Encoder,
    rate: u32,
    /// Samples of each channel that do not fill a frame yet.
    waiting: Vec<VecDeque<f32>>,
    /// Samples that were encoded.
    sent: u64,
    /// Time of the first sample in milliseconds.
    origin_ms: f64,
}

impl AacEncoder {
    fn new(rate: u32, channels: u16, origin_ms: f64) -> Result<Self, Error> {
        let codec = encoder::find_by_name("aac").ok_or(Error::EncoderNotFound)?;
        let mut context = codec::Context::new_with_codec(codec);
        context.set_flags(codec::Flags::GLOBAL_HEADER);
        context.set_threading(threading::Config {
            kind: threading::Type::None,
            count: 1,
            ..Default::default()
        });
        let mut audio = context.encoder().audio()?;
        audio.set_rate(rate.cast_signed());
        audio.set_format(Sample::F32(Type::Planar));
        audio.set_channel_layout(ChannelLayout::default(i32::from(channels)));
        audio.set_time_base(Rational::new(1, rate.cast_signed()));
        let bit_rate = if rate <= 16_000 {
            LOW_BIT_RATE
        } else {
            HIGH_BIT_RATE
        };
        audio.set_bit_rate(bit_rate * usize::from(channels));
        Ok(Self {
            encoder: audio.open_as(codec)?,
            rate,
            waiting: vec![VecDeque::new(); usize::from(channels)],
            sent: 0,
            origin_ms,
        })
    }

    fn format(&self) -> SoundFormat {
        SoundFormat {
            codec: SoundCodec::Aac,
            extradata: ffi::extradata(&codec::Parameters::from(&self.encoder)).into(),
            rate: self.rate,
            channels: self.waiting.len() as u16,
        }
    }

    fn ms(&self, samples: f64) -> f64 {
        samples * 1_000.0 / f64::from(self.rate)
    }

    /// Time at which the samples so far end, in milliseconds.
    fn end_ms(&self) -> f64 {
        let waiting = self.waiting.first().map_or(0, VecDeque::len);
        self.origin_ms + self.ms(self.sent as f64 + waiting as f64)
    }

    fn add_silence(&mut self, ms: f64) {
        let samples = (ms.clamp(0.0, MAX_FILL_MS) * f64::from(self.rate) / 1_000.0).round() as usize;
        for channel in &mut self.waiting {
            channel.resize(channel.len() + samples, 0.0);
        }
    }

    /// Frames that are ready; with `is_end`, all that are left.
    fn take(&mut self, is_end: bool) -> Vec<weir_flow::Packet> {
        let mut encoded = Vec::new();
        while let Some(count) = self.waiting.first().map(VecDeque::len).filter(|count| *count > 0) {
            if count < FRAME && !is_end {
                break;
            }
            let layout = ChannelLayout::default(self.waiting.len() as i32);
            let mut frame = frame::Audio::new(Sample::F32(Type::Planar), FRAME, layout);
            frame.set_rate(self.rate);
            frame.set_pts(i64::try_from(self.sent).ok());
            for (index, waiting) in self.waiting.iter_mut().enumerate().take(frame.planes()) {
                waiting.resize(waiting.len().max(FRAME), 0.0);
                let samples = waiting.drain(..FRAME);
                let plane = frame.plane_mut::<f32>(index);
                plane
                    .iter_mut()
                    .zip(samples)
                    .for_each(|(to, sample)| *to = sample);
            }
            self.sent += FRAME as u64;
            if self.encoder.send_frame(&frame).is_err() {
                break;
            }
            self.receive(&mut encoded);
        }
        if is_end && self.encoder.send_eof().is_ok() {
            self.receive(&mut encoded);
        }
        encoded
    }

    fn receive(&mut self, encoded: &mut Vec<weir_flow::Packet>) {
        let mut packet = Packet::empty();
        while self.encoder.receive_packet(&mut packet).is_ok() {
            let data = packet.data().unwrap_or_default();
            let at_ms = self.origin_ms + self.ms(packet.pts().unwrap_or(0) as f64);
            if !data.is_empty() {
                encoded.push(piece(data, at_ms, self.ms(FRAME as f64)));
            }
            packet = Packet::empty();
        }
    }
}

/// A frame of silence, for a stream of AAC-LC of this rate and number of channels.
pub(super) fn silent_frame(rate: u32, channels: u16) -> Option<Arc<[u8]>> {
    let mut encoder = AacEncoder::new(rate, channels, 0.0).ok()?;
    let frame_ms = encoder.ms(FRAME as f64);
    encoder.add_silence(4.0 * frame_ms);
    // The first ones are those of an encoder that starts.
    let frames = encoder.take(true);
    frames.into_iter().nth(2).map(|frame| frame.data)
}

/// Decodes the packets of a stream, and encodes their sound as AAC.
pub(super) struct SoundEncoder {
    decoder: decoder::Audio,
    format: SoundFormat,
    /// `None` until there is sound.
    encoder: Option<AacEncoder>,
}

impl SoundEncoder {
    /// For a stream of these parameters.
    ///
    /// # Errors
    /// The reason why its sound cannot be turned into AAC.
    pub(super) fn new(parameters: codec::Parameters) -> Result<Self, String> {
        let name = parameters.id().name();
        let decoder =
            codec::Context::from_parameters(parameters).and_then(|context| context.decoder().audio());
        let decoder = decoder.map_err(|error| format!("its {name} cannot be decoded: {error}"))?;
        let (rate, channels) = (decoder.rate(), decoder.channels().clamp(1, MAX_CHANNELS));
        let encoder = AacEncoder::new(rate, channels, 0.0);
        let encoder =
            encoder.map_err(|error| format!("its {name} of {rate} Hz cannot be turned into AAC: {error}"))?;
        Ok(Self {
            decoder,
            format: encoder.format(),
            encoder: None,
        })
    }

    pub(super) fn format(&self) -> &SoundFormat {
        &self.format
    }

    /// Time at which the sound so far ends, in milliseconds; `None` before it begins.
    pub(super) fn end_ms(&self) -> Option<f64> {
        self.encoder.as_ref().map(AacEncoder::end_ms)
    }

    /// Begins at a time in milliseconds, unless it has begun.
    pub(super) fn begin(&mut self, at_ms: f64) {
        if self.encoder.is_none() {
            self.encoder = AacEncoder::new(self.format.rate, self.format.channels, at_ms).ok();
        }
    }

    /// Adds silence up to a time in milliseconds.
    pub(super) fn fill_to(&mut self, ms: f64) -> Vec<weir_flow::Packet> {
        let Some(encoder) = &mut self.encoder else {
            return Vec::new();
        };
        encoder.add_silence(ms - encoder.end_ms());
        encoder.take(false)
    }

    /// Adds the sound of a packet that begins at `at_ms`, and returns the frames that are ready.
    pub(super) fn add(&mut self, packet: &Packet, at_ms: f64) -> Vec<weir_flow::Packet> {
        self.begin(at_ms);
        let mut encoded = Vec::new();
        let gap_ms = |encoder: &AacEncoder| at_ms - encoder.end_ms();
        if self.encoder.as_ref().map_or(0.0, gap_ms) > MAX_FILL_MS {
            encoded = self.end();
            self.begin(at_ms);
        }
        let mut surplus = 0;
        if let Some(encoder) = &mut self.encoder {
            let gap_ms = gap_ms(encoder);
            if gap_ms > MAX_JITTER_MS {
                encoder.add_silence(gap_ms);
            } else if gap_ms < -MAX_JITTER_MS {
                // Its time is over: silence took its place.
                surplus = (-gap_ms * f64::from(encoder.rate) / 1_000.0) as usize;
            }
        }
        // What is damaged is left out.
        let _ = self.decoder.send_packet(packet);
        let mut frame = frame::Audio::empty();
        while self.decoder.receive_frame(&mut frame).is_ok() {
            let Some(encoder) = &mut self.encoder else { break };
            if frame.rate() == encoder.rate {
                append(&frame, &mut encoder.waiting, &mut surplus);
            }
            encoded.extend(encoder.take(false));
            frame = frame::Audio::empty();
        }
        encoded
    }

    /// Returns all that is left; what comes next begins anew.
    pub(super) fn end(&mut self) -> Vec<weir_flow::Packet> {
        self.decoder.flush();
        self.encoder
            .take()
            .map_or_else(Vec::new, |mut encoder| encoder.take(true))
    }
}

/// Appends the samples of a decoded frame to those of each channel, without the first `surplus` ones.
fn append(frame: &frame::Audio, channels: &mut [VecDeque<f32>], surplus: &mut usize) {
    let read: (usize, fn(&[u8]) -> f32) = match frame.format() {
        Sample::U8(_) => (1, |bytes| (f32::from(bytes[0]) - 128.0) / 128.0),
        Sample::I16(_) => (2, |bytes| {
            f32::from(i16::from_ne_bytes([bytes[0], bytes[1]])) / 32_768.0
        }),
        Sample::I32(_) => (4, |bytes| {
            i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as f32 / 2_147_483_648.0
        }),
        Sample::F32(_) => (4, |bytes| {
            f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        }),
        _ => return,
    };
    let (size, read) = read;
    let there = usize::from(frame.channels()).max(1);
    let skipped = (*surplus).min(frame.samples());
    *surplus -= skipped;
    for (index, channel) in channels.iter_mut().enumerate() {
        // One channel is heard on both sides.
        let index = index.min(there - 1);
        let (plane, first, step) = if frame.is_planar() {
            (index, 0, 1)
        } else {
            (0, index, there)
        };
        if plane >= frame.planes() {
            return;
        }
        let samples = frame.data(plane).chunks_exact(size).skip(first).step_by(step);
        let samples = samples.take(frame.samples()).skip(skipped);
        channel.extend(samples.map(|bytes| {
            let sample = read(bytes);
            if sample.is_finite() {
                sample.clamp(-1.0, 1.0)
            } else {
                0.0
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_silence_are_short_and_their_times_have_no_gaps() {
        super::super::super::init_ffmpeg().expect("FFmpeg starts");
        let silence = silent_frame(8_000, 1).expect("a frame");
        assert!((4..64).contains(&silence.len()), "{}", silence.len());
        let mut encoder = AacEncoder::new(8_000, 1, 1_000.0).expect("an encoder");
        encoder.add_silence(1_000.0);
        let mut frames = encoder.take(false);
        assert!((encoder.end_ms() - 2_000.0).abs() < 0.2);
        frames.extend(encoder.take(true));
        let times: Vec<f64> = frames.iter().map(|frame| frame.pts_ms).collect();
        assert_eq!(times[..3], [872.0, 1_000.0, 1_128.0]);
        assert!(
            times
                .windows(2)
                .all(|pair| (pair[1] - pair[0] - 128.0).abs() < 1e-6),
            "{times:?}"
        );
        assert!(*times.last().expect("frames") >= 1_872.0);
    }
}
