use super::*;
use weir_flow::{Rect, Value};

fn settings(labels: &[&str]) -> Settings {
    let text = |text: &str| Value::Text(text.to_owned());
    let mut settings = Settings([("mean".to_owned(), text("0")), ("std".to_owned(), text("255"))].into());
    if !labels.is_empty() {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        settings.0.insert("labels".to_owned(), Value::Texts(labels));
    }
    settings
}

fn specs(outputs: &[(&str, &[usize])]) -> Vec<OutputSpec> {
    let spec = |(name, shape): &(&str, &[usize])| OutputSpec {
        name: (*name).to_owned(),
        shape: shape.to_vec(),
        readable: true,
    };
    outputs.iter().map(spec).collect()
}

fn input() -> Input {
    let port = [Some(1), Some(3), Some(100), Some(200)];
    KIND.input(&Settings::default(), &port).expect("read")
}

fn build_of(outputs: &[(&str, &[usize])], settings: &Settings) -> Result<Box<dyn Head>, String> {
    KIND.build(settings, &input(), &specs(outputs))
}

/// Objects as the published post-processing gives them: sigmoid of each column, or softmax without the last; centre and size to corners,
/// times the size of the picture.
fn reference(logits: &[f32], boxes: &[f32], columns: usize, softmax: bool) -> Vec<(usize, f32, Rect)> {
    let mut found = Vec::new();
    for (logits, sides) in logits.chunks(columns).zip(boxes.chunks(4)) {
        let scores: Vec<f32> = if softmax {
            let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
            logits.iter().map(|logit| logit.exp() / sum).collect()
        } else {
            logits.iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect()
        };
        let (x, y, w, h) = (
            sides[0] * 200.0,
            sides[1] * 100.0,
            sides[2] * 200.0,
            sides[3] * 100.0,
        );
        let rect = Rect::new(x - w / 2.0, y - h / 2.0, x + w / 2.0, y + h / 2.0).clamp(200.0, 100.0);
        if softmax {
            let class = (0..columns - 1)
                .max_by(|a, b| scores[*a].total_cmp(&scores[*b]))
                .expect("a class");
            found.push((class, scores[class], rect));
        } else {
            found.extend(
                scores
                    .iter()
                    .enumerate()
                    .map(|(class, score)| (class, *score, rect)),
            );
        }
    }
    found.retain(|(_, score, _)| *score >= 0.5);
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// Numbers of a fixed sequence, between the bounds.
fn numbers(count: usize, low: f32, high: f32) -> Vec<f32> {
    let mut state = 1_u32;
    let number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        low + (high - low) * (state >> 8) as f32 / (1 << 24) as f32
    };
    std::iter::repeat_with(number).take(count).collect()
}

#[test]
fn queries_are_read_as_the_published_post_processing_does() {
    let (queries, names) = (40, ["a", "b", "c"]);
    for (ports, columns, softmax) in [
        (["logits", "pred_boxes"], 3, false),
        (["logits", "pred_boxes"], 4, true),
        (["pred_logits", "pred_boxes"], 4, true),
        (["labels", "dets"], 3, false),
    ] {
        let outputs: [(&str, &[usize]); 3] = [
            (ports[1], &[queries, 4]),
            ("last_hidden_state", &[queries, 256]),
            (ports[0], &[queries, columns]),
        ];
        let head = build_of(&outputs, &settings(&names)).expect("fits");
        let (logits, boxes) = (
            numbers(queries * columns, -4.0, 3.0),
            numbers(queries * 4, 0.1, 0.9),
        );
        let views = [
            Output { data: &boxes },
            Output { data: &[] },
            Output { data: &logits },
        ];
        assert_eq!(head.inspect(&views, &input()), Ok(None));
        let found = head.decode(&views, &ItemTransform::identity(200, 100)).objects;
        let expected = reference(&logits, &boxes, columns, softmax);
        assert!(expected.len() > 5, "{expected:?}");
        assert_eq!(found.len(), expected.len());
        for (found, (class, score, rect)) in found.iter().zip(expected) {
            assert_eq!(&*found.class, names[class]);
            assert!((found.score - score).abs() < 1e-5);
            assert!(found.rect.iou(&rect) > 0.999, "{:?} {rect:?}", found.rect);
        }
    }
}

#[test]
fn the_number_of_names_says_how_scores_are_meant() {
    let detr = |columns: usize, labels: &[&str]| {
        build_of(
            &[("logits", &[100, columns]), ("pred_boxes", &[100, 4])],
            &settings(labels),
        )
    };
    let rf_detr = |columns: usize, labels: &[&str]| {
        build_of(
            &[("dets", &[300, 4]), ("labels", &[300, columns])],
            &settings(labels),
        )
    };
    for (head, first, last) in [
        (detr(92, &["coco"]), "0", "toothbrush"),
        (detr(91, &["coco"]), "0", "toothbrush"),
        (detr(80, &["coco"]), "person", "toothbrush"),
        (rf_detr(91, &["coco"]), "0", "toothbrush"),
        (rf_detr(3, &["a", "b", "background"]), "a", "background"),
    ] {
        let head = head.expect("fits");
        let names = head.classes();
        assert_eq!(
            (
                names.first().map(|name| &**name),
                names.last().map(|name| &**name)
            ),
            (Some(first), Some(last))
        );
    }
    for (head, words) in [
        (detr(92, &[]), "labels = [\"coco\"]"),
        (detr(5, &[]), "the last is \"no object\""),
        (detr(5, &["a", "b"]), "`labels` of the graph has 2"),
        (rf_detr(3, &["a", "b"]), "name all 3 by `labels`"),
    ] {
        let error = head.err().expect("refused");
        assert!(error.contains(words), "{error}");
    }
    let mut unknown = settings(&["a"]);
    unknown.0.remove("mean");
    let error = build_of(&[("logits", &[100, 1]), ("pred_boxes", &[100, 4])], &unknown).err();
    assert!(error.expect("refused").contains("preprocessor_config.json"));
    assert!(build_of(&[("dets", &[100, 4]), ("labels", &[100, 1])], &unknown).is_ok());
}

#[test]
fn other_shapes_and_values_are_refused() {
    for outputs in [
        [("logits", &[100, 2][..]), ("pred_boxes", &[90, 4][..])],
        [("logits", &[100, 2]), ("boxes", &[100, 4])],
    ] {
        assert!(build_of(&outputs, &settings(&["a", "b"])).is_err(), "{outputs:?}");
    }
    // RTMDet has scores in the fifth column.
    let error = build_of(&[("labels", &[100]), ("dets", &[100, 5])], &settings(&["a", "b"])).err();
    assert!(error.expect("refused").contains("dets [queries, 4]"));
    let head = build_of(
        &[("logits", &[1, 2]), ("pred_boxes", &[1, 4])],
        &settings(&["a", "b"]),
    )
    .expect("fits");
    let inspect = |logits: &[f32], boxes: &[f32]| {
        head.inspect(&[Output { data: logits }, Output { data: boxes }], &input())
    };
    let relative = [0.5, 0.5, 0.1, 0.2];
    assert_eq!(inspect(&[-4.0, 0.5], &relative), Ok(None));
    assert_eq!(inspect(&[f32::NAN; 2], &[f32::NAN; 4]), Ok(None));
    assert!(
        inspect(&[-4.0, 0.5], &[100.0, 50.0, 10.0, 20.0])
            .expect_err("pixels")
            .contains("relative")
    );
    assert!(
        inspect(&[0.1, 0.9], &relative)
            .expect_err("probabilities")
            .contains("sigmoid")
    );
}
