//! Pictures as the bytes of image files.

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder, ImageResult};

use crate::canvas::Picture;

impl Picture {
    /// Encodes the picture as JPEG; `quality` from 1 to 100.
    ///
    /// # Errors
    /// If the picture is empty, or larger than the format allows.
    pub fn jpeg(&self, quality: u8) -> ImageResult<Vec<u8>> {
        let mut bytes = Vec::new();
        self.encoded(JpegEncoder::new_with_quality(&mut bytes, quality))?;
        Ok(bytes)
    }

    /// A PNG file.
    ///
    /// # Errors
    /// As for [`Picture::jpeg`].
    pub fn png(&self) -> ImageResult<Vec<u8>> {
        let mut bytes = Vec::new();
        self.encoded(PngEncoder::new(&mut bytes))?;
        Ok(bytes)
    }

    fn encoded(&self, encoder: impl ImageEncoder) -> ImageResult<()> {
        encoder.write_image(&self.rgb, self.width, self.height, ExtendedColorType::Rgb8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_png_gives_the_picture_back_and_a_jpeg_nearly() {
        let picture = Picture {
            width: 16,
            height: 8,
            rgb: (0..16 * 8)
                .flat_map(|index: u8| [index, 200 - index, 90])
                .collect(),
        };
        let read = |bytes: Vec<u8>| {
            image::load_from_memory(&bytes)
                .expect("an image")
                .to_rgb8()
                .into_raw()
        };
        assert_eq!(read(picture.png().expect("a picture")), picture.rgb);
        let jpeg = read(picture.jpeg(90).expect("a picture"));
        assert!(jpeg.iter().zip(&picture.rgb).all(|(a, b)| a.abs_diff(*b) < 24));
    }
}
