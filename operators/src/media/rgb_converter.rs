//! Pictures in RGB as an encoder takes them.

use ffmpeg_next::format::Pixel;
use ffmpeg_next::software::scaling::context::Definition;
use ffmpeg_next::{Error, frame};

use super::{Converter, Rgb};

/// Converts pictures to YUV 4:2:0 of one size.
pub(super) struct RgbConverter {
    size: (u32, u32),
    converter: Option<Converter>,
}

impl RgbConverter {
    /// To pictures of this even size.
    pub(super) fn new(size: (u32, u32)) -> Self {
        Self {
            size,
            converter: None,
        }
    }

    pub(super) fn convert(&mut self, picture: Rgb<'_>) -> Result<frame::Video, Error> {
        let size = |side: u32, own: u32| if side & !1 == own { own } else { side };
        let (own_width, own_height) = self.size;
        let (width, height) = (size(picture.width, own_width), size(picture.height, own_height));
        let from = Definition {
            format: Pixel::RGB24,
            width,
            height,
        };
        let to = Definition {
            format: Pixel::YUV420P,
            width: own_width,
            height: own_height,
        };
        let mut drawn = frame::Video::new(Pixel::RGB24, width, height);
        let (stride, bytes) = (drawn.stride(0), width as usize * 3);
        let rows = picture.samples.chunks_exact((picture.width as usize * 3).max(1));
        for (line, row) in drawn.data_mut(0).chunks_mut(stride).zip(rows) {
            line[..bytes].copy_from_slice(&row[..bytes]);
        }
        let mut converted = frame::Video::empty();
        Converter::between(&mut self.converter, from, to)
            .ok_or(Error::InvalidData)?
            .run(&drawn, &mut converted)?;
        Ok(converted)
    }
}
