//! Images as a stream: a folder in the natural order of names, or a single file. Each image is a frame, numbered by its
//! position among the files: an unreadable one leaves its number unused and is reported at the end.

use std::io::{BufRead, Cursor, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageReader, Limits};
use weir_flow::{Frame, Image, Source, SourceCounts, SourceError, SourceInfo, StopFlag};

use super::{DEFAULT_FPS, SourceOptions, cannot_open, images_of};

/// Unreadable files listed by name; the others are only counted.
const MAX_NAMED: usize = 10;

/// Reads images one after another.
#[derive(Debug)]
pub struct ImageSource {
    /// Folder or file, for errors.
    path: PathBuf,
    files: std::vec::IntoIter<PathBuf>,
    info: SourceInfo,
    /// Milliseconds between images.
    step_ms: f64,
    /// Files read so far.
    index: u64,
    counts: SourceCounts,
    /// The first files that could not be read, each with the reason.
    named: Vec<String>,
    stop: StopFlag,
}

impl ImageSource {
    /// The JPEG and PNG images of a folder, in the order of their names: 2 before 10.
    ///
    /// # Errors
    /// [`SourceError::Open`] if the folder cannot be read or contains no image.
    pub fn folder(path: &Path, options: &SourceOptions, stop: &StopFlag) -> Result<Self, SourceError> {
        let uri = path.display().to_string();
        let found = images_of(path).map_err(|error| cannot_open(&uri, weir_files::io_reason(&error)))?;
        let (files, skipped) = (found.files, skipped(&found.others));
        if files.is_empty() {
            let skipped = skipped.map(|skipped| format!("; {skipped}")).unwrap_or_default();
            let reason =
                format!("the folder holds no .jpg, .jpeg or .png image: name one that does{skipped}");
            return Err(cannot_open(&uri, reason));
        }
        if let Some(skipped) = skipped {
            tracing::warn!(folder = uri, "{skipped}");
        }
        Ok(Self::new(path, files, options, stop))
    }

    /// A source of one image, from the file at `path`.
    ///
    /// # Errors
    /// [`SourceError::Open`] if it is no image.
    pub fn single(path: &Path, options: &SourceOptions, stop: &StopFlag) -> Result<Self, SourceError> {
        if let Err(error) = size(path) {
            let reason = format!("not a JPEG or PNG image that can be read: {error}");
            return Err(cannot_open(&path.display().to_string(), reason));
        }
        Ok(Self::new(path, vec![path.to_owned()], options, stop))
    }

    /// These images, in this order.
    #[must_use]
    pub fn list(files: Vec<PathBuf>, options: &SourceOptions, stop: &StopFlag) -> Self {
        let path = files.first().cloned().unwrap_or_default();
        Self::new(&path, files, options, stop)
    }

    fn new(path: &Path, files: Vec<PathBuf>, options: &SourceOptions, stop: &StopFlag) -> Self {
        let fps = options.fps.unwrap_or(DEFAULT_FPS);
        let (width, height) = files.iter().find_map(|file| size(file).ok()).unwrap_or((0, 0));
        let info = SourceInfo {
            width,
            height,
            fps: Some(fps),
            codec: None,
            frames: Some(files.len() as u64),
            live: false,
            stamped: false,
        };
        Self {
            path: path.to_owned(),
            files: files.into_iter(),
            info,
            step_ms: 1000.0 / fps,
            index: 0,
            counts: SourceCounts::default(),
            named: Vec::new(),
            stop: stop.clone(),
        }
    }

    /// Reports the unreadable files, once.
    fn incomplete(&mut self) -> Option<SourceError> {
        if self.named.is_empty() {
            return None;
        }
        let (missing, files) = (self.counts.unreadable, self.index);
        let named = std::mem::take(&mut self.named);
        let more = missing - named.len() as u64;
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let reason = format!(
            "{missing} of {files} images cannot be read: {}{more}",
            named.join(", ")
        );
        Some(SourceError::Incomplete {
            uri: self.path.display().to_string(),
            reason,
        })
    }
}

/// A remark on what of a folder is no image that is read.
fn skipped(others: &[PathBuf]) -> Option<String> {
    if others.is_empty() {
        return None;
    }
    let named: Vec<String> = others
        .iter()
        .take(MAX_NAMED)
        .map(|path| name_of(path).to_string())
        .collect();
    let more = match others.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let is_are = if others.len() == 1 { "is" } else { "are" };
    Some(format!(
        "{} of its entries {is_are} skipped, being neither .jpg, .jpeg nor .png files: {}{more}",
        others.len(),
        named.join(", ")
    ))
}

/// Reads an image and applies its orientation.
fn read(file: &Path) -> Result<Image, ImageError> {
    let reader = ImageReader::open(file)?.with_guessed_format()?;
    turned(reader)
}

/// Decodes a JPEG or PNG image from its bytes, as RGB with its orientation applied.
///
/// # Errors
/// The bytes are no such image, are damaged, or declare a picture that takes more than 512 MiB.
pub fn picture_from(bytes: Vec<u8>) -> Result<Image, ImageError> {
    turned(ImageReader::new(Cursor::new(bytes)).with_guessed_format()?)
}

fn turned<R: BufRead + Seek + 'static>(reader: ImageReader<R>) -> Result<Image, ImageError> {
    let (mut decoder, orientation) = decoder(reader)?;
    // A small file may declare a picture of many gigabytes.
    let mut limits = Limits::default();
    limits.reserve(decoder.total_bytes())?;
    decoder.set_limits(limits)?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    let image = image.into_rgb8();
    Ok(Image::from_rgb(image.width(), image.height(), image.into_raw()))
}

/// Width and height after the orientation is applied.
fn size(file: &Path) -> Result<(u32, u32), ImageError> {
    let (decoder, orientation) = decoder(ImageReader::open(file)?.with_guessed_format()?)?;
    let (width, height) = decoder.dimensions();
    // The last four of the eight orientations swap width and height.
    let lies = orientation.to_exif() > 4;
    Ok(if lies { (height, width) } else { (width, height) })
}

/// The decoder of an image, and its orientation; none if that cannot be read.
fn decoder<R: BufRead + Seek + 'static>(
    reader: ImageReader<R>,
) -> Result<(impl ImageDecoder, Orientation), ImageError> {
    let mut decoder = reader.into_decoder()?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok((decoder, orientation))
}

/// The file's name without its folder.
fn name_of(file: &Path) -> Arc<str> {
    let name = file.file_name().unwrap_or(file.as_os_str());
    name.to_string_lossy().into()
}

impl Source for ImageSource {
    fn info(&self) -> SourceInfo {
        self.info.clone()
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        while !self.stop.is_raised() {
            let Some(file) = self.files.next() else {
                return self.incomplete().map_or(Ok(None), Err);
            };
            let index = self.index;
            self.index += 1;
            let pts_ms = index as f64 * self.step_ms;
            match read(&file) {
                Ok(image) => {
                    let mut frame = Frame::new(index, pts_ms, image);
                    frame.file = Some(name_of(&file));
                    return Ok(Some(frame));
                }
                Err(error) => {
                    self.counts.unreadable += 1;
                    tracing::warn!(file = %file.display(), %error, "image skipped");
                    if self.named.len() < MAX_NAMED {
                        self.named.push(format!("{} ({error})", name_of(&file)));
                    }
                }
            }
        }
        Ok(None)
    }

    fn counts(&self) -> SourceCounts {
        self.counts
    }
}
