//! Operators on hand-made evidence and inferences.

use std::sync::Arc;

use weir_flow::{
    Attribute, Batching, DeviceKind, Frame, Image, Inference, Item, KeyPoint, Model, ModuleOutput, Object,
    ObjectRef, Operator, Point, Points, Rect, Region, RequestResults, Session, SessionError, Settings,
    TileGrid, Value,
};

use super::{OperatorRequest, operator};

fn make(name: &str, regions: &[&str], keys: &[(&str, f64)]) -> Arc<dyn Operator> {
    let regions: Vec<String> = regions.iter().map(|class| (*class).to_owned()).collect();
    let settings = Settings(
        keys.iter()
            .map(|(key, value)| ((*key).to_owned(), Value::Number(*value)))
            .collect(),
    );
    let request = OperatorRequest {
        operator: name,
        regions: &regions,
        settings: &settings,
        model: None,
    };
    operator(&request).expect("made")
}

fn frame() -> Arc<Frame> {
    Arc::new(Frame::new(
        0,
        0.0,
        Image::from_rgb(200, 100, vec![0; 200 * 100 * 3]),
    ))
}

fn object(class: &str, rect: Rect, points: Points) -> Object {
    Object {
        class: class.into(),
        score: 0.9,
        rect,
        parent: None,
        points,
        candidate: false,
    }
}

fn results(objects: Vec<Object>) -> RequestResults {
    let mut results = RequestResults::default();
    results.add(
        3,
        ModuleOutput {
            objects,
            attributes: Vec::new(),
        },
    );
    results
}

fn face() -> Points {
    Points::Face(
        [
            (40.0, 30.0),
            (60.0, 30.0),
            (50.0, 40.0),
            (42.0, 50.0),
            (58.0, 50.0),
        ]
        .map(|(x, y)| Point::new(x, y)),
    )
}

fn rect_of(item: &Item) -> Rect {
    match &item.region {
        Region::Whole => panic!("the whole frame"),
        Region::Crop { rect, .. } => *rect,
    }
}

#[test]
fn the_largest_objects_of_the_classes_are_cropped() {
    let operator = make("detect", &["car"], &[("max_items", 2.0)]);
    let seen = results(vec![
        object("car", Rect::new(0.0, 0.0, 20.0, 20.0), Points::None),
        object("person", Rect::new(0.0, 0.0, 90.0, 90.0), Points::None),
        object("car", Rect::new(0.0, 0.0, 10.0, 90.0), Points::None),
        object("car", Rect::new(150.0, 50.0, 190.0, 90.0), Points::None),
        object("car", Rect::new(-10.0, 0.0, 30.0, 30.0), Points::None),
    ]);
    let items = operator.items(&frame(), &seen);
    let rects: Vec<Rect> = items.iter().map(rect_of).collect();
    assert_eq!(
        rects,
        [
            Rect::new(150.0, 50.0, 190.0, 90.0),
            Rect::new(0.0, 0.0, 30.0, 30.0)
        ]
    );
    assert_eq!(items[0].object, Some(ObjectRef { module: 3, index: 3 }));
}

#[test]
fn without_regions_the_frame_is_the_item() {
    let items = make("detect", &[], &[]).items(&frame(), &RequestResults::default());
    assert_eq!((items.len(), &items[0].region), (1, &Region::Whole));
    assert!(
        make("embed", &[], &[])
            .items(&frame(), &RequestResults::default())
            .is_empty()
    );
}

/// An operator whose items are whole frames.
fn of_frames(name: &str) -> Arc<dyn Operator> {
    let items = Value::Text("frame".to_owned());
    operator(&OperatorRequest {
        operator: name,
        regions: &[],
        settings: &Settings([("items".to_owned(), items)].into()),
        model: None,
    })
    .expect("made")
}

#[test]
fn every_operator_can_take_whole_frames_whatever_was_found_in_them() {
    let seen = results(vec![
        object("plate", Rect::new(0.0, 0.0, 90.0, 90.0), Points::None),
        object("face", Rect::new(30.0, 20.0, 70.0, 60.0), face()),
    ]);
    // One that describes needs a model that generates.
    for spec in super::specs().into_iter().filter(|spec| spec.name != "describe") {
        let operator = of_frames(spec.name);
        for results in [&seen, &RequestResults::default()] {
            let items = operator.items(&frame(), results);
            assert_eq!(items.len(), 1, "{}", spec.name);
            assert_eq!(
                (&items[0].region, items[0].object),
                (&Region::Whole, None),
                "{}",
                spec.name
            );
        }
    }
}

#[test]
fn what_is_read_off_a_frame_is_an_attribute_of_an_object_as_large_as_it() {
    let said = |name: &str, attribute: Attribute| {
        let operator = of_frames(name);
        let items = operator.items(&frame(), &RequestResults::default());
        let attribute = Some(attribute);
        let inference = Inference {
            attribute,
            ..Inference::default()
        };
        operator.output(2, &items, vec![inference])
    };
    let class = || Attribute::Class {
        class: "happy".into(),
        score: 0.7,
    };
    let text = Attribute::Text {
        text: "WR 123".to_owned(),
        score: 0.9,
    };
    for (name, attribute) in [("read-text", text), ("expression", class())] {
        let finding = said(name, attribute.clone());
        let [object] = &finding.objects[..] else {
            panic!("{name}: {finding:?}")
        };
        assert_eq!(
            (&*object.class, object.rect),
            ("frame", Rect::new(0.0, 0.0, 200.0, 100.0))
        );
        assert_eq!(finding.attributes.len(), 1);
        assert_eq!(finding.attributes[0].object, ObjectRef { module: 2, index: 0 });
        assert_eq!(finding.attributes[0].attribute, attribute);
    }
    // A classifier of frames tells what they are.
    let finding = said("classify", class());
    assert_eq!(
        (&*finding.objects[0].class, finding.attributes.len()),
        ("happy", 0)
    );
    // Nothing read, nothing said.
    let nothing = of_frames("read-text");
    let items = nothing.items(&frame(), &RequestResults::default());
    let finding = nothing.output(2, &items, vec![Inference::default()]);
    assert!(finding.objects.is_empty() && finding.attributes.is_empty());
}

#[test]
fn heads_are_cropped_square_and_wider() {
    let seen = results(vec![object("face", Rect::new(30.0, 20.0, 70.0, 60.0), face())]);
    let items = make("head-pose", &[], &[]).items(&frame(), &seen);
    assert_eq!(rect_of(&items[0]), Rect::new(25.0, 15.0, 75.0, 65.0));
}

#[test]
fn the_crop_shape_can_be_chosen() {
    let seen = results(vec![object(
        "face",
        Rect::new(30.0, 20.0, 70.0, 40.0),
        Points::None,
    )]);
    let cut = |name: &str, cut: Option<&str>| {
        let cut = cut.map(|cut| ("cut".to_owned(), Value::Text(cut.to_owned())));
        let settings = Settings(cut.into_iter().collect());
        let request = OperatorRequest {
            operator: name,
            regions: &[],
            settings: &settings,
            model: None,
        };
        let items = operator(&request).expect("made").items(&frame(), &seen);
        rect_of(&items[0])
    };
    let (plain, square) = (
        Rect::new(30.0, 20.0, 70.0, 40.0),
        Rect::new(30.0, 10.0, 70.0, 50.0),
    );
    assert_eq!(
        [cut("expression", None), cut("expression", Some("box"))],
        [square, plain]
    );
    assert_eq!([cut("gaze", None), cut("gaze", Some("square"))], [plain, square]);
    assert_eq!(cut("embed", None), plain);
}

#[test]
fn both_eyes_become_one_attribute() {
    let operator = make("iris", &[], &[]);
    let seen = results(vec![object("face", Rect::new(30.0, 20.0, 70.0, 60.0), face())]);
    let items = operator.items(&frame(), &seen);
    assert_eq!(items.len(), 2);
    assert_eq!(rect_of(&items[0]), Rect::new(33.0, 23.0, 47.0, 37.0));
    let iris = |x: f32| Inference {
        attribute: Some(Attribute::Iris {
            eyes: vec![KeyPoint {
                name: None,
                at: Point::new(x, 30.0),
                score: 1.0,
            }],
            radius: vec![x],
        }),
        ..Inference::default()
    };
    let output = operator.output(4, &items, vec![iris(61.0), iris(41.0)]);
    assert_eq!(output.attributes.len(), 1);
    let Attribute::Iris { eyes, radius } = &output.attributes[0].attribute else {
        panic!("no iris")
    };
    assert_eq!((eyes.len(), &radius[..]), (2, &[41.0, 61.0][..]));
}

#[test]
fn key_points_of_a_detector_become_attributes_of_its_objects() {
    let operator = make("detect", &[], &[]);
    let items = operator.items(&frame(), &RequestResults::default());
    let rect = Rect::new(0.0, 0.0, 80.0, 80.0);
    let nose = KeyPoint {
        name: Some("nose".into()),
        at: Point::new(40.0, 20.0),
        score: 0.7,
    };
    let inference = Inference {
        objects: vec![
            object("car", rect, Points::None),
            object("person", rect, Points::Pose(vec![nose.clone()])),
        ],
        ..Inference::default()
    };
    let output = operator.output(5, &items, vec![inference]);
    assert_eq!(output.objects.len(), 2);
    let [noted] = &output.attributes[..] else {
        panic!("{:?}", output.attributes)
    };
    let person = ObjectRef { module: 5, index: 1 };
    assert_eq!((noted.object, &*noted.name), (person, "keypoints"));
    assert_eq!(noted.attribute, Attribute::Points(vec![nose]));
}

#[test]
fn an_object_in_two_crops_is_found_once_with_its_parent() {
    let operator = make("detect", &["car"], &[]);
    let seen = results(vec![
        object("car", Rect::new(0.0, 0.0, 80.0, 80.0), Points::None),
        object("car", Rect::new(20.0, 0.0, 90.0, 80.0), Points::None),
    ]);
    let items = operator.items(&frame(), &seen);
    let plate = |score| Inference {
        objects: vec![Object {
            score,
            ..object("plate", Rect::new(40.0, 40.0, 60.0, 50.0), Points::None)
        }],
        ..Inference::default()
    };
    let output = operator.output(5, &items, vec![plate(0.6), plate(0.8)]);
    assert_eq!(output.objects.len(), 1);
    assert_eq!(
        (output.objects[0].score, output.objects[0].parent),
        (0.8, items[1].object)
    );
}

#[test]
fn only_objects_of_the_kept_classes_are_found() {
    struct Detector(Vec<Arc<str>>);
    impl Model for Detector {
        fn batching(&self) -> Batching {
            Batching {
                max: None,
                remark: None,
            }
        }
        fn classes(&self) -> &[Arc<str>] {
            &self.0
        }
        fn open(&self, _: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
            Err(SessionError::Load {
                model: "detector".to_owned(),
                reason: "never run".to_owned(),
            })
        }
    }
    let model = Detector(["person", "car"].map(Arc::from).to_vec());
    let keeping = |label: &str| {
        let labels = Value::Texts(vec![label.to_owned()]);
        let settings = Settings([("labels".to_owned(), labels)].into_iter().collect());
        operator(&OperatorRequest {
            operator: "detect",
            regions: &[],
            settings: &settings,
            model: Some(&model),
        })
    };
    let operator = keeping("person").expect("made");
    let items = operator.items(&frame(), &RequestResults::default());
    let rect = Rect::new(0.0, 0.0, 20.0, 20.0);
    let objects = ["car", "person"]
        .map(|class| object(class, rect, Points::None))
        .to_vec();
    let inference = Inference {
        objects,
        ..Inference::default()
    };
    let output = operator.output(0, &items, vec![inference]);
    let classes: Vec<&str> = output.objects.iter().map(|object| &*object.class).collect();
    assert_eq!(classes, ["person"]);

    let refused = keeping("human")
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert_eq!(
        refused,
        "labels: the model has no class \"human\"; it has person, car"
    );
}

#[test]
fn the_class_of_a_frame_is_an_object() {
    let operator = make("classify", &[], &[]);
    let items = operator.items(&frame(), &RequestResults::default());
    let attribute = Some(Attribute::Class {
        class: "street".into(),
        score: 0.7,
    });
    let output = operator.output(
        2,
        &items,
        vec![Inference {
            attribute,
            ..Inference::default()
        }],
    );
    assert_eq!(
        (&*output.objects[0].class, output.objects[0].rect),
        ("street", Rect::new(0.0, 0.0, 200.0, 100.0))
    );
    assert!(output.attributes.is_empty());
}

#[test]
fn an_unknown_operator_is_named() {
    let settings = Settings::default();
    let request = OperatorRequest {
        operator: "detects",
        regions: &[],
        settings: &settings,
        model: None,
    };
    let reason = operator(&request)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(
        reason.contains("no operator detects") && reason.contains("read-text"),
        "{reason}"
    );
}

/// A detector that reads tiles.
fn tiled(columns: u32, rows: u32, whole: bool) -> Arc<dyn Operator> {
    let settings = Settings(
        [
            ("tiles".to_owned(), Value::Pair([columns, rows])),
            ("whole".to_owned(), Value::Flag(whole)),
        ]
        .into(),
    );
    operator(&OperatorRequest {
        operator: "detect",
        regions: &[],
        settings: &settings,
        model: None,
    })
    .expect("made")
}

#[test]
fn frame_is_read_in_tiles_and_whole_at_last() {
    let operator = tiled(2, 1, true);
    let items = operator.items(&frame(), &RequestResults::default());
    let [left, right, whole] = &items[..] else {
        panic!("{items:?}")
    };
    assert_eq!(rect_of(left), Rect::new(0.0, 0.0, 112.0, 100.0));
    assert_eq!(rect_of(right), Rect::new(88.0, 0.0, 200.0, 100.0));
    assert_eq!((&whole.region, whole.object), (&Region::Whole, None));
    let grid = TileGrid::new([1, 2]).expect("within bounds");
    let by_gear = operator.tiled_items(&frame(), &RequestResults::default(), grid);
    assert_eq!(by_gear.len(), 3);
    assert_eq!(rect_of(&by_gear[0]), Rect::new(0.0, 0.0, 200.0, 56.0));
    // Modules that take other items have no tiles.
    let of_frames = of_frames("classify");
    assert_eq!(
        of_frames
            .tiled_items(&frame(), &RequestResults::default(), grid)
            .len(),
        1
    );
}

#[test]
fn object_of_several_tiles_is_one_with_its_key_points_as_an_attribute() {
    let operator = tiled(2, 1, false);
    let items = operator.items(&frame(), &RequestResults::default());
    let pose = |x: f32| {
        let point = KeyPoint {
            name: None,
            at: Point::new(x, 20.0),
            score: 0.9,
        };
        Points::Pose(vec![point])
    };
    // The left tile ends at 112.
    let cut = object("person", Rect::new(95.0, 10.0, 112.0, 60.0), pose(100.0));
    let seen = object("person", Rect::new(95.0, 10.0, 118.0, 60.0), pose(107.0));
    let inference = |object: Object| Inference {
        objects: vec![object],
        ..Inference::default()
    };
    let output = operator.output(2, &items, vec![inference(cut), inference(seen.clone())]);
    assert_eq!(output.objects.len(), 1);
    assert_eq!(output.objects[0].rect, seen.rect);
    let [keypoints] = &output.attributes[..] else {
        panic!("{output:?}")
    };
    assert_eq!(keypoints.object, ObjectRef { module: 2, index: 0 });
    let Attribute::Points(points) = &keypoints.attribute else {
        panic!("{keypoints:?}")
    };
    assert_eq!(points[0].at.x, 107.0);
}
