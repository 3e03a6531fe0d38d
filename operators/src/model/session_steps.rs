//! A session in three steps: pixels into an input tensor, the run, outputs to inferences. Two input tensors, so that one is
//! filled while the other is read by the run; outputs are kept beyond it, so that they are decoded while the next one runs.

use std::sync::{Arc, Mutex, PoisonError};

use weir_flow::{
    DeviceKind, Infer, Inference, Item, Prepare, ReadOut, SessionError, SessionSteps, StepData, step_data,
};

use super::loaded::Loaded;
use super::prepost::{BatchPrePost, LocatedItems};
use super::runtime::{Feed, KeptOutputs, OpenError};
use super::session::OnnxSession;
use super::sized::rows;

/// Input tensors: one is filled while the other is read.
const FEEDS: usize = 2;

/// Input tensors that no batch has.
type FreeFeeds = Arc<Mutex<Vec<Feed>>>;

/// A batch that is prepared.
struct PreparedBatch {
    feed: Feed,
    rows: usize,
    located: LocatedItems,
}

/// A batch that has run.
struct RanBatch {
    /// Of all graphs, in their order.
    outputs: Vec<KeptOutputs>,
    rows: usize,
    located: LocatedItems,
}

/// Opens the session of `model` on `device` in steps.
pub(super) fn open(model: &Arc<Loaded>, device: DeviceKind) -> Result<SessionSteps, OpenError> {
    let session = OnnxSession::open(Arc::clone(model), device)?;
    let feeds: Result<Vec<Feed>, OpenError> = (0..FEEDS).map(|_| session.another_feed()).collect();
    let feeds: FreeFeeds = Arc::new(Mutex::new(feeds?));
    Ok(SessionSteps {
        prepare: Box::new(OnnxPrepare {
            model: Arc::clone(model),
            prepost: BatchPrePost::with_threads(model.gpu.prepare_threads),
            feeds: Arc::clone(&feeds),
            fills_up: session.fills_up(),
        }),
        infer: Box::new(OnnxInfer { session, feeds }),
        read_out: Box::new(OnnxReadOut {
            model: Arc::clone(model),
        }),
    })
}

fn failed(model: &Loaded, items: usize, reason: String) -> SessionError {
    SessionError::Run {
        model: model.name.clone(),
        batch: items,
        reason,
    }
}

struct OnnxPrepare {
    model: Arc<Loaded>,
    prepost: BatchPrePost,
    feeds: FreeFeeds,
    /// Whether inputs are filled up to the batch sizes that are asked for.
    fills_up: bool,
}

impl OnnxPrepare {
    fn fill(&mut self, items: &[Item], rows: usize) -> Result<PreparedBatch, String> {
        let feed = self.feeds.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut feed = feed.ok_or("more batches are between the steps than there are input tensors")?;
        if let Err(reason) = self.prepost.fill(&self.model, items, rows, &mut feed) {
            give_back(&self.feeds, feed);
            return Err(reason);
        }
        Ok(PreparedBatch {
            feed,
            rows,
            located: self.prepost.take_located(),
        })
    }
}

impl Prepare for OnnxPrepare {
    fn prepare(&mut self, items: &[Item]) -> Result<StepData, SessionError> {
        let rows = rows(&self.model, items.len(), self.fills_up);
        let prepared = if items.len() > rows {
            Err(format!("it takes batches of {rows} at most"))
        } else {
            self.fill(items, rows)
        };
        let prepared = prepared.map_err(|reason| failed(&self.model, items.len(), reason))?;
        Ok(Box::new(prepared))
    }
}

fn give_back(feeds: &FreeFeeds, feed: Feed) {
    let mut feeds = feeds.lock().unwrap_or_else(PoisonError::into_inner);
    // Those of a session that was replaced come back to the new one, which has its own.
    if feeds.len() < FEEDS {
        feeds.push(feed);
    }
}

struct OnnxInfer {
    session: OnnxSession,
    feeds: FreeFeeds,
}

impl Infer for OnnxInfer {
    fn infer(&mut self, items: &[Item], prepared: StepData) -> Result<StepData, SessionError> {
        let PreparedBatch { feed, rows, located } = *step_data(prepared, items.len())?;
        let ran = self.session.run_kept(&feed, rows);
        give_back(&self.feeds, feed);
        let outputs = ran.map_err(|reason| failed(self.session.model(), items.len(), reason))?;
        Ok(Box::new(RanBatch {
            outputs,
            rows,
            located,
        }))
    }

    fn warm_up(&mut self, batch: usize) -> Result<(), SessionError> {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(feed) = feeds.first_mut() else {
            return weir_flow::Session::warm_up(&mut self.session, batch);
        };
        // As batches run here, so that what is measured is what they take.
        let ran = self.session.run_kept_blank(feed, batch);
        ran.map_err(|reason| failed(self.session.model(), batch, reason))
    }

    fn begin(&mut self) -> Result<(), SessionError> {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        for feed in feeds.iter_mut() {
            let began = self.session.begin_kept(feed);
            began.map_err(|reason| failed(self.session.model(), 0, reason))?;
        }
        Ok(())
    }
}

struct OnnxReadOut {
    model: Arc<Loaded>,
}

impl ReadOut for OnnxReadOut {
    fn read_out(&mut self, items: &[Item], outputs: StepData) -> Result<Vec<Inference>, SessionError> {
        let RanBatch {
            outputs,
            rows,
            located,
        } = *step_data(outputs, items.len())?;
        let views: Vec<_> = outputs.iter().flat_map(KeptOutputs::views).collect();
        let data: Vec<&[f32]> = views.iter().map(|view| view.data).collect();
        let decoded = located.postprocess(&self.model, &data, rows);
        decoded.map_err(|reason| failed(&self.model, items.len(), reason))
    }
}
