//! Heads of YOLO models for pose, segmentation and rotated boxes: objects that are written into a layout by its definition are read
//! back, masks are those of a decoder that follows the definition word by word, and each layout is read by its own head alone.

use std::f32::consts::PI;

use proptest::prelude::*;
use weir_flow::{Object, Point, Points, Rect, Settings, Value};

use super::input::{Input, ItemTransform, PixelMap};
use super::{HeadKind, KEY_POINT_NAMES, KEY_POINT_SHAPE, NAMES, Output, OutputSpec, TASK};
use crate::pixels::ImagePlacement;

/// Side of the input, and boxes of its grid.
const SIDE: usize = 320;
const BOXES: usize = 40 * 40 + 20 * 20 + 10 * 10;

fn texts(key: &str, texts: &[&str]) -> (String, Value) {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    (key.to_owned(), Value::Texts(texts))
}

fn named(classes: usize, task: &str) -> Settings {
    let names: Vec<String> = (0..classes).map(|class| format!("c{class}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Settings(
        [
            texts(NAMES, &names),
            (TASK.to_owned(), Value::Text(task.to_owned())),
        ]
        .into(),
    )
}

fn specs(shapes: &[&[usize]]) -> Vec<OutputSpec> {
    let spec = |(place, shape): (usize, &&[usize])| OutputSpec {
        name: format!("output{place}"),
        shape: shape.to_vec(),
        readable: true,
    };
    shapes.iter().enumerate().map(spec).collect()
}

fn input(side: usize) -> Input {
    let kind = HeadKind::named("yolo-pose").expect("there is one");
    let port = [Some(1), Some(3), Some(side), Some(side)];
    kind.input(&Settings::default(), &port).expect("read")
}

/// The transform of a picture of twice the size that lies 10 pixels to the right and 20 below in the input.
fn doubled() -> ItemTransform {
    ItemTransform {
        width: SIDE as u32,
        height: SIDE as u32,
        frame: (600.0, 560.0),
        map: PixelMap::Scaled(ImagePlacement {
            origin: Point::default(),
            offset: Point::new(10.0, 20.0),
            scale: Point::new(0.5, 0.5),
        }),
    }
}

/// A place of the input in the picture of [`doubled`].
fn outer(x: f32, y: f32) -> (f32, f32) {
    ((x - 10.0) * 2.0, (y - 20.0) * 2.0)
}

fn decode(
    head: &str,
    settings: &Settings,
    outputs: &[(&[usize], &[f32])],
    transform: &ItemTransform,
) -> Vec<Object> {
    let shapes: Vec<&[usize]> = outputs.iter().map(|(shape, _)| *shape).collect();
    let kind = HeadKind::named(head).expect("there is one");
    let head = kind.build(settings, &input(SIDE), &specs(&shapes)).expect("fits");
    let outputs: Vec<Output<'_>> = outputs.iter().map(|(_, data)| Output { data }).collect();
    let found = head.decode(&outputs, transform);
    assert_eq!(found.implausible, None);
    found.objects
}

/// An object as a model knows it: a box in input pixels, a class, a score, and the values of its task.
#[derive(Debug, Clone)]
struct Thing {
    centre: (f32, f32),
    size: (f32, f32),
    class: usize,
    score: f32,
    extra: Vec<f32>,
}

impl Thing {
    fn rect(&self) -> Rect {
        let ((x, y), (width, height)) = (self.centre, self.size);
        Rect::new(
            x - width / 2.0,
            y - height / 2.0,
            x + width / 2.0,
            y + height / 2.0,
        )
    }
}

const CLASSES: usize = 3;

/// Up to nine objects, each in its own field of the input, so that none suppresses another.
fn things(extra: impl Strategy<Value = Vec<f32>>) -> impl Strategy<Value = Vec<Thing>> {
    let thing = (
        (-8.0..8.0_f32, -8.0..8.0_f32),
        (10.0..70.0_f32, 10.0..70.0_f32),
        0..CLASSES,
        0.3..1.0_f32,
        extra,
    );
    prop::collection::vec(thing, 1..=9).prop_map(|drawn| {
        let drawn = drawn.into_iter().enumerate();
        drawn
            .map(|(number, ((x, y), size, class, score, extra))| {
                let field = ((number % 3) as f32, (number / 3) as f32);
                Thing {
                    centre: (60.0 + 100.0 * field.0 + x, 65.0 + 95.0 * field.1 + y),
                    size,
                    class,
                    score,
                    extra,
                }
            })
            .collect()
    })
}

/// The layout of a grid, value after value or box after box. Objects lie in boxes all over it.
fn grid(things: &[Thing], boxes_first: bool) -> (Vec<usize>, Vec<f32>) {
    let extra = things.first().map_or(0, |thing| thing.extra.len());
    let channels = 4 + CLASSES + extra;
    let mut data = vec![0.0; channels * BOXES];
    for (number, thing) in things.iter().enumerate() {
        let index = (number * 231 + 17) % BOXES;
        let mut values = vec![thing.centre.0, thing.centre.1, thing.size.0, thing.size.1];
        let class = |class: usize| {
            if class == thing.class {
                thing.score
            } else {
                thing.score / 3.0
            }
        };
        values.extend((0..CLASSES).map(class));
        values.extend(&thing.extra);
        for (channel, value) in values.into_iter().enumerate() {
            let place = match boxes_first {
                true => index * channels + channel,
                false => channel * BOXES + index,
            };
            data[place] = value;
        }
    }
    let shape = if boxes_first {
        [BOXES, channels]
    } else {
        [channels, BOXES]
    };
    (shape.to_vec(), data)
}

/// The layout of selected objects: `four` are the values of the box.
fn selected(things: &[Thing], four: impl Fn(&Thing) -> [f32; 4]) -> (Vec<usize>, Vec<f32>) {
    let extra = things.first().map_or(0, |thing| thing.extra.len());
    let mut data = Vec::new();
    for thing in things {
        data.extend(four(thing));
        data.extend([thing.score, thing.class as f32]);
        data.extend(&thing.extra);
    }
    let columns = 6 + extra;
    data.resize(300 * columns, 0.0);
    (vec![300, columns], data)
}

fn corners(thing: &Thing) -> [f32; 4] {
    let rect = thing.rect();
    [rect.x0, rect.y0, rect.x1, rect.y1]
}

/// The objects by falling score, as heads give those of a grid; each with its thing.
fn paired<'a>(things: &'a [Thing], found: &'a [Object]) -> Vec<(&'a Thing, &'a Object)> {
    assert_eq!(things.len(), found.len());
    let mut things: Vec<&Thing> = things.iter().collect();
    things.sort_by(|a, b| b.score.total_cmp(&a.score));
    things.into_iter().zip(found).collect()
}

fn is_near(a: f32, b: f32) -> bool {
    (a - b).abs() < 0.01
}

/// Checks class, score and upright box of each object.
fn check_boxes(things: &[Thing], found: &[Object]) {
    for (thing, object) in paired(things, found) {
        assert_eq!(*object.class, *format!("c{}", thing.class));
        assert!(is_near(object.score, thing.score));
        let rect = thing.rect();
        let ((x0, y0), (x1, y1)) = (outer(rect.x0, rect.y0), outer(rect.x1, rect.y1));
        let (expected, found) = (Rect::new(x0, y0, x1, y1).clamp(600.0, 560.0), object.rect);
        for (a, b) in [
            (expected.x0, found.x0),
            (expected.y0, found.y0),
            (expected.x1, found.x1),
            (expected.y1, found.y1),
        ] {
            assert!(is_near(a, b), "{expected:?} {found:?}");
        }
    }
}

fn points(values: usize) -> impl Strategy<Value = Vec<f32>> {
    let point = (0.0..320.0_f32, 0.0..320.0_f32, 0.0..1.0_f32);
    prop::collection::vec(point, 5).prop_map(move |points| {
        let each = points
            .into_iter()
            .flat_map(|(x, y, score)| [x, y, score].into_iter().take(values));
        each.collect()
    })
}

fn check_points(things: &[Thing], found: &[Object], values: usize) {
    for (thing, object) in paired(things, found) {
        let Points::Pose(points) = &object.points else {
            panic!("{:?}", object.points)
        };
        assert_eq!(points.len(), 5);
        for (point, at) in points.iter().zip(thing.extra.chunks_exact(values)) {
            let (x, y) = outer(at[0], at[1]);
            let score = at.get(2).copied().unwrap_or(thing.score);
            assert!(
                is_near(point.at.x, x) && is_near(point.at.y, y),
                "{point:?} {at:?}"
            );
            assert!(is_near(point.score, score), "{point:?} {at:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn poses_in_a_layout_are_read_back(drawn in things(points(3)), boxes_first in any::<bool>()) {
        let settings = named(CLASSES, "pose");
        for (shape, data) in [grid(&drawn, boxes_first), selected(&drawn, corners)] {
            let found = decode("yolo-pose", &settings, &[(&shape, &data)], &doubled());
            check_boxes(&drawn, &found);
            check_points(&drawn, &found, 3);
        }
    }

    #[test]
    fn points_without_a_probability_have_the_score_of_their_object(drawn in things(points(2))) {
        let mut settings = named(CLASSES, "pose");
        settings.0.extend([texts(KEY_POINT_SHAPE, &["5", "2"])]);
        let (shape, data) = grid(&drawn, false);
        let found = decode("yolo-pose", &settings, &[(&shape, &data)], &doubled());
        check_points(&drawn, &found, 2);
    }

    #[test]
    fn rotated_boxes_in_a_layout_are_read_back(drawn in things((-PI / 4.0..3.0 * PI / 4.0).prop_map(|angle| vec![angle]))) {
        let settings = named(CLASSES, "obb");
        let centred = |thing: &Thing| [thing.centre.0, thing.centre.1, thing.size.0, thing.size.1];
        for (shape, data) in [grid(&drawn, false), selected(&drawn, centred)] {
            let found = decode("yolo-obb", &settings, &[(&shape, &data)], &doubled());
            for (thing, object) in paired(&drawn, &found) {
                let Points::Rotated(rotated) = &object.points else {
                    panic!("{:?}", object.points)
                };
                let (x, y) = outer(thing.centre.0, thing.centre.1);
                prop_assert!(is_near(rotated.centre.x, x) && is_near(rotated.centre.y, y));
                prop_assert!(is_near(rotated.width, thing.size.0 * 2.0) && is_near(rotated.height, thing.size.1 * 2.0));
                let turn = (rotated.angle - thing.extra[0]).rem_euclid(PI);
                prop_assert!(turn.min(PI - turn) < 1e-3, "{rotated:?} {thing:?}");
                // The upright box is around the corners, within the picture.
                for corner in rotated.corners() {
                    let (x, y) = (corner.x.clamp(0.0, 600.0), corner.y.clamp(0.0, 560.0));
                    let around = object.rect.widen(0.01);
                    prop_assert!(around.contains(Point::new(x, y)), "{corner:?} {:?}", object.rect);
                }
            }
        }
    }

    #[test]
    fn masks_are_those_of_the_definition(
        drawn in things(prop::collection::vec(-1.0..1.0_f32, 4)),
        prototypes in prop::collection::vec(-1.0..1.0_f32, 4 * 40 * 40),
    ) {
        let settings = named(CLASSES, "segment");
        let whole = ItemTransform::identity(SIDE as u32, SIDE as u32);
        for (shape, data) in [grid(&drawn, false), selected(&drawn, corners)] {
            let outputs = [(&shape[..], &data[..]), (&[4, 40, 40][..], &prototypes[..])];
            let found = decode("yolo-segment", &settings, &outputs, &whole);
            // One without a pixel is left out.
            for object in &found {
                let is_of = |thing: &&Thing| is_near(thing.score, object.score) && is_near(thing.rect().centre().x, object.rect.centre().x);
                let thing = drawn.iter().find(is_of).expect("a thing");
                let Points::Mask(mask) = &object.points else {
                    panic!("{:?}", object.points)
                };
                let runs = mask.coco_counts(SIDE as u32, SIDE as u32);
                let each = runs.iter().enumerate();
                let pixels: Vec<bool> = each.flat_map(|(place, run)| vec![place % 2 == 1; *run as usize]).collect();
                prop_assert_eq!(pixels.len(), SIDE * SIDE);
                for (place, is_covered) in pixels.into_iter().enumerate() {
                    let (x, y) = (place / SIDE, place % SIDE);
                    if !thing.rect().contains(Point::new(x as f32 + 0.5, y as f32 + 0.5)) {
                        prop_assert!(!is_covered, "{x} {y} is outside of the box");
                        continue;
                    }
                    let logit = defined_logit(thing, &prototypes, x, y);
                    prop_assert!(is_covered == (logit > 0.0) || logit.abs() < 1e-4, "{x} {y} {logit}");
                }
            }
        }
    }
}

/// The logit of a pixel of the input by the definition: each prototype resized by bilinear interpolation, centres of pixels at
/// halves, and summed by the coefficients.
fn defined_logit(thing: &Thing, prototypes: &[f32], x: usize, y: usize) -> f64 {
    let side = 40_usize;
    let place = |pixel: usize| {
        let at = (pixel as f64 + 0.5) * side as f64 / SIDE as f64 - 0.5;
        let at = at.clamp(0.0, side as f64 - 1.0);
        let low = at.floor() as usize;
        [(low, 1.0 - at.fract()), ((low + 1).min(side - 1), at.fract())]
    };
    let mut sum = 0.0;
    for (number, coefficient) in thing.extra.iter().enumerate() {
        for (row, down) in place(y) {
            for (column, across) in place(x) {
                let value = f64::from(prototypes[(number * side + row) * side + column]);
                sum += f64::from(*coefficient) * value * down * across;
            }
        }
    }
    sum
}

#[test]
fn crossing_rotated_boxes_do_not_suppress_each_other() {
    let thing = |angle: f32, score: f32| Thing {
        centre: (160.0, 160.0),
        size: (120.0, 12.0),
        class: 0,
        score,
        extra: vec![angle],
    };
    // Upright boxes of both diagonals are the same square; the third is nearly the first.
    let drawn = [
        thing(PI / 4.0, 0.9),
        thing(-PI / 4.0, 0.8),
        thing(PI / 4.0 + 0.01, 0.7),
    ];
    let (shape, data) = grid(&drawn, false);
    let whole = ItemTransform::identity(SIDE as u32, SIDE as u32);
    let found = decode("yolo-obb", &named(CLASSES, "obb"), &[(&shape, &data)], &whole);
    let scores: Vec<f32> = found.iter().map(|object| object.score).collect();
    assert_eq!(scores, [0.9, 0.8]);
}

#[test]
fn key_points_have_the_names_of_the_file_or_of_persons() {
    let names = |settings: &Settings| {
        let mut data = vec![0.0; 56 * BOXES];
        for (channel, value) in [(0, 100.0), (1, 100.0), (2, 50.0), (3, 80.0), (4, 0.9)] {
            data[channel * BOXES + 7] = value;
        }
        let whole = ItemTransform::identity(SIDE as u32, SIDE as u32);
        let found = decode("yolo-pose", settings, &[(&[56, BOXES], &data)], &whole);
        let Points::Pose(points) = &found[0].points else {
            panic!("{:?}", found[0].points)
        };
        let name = |place: usize| points[place].name.as_deref().map(str::to_owned);
        (found[0].class.to_string(), name(0), name(16))
    };
    let own: Vec<String> = (0..17).map(|point| format!("p{point}")).collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let text = |text: &str| Some(text.to_owned());
    let of = |settings: &[(String, Value)]| names(&Settings(settings.iter().cloned().collect()));
    // Nothing names anything: it is the layout of COCO's persons.
    let person = ("person".to_owned(), text("nose"), text("right_ankle"));
    assert_eq!(of(&[]), person);
    assert_eq!(of(&[texts(NAMES, &["person"])]), person);
    assert_eq!(of(&[texts(NAMES, &["horse"])]), ("horse".to_owned(), None, None));
    assert_eq!(
        of(&[texts(NAMES, &["horse"]), texts(KEY_POINT_NAMES, &own)]),
        ("horse".to_owned(), text("p0"), text("p16"))
    );
}

#[test]
fn values_that_are_no_numbers_give_no_points_and_no_rotated_box() {
    let broken = Thing {
        centre: (160.0, 160.0),
        size: (60.0, 40.0),
        class: 1,
        score: 0.8,
        extra: vec![f32::NAN; 3],
    };
    let whole = ItemTransform::identity(SIDE as u32, SIDE as u32);
    let (shape, data) = grid(std::slice::from_ref(&broken), false);
    let found = decode("yolo-pose", &named(CLASSES, "pose"), &[(&shape, &data)], &whole);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].points, Points::None);
    let turned = Thing {
        extra: vec![f32::NAN],
        ..broken
    };
    let (shape, data) = grid(&[turned], false);
    assert!(decode("yolo-obb", &named(CLASSES, "obb"), &[(&shape, &data)], &whole).is_empty());
}

/// Heads of the YOLO family, of which each layout has its own.
const HEADS: [&str; 6] = [
    "yolov8",
    "yolov5",
    "end2end",
    "yolo-pose",
    "yolo-segment",
    "yolo-obb",
];

#[test]
fn each_layout_is_read_by_its_own_heads_alone() {
    let prototypes: &[usize] = &[32, 160, 160];
    for (shapes, classes, task, readers) in [
        (&[&[84, 8400][..]][..], 80, "detect", &["yolov8"][..]),
        (&[&[300, 6]], 3, "detect", &["end2end"]),
        (&[&[25200, 8]], 3, "detect", &["yolov5"]),
        (&[&[56, 8400]], 1, "pose", &["yolo-pose"]),
        (&[&[56, 8400]], 1, "", &["yolo-pose"]),
        (&[&[8400, 56]], 1, "pose", &["yolo-pose"]),
        (&[&[300, 57]], 1, "pose", &["end2end", "yolo-pose"]),
        (&[&[116, 8400], prototypes], 80, "segment", &["yolo-segment"]),
        (&[&[39, 8400], prototypes], 3, "", &["yolo-segment"]),
        (&[prototypes, &[39, 8400]], 3, "", &["yolo-segment"]),
        (
            &[&[300, 38], prototypes],
            3,
            "segment",
            &["end2end", "yolo-segment"],
        ),
        (&[&[25200, 40], prototypes], 3, "", &[]),
        (&[&[8, 8400]], 3, "obb", &["yolo-obb"]),
        (&[&[8, 8400]], 3, "", &["yolo-obb"]),
        (&[&[300, 7]], 3, "obb", &["yolo-obb"]),
        (&[&[8400, 8]], 3, "", &["yolov5"]),
    ] {
        let mut settings = named(classes, task);
        if task.is_empty() {
            settings.0.remove(TASK);
        }
        let reads = |head: &&&str| {
            let kind = HeadKind::named(head).expect("there is one");
            kind.build(&settings, &input(640), &specs(shapes)).is_ok()
        };
        let found: Vec<&str> = HEADS.iter().filter(reads).copied().collect();
        assert_eq!(found, readers, "{shapes:?} of {classes} classes, task {task:?}");
    }
}

#[test]
fn refusals_name_what_is_missing() {
    let refused = |head: &str, shapes: &[&[usize]], settings: &Settings, words: &str| {
        let kind = HeadKind::named(head).expect("there is one");
        let error = kind
            .build(settings, &input(640), &specs(shapes))
            .err()
            .expect("refused");
        assert!(error.contains(words), "{error}");
    };
    let of = |settings: &[(String, Value)]| Settings(settings.iter().cloned().collect());
    let unnamed = of(&[]);
    refused(
        "yolo-pose",
        &[&[60, 8400]],
        &unnamed,
        "nothing says which of 56 values",
    );
    refused(
        "yolo-pose",
        &[&[9, 8400]],
        &named(4, "pose"),
        "1 values are no key points",
    );
    let shape = of(&[texts(NAMES, &["a"]), texts(KEY_POINT_SHAPE, &["17", "9"])]);
    refused(
        "yolo-pose",
        &[&[56, 8400]],
        &shape,
        "`kpt_shape` in the file is [17, 9]",
    );
    let shape = of(&[texts(NAMES, &["a", "b"]), texts(KEY_POINT_SHAPE, &["17", "3"])]);
    refused("yolo-pose", &[&[56, 8400]], &shape, "`names` in the file has 2");
    refused(
        "yolo-segment",
        &[&[116, 8400]],
        &named(80, "segment"),
        "without its prototypes",
    );
    refused(
        "yolo-segment",
        &[&[116, 8400], &[32, 160, 120]],
        &named(80, "segment"),
        "prototypes of 120 by 160 do not cover",
    );
    refused(
        "yolo-segment",
        &[&[25200, 40], &[32, 160, 160]],
        &named(3, ""),
        "with objectness",
    );
    refused("yolo-obb", &[&[8400, 8]], &named(3, ""), "the head yolov5");
    refused(
        "yolo-obb",
        &[&[8, 8400]],
        &named(4, "obb"),
        "`names` in the file has 4",
    );
    refused("yolo-obb", &[&[300, 7]], &unnamed, "nothing names its classes");
}
