//! The track of sound in fragments of MP4 (ISO/IEC 14496-12 and 14496-14; Opus as of its own specification for ISO BMFF).

use weir_flow::{SoundCodec, SoundFormat};

use super::fragments::{
    SOUND, UPRIGHT, add_box, add_full_box, add_media, add_numbers, add_u16, add_u32, add_zeros,
};

/// The `codecs` parameter of RFC 6381.
pub(super) fn codec(sound: &SoundFormat) -> String {
    match sound.codec {
        SoundCodec::Aac => {
            // The first five bits are the type of object; 2 is AAC-LC.
            let object = sound.extradata.first().map_or(2, |first| first >> 3);
            format!("mp4a.40.{object}")
        }
        SoundCodec::Opus => "opus".to_owned(),
    }
}

/// Adds the content of the box of the track.
pub(super) fn add_track(out: &mut Vec<u8>, sound: &SoundFormat) {
    // Enabled, and part of the presentation.
    add_full_box(out, b"tkhd", (0, 3), |out| {
        add_zeros(out, 8);
        add_u32(out, SOUND);
        add_zeros(out, 20);
        // Full volume.
        add_u16(out, 0x100);
        add_u16(out, 0);
        add_numbers(out, &UPRIGHT);
        add_zeros(out, 8);
    });
    let entry = match sound.codec {
        SoundCodec::Aac => b"mp4a",
        SoundCodec::Opus => b"Opus",
    };
    add_media(
        out,
        (sound.rate.max(1), b"soun", b"sound\0"),
        |out| add_full_box(out, b"smhd", (0, 0), |out| add_zeros(out, 4)),
        |out| add_box(out, entry, |out| add_description(out, sound)),
    );
}

fn add_description(out: &mut Vec<u8>, sound: &SoundFormat) {
    add_zeros(out, 6);
    add_u16(out, 1);
    add_zeros(out, 8);
    add_u16(out, sound.channels);
    // Bits of a sample.
    add_u16(out, 16);
    add_zeros(out, 4);
    // A fixed-point number; larger rates are in the configuration alone.
    add_u32(out, u32::from(u16::try_from(sound.rate).unwrap_or(0)) << 16);
    match sound.codec {
        SoundCodec::Aac => add_full_box(out, b"esds", (0, 0), |out| add_descriptors(out, &sound.extradata)),
        SoundCodec::Opus => add_box(out, b"dOps", |out| add_opus(out, sound)),
    }
}

/// Adds the descriptors of AAC (ISO/IEC 14496-1, 7.2.6), each with its tag and its length.
fn add_descriptors(out: &mut Vec<u8>, config: &[u8]) {
    // Lengths of one byte; a configuration has a few bytes.
    let config = &config[..config.len().min(64)];
    let length = config.len() as u8;
    // Number of the stream, and no flags.
    out.extend([0x03, 23 + length, 0, 0, 0]);
    // AAC, a stream of sound, and no statement of its buffer and its bit rates.
    out.extend([0x04, 15 + length, 0x40, 0x15]);
    add_zeros(out, 11);
    out.extend([0x05, length]);
    out.extend_from_slice(config);
    out.extend([0x06, 1, 2]);
}

/// Adds what `OpusHead` says, in the byte order of MP4.
fn add_opus(out: &mut Vec<u8>, sound: &SoundFormat) {
    let head = |at: usize| sound.extradata.get(at).copied().unwrap_or(0);
    out.extend([0, sound.channels as u8, head(11), head(10)]);
    out.extend([head(15), head(14), head(13), head(12)]);
    out.extend([head(17), head(16)]);
    // The mapping of one or two channels.
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_as_long_as_they_say() {
        let mut out = Vec::new();
        add_descriptors(&mut out, &[0x12, 0x10]);
        assert_eq!(usize::from(out[1]), out.len() - 2);
        assert_eq!(out[out.len() - 7..], [0x05, 2, 0x12, 0x10, 0x06, 1, 2]);
        let decoder = &out[5..];
        assert_eq!(
            (decoder[0], usize::from(decoder[1])),
            (0x04, decoder.len() - 2 - 3)
        );
    }

    #[test]
    fn codecs_have_the_names_of_browsers() {
        let sound = |codec, extradata: &[u8]| SoundFormat {
            codec,
            extradata: extradata.into(),
            rate: 48_000,
            channels: 2,
        };
        assert_eq!(codec(&sound(SoundCodec::Aac, &[0x12, 0x10])), "mp4a.40.2");
        assert_eq!(codec(&sound(SoundCodec::Aac, &[0x2b, 0x11])), "mp4a.40.5");
        let opus = sound(SoundCodec::Opus, b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0");
        assert_eq!(codec(&opus), "opus");
        let mut out = Vec::new();
        add_opus(&mut out, &opus);
        assert_eq!(out, [0, 2, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 0]);
    }
}
