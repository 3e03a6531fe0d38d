//! A headless Chromium, driven over WebDriver by `chromedriver`. `make setup` installs both.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Steps between looks at what is awaited, and the time between two.
const LOOKS: u32 = 600;
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// By this key an element is named in answers (W3C WebDriver, 12.2).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Memory of a page after garbage was collected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageMemory {
    /// Nodes of documents, also those that are in no document any more.
    pub(crate) nodes: f64,
    pub(crate) listeners: f64,
    /// Bytes of the heap of scripts.
    pub(crate) heap: f64,
}

/// A browser that ends with this.
pub(crate) struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// Starts one that shows that many pixels. It finds no host but this machine.
    pub(crate) fn start(width: u32, height: u32) -> Self {
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver =
            driver.unwrap_or_else(|error| panic!("chromedriver: {error}; make setup installs it"));
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let mut said = lines.map_while(Result::ok);
        let port = said.find_map(|line| {
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let port = port.expect("chromedriver says where it listens");
        // What it says afterwards is read, so that it is not held up.
        std::thread::spawn(move || said.for_each(drop));
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build();
        let mut browser = Self {
            driver,
            agent: config.into(),
            session: format!("http://127.0.0.1:{port}/session"),
        };
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            "--hide-scrollbars".to_owned(),
            "--disable-background-networking".to_owned(),
            "--autoplay-policy=no-user-gesture-required".to_owned(),
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1".to_owned(),
            format!("--window-size={width},{height}"),
        ];
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let session = browser.post("", &json!({ "capabilities": { "alwaysMatch": capabilities } }));
        let id = session["sessionId"].as_str().expect("a session");
        browser.session = format!("{}/{id}", browser.session);
        // A window has at least 500 pixels.
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        browser.command("Emulation.setDeviceMetricsOverride", &size);
        browser
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.session);
        let answered = self
            .agent
            .post(&url)
            .header("Content-Type", "application/json")
            .send(body.to_string());
        let text = answered.unwrap().body_mut().read_to_string().unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert!(
            answer["value"]["error"].is_null(),
            "{path} {body}: {}",
            answer["value"]
        );
        answer["value"].clone()
    }

    /// A command of the DevTools protocol.
    fn command(&self, name: &str, params: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": name, "params": params }))
    }

    /// Runs a script in each page before the scripts of the page.
    pub(crate) fn inject(&self, script: &str) {
        self.command(
            "Page.addScriptToEvaluateOnNewDocument",
            &json!({ "source": script }),
        );
    }

    /// Saves what pages download as files of a folder.
    pub(crate) fn download_into(&self, folder: &Path) {
        let params = json!({ "behavior": "allow", "downloadPath": folder });
        self.command("Browser.setDownloadBehavior", &params);
    }

    pub(crate) fn memory(&self) -> PageMemory {
        let none = json!({});
        // What the first collection frees may hold on to more.
        for _ in 0..2 {
            self.command("HeapProfiler.collectGarbage", &none);
        }
        let counters = self.command("Memory.getDOMCounters", &none);
        let heap = self.command("Runtime.getHeapUsage", &none);
        let number = |value: &Value| value.as_f64().expect("a number");
        PageMemory {
            nodes: number(&counters["nodes"]),
            listeners: number(&counters["jsEventListeners"]),
            heap: number(&heap["usedSize"]),
        }
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&self, expression: &str) -> Value {
        let script = format!("return {expression}");
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression in the page is true.
    pub(crate) fn wait_until(&self, expression: &str) {
        for _ in 0..LOOKS {
            if self.value(expression) == json!(true) {
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        let text = self.value("document.body.innerText");
        panic!(
            "it never came: {expression}\n{}",
            text.as_str().unwrap_or_default()
        );
    }

    /// The one element that a CSS selector finds, once there is one.
    fn element(&self, selector: &str) -> String {
        self.wait_until(&format!("document.querySelector({}) !== null", json!(selector)));
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().expect("an element").to_owned()
    }

    /// Clicks as a person does: what is covered or out of sight is not clicked.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.post(&format!("/element/{element}/click"), &json!({}));
    }

    /// Clicks at a place in an element, in parts of its width and height.
    pub(crate) fn click_at(&self, selector: &str, x: f64, y: f64) {
        self.element(selector);
        let bounds = self.value(&format!(
            "(() => {{ const {{ left, top, width, height }} = document.querySelector({}).getBoundingClientRect(); \
             return [left, top, width, height]; }})()",
            json!(selector)
        ));
        let bound = |index: usize| bounds[index].as_f64().expect("a number");
        let at = |from: usize, part: f64| (bound(from) + part * bound(from + 2)).round();
        let actions = json!([
            { "type": "pointerMove", "duration": 0, "origin": "viewport", "x": at(0, x), "y": at(1, y) },
            { "type": "pointerDown", "button": 0 },
            { "type": "pointerUp", "button": 0 },
        ]);
        let mouse = json!({ "type": "pointer", "id": "mouse", "actions": actions });
        self.post("/actions", &json!({ "actions": [mouse] }));
    }

    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.post(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Violations of serious or critical impact that axe finds in the page: the rule and the elements.
    pub(crate) fn accessibility(&self) -> Vec<String> {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.runtime/axe/axe.min.js");
        let axe = std::fs::read_to_string(file);
        let axe = axe.unwrap_or_else(|error| panic!("{file}: {error}; make setup fetches it"));
        self.post("/execute/sync", &json!({ "script": axe, "args": [] }));
        let script = "const done = arguments[0]; \
            axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => done(violations \
                .filter(({ impact }) => ['serious', 'critical'].includes(impact)) \
                .map(({ id, help, nodes }) => `${id} (${help}): ${nodes.map(({ html }) => html.slice(0, 200)).join(' | ')}`)))";
        let found = self.post("/execute/async", &json!({ "script": script, "args": [] }));
        let found = found.as_array().cloned().unwrap_or_default();
        found
            .iter()
            .map(|violation| violation.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The whole page as a PNG.
    pub(crate) fn picture(&self) -> Vec<u8> {
        self.screenshot(&json!({ "format": "png", "captureBeyondViewport": true }))
    }

    /// The visible part of the page as a JPEG.
    pub(crate) fn photo(&self) -> Vec<u8> {
        self.screenshot(&json!({ "format": "jpeg", "quality": 82 }))
    }

    fn screenshot(&self, params: &Value) -> Vec<u8> {
        let taken = self.command("Page.captureScreenshot", params);
        from_base64(taken["data"].as_str().expect("a picture"))
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.post("/se/log", &json!({ "type": kind }));
        entries.as_array().cloned().unwrap_or_default()
    }

    /// Errors on the console since this was asked last, such as those of scripts and of the page's security policy.
    pub(crate) fn errors(&self) -> Vec<String> {
        let entries = self.log("browser").into_iter();
        let errors = entries.filter(|entry| entry["level"] == "SEVERE");
        errors.map(|entry| entry["message"].to_string()).collect()
    }

    /// Addresses that were asked for since this was asked last.
    pub(crate) fn requests(&self) -> Vec<String> {
        let messages = self.log("performance").into_iter().filter_map(|entry| {
            let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let message = &message["message"];
            let (method, params) = (message["method"].as_str()?, &message["params"]);
            let url = match method {
                "Network.requestWillBeSent" => &params["request"]["url"],
                "Network.webSocketCreated" => &params["url"],
                _ => return None,
            };
            url.as_str().map(str::to_owned)
        });
        messages.collect()
    }
}

/// The bytes of a text in base64 (RFC 4648, 4).
pub(crate) fn from_base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text
        .bytes()
        .filter_map(|letter| LETTERS.iter().position(|known| *known == letter));
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for value in values {
        (bits, count) = (bits << 6 | value as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}
