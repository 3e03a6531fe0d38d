//! The sound of a source, beside its pictures: AAC and Opus as they came, other codecs as AAC.
//!
//! Players wait for a track that ends before the others, so the sound of a source has no gaps: pauses are filled with silence, from the
//! first picture to the last. Nothing is decoded, encoded or copied while no observer wants sound.

mod clock;
mod encoder;
mod format;

use std::sync::Arc;

use ffmpeg_next::format::context::Input;
use ffmpeg_next::{Packet, codec, media};
use weir_flow::{SoundCodec, SoundFormat};

use self::clock::SoundClock;
use self::encoder::{FRAME, SoundEncoder, silent_frame};
use super::ffi;
use super::packet_times::tick_ms;

/// Times in milliseconds that depend on the kind of source.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Greatest difference between sound and the pictures that arrive with it.
    max_skew_ms: f64,
    /// Time that pictures wait for sound before silence takes its place, at first and at most.
    patience_ms: f64,
    max_patience_ms: f64,
}

/// Of cameras that send by RTP, whose sound begins at zero whenever it begins, until RTCP says more.
const OF_RTP: Limits = Limits {
    max_skew_ms: 1_000.0,
    patience_ms: 1_000.0,
    max_patience_ms: 2_000.0,
};

/// Of other live streams, in containers with one time base.
const OF_LIVE: Limits = Limits {
    max_skew_ms: 3_000.0,
    patience_ms: 1_000.0,
    max_patience_ms: 4_000.0,
};

/// Of recordings, whose packets may be interleaved loosely.
const OF_RECORDING: Limits = Limits {
    max_skew_ms: 10_000.0,
    patience_ms: 5_000.0,
    max_patience_ms: 5_000.0,
};

/// Silence of 20 ms as a packet of Opus.
const OPUS_SILENCE: [u8; 3] = [0xf8, 0xff, 0xfe];
const OPUS_SILENCE_MS: f64 = 20.0;

/// Packets of silence that are added at a time, at most: longer gaps remain.
const MAX_SILENCE: usize = 2_000;

/// See the module.
pub(super) struct Sound {
    /// Index of its stream in the input.
    stream: usize,
    tick_ms: f64,
    clock: SoundClock,
    work: Work,
    patience_ms: f64,
    max_patience_ms: f64,
    /// Decoding time of the newest picture, in milliseconds.
    picture_ms: Option<f64>,
}

enum Work {
    Copy(Copied),
    Encode(Box<SoundEncoder>),
}

/// Sound that is copied.
struct Copied {
    format: SoundFormat,
    /// Duration of a packet in milliseconds, where it does not say it.
    frame_ms: f64,
    /// Data and duration of a packet of silence, if there is one that continues the sound.
    silence: Option<(Arc<[u8]>, f64)>,
    /// Time at which the sound so far ends, in milliseconds.
    end_ms: Option<f64>,
}

/// A piece of sound, with its time and its duration in milliseconds.
fn piece(data: impl Into<Arc<[u8]>>, at_ms: f64, duration_ms: f64) -> weir_flow::Packet {
    weir_flow::Packet {
        data: data.into(),
        pts_ms: at_ms,
        dts_ms: at_ms,
        duration_ms,
        key: false,
        sound: true,
        // The tap's own clock.
        time_ms: 0,
    }
}

impl Sound {
    /// The sound of an input; `None` if it has none.
    ///
    /// # Errors
    /// The reason why its sound cannot be used.
    pub(super) fn of(input: &Input, is_live: bool) -> Result<Option<Self>, String> {
        let Some(stream) = input.streams().best(media::Type::Audio) else {
            return Ok(None);
        };
        let parameters = stream.parameters().clone();
        let limits = match input.format().name() {
            "rtsp" | "rtp" | "sdp" => OF_RTP,
            _ if is_live => OF_LIVE,
            _ => OF_RECORDING,
        };
        Ok(Some(Self {
            stream: stream.index(),
            tick_ms: tick_ms(stream.time_base()),
            clock: SoundClock::new(limits.max_skew_ms),
            work: Work::of(parameters)?,
            patience_ms: limits.patience_ms,
            max_patience_ms: limits.max_patience_ms,
            picture_ms: None,
        }))
    }

    pub(super) fn format(&self) -> &SoundFormat {
        match &self.work {
            Work::Copy(copied) => &copied.format,
            Work::Encode(encoder) => encoder.format(),
        }
    }

    /// Whether a packet of the input is of its stream.
    pub(super) fn is_own(&self, packet: &Packet) -> bool {
        packet.stream() == self.stream
    }

    /// Nothing continues what was before: no observer wanted it.
    pub(super) fn pause(&mut self) {
        if self.picture_ms.take().is_none() && self.end_ms().is_none() {
            return;
        }
        match &mut self.work {
            Work::Copy(copied) => copied.end_ms = None,
            Work::Encode(encoder) => drop(encoder.end()),
        }
    }

    /// A picture was read: sound that is too late is silence.
    pub(super) fn on_picture(&mut self, dts_ms: f64) -> Vec<weir_flow::Packet> {
        self.picture_ms = Some(dts_ms);
        match &mut self.work {
            Work::Copy(copied) => copied.end_ms = copied.end_ms.or(Some(dts_ms)),
            Work::Encode(encoder) => encoder.begin(dts_ms),
        }
        self.fill_to(dts_ms - self.patience_ms)
    }

    /// The packets of sound that are ready with a packet of the stream. `offset_ms` is the correction of times of pictures.
    pub(super) fn on_packet(&mut self, packet: &Packet, offset_ms: f64) -> Vec<weir_flow::Packet> {
        let own = packet.pts().or_else(|| packet.dts());
        let own_ms = own.map(|ticks| ticks as f64 * self.tick_ms + offset_ms);
        let at_ms = match own_ms {
            Some(own_ms) => self.clock.time(own_ms, self.picture_ms),
            None => self.end_ms(),
        };
        let Some(at_ms) = at_ms else {
            return Vec::new();
        };
        if self
            .end_ms()
            .is_some_and(|end_ms| at_ms < end_ms - self.patience_ms / 2.0)
        {
            // It would have come in time with more patience.
            self.patience_ms = (self.patience_ms * 2.0).min(self.max_patience_ms);
        }
        match &mut self.work {
            Work::Copy(copied) => copied.add(packet, at_ms),
            Work::Encode(encoder) => encoder.add(packet, at_ms),
        }
    }

    /// All that is left: the sound is as long as the pictures, of which the last ends at `end_ms`.
    pub(super) fn end(&mut self, end_ms: f64) -> Vec<weir_flow::Packet> {
        let mut rest = self.fill_to(end_ms);
        if let Work::Encode(encoder) = &mut self.work {
            rest.extend(encoder.end());
        }
        self.pause();
        rest
    }

    fn end_ms(&self) -> Option<f64> {
        match &self.work {
            Work::Copy(copied) => copied.end_ms,
            Work::Encode(encoder) => encoder.end_ms(),
        }
    }

    fn fill_to(&mut self, ms: f64) -> Vec<weir_flow::Packet> {
        if self.end_ms().is_none_or(|end_ms| ms <= end_ms) {
            return Vec::new();
        }
        match &mut self.work {
            Work::Copy(copied) => copied.fill_to(ms),
            Work::Encode(encoder) => encoder.fill_to(ms),
        }
    }
}

impl Work {
    fn of(parameters: codec::Parameters) -> Result<Self, String> {
        let id = parameters.id();
        let extradata = ffi::extradata(&parameters);
        let is_copied = matches!(id, codec::Id::AAC | codec::Id::OPUS);
        if !is_copied {
            return Ok(Self::Encode(Box::new(SoundEncoder::new(parameters)?)));
        }
        let decoder =
            codec::Context::from_parameters(parameters).and_then(|context| context.decoder().audio());
        let decoder = decoder.map_err(|error| format!("its {} cannot be read: {error}", id.name()))?;
        let (rate, channels) = (decoder.rate(), decoder.channels().max(1));
        Ok(Self::Copy(match id {
            codec::Id::OPUS => Copied::opus(extradata, channels),
            _ => Copied::aac(extradata, (rate, channels), decoder.frame_size() as usize)?,
        }))
    }
}

impl Copied {
    fn opus(extradata: Vec<u8>, channels: u16) -> Self {
        let extradata = if extradata.len() >= 19 {
            extradata
        } else {
            format::opus_head(channels)
        };
        Self {
            format: SoundFormat {
                codec: SoundCodec::Opus,
                extradata: extradata.into(),
                rate: 48_000,
                channels,
            },
            frame_ms: OPUS_SILENCE_MS,
            silence: Some((OPUS_SILENCE.into(), OPUS_SILENCE_MS)),
            end_ms: None,
        }
    }

    fn aac(extradata: Vec<u8>, (rate, channels): (u32, u16), samples: usize) -> Result<Self, String> {
        // Without a configuration, that of the core: HE-AAC doubles its rate.
        let core = if samples == 2 * FRAME { rate / 2 } else { rate };
        let config = match extradata.is_empty() {
            false => Some(extradata),
            true => format::aac_config(core, channels).map(Vec::from),
        };
        let config = config.ok_or_else(|| format!("its AAC has {rate} Hz and {channels} channels"))?;
        let samples = if samples == 0 { FRAME } else { samples };
        let frame_ms = samples as f64 * 1_000.0 / f64::from(rate.max(1));
        let silence = (samples == FRAME && format::is_plain_aac(&config, rate, channels))
            .then(|| silent_frame(rate, channels))
            .flatten();
        Ok(Self {
            format: SoundFormat {
                codec: SoundCodec::Aac,
                extradata: config.into(),
                rate,
                channels,
            },
            frame_ms,
            silence: silence.map(|data| (data, frame_ms)),
            end_ms: None,
        })
    }

    /// Adds a packet that begins at `at_ms`, after silence where there is a gap before it. One whose time is over is left out.
    fn add(&mut self, packet: &Packet, at_ms: f64) -> Vec<weir_flow::Packet> {
        let data = packet.data().unwrap_or_default();
        let (data, duration_ms) = match self.format.codec {
            SoundCodec::Aac => (format::without_adts(data), self.frame_ms),
            SoundCodec::Opus => (data, format::opus_duration_ms(data).unwrap_or(self.frame_ms)),
        };
        let is_over = |end_ms: f64| at_ms + duration_ms / 2.0 <= end_ms;
        if data.is_empty() || self.end_ms.is_some_and(is_over) {
            return Vec::new();
        }
        let mut pieces = self.fill_to(at_ms);
        let at_ms = self.end_ms.map_or(at_ms, |end_ms| at_ms.max(end_ms));
        self.end_ms = Some(at_ms + duration_ms);
        pieces.push(piece(data, at_ms, duration_ms));
        pieces
    }

    /// Silence up to a time, in whole packets.
    fn fill_to(&mut self, ms: f64) -> Vec<weir_flow::Packet> {
        let (Some((silence, duration_ms)), Some(mut end_ms)) = (&self.silence, self.end_ms) else {
            return Vec::new();
        };
        let mut pieces = Vec::new();
        // A packet that begins a little early covers the rest.
        while ms - end_ms >= duration_ms * 0.9 && pieces.len() < MAX_SILENCE {
            pieces.push(piece(Arc::clone(silence), end_ms, *duration_ms));
            end_ms += duration_ms;
        }
        self.end_ms = Some(end_ms);
        pieces
    }
}

#[cfg(test)]
impl Sound {
    /// Sound of a live stream that is copied, with silence where it has gaps.
    pub(super) fn of_opus() -> Self {
        Self {
            stream: 1,
            tick_ms: 1.0,
            clock: SoundClock::new(OF_LIVE.max_skew_ms),
            work: Work::Copy(Copied::opus(Vec::new(), 1)),
            patience_ms: OF_LIVE.patience_ms,
            max_patience_ms: OF_LIVE.max_patience_ms,
            picture_ms: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(pts: i64) -> Packet {
        let mut packet = Packet::copy(&[0xf8, 1, 2, 3]);
        packet.set_pts(Some(pts));
        packet
    }

    /// Begin of each packet, and whether it is silence; there are no gaps between them.
    fn places(packets: &[weir_flow::Packet], end_ms: &mut f64) -> Vec<(f64, bool)> {
        let places = packets.iter().map(|packet| {
            assert!(packet.sound && !packet.key);
            assert!(
                (packet.pts_ms - *end_ms).abs() <= 20.0,
                "{} after {end_ms}",
                packet.pts_ms
            );
            *end_ms = packet.pts_ms + packet.duration_ms;
            (packet.pts_ms, *packet.data == OPUS_SILENCE)
        });
        places.collect()
    }

    #[test]
    fn sound_that_begins_late_and_stops_is_silence_there() {
        let (mut sound, mut end_ms, mut all) = (Sound::of_opus(), 0.0, Vec::new());
        for picture in 0..250_u32 {
            let at_ms = f64::from(picture) * 40.0;
            all.extend(places(&sound.on_picture(at_ms), &mut end_ms));
            if (2_000.0..5_000.0).contains(&at_ms) {
                for own in [0, 20] {
                    let ready = sound.on_packet(&packet(at_ms as i64 + own), 0.0);
                    all.extend(places(&ready, &mut end_ms));
                }
            }
        }
        all.extend(places(&sound.end(10_000.0), &mut end_ms));
        assert!((end_ms - 10_000.0).abs() <= 20.0, "{end_ms}");
        let heard: Vec<f64> = all
            .iter()
            .filter(|(_, silent)| !silent)
            .map(|(at_ms, _)| *at_ms)
            .collect();
        assert_eq!(heard.first(), Some(&2_000.0));
        assert_eq!(heard.last(), Some(&4_980.0));
        assert_eq!(heard.len(), 150);
    }

    #[test]
    fn sound_that_is_always_late_is_waited_for() {
        let (mut sound, mut heard) = (Sound::of_opus(), 0);
        for picture in 0..250_i64 {
            let at_ms = picture * 40;
            let mut ready = sound.on_picture(at_ms as f64);
            for own in [0, 20] {
                ready.extend(sound.on_packet(&packet(at_ms - 1_600 + own), 0.0));
            }
            if picture >= 100 {
                heard += ready.iter().filter(|packet| *packet.data != OPUS_SILENCE).count();
            }
        }
        assert!(heard >= 295, "{heard}");
    }

    #[test]
    fn nothing_of_before_a_pause_is_continued() {
        let mut sound = Sound::of_opus();
        sound.on_picture(0.0);
        sound.on_packet(&packet(0), 0.0);
        sound.pause();
        assert!(sound.on_picture(60_000.0).is_empty());
        let ready = sound.on_packet(&packet(60_000), 0.0);
        // The first one after a long pause has no witness.
        assert!(ready.is_empty());
        let ready = sound.on_packet(&packet(60_020), 0.0);
        assert_eq!(ready.last().map(|packet| packet.pts_ms), Some(60_020.0));
    }
}
