//! A stage of a cascade: what it is asked, and what becomes of its answers.

use std::sync::Arc;

use weir_flow::{CascadeAnswers, Inference, Item, Object, Operator, Points};
use weir_policy::StageCounts;
use weir_policy::gears::StageSetting;
use weir_types::{DropReason, ModuleId, TileGrid};

use crate::analytics::TrackGate;
use crate::cascades::Stage;
use crate::request::RequestBranch;
use crate::sampling::{StageAnswer, StageSampling};

/// The items that an operator makes of a request, without those of tracks that are known well enough. None where the module is
/// for other streams. `tiles` are those of a gear.
pub(super) fn own_items(
    (module, operator): (ModuleId, &dyn Operator),
    gate: Option<&TrackGate>,
    tiles: Option<TileGrid>,
    branch: &RequestBranch,
) -> Vec<Item> {
    if !branch.request.route.runs(module) {
        return Vec::new();
    }
    let (frame, results) = (&branch.request.frame, &branch.results);
    let mut items = match tiles {
        Some(tiles) => operator.tiled_items(frame, results, tiles),
        None => operator.items(frame, results),
    };
    if let Some(gate) = gate {
        gate.retain_wanted(&branch.request, &branch.results, &mut items);
    }
    items
}

/// The items of a request that a stage is asked, with their places among all of the cascade.
pub(super) fn items(
    (stage, setting): (&Stage, StageSetting),
    operator: (ModuleId, &dyn Operator),
    gate: Option<&TrackGate>,
    branch: &mut RequestBranch,
) -> (Vec<Item>, Vec<usize>) {
    let cascade = stage.settles_in.0;
    if stage.is_first {
        let items = own_items(operator, gate, setting.tiles, branch);
        branch.results.set_cascade(cascade, CascadeAnswers::new(items));
    }
    if !stage.is_last && !setting.is_used {
        return Default::default();
    }
    let answers = branch.results.cascade(cascade);
    let open = answers.into_iter().flat_map(CascadeAnswers::open);
    open.map(|(place, item)| (item.clone(), place)).unzip()
}

/// Inferences of one stage of a cascade. `places` holds the index in the cascade for each inference; an
/// inference is `None` if the stage did not run on that item.
pub(super) struct Found {
    pub(super) places: Vec<usize>,
    pub(super) inferences: Vec<Option<Inference>>,
    /// Why it did not come to all, where that is so.
    pub(super) fallback: Option<DropReason>,
}

/// Takes in what the stage found, and counts it. The answers of the last stage become the output of the cascade.
pub(super) fn settle(
    (stage, setting): (&Stage, StageSetting),
    operator: &dyn Operator,
    found: Found,
    branch: &mut RequestBranch,
) -> StageCounts {
    let cascade = stage.settles_in.0;
    let mut answers = branch.results.take_cascade(cascade).unwrap_or_default();
    let mut counts = StageCounts::default();
    let rule = stage.rule(setting);
    let mut divided = Vec::new();
    for (place, inference) in found.places.into_iter().zip(found.inferences) {
        let Some(inference) = inference else {
            let Some(answer) = answers.answer_mut(place) else {
                continue;
            };
            answer.is_accepted = rule.on_unanswered(found.fallback, &mut counts);
            continue;
        };
        let inference = operator.settle(inference);
        let later = certainty(&inference);
        if let Some(sampling) = &stage.sampling {
            sample(
                sampling,
                operator,
                (cascade, place),
                (&inference, later),
                branch,
                &answers,
            );
        }
        let Some(answer) = answers.answer_mut(place) else {
            continue;
        };
        let earlier = answer.is_answered.then(|| certainty(&answer.inference));
        let verdict = rule.on_answer(earlier, later, &mut counts);
        if verdict.replaces {
            answer.inference = inference;
        }
        answer.is_answered = true;
        answer.is_accepted = verdict.is_accepted;
        if !verdict.is_accepted && stage.splits {
            divided.push(place);
        }
    }
    for place in divided {
        answers.split(place, |item, inference| {
            operator.regions(item, inference, rule.certainty)
        });
    }
    if stage.is_last {
        let (items, inferences) = answers.into_parts();
        add_output((cascade, operator), &items, inferences, branch);
    } else {
        branch.results.set_cascade(cascade, answers);
    }
    counts
}

/// Adds the output of a module to the results of a request: of objects that were found in the frame itself, those that count for
/// its stream.
pub(super) fn add_output(
    (module, operator): (u32, &dyn Operator),
    items: &[Item],
    inferences: Vec<Inference>,
    branch: &mut RequestBranch,
) {
    let is_detection = inferences.iter().any(|inference| !inference.objects.is_empty());
    let mut output = operator.output_beside(module, items, inferences, &branch.results);
    let request = &branch.request;
    let has_mask = |object: &Object| matches!(object.points, Points::Mask(_));
    let is_visible = || is_detection || output.objects.iter().any(has_mask);
    if request.frame.privacy.hides() && is_visible() {
        // Before objects are left out that do not count.
        let hidden = request.route.scene.privacy.hidden(&output.objects);
        request.frame.privacy.add(hidden);
    }
    let filter = &request.route.scene.objects;
    if is_detection && !filter.is_empty() {
        let image = &request.frame.image;
        filter.apply((image.width, image.height), &mut output);
    }
    branch.results.add(module, output);
}

/// Hands out what a stage said of the item in a place.
fn sample(
    sampling: &StageSampling,
    operator: &dyn Operator,
    (module, place): (u32, usize),
    (inference, certainty): (&Inference, f32),
    branch: &RequestBranch,
    answers: &CascadeAnswers,
) {
    let Some(item) = answers.item(place) else { return };
    let output = operator.output(module, std::slice::from_ref(item), vec![inference.clone()]);
    let object = item.object.and_then(|of| branch.results.object(of));
    let attribute = output.attributes.into_iter().next();
    let request = &branch.request;
    let stream = sampling.streams.get(request.stream.0 as usize);
    sampling.sampler.on_answer(StageAnswer {
        cascade: Arc::clone(&sampling.cascade),
        stage: sampling.stage,
        stream: stream.map_or_else(|| "".into(), Arc::clone),
        frame: request.frame.index,
        file: request.frame.file.clone(),
        item: u32::try_from(place).unwrap_or(u32::MAX),
        object: object.map(|object| (Arc::clone(&object.class), object.rect)),
        found: output.objects,
        attribute: attribute.map(|attribute| (attribute.name, attribute.attribute)),
        certainty,
    });
}

/// Certainty of an inference, from 0 to 1. If the model reports none, the certainty is 1 when the inference
/// has an attribute or an object, otherwise 0.
fn certainty(inference: &Inference) -> f32 {
    let is_any = inference.attribute.is_some() || !inference.objects.is_empty();
    inference.certainty.unwrap_or(f32::from(u8::from(is_any)))
}
