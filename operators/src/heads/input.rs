//! The input of a model, from its declared shape, the head's defaults and the keys.

use weir_flow::{Affine, Point, Rect, Settings, Value};

use crate::pixels::{Arrangement, Channels, ImagePlacement, InputSpec, Projective};

/// Fitting of an item into the input of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Each direction scaled by its own ratio.
    Stretch,
    /// Aspect kept, at the top left, the rest filled.
    Letterbox,
    /// Centre crop: the largest region with the input's aspect, less an eighth (256 to 224).
    Centre,
    /// Aspect kept where the line fits, else compressed horizontally: lines of text.
    Line,
}

/// Landmarks by which a head aligns an item, if the item has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    No,
    /// Five landmarks to the ArcFace template.
    Face,
    /// Four corners to those of the input.
    Quad,
}

/// A head's defaults for its input; keys override them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputDefaults {
    pub(crate) channels: Channels,
    pub(crate) mean: [f32; 3],
    pub(crate) std: [f32; 3],
    pub(crate) fill: f32,
    pub(crate) fit: Fit,
    pub(crate) align: Align,
    /// Width and height in pixels where the model leaves them free.
    pub(crate) size: (u32, u32),
    /// Each side must be a multiple of this, plus `multiple_offset`.
    pub(crate) multiple: u32,
    pub(crate) multiple_offset: u32,
}

/// Bytes 0 to 255, blue first, letterboxed into 416 by 416: the base of other defaults.
pub(crate) const BYTES: InputDefaults = InputDefaults {
    channels: Channels::Bgr,
    mean: [0.0; 3],
    std: [1.0; 3],
    fill: 114.0,
    fit: Fit::Letterbox,
    align: Align::No,
    size: (416, 416),
    multiple: 1,
    multiple_offset: 0,
};

/// A crop in red, green and blue from 0 to 1, stretched over the input: the base for models that read crops.
pub(crate) const UNIT_CROP: InputDefaults = InputDefaults {
    channels: Channels::Rgb,
    std: [255.0; 3],
    fill: 0.0,
    fit: Fit::Stretch,
    ..BYTES
};

/// An input as it is filled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Input {
    pub(crate) spec: InputSpec,
    pub(crate) fit: Fit,
    pub(crate) align: Align,
    /// Largest width in pixels that a batch may choose, if the model leaves the width of lines free.
    pub(crate) widest: Option<u32>,
}

impl Input {
    /// Validates the input's declared shape.
    pub(crate) fn read(
        input_defaults: &InputDefaults,
        settings: &Settings,
        port: &[Option<usize>],
    ) -> Result<Self, String> {
        let found = || {
            let sizes: Vec<String> = port
                .iter()
                .map(|size| size.map_or_else(|| "?".to_owned(), |size| size.to_string()))
                .collect();
            format!("[{}]", sizes.join(", "))
        };
        let (arrangement, channels, height, width) = match *port {
            [_, Some(c @ (1 | 3)), h, w] => (Arrangement::Nchw, c, h, w),
            [_, h, w, Some(c @ (1 | 3))] => (Arrangement::Nhwc, c, h, w),
            [_, None, h, w] => (Arrangement::Nchw, input_defaults.channels.count(), h, w),
            _ => {
                let expected = "the head expects an image: [batch, 3 or 1, height, width] or [batch, height, width, 3 or 1]";
                return Err(format!("the input is {}; {expected}", found()));
            }
        };
        let channels = match (channels, settings.text("channels")) {
            (1, None | Some("gray")) | (_, Some("gray")) => Channels::Luma,
            (3, Some("rgb")) => Channels::Rgb,
            (3, Some("bgr")) => Channels::Bgr,
            (3, None) if input_defaults.channels != Channels::Luma => input_defaults.channels,
            (3, _) => Channels::Rgb,
            (_, key) => {
                return Err(format!(
                    "the input is {}, channels = {key:?} does not fit",
                    found()
                ));
            }
        };
        if !(port.contains(&Some(channels.count())) || port.get(1) == Some(&None)) {
            return Err(format!(
                "the input is {}; it has not {} channels",
                found(),
                channels.count()
            ));
        }
        let widest =
            (input_defaults.fit == Fit::Line && width.is_none() && !settings.0.contains_key("width"))
                .then(|| settings.number("max_width", 1280.0) as u32);
        let side = |declared: Option<usize>, key: &str, default: u32| {
            let side = declared
                .and_then(|side| u32::try_from(side).ok())
                .unwrap_or_else(|| settings.number(key, settings.number("size", f64::from(default))) as u32);
            let fits = side > input_defaults.multiple_offset
                && (side - input_defaults.multiple_offset).is_multiple_of(input_defaults.multiple);
            if fits && side <= 8192 {
                Ok(side)
            } else {
                let multiple_offset = if input_defaults.multiple_offset > 0 {
                    format!(" plus {}", input_defaults.multiple_offset)
                } else {
                    String::new()
                };
                Err(format!(
                    "the input's {key} is {side}; it must be a multiple of {}{multiple_offset}",
                    input_defaults.multiple
                ))
            }
        };
        let spec = InputSpec {
            width: side(width, "width", input_defaults.size.0)?,
            height: side(height, "height", input_defaults.size.1)?,
            channels,
            arrangement,
            mean: triple(settings, "mean")?.unwrap_or(input_defaults.mean),
            std: triple(settings, "std")?.unwrap_or(input_defaults.std),
            fill: settings.number("fill", f64::from(input_defaults.fill)) as f32,
        };
        if spec.std.contains(&0.0) {
            return Err("std must not be 0".to_owned());
        }
        let align = if settings.aligns() {
            input_defaults.align
        } else {
            Align::No
        };
        let fit = match settings.text("resize") {
            Some("stretch") => Fit::Stretch,
            Some("letterbox") => Fit::Letterbox,
            Some("centre") => Fit::Centre,
            // A model of fixed width was trained on lines stretched to it.
            _ if input_defaults.fit == Fit::Line && width.is_some() => Fit::Stretch,
            _ => input_defaults.fit,
        };
        Ok(Self {
            spec,
            fit,
            align,
            widest,
        })
    }

    /// Shape of one item.
    pub(crate) fn item_shape(&self) -> Vec<usize> {
        let (width, height) = (self.spec.width as usize, self.spec.height as usize);
        match self.spec.arrangement {
            Arrangement::Nchw => vec![self.spec.channels.count(), height, width],
            Arrangement::Nhwc => vec![height, width, self.spec.channels.count()],
        }
    }

    /// Smallest and largest value of an element.
    pub(crate) fn range(&self) -> (f32, f32) {
        let at = |byte: f32| (byte - self.spec.mean[0]) / self.spec.std[0];
        (at(0.0).min(at(255.0)), at(255.0).max(at(0.0)))
    }

    /// The region of the item `from` that the input shows.
    pub(crate) fn read_region(&self, from: &Rect) -> Rect {
        if self.fit != Fit::Centre {
            return *from;
        }
        let aspect = self.spec.width as f32 / self.spec.height as f32;
        let height = from.height().min(from.width() / aspect) * 0.875;
        let centre = from.centre();
        let (half_width, half_height) = (height * aspect / 2.0, height / 2.0);
        Rect::new(
            centre.x - half_width,
            centre.y - half_height,
            centre.x + half_width,
            centre.y + half_height,
        )
    }
}

/// Three numbers, or one for all three: `"123.675, 116.28, 103.53"`.
pub(crate) fn triple(settings: &Settings, key: &str) -> Result<Option<[f32; 3]>, String> {
    let text = match settings.0.get(key) {
        None => return Ok(None),
        Some(Value::Number(number)) => return Ok(Some([*number as f32; 3])),
        Some(Value::Text(text)) => text.clone(),
        Some(_) => return Err(format!("{key} takes one or three numbers")),
    };
    let numbers: Option<Vec<f32>> = text
        .split(',')
        .map(|part| part.trim().parse().ok().filter(|number: &f32| number.is_finite()))
        .collect();
    match numbers.as_deref() {
        Some([one]) => Ok(Some([*one; 3])),
        Some([a, b, c]) => Ok(Some([*a, *b, *c])),
        _ => Err(format!(
            "{key} = {text:?} is not one or three numbers, such as \"123.7, 116.3, 103.5\""
        )),
    }
}

/// Transform between an item's input and its source picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ItemTransform {
    /// Size of the input in pixels.
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Size of the picture in pixels; objects are clamped to it.
    pub(crate) frame: (f32, f32),
    pub(crate) map: PixelMap,
}

/// From input pixels to source pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PixelMap {
    Scaled(ImagePlacement),
    Warped(Projective),
}

impl ItemTransform {
    /// The source pixel at `input`.
    pub(crate) fn point(&self, input: Point) -> Point {
        match &self.map {
            PixelMap::Scaled(placement) => placement.point(input),
            PixelMap::Warped(projective) => projective.apply(input),
        }
    }

    /// The source box at `input`, clamped to the picture.
    pub(crate) fn rect(&self, input: &Rect) -> Rect {
        let (a, b) = (
            self.point(Point::new(input.x0, input.y0)),
            self.point(Point::new(input.x1, input.y1)),
        );
        Rect::new(a.x, a.y, b.x, b.y).clamp(self.frame.0, self.frame.1)
    }

    /// The source box of the whole input, which may exceed the picture.
    pub(crate) fn area(&self) -> Rect {
        let start = self.point(Point::default());
        let end = self.point(Point::new(self.width as f32, self.height as f32));
        Rect::new(start.x, start.y, end.x, end.y)
    }

    /// An input that is the whole picture.
    pub(crate) fn identity(width: u32, height: u32) -> Self {
        let one = ImagePlacement {
            origin: Point::default(),
            offset: Point::default(),
            scale: Point::new(1.0, 1.0),
        };
        Self {
            width,
            height,
            frame: (width as f32, height as f32),
            map: PixelMap::Scaled(one),
        }
    }
}

/// The five landmarks of the ArcFace template in a 112 by 112 input.
const TEMPLATE: [(f32, f32); 5] = [
    (38.2946, 51.6963),
    (73.5318, 51.5014),
    (56.0252, 71.7366),
    (41.5493, 92.3655),
    (70.7299, 92.2041),
];

/// From the input to the face with these landmarks; `None` if the landmarks coincide.
pub(crate) fn aligned_face(points: &[Point; 5], spec: &InputSpec) -> Option<Projective> {
    let across = Affine {
        m: [
            spec.width as f32 / 112.0,
            0.0,
            0.0,
            0.0,
            spec.height as f32 / 112.0,
            0.0,
        ],
    };
    let template = TEMPLATE.map(|(x, y)| across.apply(Point::new(x, y)));
    Projective::from_similarity(points, &template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_shapes_are_read_and_others_refused() {
        let read = |port: &[Option<usize>]| Input::read(&BYTES, &Settings::default(), port);
        let planes = read(&[Some(1), Some(3), Some(240), Some(320)]).expect("planes");
        assert_eq!((planes.spec.width, planes.spec.height), (320, 240));
        assert_eq!(planes.item_shape(), [3, 240, 320]);
        let pixels = read(&[None, Some(48), Some(64), Some(1)]).expect("pixels");
        assert_eq!(
            (pixels.spec.channels, pixels.item_shape()),
            (Channels::Luma, vec![48, 64, 1])
        );
        assert_eq!(read(&[None, Some(3), None, None]).expect("free").spec.width, 416);
        let refused = read(&[None, Some(42)]).expect_err("not an image");
        assert!(
            refused.contains("[?, 42]") && refused.contains("expects an image"),
            "{refused}"
        );
    }

    #[test]
    fn keys_change_sizes_and_numbers() {
        let mut settings = Settings::default();
        settings
            .0
            .insert("mean".to_owned(), Value::Text("1, 2,3".to_owned()));
        settings.0.insert("size".to_owned(), Value::Number(64.0));
        let port = [None, Some(3), None, None];
        let input = Input::read(&BYTES, &settings, &port).expect("read");
        assert_eq!((input.spec.mean, input.spec.width), ([1.0, 2.0, 3.0], 64));
        settings
            .0
            .insert("mean".to_owned(), Value::Text("1, 2".to_owned()));
        assert!(Input::read(&BYTES, &settings, &port).is_err());
        let input_defaults = InputDefaults {
            multiple: 32,
            ..BYTES
        };
        settings.0.insert("size".to_owned(), Value::Number(65.0));
        assert!(Input::read(&input_defaults, &settings, &port).is_err());
    }

    #[test]
    fn the_centre_crop_keeps_the_aspect() {
        let input = Input::read(
            &InputDefaults {
                fit: Fit::Centre,
                ..BYTES
            },
            &Settings::default(),
            &[Some(1), Some(3), Some(224), Some(224)],
        )
        .expect("read");
        assert_eq!(
            input.read_region(&Rect::new(0.0, 0.0, 512.0, 256.0)),
            Rect::new(144.0, 16.0, 368.0, 240.0)
        );
    }
}
