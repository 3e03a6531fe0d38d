//! Heads and operators on the models that ship, in real sessions: what comes of them, whatever they were trained to.
//! Without ONNX Runtime these tests skip.

use std::sync::Arc;

use weir_flow::{
    Attribute, DeviceKind, Frame, Image, Item, Model, ModuleOutput, Object, Points, Rect, Region,
    RequestResults, Settings, Value,
};
use weir_operators::{LoadRequest, ModelFile, OperatorRequest, load, operator};

use crate::common::has_runtime;

fn model(name: &str) -> Arc<dyn Model> {
    let shipped = weir_models::find(name).unwrap_or_else(|| panic!("no {name}"));
    let model = load(&LoadRequest {
        name,
        file: ModelFile::Bytes(shipped.onnx.into()),
        head: &shipped.head,
        settings: &shipped.settings,
        max_batch: 3,
        dump: None,
    });
    model.unwrap_or_else(|error| panic!("{error}"))
}

/// A picture of waves; each seed gives another.
fn pixels(side: u32, seed: u32) -> Vec<u8> {
    let wave = |x: u32, y: u32, step: u32| ((x * x * step + y * (y + seed * 7) * seed) / 40 % 251) as u8;
    let rows = (0..side).flat_map(|y| (0..side).map(move |x| (x, y)));
    rows.flat_map(|(x, y)| [wave(x, y, 1), wave(x, y, seed), wave(y, x, 3)])
        .collect()
}

fn frame(side: u32, seed: u32) -> Arc<Frame> {
    Arc::new(Frame::new(
        0,
        0.0,
        Image::from_rgb(side, side, pixels(side, seed)),
    ))
}

#[test]
fn batches_of_every_shipped_model_equal_single_items() {
    if !has_runtime() {
        return;
    }
    // What generates text takes no pictures; `generating` runs it.
    for shipped in weir_models::shipped().iter().filter(|model| !model.generates()) {
        let model = model(&shipped.name);
        let batching = model.batching();
        assert!(
            batching.remark.is_none(),
            "{}: {:?}",
            shipped.name,
            batching.remark
        );
        let item = |seed| Item {
            frame: frame(96, seed),
            region: Region::Whole,
            object: None,
            class: None,
        };
        let items: Vec<Item> = [3, 5, 8].map(item).into();
        let mut session = model.open(DeviceKind::Cpu).expect("opens");
        let said = session.run(&items, &mut |_| ()).expect("runs");
        assert_eq!(said.len(), 3, "{}", shipped.name);
        let fits = said.iter().all(|said| match (&*shipped.head, &said.attribute) {
            ("yolov8", None) | ("ctc", None | Some(Attribute::Text { .. })) => true,
            (
                "embed",
                Some(Attribute::Match {
                    vector: Some(vector), ..
                }),
            ) => vector.len() == 64,
            ("points", Some(Attribute::Points(points))) => points.len() == 17,
            ("gauge", Some(Attribute::Number { value })) => (0.0..=100.0).contains(value),
            ("gaze", Some(Attribute::Direction { .. })) => true,
            ("expression" | "classify", Some(Attribute::Class { class, .. })) => {
                let labels = shipped.settings.texts("labels").unwrap_or_default();
                labels.iter().any(|label| **label == **class)
            }
            _ => false,
        });
        assert!(fits, "{}: {said:?}", shipped.name);
    }
}

#[test]
fn unaligned_boxes_match_a_gallery_of_crops() {
    if !has_runtime() {
        return;
    }
    let gallery = tempfile::tempdir().expect("temporary folder");
    let seeds = [("p01", 3), ("p02", 5), ("p03", 8)];
    for (name, seed) in seeds {
        let picture = image::RgbImage::from_raw(64, 64, pixels(64, seed)).expect("a picture");
        picture
            .save(gallery.path().join(format!("{name}.png")))
            .expect("saved");
    }
    let folder = Value::Text(gallery.path().display().to_string());
    let settings = Settings([("gallery".to_owned(), folder)].into());
    for name in ["live-faces", "street-faces"] {
        let model = model(name);
        let embed = operator(&OperatorRequest {
            operator: "embed",
            regions: &[],
            settings: &settings,
            model: Some(model.as_ref()),
        });
        let embed = embed.expect("made");
        let mut session = model.open(DeviceKind::Cpu).expect("opens");
        for (name, seed) in seeds {
            let face = Object {
                class: "face".into(),
                score: 0.9,
                rect: Rect::new(0.0, 0.0, 64.0, 64.0),
                parent: None,
                points: Points::None,
                candidate: false,
            };
            let mut results = RequestResults::default();
            let objects = vec![face];
            results.add(
                0,
                ModuleOutput {
                    objects,
                    attributes: Vec::new(),
                },
            );
            let items = embed.items(&frame(64, seed), &results);
            let said = session.run(&items, &mut |_| ()).expect("runs");
            let output = embed.output(1, &items, said);
            let Attribute::Match { r#match, cosine, .. } = &output.attributes[0].attribute else {
                panic!("no match")
            };
            assert_eq!(r#match.as_deref(), Some(name));
            assert!(cosine.is_some_and(|cosine| cosine > 0.999), "{cosine:?}");
        }
    }
}
