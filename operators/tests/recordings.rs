//! Recordings as they come: joined, cut off, damaged, turned, sampled, and through a pipe.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write;
use std::path::{Path, PathBuf};

use ffmpeg_next::{Dictionary, Rational, format};
use weir_flow::{Frame, Source, SourceCounts, SourceError, StopFlag};
use weir_operators::media::{Encoding, Rgb, SourceOptions, VideoCodec, VideoFile, source};
use weir_operators::pixels::Sampler;

use crate::common::shipped;

fn open_with(path: &Path, options: SourceOptions) -> Result<Box<dyn Source>, SourceError> {
    source(path.to_str().unwrap(), options).open(&StopFlag::default())
}

struct Read {
    frames: Vec<Frame>,
    error: String,
    counts: SourceCounts,
}

fn read_with(path: &Path, options: SourceOptions) -> Read {
    let mut source = open_with(path, options).unwrap();
    let (mut frames, mut error) = (Vec::new(), String::new());
    loop {
        match source.next() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => break,
            Err(broken) => {
                error = broken.to_string();
                break;
            }
        }
    }
    assert!(source.next().unwrap().is_none());
    Read {
        frames,
        error,
        counts: source.counts(),
    }
}

fn read(path: &Path) -> Read {
    read_with(path, SourceOptions::default())
}

/// The video stream of `from` in another container, its clock set forward by `offset_ms`.
fn remux(from: &Path, to: &Path, options: Dictionary<'_>, offset_ms: i64) {
    let mut input = format::input(from).unwrap();
    let stream = input.streams().best(ffmpeg_next::media::Type::Video).unwrap();
    let (number, parameters, ticks) = (stream.index(), stream.parameters(), stream.time_base());
    let mut output = format::output(to).unwrap();
    output
        .add_stream(parameters.id())
        .unwrap()
        .set_parameters(parameters);
    output.write_header_with(options).unwrap();
    let offset = Rational::new(1, 1000);
    for (_, mut packet) in input.packets() {
        if packet.stream() != number {
            continue;
        }
        let to = output.stream(0).unwrap().time_base();
        packet.rescale_ts(ticks, to);
        let ahead = offset_ms * i64::from(offset.numerator()) * i64::from(to.denominator())
            / (i64::from(offset.denominator()) * i64::from(to.numerator()));
        let moved = |stamp: Option<i64>| stamp.map(|stamp| stamp + ahead);
        let (pts, dts) = (moved(packet.pts()), moved(packet.dts()));
        packet.set_pts(pts);
        packet.set_dts(dts);
        packet.set_stream(0);
        packet.set_position(-1);
        packet.write_interleaved(&mut output).unwrap();
    }
    output.write_trailer().unwrap();
}

/// 300 frames, as a Matroska file or a transport stream.
pub(crate) fn shipped_as(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    remux(&shipped(), &path, Dictionary::new(), 0);
    path
}

/// The file without what is beyond `length` bytes.
fn cut(path: &Path, length: usize) -> PathBuf {
    let whole = std::fs::read(path).unwrap();
    let cut = path.with_file_name(format!("cut-{}", path.file_name().unwrap().to_str().unwrap()));
    std::fs::write(&cut, &whole[..length]).unwrap();
    cut
}

fn grows(frames: &[Frame], max_step_ms: f64) {
    for pair in frames.windows(2) {
        let step = pair[1].pts_ms - pair[0].pts_ms;
        assert!(
            step > 0.0 && step <= max_step_ms,
            "{:?} then {:?}",
            pair[0],
            pair[1]
        );
    }
}

#[test]
fn two_joined_recordings_have_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    let hour_ms = 3_600_000;
    let parts = [0, hour_ms, 10_000, -5_000].map(|offset_ms| {
        let path = folder.path().join(format!("{offset_ms}.ts"));
        remux(&shipped(), &path, Dictionary::new(), offset_ms);
        std::fs::read(path).unwrap()
    });
    let joined = folder.path().join("joined.ts");
    std::fs::write(&joined, parts.concat()).unwrap();
    let found = read(&joined);
    assert!(
        (1180..=1200).contains(&found.frames.len()),
        "{}",
        found.frames.len()
    );
    // An hour forward, an hour back, and 15 seconds and the length of the clip back.
    assert_eq!(found.counts.discontinuities, 3);
    grows(&found.frames, 2_000.0);
    let last = found.frames.last().unwrap().pts_ms;
    assert!((last - 1199.0 * 40.0).abs() < 3_000.0, "{last}");
}

#[test]
fn a_truncated_matroska_file_is_reported_and_a_live_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let whole = shipped_as(folder.path(), "whole.mkv");
    let found = read(&whole);
    assert_eq!((found.frames.len(), found.error.as_str()), (300, ""));
    let found = read(&cut(&whole, 600_000));
    assert!((100..300).contains(&found.frames.len()));
    let there = found.frames.len();
    for words in ["was cut off (600000 of its", &format!("holds {there} frames")] {
        assert!(found.error.contains(words), "{}", found.error);
    }
    let error = open_with(&cut(&whole, 300), SourceOptions::default())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("was cut off (300 of its"), "{error}");
    // As of a recorder that is still writing, or was killed: its size is not known.
    let live = folder.path().join("live.mkv");
    let mut options = Dictionary::new();
    options.set("live", "1");
    remux(&shipped(), &live, options, 0);
    assert_eq!(read(&live).error, "");
    let found = read(&cut(&live, 600_000));
    assert_eq!(found.error, "");
    assert!((100..300).contains(&found.frames.len()));
}

#[test]
fn a_truncated_transport_stream_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let whole = shipped_as(folder.path(), "whole.ts");
    assert_eq!(read(&whole).error, "");
    assert_eq!(read(&cut(&whole, 188 * 3000)).error, "");
    let found = read(&cut(&whole, 188 * 3000 + 90));
    assert!(
        found.error.contains("was cut off (in the midst of a packet)"),
        "{}",
        found.error
    );
    assert!((100..300).contains(&found.frames.len()));
}

#[test]
fn concealed_pictures_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let whole = read(&shipped());
    assert!(whole.frames.iter().all(|frame| !frame.concealed));
    assert_eq!(whole.counts, SourceCounts::default());
    for name in ["bad.mp4", "bad.mkv", "bad.ts"] {
        let path = shipped_as(folder.path(), name);
        let mut bytes = std::fs::read(&path).unwrap();
        // In pictures, not in the index.
        for part in 2..8 {
            let at = bytes.len() * part / 10;
            bytes[at..at + 12].iter_mut().for_each(|byte| *byte ^= 0x5A);
        }
        std::fs::write(&path, bytes).unwrap();
        let found = read(&path);
        let marked = found.frames.iter().filter(|frame| frame.concealed).count() as u64;
        assert!((3..=12).contains(&marked), "{name}: {marked}");
        assert_eq!(found.counts.concealed, marked, "{name}");
        assert!(found.counts.damaged <= 3, "{name}: {:?}", found.counts);
        assert!(
            (290..=300).contains(&found.frames.len()),
            "{name}: {}",
            found.frames.len()
        );
        grows(&found.frames, 400.0);
    }
}

/// A clip of `frames` pictures with a colour in each quarter: red, green over blue, white.
pub(crate) fn quarters(path: &Path, frames: u32) {
    let (width, height) = (96_usize, 64_usize);
    let colours = [[220, 20, 20], [20, 200, 20], [20, 20, 220], [240, 240, 240]];
    let samples: Vec<u8> = (0..width * height)
        .flat_map(|at| {
            let (x, y) = (at % width, at / width);
            colours[usize::from(x >= width / 2) + 2 * usize::from(y >= height / 2)]
        })
        .collect();
    let encoding = Encoding {
        codec: VideoCodec::H264,
        ..Encoding::live(18.0)
    };
    let mut video = VideoFile::create(path, (96, 64), encoding).unwrap();
    for index in 0..frames {
        let picture = Rgb {
            width: 96,
            height: 64,
            samples: &samples,
        };
        video.write(picture, f64::from(index) * 40.0).unwrap();
    }
    video.finish().unwrap();
}

/// Sets the display matrix of the first track.
pub(crate) fn turn(path: &Path, [a, b, c, d]: [i32; 4]) {
    let mut bytes = std::fs::read(path).unwrap();
    let track = bytes.windows(4).position(|name| name == b"tkhd").unwrap();
    let matrix = [a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30];
    for (at, number) in (track + 44..).step_by(4).zip(matrix) {
        bytes[at..at + 4].copy_from_slice(&i32::to_be_bytes(number));
    }
    std::fs::write(path, bytes).unwrap();
}

/// Colours of the four corners, row by row: `R`, `G`, `B`, `W` for white, or `?`.
fn corners(frame: &Frame) -> String {
    let image = &frame.image;
    let mut samples = Vec::new();
    Sampler::new().rgb(image, &mut samples);
    let (width, height) = (image.width as usize, image.height as usize);
    let corner = |x: usize, y: usize| {
        let at = (y * width + x) * 3;
        match [samples[at] > 128, samples[at + 1] > 128, samples[at + 2] > 128] {
            [true, false, false] => 'R',
            [false, true, false] => 'G',
            [false, false, true] => 'B',
            [true, true, true] => 'W',
            _ => '?',
        }
    };
    let (x, y) = (width - 8, height - 8);
    [corner(8, 8), corner(x, 8), corner(8, y), corner(x, y)]
        .iter()
        .collect()
}

#[test]
fn phone_videos_are_rotated_by_their_orientation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("phone.mp4");
    quarters(&path, 3);
    for (matrix, size, expected) in [
        ([1, 0, 0, 1], (96, 64), "RGBW"),
        ([0, 1, -1, 0], (64, 96), "BRWG"),
        ([-1, 0, 0, -1], (96, 64), "WBGR"),
        ([0, -1, 1, 0], (64, 96), "GWRB"),
        ([-1, 0, 0, 1], (96, 64), "GRWB"),
    ] {
        turn(&path, matrix);
        let info = open_with(&path, SourceOptions::default()).unwrap().info();
        assert_eq!((info.width, info.height), size);
        let found = read(&path);
        assert_eq!(found.frames.len(), 3);
        for frame in &found.frames {
            assert_eq!((frame.image.width, frame.image.height), size);
            assert_eq!(corners(frame), expected, "{matrix:?}");
        }
    }
}

fn image(path: &Path, width: u32) {
    image::RgbImage::new(width, 4).save(path).unwrap();
}

#[test]
fn an_unreadable_image_keeps_its_number_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..20 {
        let path = folder.path().join(format!("{index:02}.png"));
        if index % 3 == 1 && index < 6 {
            std::fs::write(path, b"no image").unwrap();
        } else {
            image(&path, 4 + index);
        }
    }
    let found = read(folder.path());
    let numbers: Vec<u64> = found.frames.iter().map(|frame| frame.index).collect();
    let expected: Vec<u64> = (0..20).filter(|index| ![1, 4].contains(index)).collect();
    assert_eq!(numbers, expected);
    for frame in &found.frames {
        assert_eq!(frame.pts_ms, frame.index as f64 * 40.0);
        assert_eq!(
            frame.file.as_deref(),
            Some(format!("{:02}.png", frame.index).as_str())
        );
        assert_eq!(u64::from(frame.image.width), 4 + frame.index);
    }
    assert_eq!((found.counts.unreadable, found.counts.damaged), (2, 0));
    for words in ["2 of 20 images cannot be read: 01.png (", "), 04.png ("] {
        assert!(found.error.contains(words), "{}", found.error);
    }
    // Neither folders nor pipes are images; what a link to nothing was meant to be is one that is missing.
    std::fs::create_dir(folder.path().join("folder.png")).unwrap();
    std::os::unix::fs::symlink("nothing", folder.path().join("link.png")).unwrap();
    let found = read(folder.path());
    assert!(
        found.error.contains("3 of 21 images") && found.error.contains("link.png ("),
        "{}",
        found.error
    );
    std::fs::remove_file(folder.path().join("link.png")).unwrap();
    // No more are named than a line can hold.
    for index in 20..60 {
        std::fs::write(folder.path().join(format!("{index:02}.png")), b"no image").unwrap();
    }
    let found = read(folder.path());
    assert_eq!(found.counts.unreadable, 42);
    assert!(
        found.error.contains("42 of 60 images") && found.error.ends_with(" and 32 more"),
        "{}",
        found.error
    );
    assert!(found.error.len() < 2_000);
}

#[test]
fn photographs_are_rotated_by_their_orientation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photo.jpg");
    let colours = [[220, 20, 20], [20, 200, 20], [20, 20, 220], [240, 240, 240]];
    let photo = image::RgbImage::from_fn(96, 64, |x, y| {
        image::Rgb(colours[usize::from(x >= 48) + 2 * usize::from(y >= 32)])
    });
    photo.save(&path).unwrap();
    assert_eq!(corners(&read(&path).frames[0]), "RGBW");
    // The first tag of the first directory: orientation, a quarter to the right.
    let exif = b"\xFF\xE1\x00\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.splice(2..2, exif.iter().copied());
    std::fs::write(&path, bytes).unwrap();
    let info = open_with(&path, SourceOptions::default()).unwrap().info();
    assert_eq!((info.width, info.height), (64, 96));
    let found = read(&path);
    assert_eq!(
        (found.frames[0].image.width, found.frames[0].image.height),
        (64, 96)
    );
    assert_eq!(corners(&found.frames[0]), "BRWG");
}

#[test]
fn an_image_with_a_huge_declared_size_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png");
    image(&path, 4);
    // Width and height stand behind the signature, and the checksum behind them.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[16..24].copy_from_slice(&[0, 0, 0xEA, 0x60, 0, 0, 0xEA, 0x60]);
    let checksum = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    std::fs::write(&path, bytes).unwrap();
    let found = read(folder.path());
    assert!(found.frames.is_empty());
    assert!(
        found.error.contains("a.png (Memory limit exceeded"),
        "{}",
        found.error
    );
}

/// The checksum of PNG chunks.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn a_pipe_is_read_like_a_file_until_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // In time, where nobody writes.
    let options = SourceOptions {
        timeout_s: 0.1,
        ..SourceOptions::default()
    };
    let silent = open_with(&pipe, options.clone()).err().unwrap().to_string();
    assert!(
        silent.contains("no data was written into this named pipe within 0.1 s"),
        "{silent}"
    );
    let stop = StopFlag::default();
    stop.raise();
    let stopped = source(pipe.to_str().unwrap(), SourceOptions::default())
        .open(&stop)
        .err()
        .unwrap()
        .to_string();
    assert!(stopped.contains("stopped"), "{stopped}");
    // Nor where the writer has stopped: what a pipe holds at once is there, and it stays open.
    let matroska = std::fs::read(shipped_as(folder.path(), "whole.mkv")).unwrap();
    let mut writer = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&pipe)
        .unwrap();
    writer.write_all(&matroska[..60_000]).unwrap();
    let found = read_with(&pipe, options);
    drop(writer);
    assert!(
        found.error.contains("no data arrived for 0.1 s"),
        "{}",
        found.error
    );
    assert!(!found.frames.is_empty());
    // An index at the end cannot be read from a pipe.
    let (clip, to) = (folder.path().join("plain.mp4"), pipe.clone());
    remux(&shipped(), &clip, Dictionary::new(), 0);
    let writer = std::thread::spawn(move || {
        let _ = std::fs::write(to, std::fs::read(clip).unwrap());
    });
    let found = read_with(
        &pipe,
        SourceOptions {
            timeout_s: 600.0,
            ..SourceOptions::default()
        },
    );
    writer.join().unwrap();
    assert!(found.error.contains("its index is at its end"), "{}", found.error);
    // And where it is read, all comes through.
    let clip = folder.path().join("clip.mp4");
    quarters(&clip, 60);
    let (clip, to) = (std::fs::read(clip).unwrap(), pipe.clone());
    assert!(
        clip.len() < 60_000,
        "the writer is to be gone before the first picture is decoded"
    );
    let writer = std::thread::spawn(move || std::fs::write(to, clip).unwrap());
    let options = SourceOptions {
        timeout_s: 600.0,
        ..SourceOptions::default()
    };
    let found = read_with(&pipe, options);
    writer.join().unwrap();
    assert_eq!((found.frames.len(), found.error.as_str()), (60, ""));
    assert_eq!(found.counts, SourceCounts::default());
}
