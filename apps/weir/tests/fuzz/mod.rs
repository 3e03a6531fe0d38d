//! Requests by chance: operations of a description with values that fit their schemas, and what is made of them.

use serde_json::{Map, Value, json};

/// Names of streams that are used: few, so that requests meet.
const NAMES: [&str; 6] = ["steady", "a", "b", "c", "north-1", "x.y"];

/// Values that no schema asks for.
const ODD_TEXTS: [&str; 12] = [
    "",
    " ",
    "..",
    "../../etc/passwd",
    "a/b",
    "a b",
    "\0",
    "ä\u{202e}日本\u{1f600}",
    "${HOME}",
    "\"]\n[policy]\nx = \"",
    "find",
    "events",
];

/// Addresses: good ones, ones that nothing answers at, and ones that are refused.
const URIS: [&str; 14] = [
    "emulated:uniform?rate=20",
    "emulated:poisson?rate=30&seed=3",
    "emulated:uniform?rate=50&frames=5",
    "emulated:uniform?rate=0",
    "emulated:uniform?rate=1e300",
    "emulated:trace?file=/etc/passwd",
    "rtsp://127.0.0.1:1/none",
    "http://127.0.0.1:1/none.m3u8",
    "tcp://127.0.0.1:1?listen=1",
    "file:///etc/passwd",
    "graph.toml",
    "report.json",
    "/dev/null",
    "rtsp://user:secret@127.0.0.1:1/\u{7f}",
];

/// Keys of a policy, of which the description gives no schema.
const POLICIES: [&str; 7] = [
    "{}",
    r#"{"drop": "pard"}"#,
    r#"{"drop": "weir", "order": "fcfs"}"#,
    r#"{"drop": "none"}"#,
    r#"{"drop": "all"}"#,
    r#"{"drop": [[[{}]]], "order": 3}"#,
    r#"{"headroom": "1e400ms", "drop": {"rule": "pard", "quantile": -1}}"#,
];

/// Longer requests may be refused before they are read, by closing the connection.
const MAX_WHOLE_BYTES: usize = 16_000;

/// A request as it is sent.
pub(crate) struct Sent {
    /// All that is sent.
    pub(crate) bytes: Vec<u8>,
    /// Path and method of the description, where it is one that the description has.
    pub(crate) operation: Option<(String, String)>,
    pub(crate) path: String,
    /// True if it is a complete HTTP request, which has an answer.
    pub(crate) whole: bool,
}

/// See the module.
pub(crate) struct Fuzzer<'a> {
    state: u64,
    description: &'a Value,
    /// Path, method.
    operations: Vec<(&'a str, &'a str)>,
    host: &'a str,
}

impl<'a> Fuzzer<'a> {
    pub(crate) fn new(seed: u64, description: &'a Value, host: &'a str) -> Self {
        let paths = description["paths"].as_object().unwrap().iter();
        let operations = paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| (&**path, &**method))
        });
        Self {
            state: seed,
            description,
            operations: operations.collect(),
            host,
        }
    }

    /// The next of a sequence (splitmix64).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random() % bound as u64) as usize
    }

    /// True once in `times` calls on average.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn next_request(&mut self) -> Sent {
        // Most streams that are drawn are refused, and the other operations need some.
        let (template, method) = if self.one_in(12) {
            ("/api/streams", "post")
        } else {
            self.pick(&self.operations.clone())
        };
        let mut operation = Some((template.to_owned(), method.to_owned()));
        let (mut path, mut method) = (self.path(template), method.to_uppercase());
        if self.one_in(10) {
            operation = None;
            method = self
                .pick(&[
                    "PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "POST", "DELETE", "BREW",
                ])
                .to_owned();
        }
        if self.one_in(12) {
            operation = None;
            path = self
                .pick(&[
                    "/",
                    "//api//streams",
                    "/api/streams/",
                    "/api/streams/a/b/c",
                    "/api/../healthz",
                    "/%2e%2e/%00",
                    "*",
                    "/api/streams?x=%zz&&&=",
                    "/readyz#x",
                ])
                .to_owned();
            if self.one_in(6) {
                path = format!("/{}", "long".repeat(4_000));
            }
        }
        let body = self.body(template, &method);
        self.message(operation, (path, method), body)
    }

    /// A path with its parameters.
    fn path(&mut self, template: &str) -> String {
        let name = if template.starts_with("/v2/models") && !self.one_in(4) {
            // The module of the graph.
            "find"
        } else if self.one_in(6) {
            self.pick(&ODD_TEXTS)
        } else {
            self.pick(&NAMES)
        };
        let coded: String = name
            .bytes()
            .map(|byte| match byte {
                byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        let coded = match self.below(20) {
            0 => "%FF%FE".to_owned(),
            1 => "%".to_owned(),
            _ => coded,
        };
        let version = self.pick(&["1", "1", "1", "2", "%FF"]);
        template.replace("{name}", &coded).replace("{version}", version)
    }

    /// A body: mostly one by the schema, changed or not.
    fn body(&mut self, template: &str, method: &str) -> Vec<u8> {
        let operation = &self.description["paths"][template][method.to_lowercase()];
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if schema.is_null() {
            return if self.one_in(4) {
                b"{}".to_vec()
            } else {
                Vec::new()
            };
        }
        let mut value = self.value(schema, "");
        if template == "/api/policy" {
            value = self.pick(&POLICIES).parse().unwrap();
        }
        if template == "/api/streams" && self.one_in(4) {
            // Right ones, so that streams come to be.
            value = json!({ "name": self.pick(&NAMES), "uri": self.pick(&URIS[..3]) });
        }
        if self.one_in(3) {
            self.change(&mut value);
        }
        let mut text = value.to_string().into_bytes();
        match self.below(20) {
            0 => text.truncate(text.len() / 2),
            1 => text = vec![b'['; 50_000],
            2 => text = format!("{}1{}", "{\"a\":".repeat(9_000), "}".repeat(9_000)).into_bytes(),
            3 => text.extend_from_slice(b"\xff\xfe"),
            4 => text.clear(),
            5 => text.resize(70_000, b' '),
            6 => text = (0..200).map(|_| self.random() as u8).collect(),
            _ => {}
        }
        text
    }

    /// A value that fits a schema; `key` is what it stands under.
    fn value(&mut self, schema: &Value, key: &str) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let schema = self.description.pointer(reference.trim_start_matches('#'));
            return self.value(schema.expect("a schema of the description"), key);
        }
        if let Some(values) = schema["enum"].as_array() {
            return values[self.below(values.len())].clone();
        }
        match schema["type"].as_str() {
            Some("object") => {
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                let mut object = Map::new();
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    if required.contains(&json!(name)) || self.one_in(3) {
                        object.insert(name.clone(), self.value(property, name));
                    }
                }
                Value::Object(object)
            }
            Some("array") => {
                let count = self.below(4);
                (0..count).map(|_| self.value(&schema["items"], key)).collect()
            }
            // Half of them good ones, so that streams come to be.
            Some("string") if key == "uri" && self.one_in(2) => json!(self.pick(&URIS[..3])),
            Some("string") if key == "uri" || key == "detect_uri" => json!(self.pick(&URIS)),
            Some("string") => json!(self.pick(&NAMES)),
            Some("boolean") => json!(self.one_in(2)),
            Some("integer") => json!(self.below(100)),
            _ => json!(self.pick(&[0.5, 1.0, 25.0, 30.0])),
        }
    }

    /// Another value in the place of some member, or a member that does not belong there.
    fn change(&mut self, value: &mut Value) {
        let odd = match self.below(12) {
            0 => Value::Null,
            1 => json!([]),
            2 => json!({ "name": {} }),
            3 => json!(1e308),
            4 => json!(-1),
            5 => json!(u64::MAX),
            6 => json!(0),
            7 => json!(5e-324),
            8 => json!("n".repeat(20_000)),
            9 => json!(true),
            _ => json!(self.pick(&ODD_TEXTS)),
        };
        match value.as_object_mut() {
            Some(object) if !object.is_empty() => {
                let keys: Vec<String> = object.keys().cloned().collect();
                let key = keys[self.below(keys.len())].clone();
                match self.below(6) {
                    0 => drop(object.remove(&key)),
                    1 => drop(object.insert("surplus".to_owned(), odd)),
                    _ => drop(object.insert(key, odd)),
                }
            }
            _ => *value = odd,
        }
    }

    /// The bytes of a request, whole or not.
    fn message(
        &mut self,
        operation: Option<(String, String)>,
        (path, method): (String, String),
        body: Vec<u8>,
    ) -> Sent {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if self.one_in(15) {
            head += self.pick(&[
                "Host: example.org\r\n",
                "Host: \r\n",
                "X: y\r\n",
                "Host: [::1\r\n",
            ]);
        } else {
            head += &format!("Host: {}\r\n", self.host);
        }
        head += self.pick(&[
            "",
            "Content-Type: application/json\r\n",
            "Content-Type: application/json\r\n",
            "Content-Type: text/plain; charset=utf-16\r\n",
            "Content-Type: multipart/form-data\r\n",
            "Accept: image/png\r\nAccept-Encoding: gzip, br\r\n",
            "Expect: 100-continue\r\n",
            "Origin: null\r\n",
            "Authorization: Bearer \r\n",
        ]);
        let mut whole = false;
        match self.below(60) {
            0 => head += &format!("X-Long: {}\r\n", "y".repeat(500_000)),
            1 => head += &"X-Many: 1\r\n".repeat(500),
            2 => head += "no header\r\n",
            3 => head += "Content-Length: -1\r\n",
            4 => head += "Content-Length: 18446744073709551616\r\n",
            5 => head += "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
            _ => whole = true,
        }
        let mut bytes = Vec::new();
        match self.below(12) {
            // In pieces, of which the last may not be one.
            0 => {
                head += "Transfer-Encoding: chunked\r\n\r\n";
                bytes.extend(head.into_bytes());
                for piece in body.chunks(7.max(body.len() / 5)) {
                    bytes.extend(format!("{:x}\r\n", piece.len()).into_bytes());
                    bytes.extend(piece);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(self.pick(&[&b"0\r\n\r\n"[..], b"zz\r\n\r\n"]));
            }
            _ => {
                head += &format!("Content-Length: {}\r\n\r\n", body.len());
                bytes.extend(head.into_bytes());
                bytes.extend(body);
            }
        }
        if self.one_in(25) {
            whole = false;
            bytes.truncate(self.below(bytes.len()));
        }
        if self.one_in(60) {
            whole = false;
            bytes = (0..500).map(|_| self.random() as u8).collect();
        }
        // The answer to what is too long may be lost with the connection.
        whole &= bytes.len() < MAX_WHOLE_BYTES;
        Sent {
            bytes,
            operation,
            path,
            whole,
        }
    }
}
