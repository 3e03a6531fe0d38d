//! Faces: who they are, how they look, where they look.

use super::*;

fn faces(assets: &Path, frame: &Arc<Frame>, results: &mut RequestResults) -> Vec<Object> {
    module(
        assets,
        "detect",
        "yunet_n_320.onnx",
        "yunet",
        &Settings::default(),
    )
    .run(0, frame, results)
    .objects
}

#[test]
fn blazeface_finds_the_faces_of_yunet_with_key_points() {
    let Some(assets) = assets() else { return };
    for name in ["face_obama1.jpg", "face_biden1.jpg", "face_two_people.jpg"] {
        let expected = detect(&assets, "yunet_n_320.onnx", "yunet", name);
        let blazeface = module(
            &assets,
            "detect",
            "blazeface_front_128.onnx",
            "auto",
            &Settings::default(),
        );
        let mut results = RequestResults::default();
        let output = blazeface.run(0, &frame(&assets.join("images").join(name)), &mut results);
        println!("{name}: {:?}", output.objects);
        for face in &expected {
            let same = |(_, other): &(usize, &Object)| other.rect.iou(&face.rect) > 0.4;
            let (index, _) = output.objects.iter().enumerate().find(same).expect("found");
            let Attribute::Points(points) = &output.attributes[index].attribute else {
                panic!("no points")
            };
            let Points::Face(landmarks) = &face.points else {
                panic!("no points")
            };
            // Eyes and nose; the right eye of a person is the left one in the picture. A pixel of the model's input is up to
            // seventeen of these photographs.
            for (point, landmark) in points.iter().zip(landmarks).take(3) {
                let apart = (point.at.x - landmark.x).hypot(point.at.y - landmark.y);
                assert!(apart < 0.25 * face.rect.width(), "{point:?} {landmark:?}");
            }
        }
    }
}

#[test]
fn portraits_match_by_person_and_not_across() {
    let Some(assets) = assets() else { return };
    let settings = keys(&[("vector", Value::Flag(true))]);
    let embed = module(&assets, "embed", "mobilefacenet_112.onnx", "embed", &settings);
    let vectors: Vec<Vec<f32>> = ["obama1", "obama2", "biden1", "biden2"]
        .iter()
        .map(|name| {
            let frame = frame(&assets.join(format!("images/face_{name}.jpg")));
            let mut results = RequestResults::default();
            assert_eq!(faces(&assets, &frame, &mut results).len(), 1, "{name}");
            match embed.run(1, &frame, &mut results).attributes.remove(0).attribute {
                Attribute::Match {
                    vector: Some(vector), ..
                } => vector,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    for a in 0..4 {
        for b in a + 1..4 {
            let cosine: f32 = vectors[a].iter().zip(&vectors[b]).map(|(x, y)| x * y).sum();
            println!("portraits {a} and {b}: {cosine:.3}");
            assert_eq!(cosine > 0.5, a / 2 == b / 2, "{a} {b} {cosine}");
        }
    }
}

#[test]
fn a_gallery_of_photos_matches_its_persons() {
    let Some(assets) = assets() else { return };
    let folder = tempfile::tempdir().expect("temporary folder");
    std::fs::copy(
        assets.join("images/face_obama1.jpg"),
        folder.path().join("obama_1.jpg"),
    )
    .expect("copied");
    std::fs::create_dir(folder.path().join("biden")).expect("made");
    std::fs::copy(
        assets.join("images/face_biden1.jpg"),
        folder.path().join("biden/a.jpg"),
    )
    .expect("copied");
    let text = |path: PathBuf| Value::Text(path.display().to_string());
    let settings = keys(&[
        ("gallery", text(folder.path().to_owned())),
        ("gallery_faces", text(assets.join("models/yunet_n_320.onnx"))),
    ]);
    let embed = module(&assets, "embed", "mobilefacenet_112.onnx", "embed", &settings);
    for name in ["obama", "biden"] {
        let frame = frame(&assets.join(format!("images/face_{name}2.jpg")));
        let mut results = RequestResults::default();
        faces(&assets, &frame, &mut results);
        let output = embed.run(1, &frame, &mut results);
        println!("{name}: {:?}", output.attributes[0].attribute);
        let Attribute::Match { r#match, vector, .. } = &output.attributes[0].attribute else {
            panic!("no match")
        };
        assert_eq!((r#match.as_deref(), vector), (Some(name), &None));
    }
}

#[test]
fn faces_have_expressions_poses_and_irises() {
    let Some(assets) = assets() else { return };
    assert!(
        !detect(
            &assets,
            "ultraface_rfb_320.onnx",
            "ultraface",
            "face_two_people.jpg"
        )
        .is_empty()
    );
    let second = Value::Text(assets.join("models/fsanet_var_64.onnx").display().to_string());
    let expression = module(
        &assets,
        "expression",
        "fer_mini_xception_48.onnx",
        "expression",
        &Settings::default(),
    );
    let pose = module(
        &assets,
        "head-pose",
        "fsanet_1x1_64.onnx",
        "head-pose",
        &keys(&[("second", second)]),
    );
    let iris = module(
        &assets,
        "iris",
        "iris_landmark_64.onnx",
        "iris",
        &Settings::default(),
    );
    for name in ["obama1", "obama2", "biden1", "biden2"] {
        let frame = frame(&assets.join(format!("images/face_{name}.jpg")));
        let mut results = RequestResults::default();
        let face = faces(&assets, &frame, &mut results).remove(0);
        let Points::Face(points) = &face.points else {
            panic!("no points")
        };
        let said: Vec<Attribute> = [&expression, &pose, &iris]
            .iter()
            .zip(1..)
            .map(|(module, number)| {
                module
                    .run(number, &frame, &mut results)
                    .attributes
                    .remove(0)
                    .attribute
            })
            .collect();
        println!("{name}: eyes {:?} {said:?}", &points[..2]);
        assert!(matches!(&said[0], Attribute::Class { score, .. } if *score > 0.2));
        let Attribute::Angles { yaw, pitch, roll } = said[1] else {
            panic!("no angles")
        };
        assert!(
            [yaw, pitch, roll].iter().all(|angle| angle.abs() < 45.0),
            "portraits look at the camera"
        );
        let Attribute::Iris { eyes, .. } = &said[2] else {
            panic!("no iris")
        };
        let apart = (points[1].x - points[0].x).hypot(points[1].y - points[0].y);
        for (eye, point) in eyes.iter().zip(points) {
            assert!(
                (eye.at.x - point.x).hypot(eye.at.y - point.y) < 0.2 * apart,
                "{eye:?} {point:?}"
            );
        }
    }
}
