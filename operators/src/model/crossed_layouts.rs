//! The cross table of heads and layouts: models that always give the same, in the layouts of faces, hands, MMDeploy and maps, are
//! read by their own head and refused by all others.

use std::sync::Arc;

use weir_flow::{DeviceKind, Frame, Image, Inference, Item, Region, Settings};

use super::auto::{Verdict, judge_all};
use super::constant::{ConstantOutput, chosen, constant_model, opened};
use super::{LoadRequest, ModelFile, load};
use crate::heads::{AUTO, HeadKind};

/// Heads that are named by hand, since shapes do not tell them apart.
const MAPS: [&str; 2] = ["class-map", "value-map"];

const NAMES: (&str, &str) = ("names", "{0: 'car', 1: 'bus', 2: 'van'}");
const NONE: &[(&str, &str)] = &[];

/// A layout: the input, outputs as a name, a shape and the same value everywhere, metadata.
struct Row<'a> {
    input: &'a [usize],
    outputs: &'a [(&'a str, &'a [usize], f32)],
    metadata: &'a [(&'static str, &'static str)],
    /// Outputs of whole numbers.
    whole: &'a [&'a str],
    /// Heads that read it.
    heads: &'a [&'a str],
}

const SQUARE: &[usize] = &[1, 3, 640, 640];

impl Row<'_> {
    fn model(&self) -> Arc<[u8]> {
        let values: Vec<Box<dyn Fn(usize) -> f32>> = self
            .outputs
            .iter()
            .map(|(name, _, value)| -> Box<dyn Fn(usize) -> f32> {
                let value = *value;
                match *name {
                    "dets" => Box::new(|place| [10.0, 20.0, 110.0, 220.0, 0.9][place % 5]),
                    _ => Box::new(move |_| value),
                }
            })
            .collect();
        let outputs: Vec<ConstantOutput<'_>> = self
            .outputs
            .iter()
            .zip(&values)
            .map(|((name, shape, _), at)| ConstantOutput {
                name,
                shape,
                is_whole: self.whole.contains(name),
                at,
            })
            .collect();
        constant_model(self.input, &outputs, self.metadata).into()
    }
}

/// Heads that find objects, and those of maps, which read a model whatever its classes are called.
fn fitting(file: &[u8]) -> Vec<&'static str> {
    let (mut opened, settings) = opened(file);
    let verdicts = judge_all(&mut opened, &settings).expect("judged");
    let is_crossed =
        |name: &str| MAPS.contains(&name) || HeadKind::named(name).is_some_and(HeadKind::is_detector);
    verdicts
        .into_iter()
        .filter(|(name, verdict)| is_crossed(name) && matches!(verdict, Verdict::Fits(_)))
        .map(|(name, _)| name)
        .collect()
}

/// A layout of square pictures without metadata, of which rows name their outputs and heads.
const PLAIN: Row<'static> = Row {
    input: SQUARE,
    outputs: &[],
    metadata: NONE,
    whole: &[],
    heads: &[],
};

/// Layouts of objects, faces and hands that one head alone reads.
const LAYOUTS: [Row<'static>; 8] = [
    Row {
        input: SQUARE,
        outputs: &[("dets", &[1, 100, 5], 0.0), ("labels", &[1, 100], 2.0)],
        metadata: &[NAMES],
        whole: &["labels"],
        heads: &["mmdeploy"],
    },
    // Without a batch, as InsightFace exports it.
    Row {
        outputs: &[
            ("448", &[12800, 1], 0.0),
            ("471", &[3200, 1], 0.0),
            ("494", &[800, 1], 0.0),
            ("451", &[12800, 4], 1.0),
            ("474", &[3200, 4], 1.0),
            ("497", &[800, 4], 1.0),
            ("454", &[12800, 10], 1.0),
            ("477", &[3200, 10], 1.0),
            ("500", &[800, 10], 1.0),
        ],
        heads: &["scrfd"],
        ..PLAIN
    },
    Row {
        outputs: &[
            ("score_8", &[1, 12800, 1], 0.0),
            ("score_16", &[1, 3200, 1], 0.0),
            ("score_32", &[1, 800, 1], 0.0),
            ("bbox_8", &[1, 12800, 4], 1.0),
            ("bbox_16", &[1, 3200, 4], 1.0),
            ("bbox_32", &[1, 800, 4], 1.0),
        ],
        heads: &["scrfd"],
        ..PLAIN
    },
    Row {
        outputs: &[
            ("a", &[1, 2, 80, 80], 0.0),
            ("b", &[1, 2, 40, 40], 0.0),
            ("c", &[1, 2, 20, 20], 0.0),
            ("d", &[1, 8, 80, 80], 1.0),
            ("e", &[1, 8, 40, 40], 1.0),
            ("f", &[1, 8, 20, 20], 1.0),
        ],
        heads: &["scrfd"],
        ..PLAIN
    },
    Row {
        outputs: &[
            ("loc", &[1, 16800, 4], 0.0),
            ("conf", &[1, 16800, 2], 0.5),
            ("landms", &[1, 16800, 10], 0.0),
        ],
        heads: &["retinaface"],
        ..PLAIN
    },
    Row {
        input: &[1, 128, 128, 3],
        outputs: &[
            ("regressors", &[1, 896, 16], 0.0),
            ("classificators", &[1, 896, 1], -9.0),
        ],
        heads: &["blazeface"],
        ..PLAIN
    },
    Row {
        input: &[1, 128, 128, 3],
        outputs: &[
            ("Identity", &[1, 512, 1], -9.0),
            ("Identity_1", &[1, 384, 1], -9.0),
            ("Identity_2", &[1, 512, 16], 0.0),
            ("Identity_3", &[1, 384, 16], 0.0),
        ],
        heads: &["blazeface"],
        ..PLAIN
    },
    Row {
        input: &[1, 192, 192, 3],
        outputs: &[
            ("Identity", &[1, 2016, 18], 0.0),
            ("Identity_1", &[1, 2016, 1], -9.0),
        ],
        heads: &["palm"],
        ..PLAIN
    },
];

#[test]
fn layouts_are_read_by_their_head_alone() {
    for row in LAYOUTS {
        let file = row.model();
        assert_eq!(fitting(&file), row.heads, "{:?}", row.outputs);
        assert_eq!(chosen(&file), Ok(row.heads[0]));
    }
}

#[test]
fn maps_are_read_by_their_heads_and_named_by_hand() {
    for (outputs, whole, heads) in [
        (
            [("logits", &[1, 19, 160, 160][..], 0.3)],
            &[][..],
            &["class-map"][..],
        ),
        ([("logits", &[1, 160, 160, 19], 0.3)], &[], &["class-map"]),
        ([("classes", &[1, 160, 160], 2.0)], &["classes"], &["class-map"]),
        ([("probability", &[1, 1, 160, 160], 0.3)], &[], &MAPS),
        ([("predicted_depth", &[1, 160, 160], 0.3)], &[], &MAPS),
        ([("predicted_depth", &[1, 160, 160], 7.5)], &[], &["value-map"]),
    ] {
        let row = Row {
            input: SQUARE,
            outputs: &outputs,
            metadata: NONE,
            whole,
            heads,
        };
        let file = row.model();
        assert_eq!(fitting(&file), row.heads, "{outputs:?}");
        let error = chosen(&file).expect_err("named by hand");
        assert!(
            error.contains("name its head by `head`") && error.contains(heads[0]),
            "{error}"
        );
    }
}

#[test]
fn layouts_of_objects_are_not_read_by_heads_of_faces_hands_and_maps() {
    let new = [
        "mmdeploy",
        "scrfd",
        "retinaface",
        "blazeface",
        "palm",
        "class-map",
        "value-map",
    ];
    for outputs in [
        &[("output0", &[1, 84, 8400][..], 0.1)][..],
        &[("output0", &[1, 300, 6], 1.0)],
        &[("output0", &[1, 300, 84], 0.1)],
        &[("dets", &[1, 300, 4], 0.1), ("labels", &[1, 300, 91], -1.0)],
        &[
            ("output0", &[1, 116, 8400], 0.1),
            ("output1", &[1, 32, 160, 160], 0.1),
        ],
        &[("scores", &[1, 4420, 2], 0.1), ("boxes", &[1, 4420, 4], 0.1)],
        &[
            ("boxes", &[1, 100, 4], 0.1),
            ("labels", &[1, 100], 1.0),
            ("scores", &[1, 100], 0.1),
        ],
    ] {
        let row = Row {
            input: SQUARE,
            outputs,
            metadata: NONE,
            whole: &[],
            heads: &[],
        };
        let found = fitting(&row.model());
        assert!(
            !found.iter().any(|head| new.contains(head)),
            "{outputs:?}: {found:?}"
        );
    }
}

/// The answer of a model of a layout to a grey picture of 64 by 64 pixels.
fn answer(file: Arc<[u8]>, head: &str) -> Inference {
    let request = LoadRequest {
        name: "own",
        file: ModelFile::Bytes(file),
        head,
        settings: &Settings::default(),
        max_batch: 1,
        dump: None,
    };
    let mut session = load(&request)
        .expect("loads")
        .open(DeviceKind::Cpu)
        .expect("opens");
    let image = Image::from_rgb(64, 64, vec![100; 64 * 64 * 3]);
    let frame = Arc::new(Frame::new(0, 0.0, image));
    let answers = session.run(&[Item::of_frame(&frame, Region::Whole)], &mut |_| ());
    answers.expect("runs").remove(0)
}

#[test]
fn objects_and_maps_come_in_pixels_of_the_picture() {
    let palms = Row {
        input: &[1, 192, 192, 3],
        outputs: &[
            ("Identity", &[1, 2016, 18], 48.0),
            ("Identity_1", &[1, 2016, 1], 3.0),
        ],
        metadata: NONE,
        whole: &[],
        heads: &[],
    };
    let found = answer(palms.model(), AUTO).objects;
    assert!(!found.is_empty());
    // Anchors of a stride of 8 in 192 pixels; a picture is a third as wide, and boxes are cut off at its edge.
    let first = &found[0].rect;
    let corners = [first.x0, first.y0, first.x1, first.y1];
    let expected = [28.0, 28.0, 76.0, 76.0].map(|at: f32| at / 3.0);
    let is_near = |(corner, expected): (&f32, &f32)| (corner - expected).abs() < 1e-3;
    assert!(corners.iter().zip(&expected).all(is_near), "{first:?}");
    let depth = Row {
        input: SQUARE,
        outputs: &[("predicted_depth", &[1, 160, 160], 7.5)],
        metadata: NONE,
        whole: &[],
        heads: &[],
    };
    let map = answer(depth.model(), "value-map").map.expect("a map");
    let values = map.values(&weir_flow::Rect::new(0.0, 0.0, 64.0, 64.0));
    assert_eq!((values.len(), values[0]), (160 * 160, 7.5));
}
