//! Descriptions of sound as containers have them, made where a stream brings none.

/// Sampling rates by their index in a configuration of AAC (ISO/IEC 14496-3, 1.6.3.4).
const RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350,
];

/// Object type of AAC-LC.
const LOW_COMPLEXITY: u8 = 2;

/// Bytes of an ADTS header, and of its checksum, which may be absent.
const ADTS_HEADER: usize = 7;
const ADTS_CHECKSUM: usize = 2;

/// `AudioSpecificConfig` of AAC-LC; `None` for a rate or a number of channels that it has no code for.
pub(super) fn aac_config(rate: u32, channels: u16) -> Option<[u8; 2]> {
    let index = RATES.iter().position(|known| *known == rate)? as u8;
    let channels = match channels {
        1..=6 => channels as u8,
        8 => 7,
        _ => return None,
    };
    Some([LOW_COMPLEXITY << 3 | index >> 1, (index & 1) << 7 | channels << 3])
}

/// Whether a configuration is that of plain AAC-LC with frames of 1,024 samples.
pub(super) fn is_plain_aac(config: &[u8], rate: u32, channels: u16) -> bool {
    let plain = aac_config(rate, channels);
    // Extensions may follow.
    plain.is_some_and(|plain| config.starts_with(&plain))
}

/// The frame of AAC behind its ADTS header, if it has one.
pub(super) fn without_adts(data: &[u8]) -> &[u8] {
    let [0xff, second, ..] = data else {
        return data;
    };
    // Twelve bits of synchronisation and the layer, which is 0.
    if second & 0xf6 != 0xf0 {
        return data;
    }
    let has_checksum = second & 1 == 0;
    let header = ADTS_HEADER + if has_checksum { ADTS_CHECKSUM } else { 0 };
    data.get(header..).unwrap_or_default()
}

/// `OpusHead` (RFC 7845, 5.1) of at most two channels.
pub(super) fn opus_head(channels: u16) -> Vec<u8> {
    let mut head = b"OpusHead\x01".to_vec();
    head.push(channels.clamp(1, 2) as u8);
    // No samples to skip: packets of a camera do not begin with those of an encoder that starts.
    head.extend(0_u16.to_le_bytes());
    head.extend(48_000_u32.to_le_bytes());
    // No gain, and the mapping of one or two channels.
    head.extend([0, 0, 0]);
    head
}

/// Duration of a packet of Opus in milliseconds (RFC 6716, 3.1 and 3.2).
pub(super) fn opus_duration_ms(packet: &[u8]) -> Option<f64> {
    let first = *packet.first()?;
    let config = first >> 3;
    let frame_ms = match config {
        0..12 => [10.0, 20.0, 40.0, 60.0][usize::from(config & 3)],
        12..16 => [10.0, 20.0][usize::from(config & 1)],
        _ => [2.5, 5.0, 10.0, 20.0][usize::from(config & 3)],
    };
    let frames = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => packet.get(1)? & 0x3f,
    };
    let duration_ms = frame_ms * f64::from(frames);
    (0.1..=120.0).contains(&duration_ms).then_some(duration_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_those_of_the_standard() {
        assert_eq!(aac_config(44_100, 2), Some([0x12, 0x10]));
        assert_eq!(aac_config(8_000, 1), Some([0x15, 0x88]));
        assert_eq!(aac_config(16_000, 1), Some([0x14, 0x08]));
        assert_eq!(aac_config(6_000, 1), None);
        assert_eq!(aac_config(8_000, 0), None);
        assert!(is_plain_aac(&[0x12, 0x10, 0x56, 0xe5], 44_100, 2));
        assert!(!is_plain_aac(&[0x2b, 0x11], 44_100, 2));
    }

    #[test]
    fn headers_of_frames_are_taken_off() {
        assert_eq!(without_adts(&[0xff, 0xf1, 1, 2, 3, 4, 5, 9, 8]), [9, 8]);
        assert_eq!(without_adts(&[0xff, 0xf0, 1, 2, 3, 4, 5, 6, 7, 9]), [9]);
        assert_eq!(without_adts(&[0xff, 0xf1, 1]), [0; 0]);
        assert_eq!(without_adts(&[0x21, 0x10, 4]), [0x21, 0x10, 4]);
    }

    #[test]
    fn packets_of_opus_last_as_long_as_their_first_byte_says() {
        assert_eq!(opus_duration_ms(&[0xf8, 0xff, 0xfe]), Some(20.0));
        assert_eq!(opus_duration_ms(&[0x79]), Some(40.0));
        assert_eq!(opus_duration_ms(&[0x7b, 0x03]), Some(60.0));
        assert_eq!(opus_duration_ms(&[0x83, 0x80]), None);
        assert_eq!(opus_duration_ms(&[]), None);
        assert_eq!(opus_head(2).len(), 19);
    }
}
