//! A session: pictures go to a worker process, and its answers are checked.

use std::sync::Arc;

use weir_flow::{Image, Inference, Item, Region, Session, SessionError, Step};

use super::memory::SHARED_BYTES;
use super::model::Shared;
use super::process::{CallError, WorkerProcess};
use super::protocol::{ItemFacts, Request};
use super::results::{Placed, inferences};
use crate::pictures::crop::{crop, region_of};
use crate::pixels::Sampler;

/// A worker process, and buffers for its input.
pub(super) struct PythonSession {
    shared: Arc<Shared>,
    /// `None` after the process was lost: the session fails until it is closed.
    process: Option<WorkerProcess>,
    sampler: Sampler,
    pixels: Vec<u8>,
}

impl PythonSession {
    pub(super) fn new(shared: Arc<Shared>, process: WorkerProcess) -> Self {
        Self {
            shared,
            process: Some(process),
            sampler: Sampler::new(),
            pixels: Vec::new(),
        }
    }

    fn run_all(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, String> {
        let mut results = Vec::with_capacity(items.len());
        while results.len() < items.len() {
            let rest = &items[results.len()..];
            let called = self.run_some(rest, results.len(), on_step)?;
            results.extend(called);
        }
        Ok(results)
    }

    /// Calls the function with as many items as one call takes. `first` is the place of the first one in its batch.
    fn run_some(
        &mut self,
        items: &[Item],
        first: usize,
        on_step: &mut dyn FnMut(Step),
    ) -> Result<Vec<Inference>, String> {
        let max = self.shared.function.max_batch as usize;
        let placed = placements(&items[..items.len().min(max)], first)?;
        let items = &items[..placed.len()];
        let process = self.process.as_mut().ok_or("the worker process was lost")?;
        let mut facts = Vec::with_capacity(items.len());
        let mut offset = 0;
        for (item, placed) in items.iter().zip(&placed) {
            write_pixels(item, &mut self.sampler, &mut self.pixels);
            let written = process.memory.write(&self.pixels, offset);
            written.map_err(|error| format!("no memory for pictures: {}", weir_files::io_reason(&error)))?;
            facts.push(facts_of(item, *placed, offset));
            offset += self.pixels.len() as u64;
        }
        on_step(Step::Preprocessed);
        let answer = process.call(&Request { items: &facts }, self.shared.function.timeout);
        on_step(Step::Inferred);
        let answer = match answer {
            Ok(answer) => answer,
            Err(CallError::Raised(reason)) => return Err(reason),
            Err(error) => {
                self.process = None;
                return Err(error.into_reason());
            }
        };
        let results = inferences(answer.items, &placed);
        on_step(Step::Postprocessed);
        results
    }
}

impl Session for PythonSession {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        self.run_all(items, on_step).map_err(|reason| {
            self.shared.on_failure(&reason);
            SessionError::Run {
                model: self.shared.function.name.clone(),
                batch: items.len(),
                reason,
            }
        })
    }

    fn warm_up(&mut self, batch: usize) -> Result<(), SessionError> {
        let items = self.shared.blank_items(batch);
        self.run_all(&items, &mut |_| ())
            .map(drop)
            .map_err(|reason| SessionError::Run {
                model: self.shared.function.name.clone(),
                batch,
                reason: format!(
                    "{reason} (with blank pictures, by which it is measured before the first frame)"
                ),
            })
    }
}

impl Drop for PythonSession {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            self.shared.keep(process);
        }
    }
}

/// Pixels of the first items, as many as fit into the shared memory together.
///
/// # Errors
/// The first item does not fit, or has no pixels.
fn placements(items: &[Item], first: usize) -> Result<Vec<Placed>, String> {
    let mut placed = Vec::with_capacity(items.len());
    let mut bytes = 0;
    for (index, item) in (first..).zip(items) {
        let own = placement(item).ok_or_else(|| format!("item {index} has no pixels"))?;
        bytes += u64::from(own.width) * u64::from(own.height) * 3;
        if bytes > SHARED_BYTES {
            break;
        }
        placed.push(own);
    }
    if placed.is_empty() {
        return Err(format!(
            "item {first} has more than {} MiB of pixels",
            SHARED_BYTES >> 20
        ));
    }
    Ok(placed)
}

/// Pixels that an item is given; `None` for next to none.
pub(super) fn placement(item: &Item) -> Option<Placed> {
    let image = &item.frame.image;
    let [left, top, width, height] = match &item.region {
        Region::Whole => [0, 0, image.width, image.height],
        Region::Crop { rect, .. } => region_of(image, rect)?,
    };
    (width > 0 && height > 0).then_some(Placed {
        left,
        top,
        width,
        height,
    })
}

fn write_pixels(item: &Item, sampler: &mut Sampler, pixels: &mut Vec<u8>) {
    let image: &Image = &item.frame.image;
    let cut = match &item.region {
        Region::Whole => None,
        Region::Crop { rect, .. } => crop(image, rect, u32::MAX),
    };
    sampler.rgb(cut.as_ref().unwrap_or(image), pixels);
}

fn facts_of(item: &Item, placed: Placed, offset: u64) -> ItemFacts<'_> {
    let frame = &item.frame;
    ItemFacts {
        offset,
        width: placed.width,
        height: placed.height,
        stream: &frame.stream,
        sequence: frame.index,
        pts_ms: frame.pts_ms,
        size: [frame.image.width, frame.image.height],
        r#box: match &item.region {
            Region::Whole => None,
            Region::Crop { rect, .. } => Some([rect.x0, rect.y0, rect.x1, rect.y1]),
        },
        label: item.class.as_deref(),
    }
}
