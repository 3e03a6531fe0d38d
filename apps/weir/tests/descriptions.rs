//! A model describes incidents of the clip that ships: the words are events and belong to the incident, and the key is nowhere.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::chat_server::{Act, ChatServer};
use crate::common::json_schema::{check, undescribed};
use crate::common::service::{self, Service};
use crate::common::{has_runtime, report, room, stderr};

const KEY: &str = "sk-SECRET0123456789";

const GRAPH: &str = r#"
SOURCE

[transforms.pictures]
type = "best-shot"
inputs = ["tracks"]

[sinks.words]
type = "describe"
inputs = ["here"]
url = "URL"
model = "llava"
key_file = "key.txt"
prompt = "What does the {{ class }} carry?"
finish = "30s"
price_in = 0.5

[sinks.refused]
type = "describe"
inputs = ["here"]
url = "URL/refuse"
model = "llava"
key_file = "key.txt"

[sinks.lines]
type = "jsonl"
path = "lines.jsonl"
frames = false
inputs = ["here"]
"#;

/// A server that carries a box in its answers, and refuses with the key in its words.
fn chat_server() -> ChatServer {
    ChatServer::start(|number, body| {
        let is_asked = body["messages"][0]["content"][0]["text"] == "What does the person carry?";
        if is_asked {
            Act::Say(format!("A person carries box {number}."))
        } else {
            let body = format!("{{\"error\": {{\"message\": \"wrong key {KEY}\"}}}}");
            Act::Status(401, "", body)
        }
    })
}

/// A folder with the graph and the key.
fn folder(server: &ChatServer, source: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let graph = room::of_room(GRAPH)
        .replace("URL", &server.url())
        .replace("SOURCE", source);
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    std::fs::write(folder.path().join("key.txt"), format!("{KEY}\n")).unwrap();
    folder
}

fn weir(folder: &TempDir, arguments: &str) -> Output {
    service::weir(folder.path())
        .args(arguments.split(' '))
        .env("RUST_LOG", "debug")
        .output()
        .unwrap()
}

/// The key in a file of a folder or below, but for its own.
fn assert_no_key(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_no_key(&path);
        } else if !path.ends_with("key.txt") {
            let bytes = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(KEY), "{}", path.display());
        }
    }
}

#[test]
fn described_incidents_are_lines_and_the_key_is_nowhere() {
    if !has_runtime() {
        return;
    }
    let server = chat_server();
    let folder = folder(&server, "");
    let ran = weir(&folder, "run graph.toml --report report.json");
    assert!(ran.status.success(), "{}", stderr(&ran));
    let report = report(&folder.path().join("report.json"));
    let counts = |sink: &str, name: &str| report["sinks"][sink]["counts"][name].as_u64().unwrap();
    let answered = counts("words", "answered");
    assert!(answered > 0 && counts("words", "tokens_in") == 100 * answered);
    assert_eq!(counts("words", "price_millionths"), 50 * answered);
    assert!(counts("refused", "refused") > 0);

    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let lines = std::fs::read_to_string(folder.path().join("lines.jsonl")).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let described: Vec<&Value> = lines.iter().filter(|line| line["type"] == "described").collect();
    assert_eq!(described.len() as u64, answered);
    for line in described {
        check(&schema, &schema, line).unwrap_or_else(|reason| panic!("{reason}: {line}"));
        assert!(undescribed(&schema, &schema, line).is_empty(), "{line}");
        let is_before = |other: &Value| other["type"] == "incident" && other["id"] == line["incident"];
        assert!(lines.iter().any(is_before), "{line}");
        assert!(
            line["description"]
                .as_str()
                .unwrap()
                .starts_with("A person carries box")
        );
    }
    for asked in server.asked() {
        assert_eq!(asked.authorization.as_deref(), Some(&*format!("Bearer {KEY}")));
    }
    let output = [ran.stdout, ran.stderr].concat();
    assert!(!String::from_utf8_lossy(&output).contains(KEY));
    assert_no_key(folder.path());
}

#[test]
fn check_says_which_pictures_go_where() {
    let server = chat_server();
    let folder = folder(
        &server,
        "private = false\n[sources.hall]\nuri = \"CLIP\"\nprivate = true",
    );
    let graph = std::fs::read_to_string(folder.path().join("graph.toml")).unwrap();
    let graph = graph
        .replace("inputs = [\"room\"]", "inputs = [\"*\"]")
        .replace("uri = \"CLIP\"", "uri = \"rtsp://10.0.0.7/live\"");
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let checked = weir(&folder, "check --quick graph.toml");
    let said = stderr(&checked);
    assert!(checked.status.success(), "{said}");
    let expected = format!(
        "sink words: pictures of room go to http://{} (model llava); private cameras that are left out: 1",
        server.address
    );
    assert!(said.contains(&expected), "{said}");
    assert!(server.asked().is_empty() && !said.contains(KEY));
}

#[test]
fn served_incident_has_its_description_and_is_found_by_it() {
    if !has_runtime() {
        return;
    }
    let server = chat_server();
    let folder = folder(&server, "loop = true");
    let mut service = Service::start_in(folder, "127.0.0.1:0", &[]);
    let mut found = Value::Null;
    for _ in 0..1_200 {
        let (status, list) = service.ask("GET", "/api/incidents?text=BOX%201", "");
        assert_eq!(status, 200, "{list}");
        let list: Value = serde_json::from_str(&list).unwrap();
        found = list["incidents"][0].clone();
        if !found.is_null() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let words = found["descriptions"]["words"].as_str().unwrap();
    assert!(words.starts_with("A person carries box 1"), "{words}");
    let mut shown = String::new();
    for path in [
        "/api/state",
        "/api/incidents",
        "/api/graph",
        "/api/graph/file",
        "/metrics",
    ] {
        let (status, answer) = service.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {answer}");
        shown += &answer;
    }
    assert!(!shown.contains(KEY));
    for series in [
        "weir_descriptions_total{sink=\"words\",outcome=\"answered\"}",
        "weir_description_tokens_total{sink=\"words\",direction=\"in\"}",
        "weir_description_price_total{sink=\"words\"}",
        "weir_sink_up{sink=\"refused\"} 0",
    ] {
        assert!(shown.contains(series), "{series}");
    }
    service.drain();
    assert_no_key(service.folder.path());
}
