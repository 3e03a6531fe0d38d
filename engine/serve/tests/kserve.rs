//! Pictures by the KServe v2 protocol, over loopback and without an engine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use weir_serve::NotReady;

use crate::common::{Memory, TOKEN, ask, start};

/// A request for the objects of a picture of 2 by 1 pixels, whose samples are in the JSON.
fn pixels() -> Value {
    json!({
        "id": "42",
        "inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 1, 2, 3], "data": [[[[1, 2, 3], [4, 5, 6]]]]}]
    })
}

/// Status and JSON of the answer to a request in JSON.
fn infer(at: SocketAddr, path: &str, request: &Value) -> (u16, Value) {
    let (status, answer) = ask(at, "POST", path, "", &request.to_string());
    (status, serde_json::from_str(&answer).unwrap())
}

/// A request with the file behind its JSON.
fn file(at: SocketAddr, path: &str, (mut request, file): (Value, &str), headers: &str) -> (u16, String) {
    let length = u32::try_from(file.len()).unwrap().to_le_bytes();
    // Lengths of less than 128 bytes are UTF-8.
    let element = format!("{}{file}", std::str::from_utf8(&length).unwrap());
    request["inputs"] = json!([{
        "name": "image", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": element.len()}
    }]);
    let json = request.to_string();
    let headers = format!("Inference-Header-Content-Length: {}\r\n{headers}", json.len());
    ask(at, "POST", path, &headers, &(json + &element))
}

#[test]
fn a_model_says_what_it_takes_and_gives() {
    let (server, _) = start(None);
    let at = server.address();
    let get = |path: &str| ask(at, "GET", path, "", "");
    let json = |path: &str| serde_json::from_str::<Value>(&get(path).1).unwrap();
    let about = json("/v2");
    assert_eq!(
        (&about["name"], &about["extensions"]),
        (&json!("weir"), &json!(["binary_tensor_data"]))
    );
    let model = json("/v2/models/detect");
    assert_eq!(
        model,
        json!({
            "name": "detect", "versions": ["1"], "platform": "weir",
            "inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, -1, -1, 3]}],
            "outputs": [
                {"name": "boxes", "datatype": "FP32", "shape": [-1, 4]},
                {"name": "scores", "datatype": "FP32", "shape": [-1]},
                {"name": "labels", "datatype": "BYTES", "shape": [-1]},
                {"name": "objects", "datatype": "BYTES", "shape": [1]}
            ]
        })
    );
    assert_eq!(json("/v2/models/detect/versions/1"), model);
    for path in [
        "/v2/models/other",
        "/v2/models/detect/versions/2",
        "/v2/models/other/ready",
        "/v2/models/%FF",
    ] {
        let (status, answer) = get(path);
        assert_eq!(status, 404, "{path}: {answer}");
    }
    // Clients of the protocol read `error` alone.
    assert_eq!(
        json("/v2/models/other"),
        json!({"error": "there is no model other: models are the modules of the graph that take frames: north, detect"})
    );
}

#[test]
fn a_model_is_ready_while_its_module_has_a_slot() {
    let (server, memory) = start(None);
    let ready = |path: &str| ask(server.address(), "GET", path, "", "");
    for path in ["/v2/health/live", "/v2/health/ready", "/v2/models/detect/ready"] {
        assert_eq!(ready(path), (200, String::new()), "{path}");
    }
    let part = |what: &str, why: &str| NotReady {
        what: what.to_owned(),
        why: why.to_owned(),
    };
    *memory.not_ready.lock().unwrap() =
        vec![part("stream north", "refused"), part("module detect", "it hangs")];
    let trouble = (503, json!({"error": "module detect: it hangs"}).to_string());
    assert_eq!(ready("/v2/models/detect/ready"), trouble);
    assert_eq!(ready("/v2/health/ready"), trouble);
    // A camera is not needed for a picture.
    assert_eq!(ready("/v2/models/north/ready").0, 200);
    assert_eq!(ready("/v2/health/live").0, 200);
}

#[test]
fn pixels_and_files_reach_the_module_of_their_model() {
    let (server, memory) = start(None);
    let at = server.address();
    for path in ["/v2/models/detect/infer", "/v2/models/detect/versions/1/infer"] {
        let (status, answer) = infer(at, path, &pixels());
        assert_eq!(
            (status, answer),
            (
                200,
                json!({
                    "model_name": "detect", "model_version": "1", "id": "42",
                    "outputs": [
                        {"name": "boxes", "datatype": "FP32", "shape": [2, 4], "data": [1.0, 2.0, 3.0, 4.5, 0.0, 0.0, 8.0, 8.0]},
                        {"name": "scores", "datatype": "FP32", "shape": [2], "data": [0.5, 0.25]},
                        {"name": "labels", "datatype": "BYTES", "shape": [2], "data": ["car", "person"]},
                        {"name": "objects", "datatype": "BYTES", "shape": [1], "data": ["{\"bytes\":6}"]}
                    ]
                })
            )
        );
    }
    let outputs = json!({"outputs": [{"name": "objects"}, {"name": "labels"}]});
    let (status, answer) = file(at, "/v2/models/north/infer", (outputs, "JPEG"), "");
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let named: Vec<&Value> = answer["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|output| &output["name"])
        .collect();
    assert_eq!(named, ["objects", "labels"]);
    assert!(answer.get("id").is_none());
    assert_eq!(
        *memory.asked.lock().unwrap(),
        [
            "infer into detect Some((2, 1))",
            "infer into detect Some((2, 1))",
            "infer into north None"
        ]
    );
}

#[test]
fn outputs_are_answered_as_bytes_where_that_is_asked_for() {
    let (server, _) = start(None);
    let path = "/v2/models/detect/infer";
    // Texts, so that the whole answer is one.
    let request = json!({
        "outputs": [{"name": "labels", "parameters": {"binary_data": true}}, {"name": "scores"}, {"name": "objects"}],
        "parameters": {"binary_data_output": false}
    });
    let (status, answer) = file(server.address(), path, (request, "JPEG"), "");
    assert_eq!(status, 200, "{answer}");
    let (json, bytes) = answer.split_at(answer.len() - 17);
    assert_eq!(bytes, "\u{3}\0\0\0car\u{6}\0\0\0person");
    let json: Value = serde_json::from_str(json).unwrap();
    assert_eq!(
        json["outputs"][0],
        json!({"name": "labels", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 17}})
    );
    assert_eq!(json["outputs"][1]["data"], json!([0.5, 0.25]));

    let request = json!({ "outputs": [{"name": "objects"}], "parameters": {"binary_data_output": true} });
    let (_, answer) = file(server.address(), path, (request, "JPEG"), "");
    assert!(answer.ends_with("\u{b}\0\0\0{\"bytes\":4}"), "{answer}");
}

#[test]
fn requests_that_are_wrong_are_refused_in_the_form_of_the_protocol() {
    let (server, memory) = start(None);
    let at = server.address();
    let path = "/v2/models/detect/infer";
    let with = |key: &str, value: Value| {
        let mut request = pixels();
        match request["inputs"][0].get_mut(key) {
            Some(known) => *known = value,
            None => request[key] = value,
        }
        request
    };
    for (request, expected) in [
        (json!({"inputs": []}), "models have one, image"),
        (with("name", json!("picture")), "there is no input \"picture\""),
        (with("datatype", json!("FP32")), "image holds \"FP32\""),
        (with("datatype", json!("BYTES")), "has the shape [1, 1, 2, 3]"),
        (
            with("shape", json!([1, 2, 3])),
            "lists that are not those of its shape",
        ),
        (
            with("shape", json!([2, 1, 2, 3])),
            "lists that are not those of its shape",
        ),
        (
            with("shape", json!([1, 0, 2, 3])),
            "lists that are not those of its shape",
        ),
        (
            with("outputs", json!([{"name": "masks"}])),
            "there is no output \"masks\"",
        ),
        (
            with("outputs", json!([{"name": "boxes"}, {"name": "boxes"}])),
            "asked for twice",
        ),
    ] {
        let (status, answer) = infer(at, path, &request);
        let error = answer["error"].as_str().unwrap();
        assert!(
            status == 400 && error.contains(expected),
            "{request}: {status} {error}"
        );
        assert_eq!(answer.as_object().unwrap().len(), 1);
    }
    let flat = |shape: [u64; 4], count: usize| json!({"inputs": [{"name": "image", "datatype": "UINT8", "shape": shape, "data": vec![0; count]}]});
    for (request, expected) in [
        (flat([1, 0, 2, 3], 0), "sides have 1 to 65535"),
        (flat([1, 1, 70_000, 3], 210_000), "sides have 1 to 65535"),
        (flat([2, 1, 1, 3], 6), "a picture has [1, height, width, 3]"),
        (flat([1, u64::MAX, u64::MAX, 3], 3), "no memory has room"),
    ] {
        let (status, answer) = infer(at, path, &request);
        let error = answer["error"].as_str().unwrap();
        assert!(status == 400 && error.contains(expected), "{status} {error}");
    }
    let text = json!({"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "data": ["JPEG"]}]});
    let (status, answer) = infer(at, path, &text);
    assert!(
        status == 400 && answer.to_string().contains("binary_data_size"),
        "{answer}"
    );
    for (headers, status) in [
        ("Inference-Header-Content-Length: -1\r\n", 400),
        ("Inference-Header-Content-Length: 99999\r\n", 400),
        ("Content-Encoding: gzip\r\n", 415),
        ("Content-Encoding: identity\r\n", 200),
    ] {
        let (answered, answer) = ask(at, "POST", path, headers, &pixels().to_string());
        assert_eq!(answered, status, "{headers}: {answer}");
    }
    let (status, answer) = ask(at, "POST", path, "", &" ".repeat((16 << 20) + (64 << 10) + 1));
    assert_eq!(status, 413, "{answer}");
    assert_eq!(memory.asked.lock().unwrap().len(), 1);
}

#[test]
fn refused_and_dropped_pictures_say_when_to_try_again() {
    let (server, _) = start(None);
    for (picture, status, expected) in [
        ("busy", 429, "too much waits"),
        (
            "late",
            503,
            "the picture was dropped: infeasible: try again later",
        ),
        ("stops", 503, "the engine stopped"),
    ] {
        let path = "/v2/models/detect/infer";
        let (answered, answer) = file(server.address(), path, (json!({}), picture), "");
        let error: Value = serde_json::from_str(&answer).unwrap();
        assert!(
            answered == status && error["error"].as_str().unwrap().contains(expected),
            "{answered} {answer}"
        );
    }
}

#[test]
fn a_picture_without_a_place_is_answered_though_its_client_writes_all_of_it_first() {
    let (server, memory) = start(None);
    let at = server.address();
    let path = "/v2/models/detect/infer";
    let waiting: Vec<TcpStream> = (0..32)
        .map(|_| {
            let stream = TcpStream::connect(at).unwrap();
            let head = format!("POST /api/infer HTTP/1.1\r\nHost: {at}\r\nContent-Length: 5\r\n\r\nwaits");
            (&stream).write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let are_waiting = (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        memory.waiting.lock().unwrap().len() == waiting.len()
    });
    assert!(are_waiting);
    for path in [path, "/api/infer"] {
        let mut stream = TcpStream::connect(at).unwrap();
        let length = 8 << 20;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b' '; length]).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
        assert!(
            answer.contains("retry-after: 1") && answer.contains("32 pictures"),
            "{answer}"
        );
    }
    memory.waiting.lock().unwrap().clear();
    for mut stream in waiting {
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 503");
    }
    assert_eq!(infer(at, path, &pixels()).0, 200);
}

#[test]
fn models_answer_clients_with_the_token_alone() {
    let (server, memory) = start(Some(TOKEN));
    let at = server.address();
    let path = "/v2/models/detect/infer";
    let (status, answer) = ask(at, "POST", path, "", &pixels().to_string());
    assert!(
        status == 401 && answer.contains("Authorization: Bearer"),
        "{answer}"
    );
    assert_eq!(asked(&memory), 0);
    let with = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(at, "POST", path, &with, &pixels().to_string()).0, 200);
    assert_eq!(asked(&memory), 1);
}

fn asked(memory: &Memory) -> usize {
    memory.asked.lock().unwrap().len()
}
