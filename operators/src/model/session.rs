//! A session: items in, inferences out. Pixels are sampled from the decoder's planes directly into the input tensor,
//! and outputs are decoded in the runtime's memory.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use weir_flow::{DeviceKind, Inference, Item, Session, SessionError, Step};

use super::batch_probe::blank;
use super::loaded::Loaded;
use super::prepost::BatchPrePost;
use super::runtime::{
    Feed, GpuInput, KeptOutputs, OpenError, Optimization, OrtSession, OutputView, SessionOptions,
};
use super::sized::{SizedSessions, rows};
use crate::heads::ItemTransform;

/// The sessions of one model on one slot, with their input.
pub(super) struct OnnxSession {
    model: Arc<Loaded>,
    sessions: SizedSessions,
    feed: Feed,
    prepost: BatchPrePost,
    /// Part of the head that is of this session.
    _head: Option<Box<dyn Any + Send>>,
}

impl OnnxSession {
    pub(super) fn open(model: Arc<Loaded>, device: DeviceKind) -> Result<Self, OpenError> {
        let graphs = model.graphs.clone();
        Self::open_graphs(model, device, &graphs, (Optimization::All, &[]))
    }

    /// Opens `graphs`, which compute what those of the model do, optimised so far, and writes them as they are then to the paths
    /// where there are any.
    pub(super) fn open_graphs(
        model: Arc<Loaded>,
        device: DeviceKind,
        graphs: &[Arc<[u8]>],
        (optimization, optimized_paths): (Optimization, &[PathBuf]),
    ) -> Result<Self, OpenError> {
        // First: while a head cannot decode, the graphs would be opened for nothing.
        let head = model.head.open().map_err(OpenError::Refused)?;
        let item = model.input.item_shape();
        let gpu = GpuInput {
            options: &model.gpu,
            name: &model.input_name,
            item: &item,
        };
        let open = |(place, bytes): (usize, &Arc<[u8]>)| {
            let options = SessionOptions {
                optimization,
                optimized_path: optimized_paths.get(place).map(PathBuf::as_path),
                gpu: Some(gpu),
                ..SessionOptions::default()
            };
            OrtSession::open_with(bytes, device, &options)
        };
        let open_all = || graphs.iter().enumerate().map(open).collect();
        let sessions = SizedSessions::open(&model, device, open_all)?;
        let feed = sessions.any()?.feed().map_err(OpenError::Refused)?;
        // A GPU waits for inputs that one thread prepares.
        let threads = match device {
            DeviceKind::Cuda(_) => model.gpu.prepare_threads,
            _ => 1,
        };
        let mut session = Self {
            model,
            sessions,
            feed,
            prepost: BatchPrePost::with_threads(threads),
            _head: head,
        };
        for rows in session.sessions.sizes() {
            session.run_blank(rows).map_err(OpenError::Refused)?;
        }
        Ok(session)
    }

    /// Whether inputs are filled up to the batch sizes that are asked for.
    pub(super) fn fills_up(&self) -> bool {
        self.sessions.fills_up()
    }

    /// Rows of an input with so many items.
    fn rows(&self, items: usize) -> usize {
        rows(&self.model, items, self.fills_up())
    }

    /// Runs a batch of blank items.
    fn run_blank(&mut self, items: usize) -> Result<(), String> {
        let rows = self.rows(items);
        let runs = items.max(1).div_ceil(rows);
        blank(&mut self.feed, rows, &self.model.input.item_shape())?;
        let sessions = self.sessions.of(rows);
        let spec = &self.model.input.spec;
        let located = vec![ItemTransform::identity(spec.width, spec.height); rows];
        for _ in 0..runs {
            let mut decoded = Ok(());
            run_all(sessions, &self.feed, &mut Vec::new(), &mut |views| {
                if self.model.head.is_measured() {
                    let data: Vec<&[f32]> = views.iter().map(|view| view.data).collect();
                    decoded = self.model.head.decode_blank(&data, rows, &located);
                }
            })?;
            decoded?;
        }
        Ok(())
    }

    /// An input tensor beside its own.
    pub(super) fn another_feed(&self) -> Result<Feed, OpenError> {
        self.sessions.any()?.feed().map_err(OpenError::Refused)
    }

    pub(super) fn model(&self) -> &Loaded {
        &self.model
    }

    /// Runs each number of rows that has a session of its own, on blank items in `feed`, as [`Self::run_kept`] does.
    pub(super) fn begin_kept(&mut self, feed: &mut Feed) -> Result<(), String> {
        // The largest first: what is kept for it is enough for the others.
        let mut sizes = self.sessions.sizes().into_iter().rev();
        sizes.try_for_each(|rows| self.run_kept_blank(feed, rows))
    }

    /// Runs a batch of blank items in `feed`, as [`Self::run_kept`] does.
    pub(super) fn run_kept_blank(&mut self, feed: &mut Feed, items: usize) -> Result<(), String> {
        let rows = self.rows(items);
        blank(feed, rows, &self.model.input.item_shape())?;
        (0..items.max(1).div_ceil(rows)).try_for_each(|_| self.run_kept(feed, rows).map(|_| ()))
    }

    /// Runs all graphs on `feed` of so many rows; the outputs of each stay as they are when it runs again.
    pub(super) fn run_kept(&mut self, feed: &Feed, rows: usize) -> Result<Vec<KeptOutputs>, String> {
        let sessions = self.sessions.of(rows).iter_mut();
        sessions.map(|session| session.run_kept(feed)).collect()
    }

    /// Runs as many items as one input takes.
    fn chunk(
        &mut self,
        items: &[Item],
        on_step: &mut dyn FnMut(Step),
        inferences: &mut Vec<Inference>,
    ) -> Result<(), String> {
        let rows = self.rows(items.len());
        let Self {
            model,
            sessions,
            feed,
            prepost,
            ..
        } = self;
        prepost.fill(model, items, rows, feed)?;
        on_step(Step::Preprocessed);
        let mut decoded = Ok(Vec::new());
        run_all(sessions.of(rows), feed, &mut Vec::new(), &mut |views| {
            on_step(Step::Inferred);
            let data: Vec<&[f32]> = views.iter().map(|view| view.data).collect();
            decoded = prepost.postprocess(model, &data, rows);
        })?;
        inferences.extend(decoded?);
        on_step(Step::Postprocessed);
        Ok(())
    }
}

impl Session for OnnxSession {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        let mut inferences = Vec::with_capacity(items.len());
        for chunk in items.chunks(self.model.rows.of(items.len())) {
            self.chunk(chunk, on_step, &mut inferences)
                .map_err(|reason| SessionError::Run {
                    model: self.model.name.clone(),
                    batch: items.len(),
                    reason,
                })?;
        }
        Ok(inferences)
    }

    /// The runtime has handles of the GPU's libraries for each thread that runs a session: the first run of a thread makes them, in
    /// tens of milliseconds.
    fn begin(&mut self) -> Result<(), SessionError> {
        let sizes = self.sessions.sizes();
        sizes.into_iter().try_for_each(|rows| self.warm_up(rows))
    }

    fn warm_up(&mut self, batch: usize) -> Result<(), SessionError> {
        self.run_blank(batch).map_err(|reason| SessionError::Run {
            model: self.model.name.clone(),
            batch,
            reason,
        })
    }
}

/// Runs one session within the other, so that the outputs of all can be read in place together.
fn run_all(
    sessions: &mut [OrtSession],
    feed: &Feed,
    views: &mut Vec<OutputView<'_>>,
    read: &mut dyn FnMut(&[OutputView<'_>]),
) -> Result<(), String> {
    let Some((session, rest)) = sessions.split_first_mut() else {
        read(views);
        return Ok(());
    };
    session.run(feed, |outputs| {
        let mut all: Vec<OutputView<'_>> = views.iter().chain(outputs).copied().collect();
        run_all(rest, feed, &mut all, read)
    })?
}

/// Sizes of one row of an output.
pub(super) fn row_shape(shape: &[i64], rows: usize) -> Vec<usize> {
    let sizes = match shape {
        [first, rest @ ..] if first.unsigned_abs() as usize == rows => rest,
        whole => whole,
    };
    sizes.iter().map(|size| size.unsigned_abs() as usize).collect()
}
