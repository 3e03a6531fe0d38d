//! Items into an input tensor, and outputs into inferences: the two ends of a run.

use weir_flow::{Inference, Item, Point, Points, Rect, Region};

use super::Loaded;
use crate::heads::input::{Align, Fit, Map, Placed, aligned_face};
use crate::heads::{Input, Output};
use crate::pixels::{Arrangement, InputSpec, Projective, Sampler, placement};

/// Lays items into an input, and knows how they lie when outputs are decoded.
pub(super) struct Fill {
    sampler: Sampler,
    spec: Option<InputSpec>,
    placed: Vec<Placed>,
}

impl Fill {
    pub(super) fn new() -> Self {
        Self {
            sampler: Sampler::new(),
            spec: None,
            placed: Vec::new(),
        }
    }

    /// Shape of the input for a batch of these items in so many rows.
    pub(super) fn begin(&mut self, input: &Input, items: &[Item], rows: usize) -> [usize; 4] {
        let spec = InputSpec {
            width: width(input, items),
            ..input.spec
        };
        let (wide, high, channels) = (spec.width as usize, spec.height as usize, spec.channels.count());
        let shape = match spec.arrangement {
            Arrangement::Nchw => [rows, channels, high, wide],
            Arrangement::Nhwc => [rows, high, wide, channels],
        };
        self.spec = Some(spec);
        self.placed.clear();
        shape
    }

    /// How these items lie in their input, for decoding what another filled and ran.
    pub(super) fn lie(&mut self, model: &Loaded, items: &[Item]) {
        let input = &model.input;
        self.begin(input, items, items.len());
        let spec = self.spec.unwrap_or(input.spec);
        let placed = items.iter().map(|item| {
            let map = match lay(input, item, &spec) {
                Lay::Turned(inverse) => Map::Turned(inverse),
                Lay::Straight { rect, letterbox } => {
                    Map::Straight(placement(&item.frame.image, &rect, &spec, letterbox))
                }
            };
            placed(item, &spec, map)
        });
        self.placed.extend(placed);
    }

    /// Fills the elements of an input of the shape that was said with the items.
    pub(super) fn items(
        &mut self,
        model: &Loaded,
        items: &[Item],
        elements: &mut [f32],
    ) -> Result<(), String> {
        let input = &model.input;
        let spec = self.spec.unwrap_or(input.spec);
        let (wide, high, channels) = (spec.width as usize, spec.height as usize, spec.channels.count());
        let shape = match spec.arrangement {
            Arrangement::Nchw => [channels, high, wide],
            Arrangement::Nhwc => [high, wide, channels],
        };
        for (item, out) in items.iter().zip(elements.chunks_exact_mut(spec.len().max(1))) {
            let map = place(&mut self.sampler, input, item, &spec, out);
            if let Some(dump) = &model.dump {
                dump.write(item, &map, &shape, out)?;
            }
            self.placed.push(placed(item, &spec, map));
        }
        // Rows without an item hold what they held; nobody reads what comes of them, but it should not be noise.
        if let Some(rest) = elements.get_mut(items.len() * spec.len()..) {
            rest.fill(0.0);
        }
        Ok(())
    }

    /// Decodes the outputs of the batch, by row.
    pub(super) fn decode(
        &self,
        model: &Loaded,
        data: &[&[f32]],
        rows: usize,
        inferences: &mut Vec<Inference>,
    ) {
        let mut outputs = Vec::with_capacity(data.len());
        for (row, placed) in self.placed.iter().enumerate() {
            outputs.clear();
            outputs.extend(data.iter().map(|data| output(data, row, rows)));
            let mut inference = model.head.decode(&outputs, placed);
            inference.not_finite = !outputs.iter().all(|output| is_finite(output.data));
            inferences.push(inference);
        }
    }
}

/// Whether all numbers are finite; in blocks without a branch, which compilers make into few instructions.
fn is_finite(data: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let bad = |value: &f32| u32::from(value.to_bits() & EXPONENT == EXPONENT);
    data.chunks(256)
        .all(|block| block.iter().map(bad).fold(0, std::ops::BitOr::bitor) == 0)
}

fn output(data: &[f32], row: usize, rows: usize) -> Output<'_> {
    let each = data.len() / rows.max(1);
    Output {
        data: &data[row * each..(row + 1) * each],
    }
}

/// The part of the picture that an item is, and its points.
fn part(item: &Item) -> (Rect, &Points) {
    match &item.region {
        Region::Whole => {
            let image = &item.frame.image;
            (
                Rect::new(0.0, 0.0, image.width as f32, image.height as f32),
                &Points::None,
            )
        }
        Region::Crop { rect, points } => (*rect, points),
    }
}

/// How wide the input is for these items: lines of text choose, up to the widest allowed.
fn width(input: &Input, items: &[Item]) -> u32 {
    let Some(widest) = input.widest else {
        return input.spec.width;
    };
    let wanted = items
        .iter()
        .map(|item| aspect(item) * input.spec.height as f32)
        .fold(0.0, f32::max);
    // In steps, so that the runtime sees few different shapes.
    ((wanted / 32.0).ceil() as u32)
        .saturating_mul(32)
        .clamp(input.spec.width.min(widest), widest)
}

/// Width over height of an item as it is read.
fn aspect(item: &Item) -> f32 {
    let (rect, points) = part(item);
    let (width, height) = match points {
        Points::Corners([a, b, c, d]) => {
            let side = |a: &Point, b: &Point| (a.x - b.x).hypot(a.y - b.y);
            (side(a, b) + side(d, c), side(a, d) + side(b, c))
        }
        _ => (rect.width(), rect.height()),
    };
    width / height.max(1e-3)
}

/// How an item comes to lie in the input.
enum Lay {
    /// By a transformation, of which this is the inverse.
    Turned(Projective),
    /// This rectangle of the picture, scaled.
    Straight { rect: Rect, letterbox: bool },
}

fn placed(item: &Item, spec: &InputSpec, map: Map) -> Placed {
    let image = &item.frame.image;
    Placed {
        width: spec.width,
        height: spec.height,
        frame: (image.width as f32, image.height as f32),
        map,
    }
}

fn lay(input: &Input, item: &Item, spec: &InputSpec) -> Lay {
    let (rect, points) = part(item);
    let turned = match (input.align, points) {
        (Align::Face, Points::Face(points)) => aligned_face(points, spec),
        (Align::Flat, Points::Corners(corners)) => flat(input, item, *corners, spec),
        _ => None,
    };
    if let Some(inverse) = turned {
        return Lay::Turned(inverse);
    }
    let rect = input.part(&rect);
    let squeezed = match input.fit {
        Fit::Stretch | Fit::Centre => true,
        Fit::Letterbox => false,
        Fit::Line => rect.width() * spec.height as f32 > rect.height() * spec.width as f32,
    };
    Lay::Straight {
        rect,
        letterbox: !squeezed,
    }
}

/// Samples an item into its row of the input.
fn place(sampler: &mut Sampler, input: &Input, item: &Item, spec: &InputSpec, out: &mut [f32]) -> Map {
    let image = &item.frame.image;
    match lay(input, item, spec) {
        Lay::Turned(inverse) => {
            sampler.warp(image, &inverse, spec, out);
            Map::Turned(inverse)
        }
        Lay::Straight {
            rect,
            letterbox: true,
        } => Map::Straight(sampler.letterbox(image, &rect, spec, out)),
        Lay::Straight { rect, .. } => Map::Straight(sampler.stretch(image, &rect, spec, out)),
    }
}

/// From the input to a flat thing; of a line that keeps its aspect, only the left part of the input is the thing.
fn flat(input: &Input, item: &Item, corners: [Point; 4], spec: &InputSpec) -> Option<Projective> {
    let (width, height) = (spec.width as f32, spec.height as f32);
    let used = if input.fit == Fit::Line {
        (aspect(item) * height).clamp(1.0, width)
    } else {
        width
    };
    Projective::from_quad(corners, used, height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_none_are_seen_wherever_they_stand() {
        let mut data = vec![f32::MAX; 600];
        data[1] = f32::MIN_POSITIVE / 2.0;
        assert!(is_finite(&data) && is_finite(&[]));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
            for at in [0, 255, 256, 599] {
                let mut data = data.clone();
                data[at] = bad;
                assert!(!is_finite(&data), "{bad} at {at}");
            }
        }
    }
}
