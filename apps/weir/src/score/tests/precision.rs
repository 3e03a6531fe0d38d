//! Objects: which detection is of which, and the area under the curve.

use serde_json::json;
use weir_truth::TruthObject;

use super::super::matching::iou;
use super::super::samples::{Draws, car, clip, detection, thing, with, with_event_attribute};
use super::{Detection, near, score_clip};

#[test]
fn a_thing_found_twice_is_found_once() {
    let truth = clip(vec![vec![car(1, 0.0)]]);
    let score = score_clip(
        &truth,
        &[Some(vec![detection("car", 0.9, 0.5), detection("car", 0.8, 0.0)])],
    );
    near(&score.all, "classes/car/precision", 0.5);
    near(&score.all, "classes/car/ap", 1.0);
}

#[test]
fn ignored_things_neither_help_nor_hurt() {
    let mut rng = Draws(7);
    for round in 0..200 {
        let (frames, said) = random_frames(&mut rng);
        let truth = clip(frames.clone());
        let plain = score_clip(&truth, &said);
        // Ignored things far away, each with a detection of its own and with attributes: nothing changes.
        let beside = frames.into_iter().map(|mut objects| {
            let mut hidden = with(car(99, 700.0), "plate", json!({"text": "A"}));
            hidden.ignore = true;
            objects.push(hidden);
            objects
        });
        let beside = clip(beside.collect());
        let found = said.iter().map(|seen| {
            let mut seen = seen.clone()?;
            seen.push(with_event_attribute(
                detection_at(700.5),
                "plate",
                json!({"text": "B"}),
            ));
            Some(seen)
        });
        let with_found = score_clip(&beside, &found.collect::<Vec<_>>());
        let unfound = score_clip(&beside, &said);
        for (name, class) in &plain.all.classes {
            assert_eq!(
                Some(class),
                with_found.all.classes.get(name),
                "round {round}, found"
            );
            assert_eq!(
                Some(class),
                unfound.all.classes.get(name),
                "round {round}, not found"
            );
        }
        assert!(with_found.all.attributes.is_empty(), "round {round}");
        // One upon a real thing takes nothing from it.
        let upon = truth.frames.iter().map(|frame| {
            let ignored = frame.objects.iter().cloned().map(|object| TruthObject {
                ignore: true,
                ..object
            });
            frame.objects.iter().cloned().chain(ignored).collect()
        });
        let upon = score_clip(&clip(upon.collect()), &said);
        for (name, class) in &plain.all.classes {
            assert_eq!(class.right, upon.all.classes[name].right, "round {round}");
            assert!(class.ap <= upon.all.classes[name].ap, "round {round}");
        }
    }
}

fn detection_at(left: f32) -> Detection {
    detection("car", 0.95, left)
}

/// A few frames with things and findings that overlap more or less, some frames not delivered, scores with ties.
fn random_frames(rng: &mut Draws) -> (Vec<Vec<TruthObject>>, Vec<Option<Vec<Detection>>>) {
    let count = 1 + rng.below(4);
    let class = |rng: &mut Draws| if rng.below(3) == 0 { "bus" } else { "car" };
    let mut frames = Vec::new();
    let mut said = Vec::new();
    for _ in 0..count {
        let things = (0..rng.below(5)).map(|id| thing(id, class(rng), rng.below(40) as f32));
        frames.push(things.collect());
        let findings = rng.below(7);
        let findings =
            (0..findings).map(|_| detection(class(rng), rng.below(8) as f32 / 8.0, rng.below(40) as f32));
        let findings: Vec<Detection> = findings.collect();
        said.push((rng.below(5) > 0).then_some(findings));
    }
    (frames, said)
}

/// Average precision straight from its definition: for each threshold match anew, then integrate recall by recall.
fn naive_ap(class: &str, frames: &[Vec<TruthObject>], said: &[Option<Vec<Detection>>]) -> Option<f64> {
    let truths: usize = frames
        .iter()
        .flatten()
        .filter(|object| object.class == class)
        .count();
    let mut ranked: Vec<(f32, usize, usize)> = Vec::new();
    for (frame, seen) in said.iter().enumerate() {
        for (index, seen) in seen
            .iter()
            .flatten()
            .enumerate()
            .filter(|(_, seen)| seen.class == class)
        {
            ranked.push((seen.score, frame, index));
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    // Precision and recall of the first n, each counted from nothing.
    let curve: Vec<(f64, f64)> = (1..=ranked.len())
        .map(|n| {
            let mut used: Vec<(usize, usize)> = Vec::new();
            for &(_, frame, index) in &ranked[..n] {
                let r#box = said[frame].as_ref().unwrap()[index].r#box;
                let free = frames[frame]
                    .iter()
                    .enumerate()
                    .filter(|(thing, object)| object.class == class && !used.contains(&(frame, *thing)));
                let fits = free.map(|(thing, object)| (iou(&object.r#box, &r#box), thing));
                let fits = fits.filter(|(overlap, _)| *overlap >= 0.5);
                let best = fits.fold(None::<(f64, usize)>, |best, fit| match best {
                    Some(best) if best.0 >= fit.0 => Some(best),
                    _ => Some(fit),
                });
                used.extend(best.map(|(_, thing)| (frame, thing)));
            }
            (used.len() as f64 / n as f64, used.len() as f64 / truths as f64)
        })
        .collect();
    let step = |k: usize| {
        let reached = curve
            .iter()
            .filter(|(_, recall)| *recall + 1e-12 >= k as f64 / truths as f64);
        reached.map(|(precision, _)| *precision).fold(0.0, f64::max)
    };
    (truths > 0).then(|| (1..=truths).map(step).sum::<f64>() / truths as f64)
}

#[test]
fn average_precision_is_that_of_its_definition() {
    for seed in 1..=400 {
        let mut rng = Draws(seed);
        let (frames, said) = random_frames(&mut rng);
        let score = score_clip(&clip(frames.clone()), &said);
        for (name, class) in &score.all.classes {
            let naive = naive_ap(name, &frames, &said);
            let same = match (class.ap, naive) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-9,
                (a, b) => a == b,
            };
            assert!(
                same,
                "seed {seed}, {name}: {:?}, by definition {naive:?}",
                class.ap
            );
        }
    }
}
