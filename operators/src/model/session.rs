//! A session: items in, inferences out. Pixels go from the decoder's planes straight into the input tensor, and
//! outputs are decoded where the runtime put them.

use std::sync::Arc;

use weir_flow::{DeviceKind, Inference, Item, Point, Points, Rect, Region, Session, SessionError, Step};

use super::Loaded;
use super::batch::{Rows, blank};
use super::runtime::{Engine, Feed, View};
use crate::heads::input::{Align, Fit, Map, Placed, aligned_face};
use crate::heads::{Input, Output};
use crate::pixels::{Arrangement, InputSpec, Projective, Sampler};

/// The engines of one model on one slot, with their input.
pub(super) struct OnnxSession {
    model: Arc<Loaded>,
    engines: Vec<Engine>,
    feed: Feed,
    sampler: Sampler,
    placed: Vec<Placed>,
}

impl OnnxSession {
    pub(super) fn open(model: Arc<Loaded>, device: DeviceKind) -> Result<Self, String> {
        let engines: Vec<Engine> = model
            .graphs
            .iter()
            .map(|bytes| Engine::open(bytes, device))
            .collect::<Result<_, _>>()?;
        let feed = engines.first().ok_or("there is no graph")?.feed()?;
        Ok(Self {
            model,
            engines,
            feed,
            sampler: Sampler::new(),
            placed: Vec::new(),
        })
    }

    /// Runs as many items as one input holds.
    fn chunk(
        &mut self,
        items: &[Item],
        lap: &mut dyn FnMut(Step),
        inferences: &mut Vec<Inference>,
    ) -> Result<(), String> {
        let rows = match self.model.rows {
            Rows::Free => items.len(),
            Rows::Fixed(rows) => rows,
        };
        self.prepare(items, rows)?;
        lap(Step::Prepared);
        let Self {
            model,
            engines,
            feed,
            placed,
            ..
        } = self;
        run_all(engines, feed, &mut Vec::new(), &mut |views| {
            lap(Step::Inferred);
            let mut outputs = Vec::with_capacity(views.len());
            for (row, placed) in placed.iter().enumerate() {
                outputs.clear();
                outputs.extend(views.iter().map(|view| output(view, row, rows)));
                inferences.push(model.head.decode(&outputs, placed));
            }
        })?;
        lap(Step::Decoded);
        Ok(())
    }

    /// Fills the input with the items.
    fn prepare(&mut self, items: &[Item], rows: usize) -> Result<(), String> {
        let input = &self.model.input;
        let spec = InputSpec {
            width: width(input, items),
            ..input.spec
        };
        let (wide, high, channels) = (spec.width as usize, spec.height as usize, spec.channels.count());
        let shape = match spec.arrangement {
            Arrangement::Nchw => [rows, channels, high, wide],
            Arrangement::Nhwc => [rows, high, wide, channels],
        };
        self.feed.reshape(&shape)?;
        self.placed.clear();
        let elements = self.feed.elements();
        for (item, out) in items.iter().zip(elements.chunks_exact_mut(spec.len().max(1))) {
            let map = place(&mut self.sampler, input, item, &spec, out);
            let image = &item.frame.image;
            let frame = (image.width as f32, image.height as f32);
            if let Some(dump) = &self.model.dump {
                dump.write(item, &map, &shape[1..], out)?;
            }
            self.placed.push(Placed {
                width: spec.width,
                height: spec.height,
                frame,
                map,
            });
        }
        // Rows without an item hold what they held; nobody reads what comes of them, but it should not be noise.
        if let Some(rest) = elements.get_mut(items.len() * spec.len()..) {
            rest.fill(0.0);
        }
        Ok(())
    }
}

impl Session for OnnxSession {
    fn run(&mut self, items: &[Item], lap: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        let most = match self.model.rows {
            Rows::Free => items.len().max(1),
            Rows::Fixed(rows) => rows,
        };
        let mut inferences = Vec::with_capacity(items.len());
        for chunk in items.chunks(most) {
            self.chunk(chunk, lap, &mut inferences)
                .map_err(|reason| SessionError::Run {
                    model: self.model.name.clone(),
                    batch: items.len(),
                    reason,
                })?;
        }
        Ok(inferences)
    }

    fn warm(&mut self, batch: usize) -> Result<(), SessionError> {
        let (rows, runs) = match self.model.rows {
            Rows::Free => (batch.max(1), 1),
            Rows::Fixed(rows) => (rows, batch.max(1).div_ceil(rows)),
        };
        let shape = self.model.input.item_shape();
        let mut warm = || {
            blank(&mut self.feed, rows, &shape)?;
            (0..runs).try_for_each(|_| run_all(&mut self.engines, &self.feed, &mut Vec::new(), &mut |_| ()))
        };
        warm().map_err(|reason| SessionError::Run {
            model: self.model.name.clone(),
            batch,
            reason,
        })
    }
}

/// Runs one engine within the other, so that the outputs of all can be read in place together.
fn run_all(
    engines: &mut [Engine],
    feed: &Feed,
    views: &mut Vec<View<'_>>,
    read: &mut dyn FnMut(&[View<'_>]),
) -> Result<(), String> {
    let Some((engine, rest)) = engines.split_first_mut() else {
        read(views);
        return Ok(());
    };
    engine.run(feed, |outputs| {
        let mut all: Vec<View<'_>> = views.iter().chain(outputs).copied().collect();
        run_all(rest, feed, &mut all, read)
    })?
}

/// Sizes of one row of an output.
pub(super) fn row_shape<'a>(view: &View<'a>, rows: usize) -> &'a [i64] {
    match view.shape {
        [first, rest @ ..] if first.unsigned_abs() as usize == rows => rest,
        whole => whole,
    }
}

fn output<'a>(view: &View<'a>, row: usize, rows: usize) -> Output<'a> {
    let each = view.data.len() / rows.max(1);
    Output {
        data: &view.data[row * each..(row + 1) * each],
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

/// Samples an item into its row of the input.
fn place(sampler: &mut Sampler, input: &Input, item: &Item, spec: &InputSpec, out: &mut [f32]) -> Map {
    let (rect, points) = part(item);
    let image = &item.frame.image;
    let turned = match (input.align, points) {
        (Align::Face, Points::Face(points)) => aligned_face(points, spec),
        (Align::Flat, Points::Corners(corners)) => flat(input, item, *corners, spec),
        _ => None,
    };
    if let Some(inverse) = turned {
        sampler.warp(image, &inverse, spec, out);
        return Map::Turned(inverse);
    }
    let rect = input.part(&rect);
    let squeezed = match input.fit {
        Fit::Stretch | Fit::Centre => true,
        Fit::Letterbox => false,
        Fit::Line => rect.width() * spec.height as f32 > rect.height() * spec.width as f32,
    };
    Map::Straight(if squeezed {
        sampler.stretch(image, &rect, spec, out)
    } else {
        sampler.letterbox(image, &rect, spec, out)
    })
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
