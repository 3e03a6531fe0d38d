//! Pictures of objects for transforms: how sharp they are, copies of their pixels, and JPEGs of these. What a camera hides is
//! hidden in the copies.

pub(crate) mod crop;
mod hide;
mod jpeg;
mod layout;
mod shown;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weir_flow::{Frame, Picture, PictureLimits, PictureTaker, Rect};

use self::crop::within;
pub use self::shown::ShownPicture;
use crate::pixels::{Arrangement, Channels, InputSpec, Interpolation, Sampler};

/// Objects are compared by a picture of so many samples in each direction.
const SIDE: usize = 48;

/// Variance of the Laplacian at which an object is half as sharp as can be.
const HALF_SHARP: f32 = 400.0;

/// Takes pictures of objects out of decoded frames.
#[derive(Debug)]
pub struct ObjectPictures(Mutex<Scratch>);

#[derive(Debug)]
struct Scratch {
    sampler: Sampler,
    luma: Vec<f32>,
}

impl Default for ObjectPictures {
    fn default() -> Self {
        Self(Mutex::new(Scratch {
            sampler: Sampler::with_interpolation(Interpolation::Bilinear),
            luma: vec![0.0; SIDE * SIDE],
        }))
    }
}

/// One channel as it is, of that size.
const fn spec(channels: Channels, width: u32, height: u32) -> InputSpec {
    InputSpec {
        width,
        height,
        channels,
        arrangement: Arrangement::Nhwc,
        mean: [0.0; 3],
        std: [1.0; 3],
        fill: 0.0,
    }
}

impl PictureTaker for ObjectPictures {
    fn sharpness(&self, frame: &Frame, rect: &Rect) -> f32 {
        const SPEC: InputSpec = spec(Channels::Luma, SIDE as u32, SIDE as u32);
        let Some(rect) = within(&frame.image, rect) else {
            return 0.0;
        };
        let mut scratch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Scratch { sampler, luma } = &mut *scratch;
        sampler.stretch(&frame.image, &rect, &SPEC, luma);
        let variance = laplacian_variance(luma);
        variance / (variance + HALF_SHARP)
    }

    fn take(&self, frame: &Frame, rect: &Rect, limits: PictureLimits) -> Option<Arc<dyn Picture>> {
        Some(Arc::new(ObjectPicture {
            pixels: Mutex::new(Some(ShownPicture::of(frame).part(rect, limits.max_side)?)),
            jpeg: OnceLock::new(),
            limits,
        }))
    }
}

/// Variance of the Laplacian within a square picture, a common measure of focus.
fn laplacian_variance(luma: &[f32]) -> f32 {
    let (mut sum, mut squares, mut count) = (0.0_f64, 0.0_f64, 0.0_f64);
    for row in 1..SIDE - 1 {
        let line = |row: usize| &luma[row * SIDE..][..SIDE];
        let (above, here, below) = (line(row - 1), line(row), line(row + 1));
        for column in 1..SIDE - 1 {
            let around = here[column - 1] + here[column + 1] + above[column] + below[column];
            let value = f64::from(around - 4.0 * here[column]);
            sum += value;
            squares += value * value;
            count += 1.0;
        }
    }
    let mean = sum / count;
    (squares / count - mean * mean).max(0.0) as f32
}

/// Pixels until the JPEG is asked for, then that alone.
#[derive(Debug)]
struct ObjectPicture {
    pixels: Mutex<Option<ShownPicture>>,
    jpeg: OnceLock<Vec<u8>>,
    limits: PictureLimits,
}

impl Picture for ObjectPicture {
    fn jpeg(&self) -> &[u8] {
        self.jpeg.get_or_init(|| {
            let pixels = self.pixels.lock().unwrap_or_else(PoisonError::into_inner).take();
            pixels.map_or_else(Vec::new, |pixels| jpeg::encode(&pixels, self.limits))
        })
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::Image;

    use super::*;

    /// Squares of so many pixels, of two shades, blurred over `blur` pixels to each side.
    fn board(width: u32, height: u32, square: u32, blur: i64) -> Frame {
        let white = |x: i64, y: i64| {
            let is_white = (x.div_euclid(i64::from(square)) + y.div_euclid(i64::from(square))) % 2 == 0;
            if is_white { 140 } else { 100 }
        };
        let mut samples = Vec::new();
        for (y, x) in (0..i64::from(height)).flat_map(|y| (0..i64::from(width)).map(move |x| (y, x))) {
            let span = 2 * blur + 1;
            let sum: i64 = (-blur..=blur).map(|by| white(x + by, y)).sum();
            samples.extend([(sum / span) as u8; 3]);
        }
        Frame::new(7, 280.0, Image::from_rgb(width, height, samples))
    }

    const LIMITS: PictureLimits = PictureLimits {
        max_side: 120,
        max_bytes: 16 << 10,
    };

    #[test]
    fn what_is_blurred_is_less_sharp_and_what_is_even_not_at_all() {
        let pictures = ObjectPictures::default();
        let rect = Rect::new(10.0, 10.0, 90.0, 70.0);
        let sharpness = |frame: &Frame| pictures.sharpness(frame, &rect);
        let (sharp, soft) = (sharpness(&board(100, 80, 8, 0)), sharpness(&board(100, 80, 8, 3)));
        assert!(sharp > 0.5 && soft < 0.8 * sharp, "{sharp} {soft}");
        assert!(sharpness(&board(100, 80, 1000, 0)) < 0.01);
        assert!(pictures.sharpness(&board(100, 80, 8, 0), &Rect::new(200.0, 0.0, 300.0, 90.0)) < 0.01);
    }

    #[test]
    fn a_picture_is_a_jpeg_of_what_is_within_the_box_and_the_frame() {
        let pictures = ObjectPictures::default();
        let frame = board(400, 300, 50, 0);
        for (rect, size) in [
            (Rect::new(50.0, 50.0, 100.0, 130.0), (50, 80)),
            (Rect::new(-40.0, 50.0, 100.0, 100.0), (100, 50)),
            (Rect::new(0.0, 0.0, 400.0, 300.0), (120, 90)),
        ] {
            let picture = pictures.take(&frame, &rect, LIMITS).expect("something is there");
            let shown = image::load_from_memory(picture.jpeg()).expect("a JPEG").to_rgb8();
            assert_eq!(shown.dimensions(), size, "{rect:?}");
        }
        let rect = Rect::new(50.0, 50.0, 100.0, 150.0);
        let picture = pictures.take(&frame, &rect, LIMITS).expect("something is there");
        let shown = image::load_from_memory(picture.jpeg()).expect("a JPEG").to_rgb8();
        assert!(shown.get_pixel(25, 25).0[0] > 135 && shown.get_pixel(25, 75).0[0] < 105);
    }

    #[test]
    fn what_is_next_to_nothing_or_not_in_the_frame_is_no_picture() {
        let (pictures, frame) = (ObjectPictures::default(), board(100, 80, 8, 0));
        for rect in [
            Rect::new(99.5, 0.0, 130.0, 40.0),
            Rect::new(20.0, 90.0, 60.0, 130.0),
            Rect::new(f32::NAN, 0.0, 60.0, 40.0),
            Rect::new(60.0, 40.0, 20.0, 10.0),
        ] {
            assert!(pictures.take(&frame, &rect, LIMITS).is_none(), "{rect:?}");
        }
    }
}
