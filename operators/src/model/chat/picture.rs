//! The picture encoder of a model that answers in words: a JPEG in, rows of features out, one for each place of the picture in a prompt.

use std::io::Cursor;

use weir_flow::{Element, Image, Rect};

use super::folder::{GraphFiles, Preparation};
use crate::model::generate::{listed, whole};
use crate::model::runtime::{NamedInput, OrtSession, TensorPort};
use crate::pixels::{Arrangement, Channels, InputSpec, Sampler};

/// Input that marks the pixels of the picture beside those of padding.
const MASK: &str = "pixel_attention_mask";

/// Largest side of the input, and of a picture.
const MAX_INPUT_SIDE: u32 = 2_048;
const MAX_PICTURE_SIDE: u32 = 8_192;

/// Bytes of memory for the decoding of a picture.
const MAX_PICTURE_BYTES: u64 = 256 << 20;

/// An open encoder.
pub(super) struct PictureEncoder {
    session: OrtSession,
    pixels: String,
    /// Shape of its input.
    shape: Vec<usize>,
    mask: Option<(String, Element)>,
    output: String,
    spec: InputSpec,
    is_centre: bool,
    sampler: Sampler,
    elements: Vec<f32>,
}

impl PictureEncoder {
    /// Finds the inputs and the output. `width`: numbers of an embedding of the decoder.
    ///
    /// # Errors
    /// An input that is missing or not filled, an output of another shape, or a size that is not known.
    pub(super) fn new(
        session: OrtSession,
        files: &GraphFiles,
        preparation: &Preparation,
        width: usize,
    ) -> Result<Self, String> {
        let (inputs, outputs) = (session.input_ports(), session.output_ports());
        let (mut pixels, mut mask) = (None, None);
        for port in &inputs {
            if port.name == files.pixels && port.element == Some(Element::F32) {
                pixels = Some(port);
            } else if port.name == MASK && port.dims.len() + 1 == pixels_rank(&inputs, &files.pixels) {
                mask = Some((port.name.clone(), mask_element(port)?));
            } else {
                return Err(format!(
                    "its input {} of {:?} with {} dimensions is not filled: expected are {}, f32 [batch, 3, height, width] with or without \
                     a number of pictures behind the batch, and at most {MASK}",
                    port.name,
                    port.element,
                    port.dims.len(),
                    files.pixels
                ));
            }
        }
        let pixels =
            pixels.ok_or_else(|| format!("none of its inputs {} is {}", listed(&inputs), files.pixels))?;
        let (side_y, side_x) = sides(pixels)?;
        let named = preparation.size.unwrap_or_default();
        let side = |fixed: Option<usize>, named: u32| {
            let side = fixed.and_then(|side| u32::try_from(side).ok()).unwrap_or(named);
            (16..=MAX_INPUT_SIDE).contains(&side).then_some(side).ok_or_else(|| {
                format!(
                    "its input {} has pictures with a side of {side} pixels: expected are 16 to {MAX_INPUT_SIDE}, of the graph or of \
                     preprocessor_config.json",
                    pixels.name
                )
            })
        };
        let (input_width, input_height) = (side(side_x, named.0)?, side(side_y, named.1)?);
        let mut shape = vec![1; pixels.dims.len() - 3];
        shape.extend([3, input_height as usize, input_width as usize]);
        let found = outputs.iter().find(|port| port.name == files.encoded);
        let found =
            found.ok_or_else(|| format!("none of its outputs {} is {}", listed(&outputs), files.encoded))?;
        let has_width = match found.dims.last() {
            Some((Some(fixed), _)) => *fixed == width,
            Some((None, _)) => true,
            None => false,
        };
        if found.element != Some(Element::F32) || !has_width {
            return Err(format!(
                "its output {} holds {:?} with the last size {:?}: expected are f32 features of {width} numbers each, as embeddings of \
                 tokens have",
                found.name,
                found.element,
                found.dims.last().and_then(|(size, _)| *size)
            ));
        }
        Ok(Self {
            pixels: pixels.name.clone(),
            output: found.name.clone(),
            session,
            shape,
            mask,
            spec: InputSpec {
                width: input_width,
                height: input_height,
                channels: Channels::Rgb,
                arrangement: Arrangement::Nchw,
                mean: preparation.mean,
                std: preparation.std,
                fill: 0.0,
            },
            is_centre: preparation.is_centre,
            sampler: Sampler::new(),
            elements: Vec::new(),
        })
    }

    /// Width and height of its input, in pixels.
    pub(super) const fn size(&self) -> (u32, u32) {
        (self.spec.width, self.spec.height)
    }

    /// Returns the features of a picture, row after row.
    ///
    /// # Errors
    /// The runtime's error.
    pub(super) fn encode(&mut self, image: &Image) -> Result<Vec<f32>, String> {
        let (width, height) = (image.width as f32, image.height as f32);
        let from = match self.is_centre {
            true => {
                let half = width.min(height) / 2.0;
                let (x, y) = (width / 2.0, height / 2.0);
                Rect::new(x - half, y - half, x + half, y + half)
            }
            false => Rect::new(0.0, 0.0, width, height),
        };
        self.elements.resize(self.spec.len(), 0.0);
        self.sampler.stretch(image, &from, &self.spec, &mut self.elements);
        let mut inputs = vec![(self.pixels.as_str(), NamedInput::F32(&self.shape, &self.elements))];
        let colour = self.shape.len() - 3;
        let mask_shape: Vec<usize> = [&self.shape[..colour], &self.shape[colour + 1..]].concat();
        let (mut flags, mut numbers) = (Vec::new(), Vec::new());
        if let Some((name, element)) = &self.mask {
            // All pixels are those of the picture: it fills the input.
            let pixels = self.spec.width as usize * self.spec.height as usize;
            let mask = match element {
                Element::Bool => {
                    flags.resize(pixels, true);
                    NamedInput::Bool(&mask_shape, &flags)
                }
                _ => {
                    numbers.resize(pixels, 1);
                    NamedInput::I64(&mask_shape, &numbers)
                }
            };
            inputs.push((name, mask));
        }
        let outputs = self.session.run_named(&inputs, &[&self.output])?;
        let output = outputs.first().ok_or("it gives no output")?;
        Ok(output.floats()?.1.to_vec())
    }
}

fn pixels_rank(inputs: &[TensorPort], name: &str) -> usize {
    let pixels = inputs.iter().find(|port| port.name == name);
    pixels.map_or(0, |port| port.dims.len())
}

fn mask_element(port: &TensorPort) -> Result<Element, String> {
    match port.element {
        Some(Element::Bool) => Ok(Element::Bool),
        _ => whole(port).and_then(|element| match element {
            Element::I64 => Ok(element),
            _ => Err(format!(
                "input {} holds {element:?}: expected are flags, or I64",
                port.name
            )),
        }),
    }
}

/// Fixed height and width of the input of pixels.
fn sides(port: &TensorPort) -> Result<(Option<usize>, Option<usize>), String> {
    let sizes: Vec<Option<usize>> = port.dims.iter().map(|(size, _)| *size).collect();
    match sizes[..] {
        [_, Some(3) | None, height, width] => Ok((height, width)),
        [_, Some(1) | None, Some(3) | None, height, width] => Ok((height, width)),
        ref sizes => Err(format!(
            "its input {} has the sizes {sizes:?}: expected are [batch, 3, height, width], with or without a number of pictures behind \
             the batch",
            port.name
        )),
    }
}

/// Decodes a picture.
///
/// # Errors
/// It is no JPEG, or too large.
pub(super) fn decoded(jpeg: &[u8]) -> Result<Image, String> {
    let failed = |error: &dyn std::fmt::Display| format!("the picture cannot be decoded: {error}");
    let mut reader = image::ImageReader::with_format(Cursor::new(jpeg), image::ImageFormat::Jpeg);
    let mut limits = image::Limits::default();
    limits.max_image_width = Some(MAX_PICTURE_SIDE);
    limits.max_image_height = Some(MAX_PICTURE_SIDE);
    limits.max_alloc = Some(MAX_PICTURE_BYTES);
    reader.limits(limits);
    let picture = reader.decode().map_err(|error| failed(&error))?.into_rgb8();
    let (width, height) = picture.dimensions();
    Ok(Image::from_rgb(width, height, picture.into_raw()))
}
