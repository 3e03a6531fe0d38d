//! Preprocessing of items into an input tensor, and postprocessing of outputs into inferences.

use weir_flow::{Inference, Item, Point, Points, Rect, Region};

use super::loaded::Loaded;
use super::runtime::Feed;
use crate::heads::Input;
use crate::heads::input::{Align, Fit, ItemTransform, PixelMap, aligned_face};
#[cfg(feature = "cuda")]
use crate::pixels::device::DeviceSampling;
use crate::pixels::{Arrangement, InputSpec, Projective, Sampler, placement};

/// Pre- and postprocessing of one batch at a time; keeps the transforms of its items.
pub(super) struct BatchPrePost {
    /// One for each thread that prepares.
    samplers: Vec<Sampler>,
    spec: Option<InputSpec>,
    located: LocatedItems,
}

/// Transforms from the input back to the picture, one per item of a batch; decoding the outputs needs them.
#[derive(Debug, Default)]
pub(super) struct LocatedItems(Vec<ItemTransform>);

impl BatchPrePost {
    /// On the thread that calls.
    pub(super) fn new() -> Self {
        Self::with_threads(1)
    }

    /// Items of a batch are shared among so many threads.
    pub(super) fn with_threads(threads: usize) -> Self {
        Self {
            samplers: (0..threads.max(1)).map(|_| Sampler::new()).collect(),
            spec: None,
            located: LocatedItems::default(),
        }
    }

    /// Starts a batch of these items; returns the shape of its input with that many rows.
    pub(super) fn start_batch(&mut self, input: &Input, items: &[Item], rows: usize) -> [usize; 4] {
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
        self.located.0.clear();
        shape
    }

    /// Computes the transforms of items that another instance preprocessed.
    pub(super) fn locate_items(&mut self, model: &Loaded, items: &[Item]) {
        let input = &model.input;
        self.start_batch(input, items, items.len());
        let spec = self.spec.unwrap_or(input.spec);
        let transform = items.iter().map(|item| {
            let map = pixel_map(item, sampling(input, item, &spec), &spec);
            item_transform(item, &spec, map)
        });
        self.located.0.extend(transform);
    }

    /// Starts a batch and fills its input with that many rows: on the device of `feed` where all pictures are there, else on the
    /// host.
    pub(super) fn fill(
        &mut self,
        model: &Loaded,
        items: &[Item],
        rows: usize,
        feed: &mut Feed,
    ) -> Result<(), String> {
        let shape = self.start_batch(&model.input, items, rows);
        #[cfg(feature = "cuda")]
        if model.dump.is_none() && self.fill_on_device(&model.input, items, &shape, feed)? {
            return Ok(());
        }
        feed.reshape(&shape)?;
        self.preprocess(model, items, feed.elements())
    }

    /// Fills the input in the memory of its device; says whether that can be.
    #[cfg(feature = "cuda")]
    fn fill_on_device(
        &mut self,
        input: &Input,
        items: &[Item],
        shape: &[usize; 4],
        feed: &mut Feed,
    ) -> Result<bool, String> {
        let spec = self.spec.unwrap_or(input.spec);
        let samplings: Vec<Sampling> = items.iter().map(|item| sampling(input, item, &spec)).collect();
        let on_device: Vec<DeviceSampling> = samplings.iter().map(Sampling::on_device).collect();
        if !super::device_input::fill(items, &on_device, &spec, shape, feed)? {
            return Ok(false);
        }
        let located = items.iter().zip(samplings).map(|(item, sampling)| {
            let map = pixel_map(item, sampling, &spec);
            item_transform(item, &spec, map)
        });
        self.located.0.extend(located);
        Ok(true)
    }

    /// Fills the elements of the batch's input.
    pub(super) fn preprocess(
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
        let each = items.len().div_ceil(self.samplers.len()).max(1);
        let prepare = |sampler: &mut Sampler, items: &[Item], elements: &mut [f32]| {
            let rows = elements.chunks_exact_mut(spec.len().max(1));
            let one = |(item, out): (&Item, &mut [f32])| {
                let map = sample_item(sampler, input, item, &spec, out);
                if let Some(dump) = &model.dump {
                    dump.write(item, &map, &shape, out)?;
                }
                Ok(item_transform(item, &spec, map))
            };
            items
                .iter()
                .zip(rows)
                .map(one)
                .collect::<Result<Vec<_>, String>>()
        };
        let parts = items
            .chunks(each)
            .zip(elements.chunks_mut(each * spec.len().max(1)));
        let mut parts = self.samplers.iter_mut().zip(parts);
        let first = parts.next();
        let located = std::thread::scope(|scope| {
            let others: Vec<_> = parts
                .map(|(sampler, (items, elements))| scope.spawn(|| prepare(sampler, items, elements)))
                .collect();
            let first = first.map(|(sampler, (items, elements))| prepare(sampler, items, elements));
            let others = others.into_iter().map(|other| {
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            first
                .into_iter()
                .chain(others)
                .collect::<Result<Vec<_>, String>>()
        });
        self.located.0.extend(located?.into_iter().flatten());
        // Rows without an item keep old values, which nothing reads; they are zeroed to be deterministic.
        if let Some(rest) = elements.get_mut(items.len() * spec.len()..) {
            rest.fill(0.0);
        }
        Ok(())
    }

    /// Takes the transforms of the items of this batch, and leaves none for the next one.
    pub(super) fn take_located(&mut self) -> LocatedItems {
        std::mem::take(&mut self.located)
    }

    /// Decodes the outputs of the batch.
    ///
    /// # Errors
    /// The head has no results.
    pub(super) fn postprocess(
        &self,
        model: &Loaded,
        data: &[&[f32]],
        rows: usize,
    ) -> Result<Vec<Inference>, String> {
        self.located.postprocess(model, data, rows)
    }
}

impl LocatedItems {
    /// Decodes the outputs of their batch.
    ///
    /// # Errors
    /// The head has no results.
    pub(super) fn postprocess(
        &self,
        model: &Loaded,
        data: &[&[f32]],
        rows: usize,
    ) -> Result<Vec<Inference>, String> {
        model.head.decode_batch(data, rows, &self.0)
    }
}

/// The region of the picture that an item covers, and its landmarks.
fn item_region(item: &Item) -> (Rect, &Points) {
    match &item.region {
        Region::Whole => (item.frame.image.bounds(), &Points::None),
        Region::Crop { rect, points } => (*rect, points),
    }
}

/// Width of the input for these items: batches of text lines choose it, up to the largest allowed.
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

/// Width over height of an item in reading direction.
fn aspect(item: &Item) -> f32 {
    let (rect, points) = item_region(item);
    let (width, height) = match points {
        Points::Corners([a, b, c, d]) => {
            let side = |a: &Point, b: &Point| (a.x - b.x).hypot(a.y - b.y);
            (side(a, b) + side(d, c), side(a, d) + side(b, c))
        }
        _ => (rect.width(), rect.height()),
    };
    width / height.max(1e-3)
}

/// Sampling of an item from its picture into the input.
#[derive(Clone, Copy)]
enum Sampling {
    /// By a transform, of which this is the inverse.
    Warp(Projective),
    /// This rectangle of the picture, scaled.
    Scale { rect: Rect, letterbox: bool },
}

#[cfg(feature = "cuda")]
impl Sampling {
    fn on_device(&self) -> DeviceSampling {
        match *self {
            Self::Warp(inverse) => DeviceSampling::Warp(inverse),
            Self::Scale { rect, letterbox } => DeviceSampling::Scale { rect, letterbox },
        }
    }
}

/// From pixels of the input to those of the picture.
fn pixel_map(item: &Item, sampling: Sampling, spec: &InputSpec) -> PixelMap {
    match sampling {
        Sampling::Warp(inverse) => PixelMap::Warped(inverse),
        Sampling::Scale { rect, letterbox } => {
            PixelMap::Scaled(placement(&item.frame.image, &rect, spec, letterbox))
        }
    }
}

fn item_transform(item: &Item, spec: &InputSpec, map: PixelMap) -> ItemTransform {
    let image = &item.frame.image;
    ItemTransform {
        width: spec.width,
        height: spec.height,
        frame: (image.width as f32, image.height as f32),
        map,
    }
}

fn sampling(input: &Input, item: &Item, spec: &InputSpec) -> Sampling {
    let (rect, points) = item_region(item);
    let turned = match (input.align, points) {
        (Align::Face, Points::Face(points)) => aligned_face(points, spec),
        (Align::Quad, Points::Corners(corners)) => flattening(input, item, *corners, spec),
        _ => None,
    };
    if let Some(inverse) = turned {
        return Sampling::Warp(inverse);
    }
    let rect = input.read_region(&rect);
    let squeezed = match input.fit {
        Fit::Stretch | Fit::Centre => true,
        Fit::Letterbox => false,
        Fit::Line => rect.width() * spec.height as f32 > rect.height() * spec.width as f32,
    };
    Sampling::Scale {
        rect,
        letterbox: !squeezed,
    }
}

/// Samples an item into its row of the input.
fn sample_item(
    sampler: &mut Sampler,
    input: &Input,
    item: &Item,
    spec: &InputSpec,
    out: &mut [f32],
) -> PixelMap {
    let image = &item.frame.image;
    match sampling(input, item, spec) {
        Sampling::Warp(inverse) => {
            sampler.warp(image, &inverse, spec, out);
            PixelMap::Warped(inverse)
        }
        Sampling::Scale {
            rect,
            letterbox: true,
        } => PixelMap::Scaled(sampler.letterbox(image, &rect, spec, out)),
        Sampling::Scale { rect, .. } => PixelMap::Scaled(sampler.stretch(image, &rect, spec, out)),
    }
}

/// From the input to a quadrilateral; for a line that keeps its aspect, only the left part of the input is covered.
fn flattening(input: &Input, item: &Item, corners: [Point; 4], spec: &InputSpec) -> Option<Projective> {
    let (width, height) = (spec.width as f32, spec.height as f32);
    let used = if input.fit == Fit::Line {
        (aspect(item) * height).clamp(1.0, width)
    } else {
        width
    };
    Projective::from_quad(corners, used, height)
}
