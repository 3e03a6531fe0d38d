use serde::Deserialize;
use serde_json::{Value, json};

use super::runs::Runs;
use super::{CocoError, CocoScore, read_dataset, read_results, score};

/// Four pictures with random objects of three classes, crowds among them, and results near them or anywhere; `expected` are the
/// figures of pycocotools 2.0.11: AP, AP50, AP75, AP of small, medium and large objects, AR.
const RANDOM: &str = include_str!("random.json");

#[derive(Deserialize)]
struct Random {
    annotations: Value,
    results: Value,
    expected: std::collections::BTreeMap<String, [Option<f64>; 7]>,
}

fn scored(annotations: &Value, results: &Value) -> Result<CocoScore, CocoError> {
    let dataset = read_dataset(&annotations.to_string())?;
    let results = read_results(&results.to_string(), &dataset)?;
    score(&dataset, &results)
}

#[test]
fn figures_are_those_of_pycocotools() {
    let random: Random = serde_json::from_str(RANDOM).expect("the file is JSON");
    let scored = scored(&random.annotations, &random.results).expect("the files fit");
    assert_eq!(scored.shapes.len(), random.expected.len());
    for (shape, expected) in &random.expected {
        let figures = scored.shapes[shape.as_str()].figures();
        for (figure, expected) in figures.iter().zip(expected) {
            let same = match (figure, expected) {
                (Some(figure), Some(expected)) => (figure - expected).abs() < 1e-5,
                (figure, expected) => figure == expected,
            };
            assert!(same, "{shape}: {figures:?}, not {expected:?}");
        }
    }
}

#[test]
fn polygons_cover_the_pixels_whose_centres_are_within() {
    let square = vec![1.0, 1.0, 3.0, 1.0, 3.0, 4.0, 1.0, 4.0];
    let mask = Runs::from_polygons(std::slice::from_ref(&square), 5, 4).expect("a small picture");
    assert_eq!(mask, Runs::from_counts(&[6, 3, 2, 3, 6], 5, 4).expect("fits"));
    // A polygon that lies on another one adds nothing, and one beyond the picture is cut off.
    let beyond = vec![2.0, -9.0, 99.0, -9.0, 99.0, 99.0, 2.0, 99.0];
    let both = Runs::from_polygons(&[square.clone(), square, beyond], 5, 4).expect("a small picture");
    assert_eq!(both, Runs::from_counts(&[6, 3, 1, 10], 5, 4).expect("fits"));
    assert_eq!((both.area(), both.intersection(&mask)), (13, 6));
    for strange in [
        vec![],
        vec![1.0],
        vec![1.0, 2.0],
        vec![f64::MAX, 0.0, -f64::MAX, 1.0],
    ] {
        assert_eq!(
            Runs::from_polygons(&[strange], 5, 4)
                .expect("a small picture")
                .area(),
            0
        );
    }
}

#[test]
fn texts_of_runs_are_read_as_pycocotools_writes_them() {
    let check = |text: &str, counts: &[u64], height, width| {
        let read = Runs::from_text(text, height, width).expect("a text of COCO");
        assert_eq!(
            read,
            Runs::from_counts(counts, height, width).expect("fits"),
            "{text}"
        );
    };
    check("222", &[2, 2, 2], 2, 3);
    check("0?`0`0hn0", &[0, 15, 16, 31, 1000], 1062, 1);
    check("5X13RO", &[5, 40, 3, 10], 58, 1);
    for wrong in ["\u{e9}", "P", "oooooooooo", "2222", "!", "O"] {
        assert!(Runs::from_text(wrong, 2, 3).is_err(), "{wrong}");
    }
    assert!(Runs::from_counts(&[u64::MAX, u64::MAX], 2, 3).is_err());
    assert!(Runs::from_counts(&[], u32::MAX, 3).is_err());
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let random: Random = serde_json::from_str(RANDOM).expect("the file is JSON");
    let refused = |annotations: &Value, results: &Value, word: &str| {
        let error = scored(annotations, results)
            .expect_err("it is refused")
            .to_string();
        assert!(error.contains(word), "{error}");
    };
    let of_no_picture = json!([{"image_id": 1, "category_id": 1, "score": 0.5, "bbox": [0, 0, 1, 1]}]);
    refused(&random.annotations, &of_no_picture, "picture 1");
    refused(&json!([]), &json!([]), "form");
    refused(&random.annotations, &json!({}), "form");
    let mut orphan = random.annotations.clone();
    orphan["annotations"][0]["category_id"] = json!(99);
    refused(&orphan, &json!([]), "class 99");
    let three =
        json!([{"image_id": 2, "category_id": 1, "score": 0.5, "keypoints": [1, 1, 1, 2, 2, 1, 3, 3, 1]}]);
    let mut labelled = random.annotations.clone();
    labelled["annotations"][0]["category_id"] = json!(1);
    labelled["annotations"][0]["image_id"] = json!(2);
    refused(&labelled, &three, "key points");
    let other_size = json!([{"image_id": 2, "category_id": 1, "score": 0.5,
        "segmentation": {"size": [2, 2], "counts": [0, 4]}}]);
    refused(&labelled, &other_size, "2 x 2");
    let nothing = scored(&random.annotations, &json!([])).expect("no result is no error");
    assert!(super::table(&nothing).contains("nothing was compared"));
}
