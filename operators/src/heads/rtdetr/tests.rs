use super::*;
use weir_flow::Value;

fn settings(labels: &[&str], inputs: &[&str]) -> Settings {
    let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
    let mut settings = Settings([("labels".to_owned(), texts(labels))].into());
    if !inputs.is_empty() {
        settings.0.insert(INPUTS.to_owned(), texts(inputs));
    }
    settings
}

fn input() -> Input {
    let port = [Some(1), Some(3), Some(100), Some(200)];
    KIND.input(&Settings::default(), &port).expect("read")
}

fn build_of(outputs: &[(&str, &[usize], bool)], settings: &Settings) -> Result<Box<dyn Head>, String> {
    let spec = |(name, shape, readable): &(&str, &[usize], bool)| OutputSpec {
        name: (*name).to_owned(),
        shape: shape.to_vec(),
        readable: *readable,
    };
    KIND.build(settings, &input(), &outputs.iter().map(spec).collect::<Vec<_>>())
}

fn found(head: &dyn Head, outputs: &[&[f32]]) -> Vec<(String, f32, Rect)> {
    let outputs: Vec<Output<'_>> = outputs.iter().map(|data| Output { data }).collect();
    assert_eq!(head.inspect(&outputs, &input()), Ok(None));
    let objects = head.decode(&outputs, &ItemTransform::identity(200, 100)).objects;
    objects
        .iter()
        .map(|found| (found.class.to_string(), found.score, found.rect))
        .collect()
}

#[test]
fn queries_of_ultralytics_are_read() {
    let head = build_of(&[("output0", &[12, 6], true)], &settings(&["a", "b"], &[])).expect("fits");
    let data = [
        [0.5, 0.5, 0.5, 0.2, 0.1, 0.9],
        // As much as the one before: queries are not suppressed.
        [0.5, 0.5, 0.5, 0.2, 0.1, 0.8],
        [0.2, 0.2, 0.1, 0.1, 0.2, 0.1],
    ]
    .concat();
    let data = [data, [0.2, 0.2, 0.1, 0.1, 0.01, 0.02].repeat(9)].concat();
    let rect = Rect::new(50.0, 40.0, 150.0, 60.0);
    assert_eq!(
        found(&*head, &[&data]),
        [("b".to_owned(), 0.9, rect), ("b".to_owned(), 0.8, rect)]
    );
    let inspect = |data: &[f32]| head.inspect(&[Output { data }], &input()).expect_err("refused");
    assert!(inspect(&[0.0; 72]).contains("never are"));
    assert!(inspect(&[10.0, 20.0, 110.0, 220.0, 0.9, 2.0].repeat(12)).contains("relative to the input"));
    assert!(inspect(&[0.5, 0.5, 0.5, 0.2, -4.0, 0.9].repeat(12)).contains("raw logits"));
}

#[test]
fn queries_with_a_score_and_a_class_are_read() {
    let rect = Rect::new(50.0, 40.0, 150.0, 60.0);
    let rest = [0.2, 0.2, 0.1, 0.1, 0.01, 0.0].repeat(10);
    // As many values as probabilities of two classes, which are no whole numbers.
    for (labels, class) in [(&["a", "b", "c"][..], 2.0), (&["a", "b"], 1.0)] {
        let head = build_of(&[("output0", &[12, 6], true)], &settings(labels, &[])).expect("fits");
        let rows = [[0.5, 0.5, 0.5, 0.2, 0.75, class], [0.5, 0.5, 0.5, 0.2, 0.5, 0.0]];
        let data = [rows.concat(), rest.clone()].concat();
        let name = labels.last().expect("a class");
        assert_eq!(
            found(&*head, &[&data]),
            [((*name).to_owned(), 0.75, rect), ("a".to_owned(), 0.5, rect)]
        );
    }
    let head = build_of(&[("output0", &[12, 6], true)], &settings(&["a", "b", "c"], &[])).expect("fits");
    for (row, words) in [
        ([0.5, 0.5, 0.5, 0.2, 0.9, 3.0], "sixth value is 3"),
        ([0.5, 0.5, 0.5, 0.2, 0.1, 0.9], "sixth value is 0.9"),
        ([0.5, 0.5, 0.5, 0.2, 7.0, 1.0], "fifth value is 7"),
        ([0.2, 0.2, 0.5, 0.6, 0.9, 1.0], "left, top, right, bottom"),
        ([10.0, 20.0, 110.0, 220.0, 0.9, 2.0], "relative to the input"),
    ] {
        let data = row.repeat(12);
        let error = head
            .inspect(&[Output { data: &data }], &input())
            .expect_err("another layout");
        assert!(error.contains(words), "{error}");
    }
    let sized = build_of(
        &[("output0", &[12, 6], true)],
        &settings(&["a", "b", "c"], &["scale_factor"]),
    );
    assert!(sized.is_err(), "class, score and corners of PaddleDetection");
}

#[test]
fn objects_of_the_post_processing_are_read() {
    let outputs: [(&str, &[usize], bool); 3] = [
        ("labels", &[2], false),
        ("boxes", &[2, 4], true),
        ("scores", &[2], true),
    ];
    let head = build_of(&outputs, &settings(&["a", "b"], &["orig_target_sizes"])).expect("fits");
    assert_eq!(
        found(
            &*head,
            &[
                &[1.0, 0.0],
                &[10.0, 20.0, 110.0, 80.0, 1.0, 2.0, 3.0, 4.0],
                &[0.75, 0.3]
            ]
        ),
        [("b".to_owned(), 0.75, Rect::new(10.0, 20.0, 110.0, 80.0))]
    );
    let error = build_of(&outputs, &settings(&["a", "b"], &[]))
        .err()
        .expect("of torchvision");
    assert!(error.contains("orig_target_sizes"), "{error}");
    let views = [
        Output { data: &[2.0, 0.0] },
        Output {
            data: &[10.0, 20.0, 110.0, 80.0, 1.0, 2.0, 3.0, 4.0],
        },
        Output { data: &[0.75, 0.3] },
    ];
    assert!(
        head.inspect(&views, &input())
            .expect_err("two classes")
            .contains("a class is 2")
    );
}

#[test]
fn other_shapes_are_refused() {
    let three = settings(&["a", "b", "c"], &[]);
    for shape in [&[300, 5][..], &[300, 4], &[8400, 7], &[7], &[7, 300], &[7, 8400]] {
        assert!(
            build_of(&[("output0", shape, true)], &three).is_err(),
            "{shape:?}"
        );
    }
    // Rows of another layout are as wide as queries of three classes.
    let head = build_of(&[("output0", &[100, 7], true)], &three).expect("fits");
    let rows = [0.0, 10.0, 20.0, 110.0, 220.0, 2.0, 0.75].repeat(100);
    let error = head
        .inspect(&[Output { data: &rows }], &input())
        .expect_err("pixels");
    assert!(error.contains("each row is picture, left"), "{error}");
}
