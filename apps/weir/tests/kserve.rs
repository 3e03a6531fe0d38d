//! Pictures by the KServe v2 protocol pass the modules of a graph that serves.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::service::{GRAPH, Service, folder};
use crate::common::{becomes, has_runtime, report};
use crate::infer::{STREET, png, street};

/// Status, headers and body of the answer to a request with bytes behind its JSON.
fn post(service: &Service, model: &str, request: &Value, bytes: &[u8]) -> (u16, String, Vec<u8>) {
    let json = request.to_string();
    let head = format!(
        "POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n{json}",
        service.at,
        json.len(),
        json.len() + bytes.len()
    );
    let mut stream = TcpStream::connect(&service.at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head, answer[end + 4..].to_vec())
}

/// The outputs of an answer in JSON, by their names.
fn outputs((status, _, body): &(u16, String, Vec<u8>)) -> Value {
    let text = String::from_utf8_lossy(body);
    assert_eq!(*status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let outputs = answer["outputs"].as_array().unwrap().iter();
    outputs
        .map(|output| {
            (
                output["name"].as_str().unwrap().to_owned(),
                output["data"].clone(),
            )
        })
        .collect()
}

/// A request with a file, and the bytes behind it.
fn of_file(file: &[u8]) -> (Value, Vec<u8>) {
    let length = u32::try_from(file.len()).unwrap();
    let bytes = [&length.to_le_bytes(), file].concat();
    let input = json!({
        "name": "image", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": bytes.len()}
    });
    (json!({ "inputs": [input] }), bytes)
}

fn wait_for(holds: impl Fn() -> bool) {
    assert!(becomes(holds), "it never came");
}

#[test]
fn a_module_that_takes_frames_is_a_model() {
    let mut service = Service::start(&[]);
    let get = |path: &str| service.ask("GET", path, "");
    assert_eq!(get("/v2/health/ready").0, 200);
    assert_eq!(get("/v2/models/find/ready").0, 200);
    let (status, metadata) = get("/v2/models/find");
    assert!(status == 200 && metadata.contains("\"image\""), "{metadata}");
    let (status, other) = get("/v2/models/events");
    assert!(status == 404 && other.contains("find"), "{other}");

    let request = json!({
        "id": "a",
        "inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 2, 3, 3], "data": vec![9; 18]}]
    });
    let (status, answer) = service.ask("POST", "/v2/models/find/infer", &request.to_string());
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        (&answer["id"], &answer["model_name"]),
        (&json!("a"), &json!("find"))
    );
    let line: Value = serde_json::from_str(answer["outputs"][3]["data"][0].as_str().unwrap()).unwrap();
    assert_eq!(
        (&line["stream"], &line["width"], &line["height"]),
        (&json!("(pictures into find)"), &json!(3), &json!(2))
    );
    let (request, bytes) = of_file(&png(5, 4));
    let line = outputs(&post(&service, "find", &request, &bytes))["objects"][0].to_string();
    assert!(line.contains(r#"\"width\":5,\"height\":4"#), "{line}");
    let (request, bytes) = of_file(b"no picture");
    let (status, _, body) = post(&service, "find", &request, &bytes);
    let error: Value = serde_json::from_slice(&body).unwrap();
    let error = error["error"].as_str().unwrap();
    assert!(status == 400 && error.contains("JPEG or PNG"), "{error}");

    service.drain();
    let report = report(&service.folder.path().join("report.json"));
    let requests = &report["streams"]["(pictures into find)"]["requests"];
    assert_eq!(requests["delivered"], 2, "{requests}");
}

#[test]
fn pictures_into_a_module_pass_no_other_one_also_after_a_swap_of_the_graph() {
    let folder = folder();
    // Without cameras, so that all frames are those of clients.
    let graph = GRAPH.replace("uri = \"emulated:uniform?rate=50\"", "template = true");
    let second = "[modules.second]\noperator = \"emulate\"\nmodel = \"any\"\ninputs = [\"steady\"]\nstreams = [\"none\"]\n";
    let file = folder.path().join("graph.toml");
    std::fs::write(&file, graph.clone() + second).unwrap();
    let service = Service::start_in(folder, "127.0.0.1:0", &[]);
    // The state may be some moments old.
    let wait_for_items = |expected: &[(&str, u64)]| {
        wait_for(|| {
            let (_, state) = service.ask("GET", "/api/state", "");
            let state: Value = serde_json::from_str(&state).unwrap_or_default();
            let modules = &state["report"]["modules"];
            expected
                .iter()
                .all(|(module, items)| modules[module]["items"] == *items)
        });
    };
    let picture = |model: &str| {
        let (request, bytes) = of_file(&png(8, 8));
        outputs(&post(&service, model, &request, &bytes));
    };
    wait_for(|| service.ask("GET", "/v2/health/ready", "").0 == 200);
    picture("find");
    wait_for_items(&[("find", 1), ("second", 0)]);
    // It runs for the client that names it, though for no stream.
    picture("second");
    wait_for_items(&[("find", 1), ("second", 1)]);

    std::fs::write(&file, graph + second + &second.replace("second", "third")).unwrap();
    service.hang_up();
    wait_for(|| service.ask("GET", "/v2/models/third", "").0 == 200);
    picture("find");
    picture("second");
    picture("third");
    wait_for_items(&[("find", 2), ("second", 2), ("third", 1)]);
}

#[test]
fn tensors_have_the_objects_that_a_picture_has_by_other_ways() {
    if !has_runtime() {
        return;
    }
    let folder = folder();
    std::fs::write(folder.path().join("graph.toml"), STREET).unwrap();
    let service = Service::start_in(folder, "127.0.0.1:0", &[]);
    let picture = street();
    let head = format!(
        "POST /api/infer HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        service.at,
        picture.len()
    );
    let (status, line) = service.send(&[head.as_bytes(), &picture].concat(), false);
    assert_eq!(status, 200, "{line}");
    let expected: Value = serde_json::from_str(&line).unwrap();
    let expected = expected["objects"].as_array().unwrap();
    assert!(expected.len() > 3, "{line}");

    // The file, and its pixels.
    let (file, bytes) = of_file(&picture);
    let pixels = image::load_from_memory(&picture).unwrap().into_rgb8();
    let (width, height) = pixels.dimensions();
    let samples = pixels.into_raw();
    let raw = json!({"inputs": [{
        "name": "image", "datatype": "UINT8", "shape": [1, height, width, 3],
        "parameters": {"binary_data_size": samples.len()}
    }]});
    for (mut request, bytes) in [(file, bytes), (raw, samples)] {
        let found = outputs(&post(&service, "objects", &request, &bytes));
        let line: Value = serde_json::from_str(found["objects"][0].as_str().unwrap()).unwrap();
        assert_eq!(line["objects"].as_array(), Some(expected));
        let labels: Vec<&Value> = expected.iter().map(|object| &object["class"]).collect();
        assert_eq!(
            found["labels"].as_array().unwrap().iter().collect::<Vec<_>>(),
            labels
        );
        let boxes: Vec<f64> = found["boxes"].as_array().unwrap().iter().map(number).collect();
        let scores: Vec<f64> = found["scores"].as_array().unwrap().iter().map(number).collect();
        for (index, object) in expected.iter().enumerate() {
            let corners = object["box"].as_array().unwrap().iter().map(number);
            for (corner, exact) in corners.zip(&boxes[4 * index..]) {
                assert!((corner - exact).abs() < 0.06, "{object}: {exact}");
            }
            assert!(
                (number(&object["score"]) - scores[index]).abs() < 1e-4,
                "{object}"
            );
        }

        // The same as bytes behind the JSON.
        request["outputs"] = json!([{"name": "boxes", "parameters": {"binary_data": true}}]);
        let (status, head, body) = post(&service, "objects", &request, &bytes);
        assert_eq!(status, 200);
        let json = head
            .lines()
            .find_map(|line| line.strip_prefix("inference-header-content-length: "));
        let (json, tensor) = body.split_at(json.unwrap().parse().unwrap());
        let json: Value = serde_json::from_slice(json).unwrap();
        assert_eq!(json["outputs"][0]["shape"], json!([expected.len(), 4]));
        let (floats, rest) = tensor.as_chunks::<4>();
        let floats: Vec<f64> = floats
            .iter()
            .map(|bytes| f64::from(f32::from_le_bytes(*bytes)))
            .collect();
        assert!(rest.is_empty() && floats.len() == boxes.len());
        assert!(
            floats
                .iter()
                .zip(&boxes)
                .all(|(one, other)| (one - other).abs() < 1e-3)
        );
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}
