use super::super::onnx::{OperatorSetIdProto, TypeProto};
use super::*;
use crate::heads::UNREAD_NAMES;
use weir_flow::{Settings, Value};

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn value(name: &str, element: i32, shape: &[usize]) -> ValueInfoProto {
    ValueInfoProto {
        name: text(name),
        r#type: Some(TypeProto::tensor(
            element,
            shape.iter().copied().map(Dimension::size).collect(),
        )),
        ..ValueInfoProto::default()
    }
}

/// A file with these nodes, inputs and outputs.
fn file(nodes: Vec<NodeProto>, input: Vec<ValueInfoProto>, output: Vec<ValueInfoProto>) -> Arc<[u8]> {
    let model = ModelProto {
        ir_version: Some(8),
        graph: Some(GraphProto {
            name: text("g"),
            node: nodes,
            input,
            output,
            ..GraphProto::default()
        }),
        opset_import: vec![OperatorSetIdProto {
            domain: text(""),
            version: Some(13),
        }],
        ..ModelProto::default()
    };
    model.encode_to_vec().into()
}

/// Outputs of a run on an image of such a shape, whose elements are numbered from 0.
fn run(opened: &mut Opened, shape: &[usize]) -> Vec<(String, Vec<i64>, Vec<f32>)> {
    let mut feed = opened.session.feed().expect("a feed");
    feed.reshape(shape).expect("memory");
    for (place, element) in feed.elements().iter_mut().enumerate() {
        *element = place as f32;
    }
    let read = |views: &[super::super::runtime::OutputView<'_>]| {
        let one = |view: &super::super::runtime::OutputView<'_>| {
            (view.name.to_owned(), view.shape.to_vec(), view.data.to_vec())
        };
        views.iter().map(one).collect()
    };
    opened.session.run(&feed, read).expect("runs")
}

#[test]
fn a_picture_of_floats_is_not_edited() {
    let model = file(
        vec![node("Identity", &["images"], "y", &[])],
        vec![value("images", data_type::FLOAT, &[1, 3, 2, 4])],
        vec![value("y", data_type::FLOAT, &[1, 3, 2, 4])],
    );
    let opened = Opened::new(&model).expect("opens");
    assert_eq!(opened.bytes, model);
}

#[test]
fn images_of_halves_and_bytes_are_converted_from_floats() {
    for (element, name) in [
        (data_type::FLOAT16, "f16"),
        (data_type::DOUBLE, "f64"),
        (data_type::UINT8, "u8"),
    ] {
        let model = file(
            vec![node("Identity", &["images"], "y", &[])],
            vec![value("images", element, &[1, 3, 2, 4])],
            vec![value("y", element, &[1, 3, 2, 4])],
        );
        let mut opened = Opened::new(&model).expect("opens");
        assert_eq!(
            (&*opened.inputs[0].element, &*opened.session.inputs()[0].element),
            (name, "f32")
        );
        assert_eq!(opened.takes_bytes(), name == "u8");
        assert_eq!(opened.readable(), [name != "u8"]);
        let [(output, shape, data)] = &run(&mut opened, &[1, 3, 2, 4])[..] else {
            panic!("one output")
        };
        assert_eq!((output.as_str(), &shape[..]), ("y", &[1, 3, 2, 4][..]));
        assert_eq!(
            data,
            &(0..24).map(|place| place as f32).collect::<Vec<_>>(),
            "{name}"
        );
    }
}

#[test]
fn an_image_without_a_batch_is_given_one() {
    let model = file(
        vec![node("Identity", &["image"], "y", &[])],
        vec![value("image", data_type::FLOAT, &[3, 2, 4])],
        vec![value("y", data_type::FLOAT, &[3, 2, 4])],
    );
    let mut opened = Opened::new(&model).expect("opens");
    assert_eq!(
        opened.session.inputs()[0].shape,
        [Some(1), Some(3), Some(2), Some(4)]
    );
    let outputs = run(&mut opened, &[1, 3, 2, 4]);
    assert_eq!(outputs[0].1, [3, 2, 4]);
}

#[test]
fn sizes_are_computed_from_the_image() {
    let inputs = [
        ("orig_target_sizes", data_type::INT64, 2),
        ("im_shape", data_type::FLOAT, 2),
        ("scale_factor", data_type::FLOAT, 2),
    ];
    for (image, shape) in [("images", [2, 3, 20, 40]), ("nhwc", [2, 20, 40, 3])] {
        let mut input = vec![value(image, data_type::FLOAT, &shape)];
        input.extend(inputs.map(|(name, element, size)| value(name, element, &[2, size])));
        input.push(value("pixel_mask", data_type::INT64, &[2, 20, 40]));
        let names = ["orig_target_sizes", "im_shape", "scale_factor", "pixel_mask"];
        let mut nodes: Vec<NodeProto> = names
            .iter()
            .map(|name| node("Identity", &[name], &format!("{name}_out"), &[]))
            .collect();
        nodes.push(node("Identity", &[image], "image_out", &[]));
        let mut output: Vec<ValueInfoProto> = inputs
            .iter()
            .map(|(name, element, size)| value(&format!("{name}_out"), *element, &[2, *size]))
            .collect();
        output.push(value("pixel_mask_out", data_type::INT64, &[2, 20, 40]));
        let model = file(nodes, input, output);
        let mut opened = Opened::new(&model).expect("opens");
        assert_eq!(opened.session.inputs().len(), 1);
        assert_eq!(opened.computed(), names);
        let outputs = run(&mut opened, &shape);
        let data: Vec<&[f32]> = outputs.iter().map(|(_, _, data)| &data[..]).collect();
        assert_eq!(data[0], [40.0, 20.0, 40.0, 20.0]);
        assert_eq!(data[1], [20.0, 40.0, 20.0, 40.0]);
        assert_eq!(data[2], [1.0; 4]);
        assert!(data[3].len() == 1600 && data[3].iter().all(|mask| *mask == 1.0));
    }
}

#[test]
fn whole_numbers_are_given_as_floats_and_marked() {
    let model = file(
        vec![
            node("ArgMax", &["images"], "labels", &[("axis", 1), ("keepdims", 0)]),
            node("Identity", &["labels"], "again", &[]),
        ],
        vec![value("images", data_type::FLOAT, &[1, 3, 2, 4])],
        vec![
            value("labels", data_type::INT64, &[1, 2, 4]),
            value("again", data_type::INT64, &[1, 2, 4]),
        ],
    );
    let mut opened = Opened::new(&model).expect("opens");
    assert_eq!(opened.readable(), [false, false]);
    for (_, _, data) in run(&mut opened, &[1, 3, 2, 4]) {
        assert_eq!(data, [2.0; 8]);
    }
}

#[test]
fn other_inputs_are_left_for_the_error() {
    let image = || value("images", data_type::FLOAT, &[1, 3, 32, 32]);
    let output = || vec![value("y", data_type::FLOAT, &[1, 3, 32, 32])];
    let identity = || vec![node("Identity", &["images"], "y", &[])];
    let settings = Settings([(UNREAD_NAMES.to_owned(), Value::Flag(true))].into());
    for (other, words) in [
        (value("im_info", data_type::FLOAT, &[1, 3]), "images, im_info"),
        (
            value("scale_factor", data_type::FLOAT, &[1, 2, 2]),
            "images, scale_factor",
        ),
    ] {
        let opened = Opened::new(&file(identity(), vec![image(), other], output())).expect("opens");
        let kind = crate::heads::HeadKind::named("paddle").expect("there is one");
        let error = super::super::input_of(&opened, kind, &settings)
            .expect_err("refused")
            .to_string();
        assert!(
            error.contains(words) && error.contains("only orig_target_sizes"),
            "{error}"
        );
    }
    let whole = value("images", data_type::INT64, &[1, 3, 32, 32]);
    let opened = Opened::new(&file(
        vec![node("Identity", &["images"], "y", &[])],
        vec![whole],
        vec![value("y", data_type::INT64, &[1, 3, 32, 32])],
    ))
    .expect("opens");
    let kind = crate::heads::HeadKind::named("yolov8").expect("there is one");
    let error = super::super::input_of(&opened, kind, &settings)
        .expect_err("refused")
        .to_string();
    assert!(
        error.contains("holds i64") && error.contains("f16 or u8"),
        "{error}"
    );
}
