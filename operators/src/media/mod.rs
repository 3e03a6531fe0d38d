//! Reading and writing of videos. Sources read videos, streams and folders of images into frames that keep their
//! decoder's own planes; [`VideoFile`] encodes pictures.
//!
//! [`source`] chooses by what the URI names: folders and single images are read one file at a time, everything else by
//! FFmpeg. Nothing here paces, or drops by itself: a recorded video is read as fast as it is requested, and frames are left
//! out as the level of decoding says.

mod access;
mod concatenation;
mod container;
mod damage;
mod driver_thread;
mod encoder;
mod ffi;
mod ffmpeg;
mod fifo;
mod fragments;
#[cfg(test)]
mod fuzz;
mod guarded;
mod hardware;
mod held_group;
mod images;
mod interlacing;
mod limited;
mod log;
pub mod login;
mod main_stream;
mod open;
mod options;
mod orientation;
mod packet_clock;
mod packet_file;
mod packet_input;
mod packet_reader;
mod packet_selection;
mod packet_times;
mod parameter_sets;
mod picture;
mod picture_encoder;
mod picture_index;
mod picture_times;
mod played;
mod redirect;
mod relay;
mod rgb_converter;
mod sound;
mod stream_decoder;
mod stream_output;
mod stream_packets;
#[cfg(feature = "cuda")]
mod surfaces;
mod timeline;
mod userinfo;
mod video_file;
mod video_place;
mod web_login;

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use driver_thread::DriverThread;
use main_stream::TwoStreams;
use played::Played;
use weir_flow::{
    CameraEvents, Connection, Source, SourceError, SourceFactory, StopFlag, VideoDecoder, is_image,
    with_small_scheme,
};

use crate::onvif::{Camera, PullPoint};

pub use access::is_remote;
pub use concatenation::concatenate;
pub use encoder::{Encoding, VideoCodec};
pub(crate) use ffi::Converter;
pub use ffmpeg::FfmpegSource;
pub(crate) use hardware::{Accelerator, device_types, render_nodes};
pub use images::{ImageSource, picture_from};
pub(crate) use open::init_ffmpeg;
pub use options::CONNECTION_OPTIONS;
pub(crate) use packet_file::{PacketFile, WriteError, Written};
pub use parameter_sets::{hevc_record, is_interlaced};
pub(crate) use picture_encoder::PictureEncoder;
pub use picture_index::{PictureIndex, index_pictures};
pub(crate) use stream_output::{StreamOutput, address_of, is_output_address};
pub(crate) use userinfo::user_and_password;
pub use video_file::{Rgb, VideoFile};
pub(crate) use video_place::{Leftover, part_path, settle_leftover};
pub use video_place::{Naming, VideoPlace};

/// Frames per second if neither the stream nor the user gives a rate.
pub const DEFAULT_FPS: f64 = 25.0;

/// Options of a source besides its URI.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceOptions {
    /// Frames per second where there are no timestamps: raw elementary streams and images.
    pub fps: Option<f64>,
    /// Seconds without data after which a network source or a named pipe fails.
    pub timeout_s: f64,
    /// Decoder threads. One by default: cores belong to the workers, and streams decode concurrently.
    pub threads: usize,
    /// Device that decodes. A GPU decodes only the formats that it supports; the CPU decodes the others.
    pub decoder: VideoDecoder,
    /// Settings of the connection to a network source.
    pub connection: Connection,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            fps: None,
            timeout_s: 10.0,
            threads: 1,
            decoder: VideoDecoder::Cpu,
            connection: Connection::default(),
        }
    }
}

/// A factory for the source that `uri` names: a file, a folder of images, an address. Opens nothing.
#[must_use]
pub fn source(uri: &str, options: SourceOptions) -> Box<dyn SourceFactory> {
    Box::new(Factory {
        uri: with_small_scheme(uri).into_owned(),
        options,
        driver: DriverThread::default(),
        played: Arc::default(),
    })
}

/// A factory for images as one stream, in this order.
#[must_use]
pub fn image_list(files: Vec<PathBuf>) -> Box<dyn SourceFactory> {
    Box::new(ImageList(files))
}

/// The images that a path names: itself, or those of a folder in the natural order of their names.
///
/// # Errors
/// [`SourceError::Open`] for what is neither.
pub fn images_at(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let uri = path.display().to_string();
    if !path.is_dir() {
        let failed = |error| cannot_open(&uri, weir_files::io_reason(&error));
        std::fs::metadata(path).map_err(failed)?;
        if !is_image(path) {
            return Err(cannot_open(&uri, "it is no .jpg, .jpeg or .png image"));
        }
        return Ok(vec![path.to_owned()]);
    }
    let found = images_of(path).map_err(|error| cannot_open(&uri, weir_files::io_reason(&error)))?;
    if found.files.is_empty() {
        return Err(cannot_open(&uri, "the folder holds no .jpg, .jpeg or .png image"));
    }
    Ok(found.files)
}

struct ImageList(Vec<PathBuf>);

impl SourceFactory for ImageList {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(ImageSource::list(
            self.0.clone(),
            &SourceOptions::default(),
            stop,
        )))
    }
}

/// As [`source`], with the address of a larger stream of the same pictures, whose packets are those that are observed.
#[must_use]
pub fn source_with_main(uri: &str, main_uri: &str, options: SourceOptions) -> Box<dyn SourceFactory> {
    // Sound is that of the stream whose packets are observed.
    let mut of_frames = options.clone();
    of_frames.connection.sound = false;
    Box::new(TwoStreams {
        frames: source(uri, of_frames),
        uri: with_small_scheme(main_uri).into_owned(),
        options,
    })
}

struct Factory {
    uri: String,
    options: SourceOptions,
    /// Thread of a capture device, shared by all openings; unused for other sources.
    driver: DriverThread,
    /// Media that it has given, over all openings.
    played: Arc<Mutex<Played>>,
}

impl SourceFactory for Factory {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        let path = Path::new(self.uri.strip_prefix("file:").unwrap_or(&self.uri));
        if path.is_dir() {
            return Ok(Box::new(ImageSource::folder(path, &self.options, stop)?));
        }
        if is_image(path) && path.is_file() {
            return Ok(Box::new(ImageSource::single(path, &self.options, stop)?));
        }
        Ok(Box::new(FfmpegSource::open_on(
            &self.driver,
            &self.played,
            &self.uri,
            &self.options,
            stop,
        )?))
    }

    fn is_endless(&self) -> Option<bool> {
        open::is_endless(&self.uri)
    }

    fn camera_events(&self) -> Option<Box<dyn CameraEvents>> {
        let connection = &self.options.connection;
        let service = connection.onvif.as_ref()?;
        match Camera::new(&service.address, &self.uri, connection.login.as_ref()) {
            Ok(camera) => Some(Box::new(PullPoint::new(camera, service.channel.clone()))),
            // The check of a graph refuses it before.
            Err(reason) => {
                tracing::warn!("the camera is not asked for its events: {reason}");
                None
            }
        }
    }

    fn check(&self, stop: &StopFlag) -> Result<(), SourceError> {
        let login = userinfo::with_login(&self.uri, self.options.connection.login.as_ref());
        let usable = login.and_then(|_| open::check_trust(&self.uri, &self.options));
        usable.map_err(|reason| cannot_open(&self.uri, reason))?;
        let path = Path::new(self.uri.strip_prefix("file:").unwrap_or(&self.uri));
        // A pipe or a device would lose the data that is read now; an address may be slow.
        match std::fs::metadata(path) {
            Ok(there) if there.is_file() || there.is_dir() => self.open(stop).map(drop),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Images of a folder.
#[derive(Debug, Default)]
struct FolderImages {
    /// Image files, in the natural order of their names: 2 before 10.
    files: Vec<PathBuf>,
    /// The rest, without hidden files such as the `._` companions that macOS puts beside files.
    others: Vec<PathBuf>,
}

/// Files of a folder of images.
fn images_of(folder: &Path) -> std::io::Result<FolderImages> {
    let mut found = FolderImages::default();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // Files without readable metadata, such as a dangling link, are kept, so that they are reported as unreadable.
        if is_image(&path) && std::fs::metadata(&path).map_or(true, |found| found.is_file()) {
            found.files.push(path);
        } else {
            found.others.push(path);
        }
    }
    found.files.sort_by(|one, other| natural_order(one, other));
    found.others.sort();
    Ok(found)
}

/// The order of two paths in which runs of digits count by their value; equal ones by their bytes.
fn natural_order(one: &Path, other: &Path) -> Ordering {
    let bytes = |path: &'_ Path| path.as_os_str().as_encoded_bytes().to_vec();
    let (one, other) = (bytes(one), bytes(other));
    natural_parts(&one)
        .cmp(natural_parts(&other))
        .then_with(|| one.cmp(&other))
}

/// A run of digits, by the number of them without leading zeros and then by themselves, or another byte. Digits come before
/// letters, as bytes do.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NaturalPart<'a> {
    Below(u8),
    Number(usize, &'a [u8]),
    Above(u8),
}

fn natural_parts(text: &[u8]) -> impl Iterator<Item = NaturalPart<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (first, after) = rest.split_first()?;
        if !first.is_ascii_digit() {
            rest = after;
            return Some(if *first < b'0' {
                NaturalPart::Below(*first)
            } else {
                NaturalPart::Above(*first)
            });
        }
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, after) = rest.split_at(digits);
        rest = after;
        let zeros = number.iter().take_while(|byte| **byte == b'0').count();
        let number = &number[zeros..];
        Some(NaturalPart::Number(number.len(), number))
    })
}

/// The error of a source that does not open.
fn cannot_open(uri: &str, reason: impl Into<String>) -> SourceError {
    SourceError::Open {
        uri: uri.to_owned(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_the_numbers_in_them() {
        let sorted = [
            "a",
            "a-1",
            "a0",
            "a00",
            "a1",
            "a01",
            "a2",
            "a9b1",
            "a9b10",
            "a10",
            "a99999999999999999999999999",
            "a100000000000000000000000000",
            "b1",
            "frame-2.jpg",
            "frame-10.jpg",
            "frame_2.jpg",
            "frame_10.jpg",
        ];
        for (index, one) in sorted.iter().enumerate() {
            for (place, other) in sorted.iter().enumerate() {
                let found = natural_order(Path::new(one), Path::new(other));
                let is_twin =
                    one.replace('0', "") == other.replace('0', "") && one.len().abs_diff(other.len()) == 1;
                if !is_twin {
                    assert_eq!(found, index.cmp(&place), "{one} {other}");
                }
            }
        }
    }
}
