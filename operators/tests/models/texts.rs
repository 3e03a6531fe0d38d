//! Plates and lines of text.

use super::*;

#[test]
fn plate_crops_are_read() {
    let Some(assets) = assets() else { return };
    let read = module(
        &assets,
        "read-text",
        "lprnet_plate_24x94.onnx",
        "ctc",
        &keys(&[("items", Value::Text("frame".to_owned()))]),
    );
    let (mut right, mut all) = (0, 0);
    for entry in std::fs::read_dir(assets.join("images/plates")).expect("folder") {
        let path = entry.expect("entry").path();
        let label = path.file_stem().and_then(|stem| stem.to_str()).expect("label");
        let notes = read
            .run(0, &frame(&path), &mut RequestResults::default())
            .attributes;
        all += 1;
        match notes.first().map(|note| &note.attribute) {
            Some(Attribute::Text { text, .. }) if text == label => right += 1,
            other => println!("{label} is read as {other:?}"),
        }
    }
    println!("plates read exactly: {right} of {all}");
    assert!(all == 50 && right * 100 >= all * 85);
}

#[test]
fn a_line_of_text_is_read() {
    let Some(assets) = assets() else { return };
    let module = module(
        &assets,
        "read-text",
        "ppocr_en_number_v2_rec.onnx",
        "ctc",
        &keys(&[("items", Value::Text("frame".to_owned()))]),
    );
    for picture in ["ocr_en_rec.jpg", "ocr_scenetext_word04.jpg"] {
        let output = module.run(
            0,
            &frame(&assets.join("images").join(picture)),
            &mut RequestResults::default(),
        );
        println!("{picture}: {:?}", output.attributes);
        let Attribute::Text { text, score } = &output.attributes[0].attribute else {
            panic!("no text")
        };
        assert!(text.len() >= 4 && *score > 0.7, "{text} {score}");
    }
}

#[test]
fn plates_are_found_with_corners_and_read() {
    let Some(assets) = assets() else { return };
    let frame = frame(&assets.join("images/plate_hyperlpr_test_img.jpg"));
    let find = module(
        &assets,
        "detect",
        "hyperlpr_y5fu_320.onnx",
        "plate-corners",
        &Settings::default(),
    );
    let read = module(
        &assets,
        "read-text",
        "lprnet_plate_24x94.onnx",
        "ctc",
        &keys(&[("attribute", Value::Text("plate".to_owned()))]),
    );
    let mut results = RequestResults::default();
    for object in find.run(0, &frame, &mut results).objects {
        println!(
            "{} {:.3} {:?} {:?}",
            object.class, object.score, object.rect, object.points
        );
        assert!(matches!(object.points, Points::Corners(_)));
    }
    let attributes = read.run(1, &frame, &mut results).attributes;
    println!("{attributes:?}");
    assert!(
        attributes.iter().any(|note| &*note.name == "plate"),
        "nothing is read"
    );
}
