//! Requests as clients send them, wrong ones and random ones; answers as a client reads them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A body of JSON with bytes behind it, and the length of the JSON.
fn body(json: &Value, bytes: &[u8]) -> (Vec<u8>, Option<usize>) {
    let json = json.to_string().into_bytes();
    let header = json.len();
    ([json, bytes.to_vec()].concat(), Some(header))
}

/// Reads a request that has this one input, and no bytes.
fn refused(input: &Value) -> String {
    let body = json!({ "inputs": [input] }).to_string();
    read_request(body.as_bytes(), None).expect_err("an error")
}

/// One element of BYTES.
fn element(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("short");
    [&length.to_le_bytes(), bytes].concat()
}

#[test]
fn numbers_are_read_from_json_and_from_bytes() {
    let request = json!({
        "id": "7",
        "inputs": [
            {"name": "flat", "datatype": "UINT8", "shape": [1, 2, 1], "data": [0, 255]},
            {"name": "nested", "datatype": "UINT8", "shape": [1, 2, 1], "data": [[[1], [2]]]},
            {"name": "bytes", "datatype": "UINT8", "shape": [3], "parameters": {"binary_data_size": 3}},
            {"name": "file", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}},
            {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]},
            {"name": "floats", "datatype": "FP32", "shape": [2], "data": [0.5, -1.0]}
        ],
        "outputs": [{"name": "a"}, {"name": "b", "parameters": {"binary_data": false}}],
        "parameters": {"binary_data_output": true, "priority": 3}
    });
    let (body, header) = body(&request, &[&[7, 8, 9][..], &element(b"ab")].concat());
    let read = read_request(&body, header).expect("read");
    assert_eq!(read.id.as_deref(), Some("7"));
    let data: Vec<&InputData<'_>> = read.inputs.iter().map(|input| &input.data).collect();
    let numbers = |numbers: &[u8]| InputData::Numbers(numbers.to_vec().into());
    assert_eq!(
        data,
        [
            &numbers(&[0, 255]),
            &numbers(&[1, 2]),
            &numbers(&[7, 8, 9]),
            &InputData::Strings(vec![&b"ab"[..]]),
            &InputData::Texts,
            &InputData::Unread
        ]
    );
    assert_eq!(read.inputs[1].shape, [1, 2, 1]);
    let outputs: Vec<(&str, bool)> = read
        .outputs
        .iter()
        .map(|output| (&*output.name, output.binary))
        .collect();
    assert_eq!(outputs, [("a", true), ("b", false)]);
    assert!(read.binary_output);
}

#[test]
fn keys_with_null_are_as_if_they_were_absent() {
    let input = json!({"name": "x", "datatype": "UINT8", "shape": [2], "parameters": null, "data": [1, 2]});
    let mut request = json!({ "id": null, "parameters": null, "outputs": null, "inputs": [input] });
    let text = request.to_string();
    let read = read_request(text.as_bytes(), None).expect("read");
    assert_eq!(
        (read.id, read.outputs.len(), read.binary_output),
        (None, 0, false)
    );
    assert_eq!(read.inputs[0].data, InputData::Numbers(vec![1, 2].into()));
    request["outputs"] = json!([{"name": "a", "parameters": null}]);
    let text = request.to_string();
    let read = read_request(text.as_bytes(), None).expect("read");
    assert_eq!((&*read.outputs[0].name, read.outputs[0].binary), ("a", false));
}

#[test]
fn inputs_that_contradict_themselves_are_refused_by_name() {
    let input =
        |shape: Value, data: Value| json!({"name": "x", "datatype": "UINT8", "shape": shape, "data": data});
    let sized = |size: u64| json!({"name": "x", "datatype": "UINT8", "shape": [1], "parameters": {"binary_data_size": size}});
    for (input, expected) in [
        (
            input(json!([3]), json!([1, 2])),
            "input x has 2 elements, its shape [3] has 3",
        ),
        (input(json!([u64::MAX, 8]), json!([1])), "no memory has room"),
        (
            input(json!([1, 3]), json!([[1], [2], [3]])),
            "not those of its shape [1, 3]",
        ),
        (input(json!([2, 2]), json!([[1, 2], [3]])), "different lengths"),
        (input(json!([2]), json!([1, [2]])), "elements beside lists"),
        (input(json!([2]), json!([1, 256])), "no UINT8"),
        (input(json!([2]), json!([1, -1])), "no UINT8"),
        (input(json!([2]), json!([1, 0.5])), "no UINT8"),
        (input(json!([2]), json!([1, null])), "no UINT8"),
        (input(json!([2]), json!([1, {}])), "a list of elements"),
        (input(json!([-1]), json!([1])), "invalid value"),
        (input(json!(vec![1; 9]), json!([1])), "a list of at most 8"),
        (input(json!([1]), json!([[[[[[[[[1]]]]]]]]])), "more than 8 lists"),
        (sized(1), "fewer bytes"),
        (sized(u64::MAX), "fewer bytes"),
        (json!({"name": "x", "datatype": "UINT8", "shape": [1]}), "neither"),
        (
            json!({"name": "x", "datatype": "UINT8", "shape": [1], "parameters": {"shared_memory_region": "r"}}),
            "unknown field `shared_memory_region`",
        ),
        (
            json!({"name": "x", "shape": [1], "data": [1]}),
            "missing field `datatype`",
        ),
    ] {
        let error = refused(&input);
        assert!(error.contains(expected), "{input}: {error}");
    }
}

#[test]
fn requests_beyond_their_bounds_are_refused() {
    let requests = [
        (json!({}), "missing field `inputs`"),
        (
            json!({"inputs": vec![json!({"name": "x", "datatype": "", "shape": [0], "data": []}); 17]}),
            "at most 16",
        ),
        (
            json!({"inputs": [], "outputs": vec![json!({"name": "y"}); 17]}),
            "at most 16",
        ),
        (json!({"inputs": [], "id": "7".repeat(2_000)}), "the id is longer"),
        (
            json!({"inputs": [], "outputs": [{"name": "y", "parameters": {"classification": 3}}]}),
            "unknown field `classification`",
        ),
        (json!([]), "cannot be read"),
    ];
    for (request, expected) in requests {
        let error = read_request(request.to_string().as_bytes(), None).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
    let deep = "[".repeat(1 << 20);
    for text in [&*deep, "", "{", &format!("{{\"inputs\":[{{\"data\":{deep}")] {
        let error = read_request(text.as_bytes(), None).expect_err("an error");
        assert!(error.len() < 400, "{error}");
    }
    let key = format!("\u{1b}{}", "y".repeat(100_000));
    let long = json!({ "inputs": [{ "parameters": { key: 1 } }] });
    let error = read_request(long.to_string().as_bytes(), None).expect_err("an error");
    assert!(error.len() < 400 && !error.contains(char::is_control), "{error}");
    let error = read_request(b"{}", Some(7)).expect_err("short");
    assert!(error.contains("its header alone 7"), "{error}");
    let error = read_request(b"{\"inputs\":[]}abc", Some(13)).expect_err("long");
    assert!(error.contains("3 bytes follow"), "{error}");
}

#[test]
fn files_end_where_their_lengths_say() {
    for (bytes, shape, expected) in [
        (element(b"ab"), 2, "ends within element 2"),
        ([element(b"ab"), vec![0]].concat(), 1, "1 bytes behind"),
        (vec![255; 8], 1, "ends within element 1"),
        (vec![0; 4 * 17], 17, "17 elements"),
    ] {
        let input = json!({
            "name": "x", "datatype": "BYTES", "shape": [shape],
            "parameters": {"binary_data_size": bytes.len()}
        });
        let (body, header) = body(&json!({ "inputs": [input] }), &bytes);
        let error = read_request(&body, header).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_answer_has_its_bytes_in_the_order_of_its_outputs() {
    let tensor = |name, shape: &[u64], data, binary| OutputTensor {
        name,
        shape: shape.to_vec(),
        data,
        binary,
    };
    let mut response = InferResponse {
        model_name: "detect",
        model_version: "1",
        id: Some("7"),
        outputs: vec![
            tensor("labels", &[2], OutputData::Texts(vec!["a", "ß"]), true),
            tensor("boxes", &[0, 4], OutputData::Floats(Vec::new()), true),
            tensor("scores", &[2], OutputData::Floats(vec![0.5, 0.93]), false),
            tensor("more", &[1], OutputData::Floats(vec![1.0]), true),
        ],
    };
    let (body, header) = write_response(&response).expect("written");
    let (json, bytes) = body.split_at(header.expect("bytes follow"));
    assert_eq!(
        serde_json::from_slice::<Value>(json).expect("JSON"),
        json!({
            "model_name": "detect", "model_version": "1", "id": "7",
            "outputs": [
                {"name": "labels", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 11}},
                {"name": "boxes", "datatype": "FP32", "shape": [0, 4], "parameters": {"binary_data_size": 0}},
                {"name": "scores", "datatype": "FP32", "shape": [2], "data": [0.5, 0.93]},
                {"name": "more", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}
            ]
        })
    );
    assert_eq!(
        bytes,
        [element(b"a"), element("ß".as_bytes()), vec![0, 0, 128, 63]].concat()
    );
    // The client of this crate reads its floats.
    let names = ["more", "boxes", "scores"].map(str::to_owned);
    let read = crate::client::read_answer(&body, header, &names);
    let read: Vec<Vec<f32>> = read
        .expect("read")
        .into_iter()
        .map(|tensor| tensor.data)
        .collect();
    assert_eq!(read, [vec![1.0], vec![], vec![0.5, 0.93]]);

    response.id = None;
    for output in &mut response.outputs {
        output.binary = false;
    }
    let (body, header) = write_response(&response).expect("written");
    assert_eq!(header, None);
    let json: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(json["outputs"][0]["data"], json!(["a", "ß"]));
    assert!(json.get("id").is_none());
}

/// Requests with random shapes, sizes and elements.
fn requests() -> impl Strategy<Value = (Value, Vec<u8>)> {
    let size = prop_oneof![0_u64..4, Just(u64::MAX), Just(1_u64 << 32), any::<u64>()];
    let datatype = prop_oneof![Just("UINT8"), Just("BYTES"), Just("FP32"), Just("")];
    let data = prop_oneof![
        proptest::collection::vec(0_u16..300, 0..8).prop_map(|list| json!(list)),
        proptest::collection::vec(proptest::collection::vec(0_u8..9, 0..3), 0..3)
            .prop_map(|lists| json!(lists)),
        Just(json!("text")),
        Just(json!([["a"], [null]])),
        Just(json!({})),
    ];
    let place = prop_oneof![
        data.prop_map(|data| ("data", data)),
        prop_oneof![0_u64..40, any::<u64>()]
            .prop_map(|size| ("parameters", json!({ "binary_data_size": size }))),
    ];
    let input =
        (datatype, proptest::collection::vec(size, 0..10), place).prop_map(|(datatype, shape, place)| {
            let mut input = json!({ "name": "x", "datatype": datatype, "shape": shape });
            input[place.0] = place.1;
            input
        });
    let inputs = proptest::collection::vec(input, 0..4);
    (inputs, proptest::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(inputs, bytes)| (json!({ "inputs": inputs }), bytes))
}

/// Elements are as many as the shape has; bytes of the body are in no input twice.
fn check(request: &InferRequest<'_>, body: &[u8]) {
    let mut length = 0;
    for input in &request.inputs {
        let count = input
            .shape
            .iter()
            .try_fold(1_u64, |all, size| all.checked_mul(*size));
        let count = count.expect("a shape without overflow");
        match &input.data {
            InputData::Numbers(numbers) => {
                assert_eq!(numbers.len() as u64, count);
                length += numbers.len();
            }
            InputData::Strings(strings) => {
                assert_eq!(strings.len() as u64, count);
                length += strings.iter().map(|text| text.len()).sum::<usize>();
            }
            InputData::Texts | InputData::Unread => {}
        }
    }
    assert!(length <= body.len());
}

proptest! {
    #[test]
    fn random_bytes_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        header in proptest::option::of(0_usize..300),
    ) {
        if let Ok(request) = read_request(&bytes, header) {
            check(&request, &bytes);
        }
    }

    #[test]
    fn random_shapes_are_read_without_a_panic((json, bytes) in requests(), shift in -2_isize..3) {
        let (body, header) = body(&json, &bytes);
        let header = header.and_then(|header| header.checked_add_signed(shift));
        match read_request(&body, header) {
            Ok(request) => check(&request, &body),
            Err(error) => prop_assert!(!error.is_empty() && error.len() < 1_000),
        }
    }

    #[test]
    fn edited_requests_are_read_without_a_panic(at in any::<prop::sample::Index>(), by in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let json = json!({
            "id": "1",
            "inputs": [
                {"name": "image", "datatype": "UINT8", "shape": [1, 1, 2, 3], "parameters": {"binary_data_size": 6}},
                {"name": "file", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}}
            ],
            "outputs": [{"name": "boxes", "parameters": {"binary_data": true}}]
        });
        let (mut body, header) = body(&json, &[&[1, 2, 3, 4, 5, 6][..], &element(b"ab")].concat());
        let place = at.index(body.len());
        body[place] = by;
        body.truncate(cut.index(body.len()) + 1);
        for header in [header, None] {
            if let Ok(request) = read_request(&body, header) {
                check(&request, &body);
            }
        }
    }
}
