//! Sources and sinks together: written files can be read again, and broken files are reported as errors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};

use weir_flow::{Frame, Rect, Source, SourceCounts, SourceError, StopFlag, VideoDecoder};
use weir_operators::media::{SourceOptions, source};
use weir_operators::sinks::sink;

use crate::common::{delivery, object, picture, settings};

/// Writes a video of frames of the given times and sizes.
fn write_mp4(path: &Path, frames: &[(f64, u32, u32)]) {
    let mut sink = sink("mp4", &settings(path)).unwrap().open().unwrap();
    for (index, &(pts_ms, width, height)) in (0..).zip(frames) {
        let objects = vec![object(0, "car", Rect::new(-5.0, 4.0, 40.0, 30.0), vec![])];
        sink.accept(&delivery(
            "north",
            index,
            pts_ms,
            picture(index, width, height),
            objects,
        ))
        .unwrap();
    }
    sink.finish().unwrap();
    sink.finish().unwrap();
}

fn uneven(count: u32) -> Vec<(f64, u32, u32)> {
    (0..count)
        .map(|index| (f64::from(index) * 40.0 + f64::from(index % 3) * 7.0, 162, 91))
        .collect()
}

fn open(path: &Path) -> Result<Box<dyn Source>, SourceError> {
    source(path.to_str().unwrap(), SourceOptions::default()).open(&StopFlag::default())
}

/// All frames, and the error at the end if there is one.
fn drain(source: &mut dyn Source) -> (Vec<Frame>, Option<SourceError>) {
    let mut frames = Vec::new();
    loop {
        match source.next() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error)),
        }
    }
}

fn refused(path: &Path, because: &str) {
    let error = open(path)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(
        error.contains(because),
        "{}: \"{error}\" does not say \"{because}\"",
        path.display()
    );
    assert!(!error.contains('\n'));
}

#[test]
fn a_video_of_uneven_times_is_read_back_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/out.mp4");
    let written = uneven(120);
    write_mp4(&path, &written);
    let mut source = open(&path).unwrap();
    let (frames, error) = drain(source.as_mut());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(frames.len(), written.len());
    for (frame, (pts_ms, ..)) in frames.iter().zip(&written) {
        assert!(
            (frame.pts_ms - pts_ms).abs() < 0.05,
            "{} is not {pts_ms}",
            frame.pts_ms
        );
        assert_eq!((frame.image.width, frame.image.height), (162, 90));
    }
    assert!(!folder.path().join("deep/out.mp4.part").exists());
    assert_eq!(source.counts().damaged, 0);
    assert_eq!(source.info().width, 162);
    assert!(!source.info().live);
}

/// If the GPU is absent or does not decode the codec, a source with a GPU as its decoder gives the same
/// frames as the CPU.
#[test]
fn a_source_for_a_gpu_that_is_not_there_is_decoded_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.mp4");
    write_mp4(&path, &uneven(40));
    let (expected, _) = drain(open(&path).unwrap().as_mut());
    let options = SourceOptions {
        // No machine has so many.
        decoder: VideoDecoder::Cuda(4_000),
        ..SourceOptions::default()
    };
    let mut source = source(path.to_str().unwrap(), options)
        .open(&StopFlag::default())
        .unwrap();
    let (frames, error) = drain(source.as_mut());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(frames.len(), expected.len());
    for (frame, expected) in frames.iter().zip(&expected) {
        assert!((frame.pts_ms - expected.pts_ms).abs() < 1e-9);
        assert!(frame.image.planes.on_device().is_none());
        for plane in 0..3 {
            assert_eq!(
                frame.image.planes.plane(plane),
                expected.image.planes.plane(plane)
            );
        }
    }
    let counts = source.counts();
    assert_eq!((counts.cpu_decoded, counts.damaged), (frames.len() as u64, 0));
}

#[test]
fn a_second_stream_gets_its_own_file_and_times_never_decrease() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.mp4");
    let mut sink = sink("mp4", &settings(&path)).unwrap().open().unwrap();
    for (index, pts_ms) in [(0, 0.0), (1, 40.0), (2, 30.0), (3, 80.0)] {
        for stream in ["north", "south"] {
            // The size changes midway: what comes later is scaled to the first.
            let side = if index < 2 { 64 } else { 100 };
            sink.accept(&delivery(stream, index, pts_ms, picture(index, side, 64), vec![]))
                .unwrap();
        }
    }
    sink.finish().unwrap();
    for name in ["out.mp4", "out-south.mp4"] {
        let (frames, error) = drain(open(&folder.path().join(name)).unwrap().as_mut());
        assert!(error.is_none());
        assert_eq!(frames.len(), 4);
        assert!(frames.windows(2).all(|pair| pair[0].pts_ms < pair[1].pts_ms));
        assert!(frames.iter().all(|frame| frame.image.width == 64));
    }
}

#[test]
fn a_raw_stream_has_its_declared_rate_and_may_change_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let mut raw = Vec::new();
    for (name, side) in [("small.mp4", 64), ("large.mp4", 96)] {
        let path = folder.path().join(name);
        write_mp4(
            &path,
            &(0..10)
                .map(|index| (f64::from(index) * 40.0, side, side))
                .collect::<Vec<_>>(),
        );
        raw.extend(elementary(&path, folder.path()));
    }
    let path = folder.path().join("both.h264");
    std::fs::write(&path, raw).unwrap();
    let options = SourceOptions {
        fps: Some(10.0),
        ..SourceOptions::default()
    };
    let mut source = source(path.to_str().unwrap(), options)
        .open(&StopFlag::default())
        .unwrap();
    let (frames, error) = drain(source.as_mut());
    assert!(error.is_none(), "{error:?}");
    let sizes: Vec<u32> = frames.iter().map(|frame| frame.image.width).collect();
    assert_eq!(sizes, [[64; 10], [96; 10]].concat());
    let times: Vec<f64> = frames.iter().map(|frame| frame.pts_ms).collect();
    let expected: Vec<f64> = (0..20).map(|index| f64::from(index) * 100.0).collect();
    assert_eq!(times, expected);
}

/// The H.264 stream of an MP4 file in Annex B form.
fn elementary(path: &Path, folder: &Path) -> Vec<u8> {
    let mut input = ffmpeg_next::format::input(path).unwrap();
    let parameters = input.streams().next().unwrap().parameters();
    let raw = folder.join("raw.h264");
    let mut output = ffmpeg_next::format::output_as(&raw, "h264").unwrap();
    output
        .add_stream(ffmpeg_next::codec::Id::H264)
        .unwrap()
        .set_parameters(parameters);
    output.write_header().unwrap();
    for (_, mut packet) in input.packets() {
        packet.set_stream(0);
        packet.write_interleaved(&mut output).unwrap();
    }
    output.write_trailer().unwrap();
    drop(output);
    std::fs::read(raw).unwrap()
}

#[test]
fn a_file_without_video_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    refused(&folder.path().join("missing.mp4"), "no such file");
    refused(
        &file("text.mp4", &b"this is no video, only words\n".repeat(50)),
        "no video in it",
    );
    refused(&file("empty.mp4", b""), "the file is empty");
    refused(&file("bad.jpg", b"nothing"), "not a JPEG or PNG");
    refused(
        &file("head.mp4", b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41"),
        "cut off before its index",
    );
    let images = folder.path().join("images");
    std::fs::create_dir(&images).unwrap();
    refused(&images, "holds no .jpg");
    refused(Path::new("/dev/video99"), "no such file");
    refused(Path::new("nonsense://camera"), "kind of address");
    let silent = b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\x08\0\0\0\0\0\0\0\0\0\0\0";
    refused(&file("sound.wav", silent), "no video stream");
}

#[test]
fn a_truncated_video_delivers_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.mp4");
    write_mp4(&path, &uneven(150));
    let whole = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.mp4");
    std::fs::write(&cut, &whole[..whole.len() * 2 / 3]).unwrap();
    let mut source = open(&cut).unwrap();
    let (frames, _) = drain(source.as_mut());
    assert!((50..150).contains(&frames.len()), "{} frames", frames.len());
    assert!(source.next().unwrap().is_none());
}

#[test]
fn a_truncated_indexed_video_reports_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let fragmented = folder.path().join("fragmented.mp4");
    write_mp4(&fragmented, &uneven(60));
    let path = folder.path().join("indexed.mp4");
    let mut input = ffmpeg_next::format::input(&fragmented).unwrap();
    let stream = input.streams().next().unwrap();
    let (parameters, ticks) = (stream.parameters(), stream.time_base());
    let mut output = ffmpeg_next::format::output(&path).unwrap();
    output
        .add_stream(ffmpeg_next::codec::Id::H264)
        .unwrap()
        .set_parameters(parameters);
    let mut flags = ffmpeg_next::Dictionary::new();
    flags.set("movflags", "faststart");
    output.write_header_with(flags).unwrap();
    for (_, mut packet) in input.packets() {
        packet.set_duration(3600);
        packet.rescale_ts(ticks, output.stream(0).unwrap().time_base());
        packet.write_interleaved(&mut output).unwrap();
    }
    output.write_trailer().unwrap();
    drop(output);
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(drain(open(&path).unwrap().as_mut()).0.len(), 60);
    std::fs::write(&path, &whole[..whole.len() * 3 / 4]).unwrap();
    let (frames, error) = drain(open(&path).unwrap().as_mut());
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    assert!((10..60).contains(&frames.len()), "{} frames", frames.len());
    assert!(error.contains("of 60 frames"), "{error}");
}

#[test]
fn a_raised_flag_ends_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    write_mp4(&path, &uneven(20));
    let stop = StopFlag::default();
    let mut source = source(path.to_str().unwrap(), SourceOptions::default())
        .open(&stop)
        .unwrap();
    assert!(source.next().unwrap().is_some());
    stop.raise();
    assert!(source.next().unwrap().is_none());
}

#[test]
fn a_folder_of_images_is_a_stream_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, width) in [("b.png", 6), ("a.JPG", 5), ("c.jpeg", 7)] {
        image::RgbImage::new(width, 4)
            .save(folder.path().join(name))
            .unwrap();
    }
    std::fs::write(folder.path().join("broken.png"), b"no image").unwrap();
    std::fs::write(folder.path().join("notes.txt"), b"no image").unwrap();
    let mut source = open(folder.path()).unwrap();
    assert_eq!(source.info().frames, Some(4));
    let (frames, _) = drain(source.as_mut());
    let found: Vec<(u32, u64, f64)> = frames
        .iter()
        .map(|frame| (frame.image.width, frame.index, frame.pts_ms))
        .collect();
    // The third is broken.
    assert_eq!(found, [(5, 0, 0.0), (6, 1, 40.0), (7, 3, 120.0)]);
    assert_eq!(source.counts().unreadable, 1);
    let (frames, _) = drain(open(&folder.path().join("b.png")).unwrap().as_mut());
    assert_eq!(frames.len(), 1);
}

#[test]
fn a_folder_of_images_is_in_natural_order_without_companions_of_files() {
    let folder = tempfile::tempdir().unwrap();
    for (name, width) in [("f10.png", 10), ("f2.png", 2), ("f1.png", 1), ("f0003.png", 3)] {
        image::RgbImage::new(width, 4)
            .save(folder.path().join(name))
            .unwrap();
    }
    std::fs::write(folder.path().join("._f1.png"), b"of macOS").unwrap();
    std::fs::write(folder.path().join("f4.bmp"), b"no image that is read").unwrap();
    let mut source = open(folder.path()).unwrap();
    let (frames, end) = drain(source.as_mut());
    let widths: Vec<u32> = frames.iter().map(|frame| frame.image.width).collect();
    assert_eq!(widths, [1, 2, 3, 10]);
    assert!(end.is_none(), "{end:?}");
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("f4.bmp"), b"no image that is read").unwrap();
    let Err(error) = open(other.path()) else {
        panic!("it opens")
    };
    assert!(
        error.to_string().contains("skipped") && error.to_string().contains("f4.bmp"),
        "{error}"
    );
}

/// Number of frames and mean rate of some public clips: plain, variable rate, raw, B-frames with audio, full range.
#[test]
fn public_clips_decode_to_their_number_of_frames() {
    let Ok(assets) = std::env::var("WEIR_ASSETS") else {
        println!("skipped: WEIR_ASSETS is not set");
        return;
    };
    let clips = [
        ("mmdet_demo_motorway_720p.mp4", 67, 1280, 2.2),
        ("ahm_vehicles_static_640x352.mp4", 905, 640, 37.646),
        ("omz_cars_768x768.h264", 250, 768, 10.0),
        ("o4n_traffic_city_640x360.mp4", 693, 640, 23.09),
        ("frigate_motion_178x100.mp4", 512, 178, 85.17),
        ("pipeless_street_1080p.mp4", 126, 1920, 5.08),
    ];
    for (name, count, width, seconds) in clips {
        let mut source = open(&Path::new(&assets).join("videos").join(name)).unwrap();
        let (mut frames, mut last_ms) = (0, -1.0);
        while let Some(frame) = source.next().unwrap() {
            assert!(frame.pts_ms > last_ms, "{name}: {} after {last_ms}", frame.pts_ms);
            assert_eq!(frame.index, frames, "{name}");
            assert_eq!(frame.image.width, width, "{name}");
            last_ms = frame.pts_ms;
            frames += 1;
        }
        assert_eq!(frames, count, "{name}");
        assert_eq!(source.counts(), SourceCounts::default(), "{name}");
        assert!(
            (last_ms / 1000.0 - seconds).abs() < 0.2,
            "{name} ends at {last_ms} ms"
        );
    }
}
