use super::*;
use crate::operator::{OperatorRequest, operator};
use weir_flow::{Image, Settings, Value};

fn made(regions: &[&str], settings: &[(&str, Value)]) -> Result<Arc<dyn Operator>, OperatorError> {
    let regions: Vec<String> = regions.iter().map(|class| (*class).to_owned()).collect();
    let settings = settings
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()));
    operator(&OperatorRequest {
        operator: "map",
        regions: &regions,
        settings: &Settings(settings.collect()),
        model: None,
    })
}

fn texts(texts: &[&str]) -> Value {
    Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect())
}

/// A picture of 40 by 20 pixels under a map of 4 by 2 cells.
fn inference(cells: MapCells) -> Inference {
    let area = Rect::new(0.0, 0.0, 40.0, 20.0);
    Inference {
        map: DenseMap::new(area, 4, 2, cells).map(Arc::new),
        ..Inference::default()
    }
}

fn classes() -> Inference {
    let names = ["sky", "road", "grass"].map(Arc::from).into();
    let cells = [0, 0, 0, 2, 1, 1, 1, 1].into();
    inference(MapCells::Classes { names, cells })
}

fn values() -> Inference {
    inference(MapCells::Values([4.0, 3.0, 2.0, 1.0, 5.0, 6.0, 7.0, 8.0].into()))
}

fn frame() -> Arc<Frame> {
    Arc::new(Frame::new(0, 0.0, Image::from_rgb(40, 20, vec![0; 40 * 20 * 3])))
}

/// Two persons and a car.
fn results() -> RequestResults {
    let object = |class: &str, rect: Rect| Object {
        class: class.into(),
        score: 0.9,
        rect,
        parent: None,
        points: Points::None,
        candidate: false,
    };
    let objects = vec![
        object("person", Rect::new(0.0, 0.0, 10.0, 20.0)),
        object("car", Rect::new(0.0, 0.0, 40.0, 20.0)),
        object("person", Rect::new(20.0, -5.0, 40.0, 20.0)),
    ];
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

/// The attributes with their object, as texts.
fn said(operator: &dyn Operator, results: &RequestResults, inference: &Inference) -> Vec<String> {
    let items = operator.items(&frame(), results);
    let inferences = items.iter().map(|_| inference.clone()).collect();
    let output = operator.output_beside(5, &items, inferences, results);
    let one = |attribute: &ObjectAttribute| {
        let ObjectRef { module, index } = attribute.object;
        let value = match &attribute.attribute {
            Attribute::Class { class, score } => format!("{class} {score}"),
            Attribute::Number { value } => format!("{value}"),
            other => panic!("{other:?}"),
        };
        format!("{module}.{index} {}: {value}", attribute.name)
    };
    output.attributes.iter().map(one).collect()
}

#[test]
fn frame_has_the_shares_of_its_classes() {
    let operator = made(&[], &[("shares", Value::Number(2.0))]).expect("made");
    assert_eq!(
        said(&*operator, &results(), &classes()),
        ["5.0 map: road 0.5", "5.0 map.road: 50", "5.0 map.sky: 37.5"]
    );
}

#[test]
fn objects_have_the_values_within_their_boxes() {
    let keys = [
        ("attribute", Value::Text("depth".to_owned())),
        ("statistics", texts(&["mean", "p50", "max"])),
    ];
    let operator = made(&["person"], &keys).expect("made");
    assert_eq!(
        said(&*operator, &results(), &values()),
        [
            // The larger one first: 2, 1, 7 and 8; of an even number the upper middle.
            "3.2 depth.mean: 4.5",
            "3.2 depth.p50: 7",
            "3.2 depth.max: 8",
            "3.0 depth.mean: 4.5",
            "3.0 depth.p50: 5",
            "3.0 depth.max: 5",
        ]
    );
    let nothing = RequestResults::default();
    assert!(operator.items(&frame(), &nothing).is_empty());
}

#[test]
fn places_have_attributes_of_their_own() {
    let keys = [
        ("places", texts(&["track 0 0.5 1 1", "gate 0.9 0.1"])),
        ("shares", Value::Number(1.0)),
    ];
    let operator = made(&["person"], &keys).expect("made");
    assert_eq!(
        said(&*operator, &RequestResults::default(), &classes()),
        [
            "5.0 map@track: road 1",
            "5.0 map@track.road: 100",
            "5.0 map@gate: grass 1",
            "5.0 map@gate.grass: 100",
        ]
    );
    let output = operator.output(5, &operator.items(&frame(), &results()), vec![classes()]);
    let whole = Rect::new(0.0, 0.0, 40.0, 20.0);
    assert_eq!(
        (&*output.objects[0].class, output.objects[0].rect),
        ("frame", whole)
    );
}

#[test]
fn classes_are_objects_with_masks_where_they_are_asked_for() {
    let keys = [("masks", texts(&["grass", "water", "sky"]))];
    let operator = made(&["person"], &keys).expect("made");
    let items = operator.items(&frame(), &results());
    let output = operator.output_beside(5, &items, vec![classes()], &results());
    let found: Vec<(&str, Rect)> = output
        .objects
        .iter()
        .map(|object| (&*object.class, object.rect))
        .collect();
    let grass = Rect::new(30.0, 0.0, 40.0, 10.0);
    let sky = Rect::new(0.0, 0.0, 30.0, 10.0);
    assert_eq!(found, [("grass", grass), ("sky", sky)]);
    assert!(
        output
            .objects
            .iter()
            .all(|object| matches!(object.points, Points::Mask(_)))
    );
    assert_eq!(output.attributes[0].object, ObjectRef { module: 3, index: 2 });
}

#[test]
fn an_answer_without_a_map_gives_nothing() {
    let operator = made(&[], &[]).expect("made");
    assert!(said(&*operator, &results(), &Inference::default()).is_empty());
    let none = inference(MapCells::Values([f32::NAN; 8].into()));
    assert!(said(&*operator, &results(), &none).is_empty());
}

#[test]
fn texts_of_another_form_are_refused() {
    for (key, text) in [
        ("places", &["track"][..]),
        ("places", &["track 0 0 1"]),
        ("places", &["track 0.5 0 0.5 1"]),
        ("places", &["track 0 0 2 1"]),
        ("places", &["track 0 0 nan 1"]),
        ("places", &["0.1 0.2 0.3 0.4 0.5"]),
        ("places", &["a.b 0.1 0.2"]),
        ("places", &["a 0.1 0.2", "a 0.3 0.4"]),
        ("places", &["a 0.1 0.2"; 65]),
        ("statistics", &["median"]),
        ("statistics", &["p101"]),
        ("statistics", &["p"]),
    ] {
        let error = made(&[], &[(key, texts(text))]).err().expect("refused");
        assert!(error.to_string().contains(key), "{error}");
    }
}
