//! Images as a stream: a folder by name, or a single file.

use std::path::{Path, PathBuf};

use weir_flow::{Frame, Image, Source, SourceCounts, SourceError, SourceInfo, StopFlag};

use super::{DEFAULT_FPS, SourceOptions, cannot_open, images_of};

/// Reads images one after another. An image that cannot be read is passed over and counted.
#[derive(Debug)]
pub struct ImageSource {
    files: std::vec::IntoIter<PathBuf>,
    info: SourceInfo,
    fps: f64,
    index: u64,
    damaged: u64,
    stop: StopFlag,
}

impl ImageSource {
    /// The JPEG and PNG images of a folder, in the order of their names.
    ///
    /// # Errors
    /// [`SourceError::Open`] where it cannot be read or holds no image.
    pub fn folder(path: &Path, options: SourceOptions, stop: &StopFlag) -> Result<Self, SourceError> {
        let uri = path.display().to_string();
        let files = images_of(path).map_err(|error| cannot_open(&uri, error.to_string()))?;
        if files.is_empty() {
            return Err(cannot_open(
                &uri,
                "the folder holds no .jpg, .jpeg or .png image: name one that does",
            ));
        }
        Ok(Self::of(files, options, stop))
    }

    /// One image.
    ///
    /// # Errors
    /// [`SourceError::Open`] where it is no image.
    pub fn single(path: &Path, options: SourceOptions, stop: &StopFlag) -> Result<Self, SourceError> {
        if let Err(error) = image::image_dimensions(path) {
            let reason = format!("not a JPEG or PNG image that can be read: {error}");
            return Err(cannot_open(&path.display().to_string(), reason));
        }
        Ok(Self::of(vec![path.to_owned()], options, stop))
    }

    fn of(files: Vec<PathBuf>, options: SourceOptions, stop: &StopFlag) -> Self {
        let fps = options.fps.unwrap_or(DEFAULT_FPS);
        let (width, height) = files
            .iter()
            .find_map(|file| image::image_dimensions(file).ok())
            .unwrap_or((0, 0));
        let frames = Some(files.len() as u64);
        let info = SourceInfo {
            width,
            height,
            fps: Some(fps),
            frames,
            live: false,
            stamped: false,
        };
        Self {
            files: files.into_iter(),
            info,
            fps,
            index: 0,
            damaged: 0,
            stop: stop.clone(),
        }
    }
}

impl Source for ImageSource {
    fn info(&self) -> SourceInfo {
        self.info.clone()
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        while !self.stop.raised() {
            let Some(file) = self.files.next() else { break };
            match image::open(&file) {
                Ok(image) => {
                    let image = image.into_rgb8();
                    let image = Image::from_rgb(image.width(), image.height(), image.into_raw());
                    let index = self.index;
                    self.index += 1;
                    return Ok(Some(Frame::new(index, index as f64 * 1000.0 / self.fps, image)));
                }
                Err(error) => {
                    self.damaged += 1;
                    tracing::warn!(file = %file.display(), %error, "image passed over");
                }
            }
        }
        Ok(None)
    }

    fn counts(&self) -> SourceCounts {
        SourceCounts {
            damaged: self.damaged,
            ..SourceCounts::default()
        }
    }
}
