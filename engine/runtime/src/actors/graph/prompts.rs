//! The thread that makes the prompts of a module whose model generates. It tokenizes them and predicts the lengths of their
//! texts and the beginnings that prompts share, in the order in which requests enter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Sender, unbounded};
use weir_control::{Entry, RequestInfo};
use weir_flow::{Operator, SequenceSpec};
use weir_policy::generate::PrefixFinder;
use weir_types::ModuleId;

use super::pending::PendingRequest;
use crate::length_prediction::LengthPrediction;
use crate::panic_message::panic_message;
use crate::processor_time::{ProcessorTimes, ThreadKind};

/// A request that enters, with its items and without their sequences.
pub(crate) struct PromptJob {
    pub(super) request: RequestInfo,
    pub(super) pending: PendingRequest,
    pub(super) operator: Arc<dyn Operator>,
}

/// The sequences of a request are made, or not.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(crate) struct PromptsMade {
    pub(super) module: ModuleId,
    pub(super) request: RequestInfo,
    /// With its sequences; or how the operator panicked.
    pub(super) made: Result<(PendingRequest, Entry), String>,
}

/// Makes the prompts of one module.
pub(crate) struct PromptMaker {
    pub(crate) module: ModuleId,
    /// Most tokens of a sequence, its prompt included.
    pub(crate) max_sequence_tokens: u32,
    /// Predicts how long its texts become.
    pub(crate) lengths: Option<LengthPrediction>,
    /// Finds beginnings that prompts share; `None` where no instance caches any.
    pub(crate) prefixes: Option<PrefixFinder>,
}

impl PromptMaker {
    /// Starts the thread. What waits for it is bounded by the requests in flight.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub(crate) fn start(
        mut self,
        name: &str,
        on_made: Box<dyn Fn(PromptsMade) + Send>,
        processor: &Arc<ProcessorTimes>,
    ) -> std::io::Result<(Sender<PromptJob>, JoinHandle<()>)> {
        let (sender, jobs) = unbounded::<PromptJob>();
        let processor = Arc::clone(processor);
        let thread = Builder::new().name(format!("weir-prompts-{name}"));
        let thread = thread.spawn(move || {
            let mut timer = processor.timer(ThreadKind::Workers);
            for job in jobs {
                on_made(self.make(job));
                timer.update();
            }
        })?;
        Ok((sender, thread))
    }

    fn make(&mut self, job: PromptJob) -> PromptsMade {
        let PromptJob {
            request,
            mut pending,
            operator,
        } = job;
        let made = catch_unwind(AssertUnwindSafe(|| {
            let sequences = operator.sequences(&pending.items, &pending.branch.results);
            let bounded = sequences.into_iter().map(|spec| self.bounded(spec));
            pending.sequences = bounded.collect();
            let prompts = pending.sequences.iter().map(|spec| spec.prompt.len() as u32);
            let predicted = self.lengths.as_ref();
            let prefixes = self.prefixes.as_mut().map(|finder| {
                let each = pending.sequences.iter().map(|spec| finder.find(&spec.prompt));
                each.collect::<Vec<_>>()
            });
            let entry = Entry::Prompts {
                prompts: prompts.collect(),
                prefixes: prefixes.unwrap_or_default(),
                predicted: predicted.map_or(Vec::new(), |lengths| lengths.predict(&pending.sequences)),
            };
            (pending, entry)
        }));
        PromptsMade {
            module: self.module,
            request,
            made: made.map_err(|panic| panic_message(panic.as_ref())),
        }
    }

    /// A sequence that ends with the last token that there is a place for.
    fn bounded(&self, spec: SequenceSpec) -> SequenceSpec {
        let places = self.max_sequence_tokens.saturating_sub(spec.prompt.len() as u32);
        SequenceSpec {
            max_tokens: spec.max_tokens.min(places).max(1),
            ..spec
        }
    }
}
