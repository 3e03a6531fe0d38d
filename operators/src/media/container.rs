//! Whether a file is as long as its container declares. Containers without a declared length, such as those of a
//! recorder that is still writing, are not judged.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// EBML elements read before a Matroska segment: its header, and padding.
const MAX_ELEMENTS: usize = 16;

const EBML_HEADER: u64 = 0x1A45_DFA3;
const EBML_SEGMENT: u64 = 0x1853_8067;

/// Packet sizes of transport streams, with the offset of the sync byte: plain, with a timestamp (M2TS), with error
/// correction.
const TS_PACKETS: [(u64, u64); 3] = [(188, 0), (192, 4), (204, 0)];
const TS_SYNC: u8 = 0x47;

/// Consecutive packets that must begin with the sync byte.
const TS_CHECKED_PACKETS: u64 = 5;

/// Describes the truncation of the file at `path`, which FFmpeg's demuxer `format` reads. `None` if the file
/// is complete, or if its completeness cannot be determined.
pub(super) fn truncation(path: &Path, format: &str) -> Option<String> {
    // Checked before it is opened, since opening a pipe would wait for a writer.
    let there = std::fs::metadata(path)
        .ok()
        .filter(std::fs::Metadata::is_file)?
        .len();
    let mut file = File::open(path).ok()?;
    if format.contains("mpegts") {
        return ends_in_packet(&mut file, there).then(|| "in the midst of a packet".to_owned());
    }
    let named = if format.contains("matroska") {
        matroska_end(&mut file)?
    } else if format == "avi" {
        riff_end(&mut file)?
    } else {
        return None;
    };
    (there < named).then(|| format!("{there} of its {named} bytes are there"))
}

/// As [`truncation`] for a file that no demuxer reads, where its first bytes identify the container.
pub(super) fn truncation_by_signature(path: &Path) -> Option<String> {
    truncation(path, "matroska").or_else(|| truncation(path, "avi"))
}

fn bytes<const N: usize>(file: &mut File, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    file.seek(SeekFrom::Start(at)).ok()?;
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// Declared end of the segment in bytes.
fn matroska_end(file: &mut File) -> Option<u64> {
    let mut at = 0;
    for element in 0..MAX_ELEMENTS {
        let (id, length) = number(file, at, true)?;
        if element == 0 && id != EBML_HEADER {
            return None;
        }
        at += length;
        let (size, length) = number(file, at, false)?;
        at += length;
        // All ones: unknown, as in a live stream.
        if size == (1 << (7 * length)) - 1 {
            return None;
        }
        at = at.checked_add(size)?;
        if id == EBML_SEGMENT {
            return Some(at);
        }
    }
    None
}

/// A number of variable length and its length in bytes; with the length bits if `marked`.
fn number(file: &mut File, at: u64, marked: bool) -> Option<(u64, u64)> {
    let [first] = bytes::<1>(file, at)?;
    let length = u64::from(first.leading_zeros()) + 1;
    if length > 8 {
        return None;
    }
    let mut value = u64::from(if marked {
        first
    } else {
        first & (0xFF_u16 >> length) as u8
    });
    for offset in 1..length {
        let [next] = bytes::<1>(file, at + offset)?;
        value = value << 8 | u64::from(next);
    }
    Some((value, length))
}

/// Declared end of the first RIFF chunk in bytes; 0 and all ones mean that the writer did not finish.
fn riff_end(file: &mut File) -> Option<u64> {
    let head: [u8; 8] = bytes(file, 0)?;
    let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    (head.starts_with(b"RIFF") && size != 0 && size != u32::MAX).then(|| u64::from(size) + 8)
}

/// Whether a transport stream ends within a packet.
fn ends_in_packet(file: &mut File, there: u64) -> bool {
    let mut synced = |at: u64| bytes::<1>(file, at) == Some([TS_SYNC]);
    let Some((size, sync)) = TS_PACKETS.into_iter().find(|(size, sync)| {
        there >= size * TS_CHECKED_PACKETS
            && (0..TS_CHECKED_PACKETS).all(|packet| synced(packet * size + sync))
    }) else {
        return false;
    };
    let torn = there % size;
    // If packets were lost in between, the grid has shifted and nothing can be concluded.
    torn > sync && synced(there - torn + sync) && synced(there - torn - size + sync)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &[u8], format: &str, expected: Option<&str>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        assert_eq!(truncation(file.path(), format).as_deref(), expected, "{format}");
    }

    #[test]
    fn a_segment_longer_than_its_file_is_truncated() {
        let head = [0x1A, 0x45, 0xDF, 0xA3, 0x82, 1, 2, 0x18, 0x53, 0x80, 0x67];
        let with = |size: &[u8], content: usize| [&head, size, &vec![0; content]].concat();
        let names = "matroska,webm";
        check(&with(&[0x8A], 10), names, None);
        check(&with(&[0x8A], 9), names, Some("21 of its 22 bytes are there"));
        check(
            &with(&[0x40, 0x0A], 3),
            names,
            Some("16 of its 23 bytes are there"),
        );
        // Live: the size is not known.
        check(&with(&[0xFF], 3), names, None);
        check(&with(&[0x01, 255, 255, 255, 255, 255, 255, 255], 3), names, None);
        check(&head[..9], names, None);
        check(&[0; 40], names, None);
        check(&with(&[0x8A], 9)[7..], names, None);
        check(&with(&[0x8A], 9), "mov,mp4", None);
    }

    #[test]
    fn a_transport_stream_ends_with_a_whole_packet() {
        for (size, sync) in TS_PACKETS {
            let mut packet = vec![0; size as usize];
            packet[sync as usize] = TS_SYNC;
            let stream = packet.repeat(8);
            check(&stream, "mpegts", None);
            check(
                &stream[..stream.len() - 60],
                "mpegts",
                Some("in the midst of a packet"),
            );
            // Something was lost before: the grid is another one.
            let lost = [&stream[..size as usize * 6], &stream[size as usize * 6 + 31..]].concat();
            check(&lost, "mpegts", None);
        }
        check(b"G", "mpegts", None);
    }

    #[test]
    fn a_riff_longer_than_its_file_is_truncated() {
        check(b"RIFF\x04\0\0\0AVI ", "avi", None);
        check(b"RIFF\x09\0\0\0AVI ", "avi", Some("12 of its 17 bytes are there"));
        check(b"RIFF\0\0\0\0AVI ", "avi", None);
        check(b"RIFF\xFF\xFF\xFF\xFFAVI ", "avi", None);
    }
}
