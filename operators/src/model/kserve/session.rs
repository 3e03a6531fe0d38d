//! A session on a model server: pixels are sampled here, the model runs there, and outputs are decoded here.

use std::sync::Arc;
use std::time::Duration;

use weir_flow::{Inference, Item, Session, SessionError, Step};
use weir_kserve::client::{ReceivedTensor, SentTensor, write_request};

use super::super::batch_probe::blank;
use super::super::loaded::Loaded;
use super::super::prepost::BatchPrePost;
use super::super::runtime::Feed;
use super::OutputShapes;
use super::client::{Call, Client};

/// Calls from one slot to one server.
pub(super) struct ServerSession {
    model: Arc<Loaded>,
    shapes: Arc<OutputShapes>,
    client: Client,
    feed: Feed,
    prepost: BatchPrePost,
    /// Of the last batch and its answer, kept for the next.
    body: Vec<u8>,
    answer: Vec<u8>,
    /// Time within which the result of the next batch is still of use; `None` sets no limit.
    limit: Option<Duration>,
}

impl ServerSession {
    pub(super) fn new(model: Arc<Loaded>, shapes: Arc<OutputShapes>, client: Client) -> Self {
        Self {
            model,
            shapes,
            client,
            feed: Feed::host(),
            prepost: BatchPrePost::new(),
            body: Vec::new(),
            answer: Vec::new(),
            limit: None,
        }
    }

    fn rows(&self, items: usize) -> usize {
        self.model.rows.of(items)
    }

    fn call(&mut self, rows: usize) -> Result<Vec<ReceivedTensor>, String> {
        let (shape, data) = self.feed.host_parts().ok_or("its input is not in this memory")?;
        let input = SentTensor {
            name: &self.model.input_name,
            shape,
            data,
        };
        let timeout = self
            .limit
            .map(|limit| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX));
        let header = write_request(&input, self.shapes.names(), timeout, &mut self.body)?;
        let call = Call {
            body: &self.body,
            header,
            outputs: self.shapes.names(),
            limit: self.limit,
        };
        let outputs = self.client.infer(&call, &mut self.answer)?;
        self.shapes.check(&outputs, rows)?;
        Ok(outputs)
    }

    fn chunk(
        &mut self,
        items: &[Item],
        on_step: &mut dyn FnMut(Step),
        inferences: &mut Vec<Inference>,
    ) -> Result<(), String> {
        let rows = self.rows(items.len());
        self.prepost.fill(&self.model, items, rows, &mut self.feed)?;
        on_step(Step::Preprocessed);
        let outputs = self.call(rows)?;
        on_step(Step::Inferred);
        let data: Vec<&[f32]> = outputs.iter().map(|output| &*output.data).collect();
        inferences.extend(self.prepost.postprocess(&self.model, &data, rows)?);
        on_step(Step::Postprocessed);
        Ok(())
    }
}

impl Session for ServerSession {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        let most = self.rows(items.len());
        let mut inferences = Vec::with_capacity(items.len());
        let mut run = || {
            items
                .chunks(most)
                .try_for_each(|chunk| self.chunk(chunk, on_step, &mut inferences))
        };
        run().map_err(|reason| SessionError::Run {
            model: self.model.name.clone(),
            batch: items.len(),
            reason,
        })?;
        Ok(inferences)
    }

    fn warm_up(&mut self, batch: usize) -> Result<(), SessionError> {
        let rows = self.rows(batch);
        let shape = self.model.input.item_shape();
        let mut warm = || {
            blank(&mut self.feed, rows, &shape)?;
            (0..batch.max(1).div_ceil(rows)).try_for_each(|_| self.call(rows).map(drop))
        };
        warm().map_err(|reason| SessionError::Run {
            model: self.model.name.clone(),
            batch,
            reason,
        })
    }

    fn within(&mut self, limit: Option<Duration>) {
        self.limit = limit;
    }
}
