//! A stage of a cascade: what it is asked, and what becomes of its answers.

use weir_flow::{CascadeAnswers, Inference, Item, Operator};
use weir_policy::gears::is_accepted;
use weir_policy::{ModuleStats, StageCounts};
use weir_types::DropReason;

use crate::cascades::Stage;
use crate::request::RequestBranch;

/// The items of a request that a stage is asked, with their places among all of the cascade.
pub(super) fn items(
    stage: &Stage,
    operator: &dyn Operator,
    branch: &mut RequestBranch,
) -> (Vec<Item>, Vec<usize>) {
    let cascade = stage.settles_in.0;
    if stage.is_first {
        let items = operator.items(&branch.request.frame, &branch.results);
        branch.results.set_cascade(cascade, CascadeAnswers::new(items));
    }
    if !stage.is_last && !stage.switch.is_used() {
        return Default::default();
    }
    let answers = branch.results.cascade(cascade);
    let open = answers.into_iter().flat_map(CascadeAnswers::open);
    open.map(|(place, item)| (item.clone(), place)).unzip()
}

/// What a stage found: which item of the cascade each inference is of; `None` where the stage did not come to it.
pub(super) struct Found {
    pub(super) places: Vec<usize>,
    pub(super) inferences: Vec<Option<Inference>>,
    /// Why it did not come to all, where that is so.
    pub(super) fallback: Option<DropReason>,
}

/// Takes in what the stage found. The answers of the last stage become the output of the cascade.
pub(super) fn settle(
    stage: &Stage,
    operator: &dyn Operator,
    found: Found,
    branch: &mut RequestBranch,
    stats: &mut ModuleStats,
) {
    let cascade = stage.settles_in.0;
    let mut answers = branch.results.take_cascade(cascade).unwrap_or_default();
    let mut counts = StageCounts::default();
    // Where there is no time left for this stage, there is none for the stages after it.
    let is_late = found.fallback.is_some_and(|reason| reason != DropReason::Failed);
    for (place, inference) in found.places.into_iter().zip(found.inferences) {
        let Some(answer) = answers.answer_mut(place) else {
            continue;
        };
        let Some(inference) = inference else {
            answer.is_accepted = is_late || stage.is_last;
            counts.accepted_late += u64::from(is_late);
            counts.failed += u64::from(!is_late);
            continue;
        };
        let inference = operator.settle(inference);
        let later = certainty(&inference);
        let earlier = answer.is_answered.then(|| certainty(&answer.inference));
        if stage.settle.replaces(earlier, Some(later)) {
            answer.inference = inference;
        }
        answer.is_answered = true;
        answer.is_accepted = stage.is_last || is_accepted(later, stage.switch.certainty());
        counts.accepted += u64::from(answer.is_accepted);
        counts.handed_on += u64::from(!answer.is_accepted);
    }
    stats.on_stage(counts);
    if stage.is_last {
        let (items, inferences) = answers.into_parts();
        branch
            .results
            .add(cascade, operator.output(cascade, &items, inferences));
    } else {
        branch.results.set_cascade(cascade, answers);
    }
}

/// How certain an inference is. One of a model that does not say is certain where it is one at all.
fn certainty(inference: &Inference) -> f32 {
    let is_any = inference.attribute.is_some() || !inference.objects.is_empty();
    inference.certainty.unwrap_or(f32::from(u8::from(is_any)))
}
