//! A sink that describes incidents in the engine: frames go on whatever its server does, and its words reach the sinks that show
//! the incidents.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use weir_flow::{
    Catalog, Delivery, Frame, Incident, Inference, Item, ModuleOutput, Notice, Object, Operator, Points,
    Rect, Region, RequestResults, Settings, Sink, SinkError, SinkFactory, Value,
};
use weir_policy::Report;
use weir_runtime::RunOptions;

use crate::chat_server::{Act, ChatServer};
use crate::common::{Parts, assemble, at_own_pace, catalog_with_sink, graph, run};

/// Finds a person in every other span of 50 milliseconds.
struct Blinking;

impl Operator for Blinking {
    fn items(&self, frame: &Arc<Frame>, _results: &RequestResults) -> Vec<Item> {
        vec![Item::of_frame(frame, Region::Whole)]
    }

    fn output(&self, _module: u32, items: &[Item], _inferences: Vec<Inference>) -> ModuleOutput {
        let is_there = ((items[0].frame.pts_ms / 50.0) as u64).is_multiple_of(2);
        let person = Object {
            candidate: false,
            class: "person".into(),
            score: 0.9,
            rect: Rect::new(10.0, 10.0, 90.0, 60.0),
            parent: None,
            points: Points::None,
        };
        ModuleOutput {
            objects: is_there.then_some(person).into_iter().collect(),
            attributes: Vec::new(),
        }
    }
}

/// Incidents and described incidents by stream.
type Recorded = (Vec<(String, Incident)>, Vec<(String, String)>);

/// Records incidents, and ids and words of descriptions.
#[derive(Clone, Default)]
struct Recording(Arc<Mutex<Recorded>>);

impl SinkFactory for Recording {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Recording {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let incidents = delivery.incidents.iter();
        let incidents = incidents.map(|it| (delivery.stream.to_string(), it.clone()));
        self.0.lock().unwrap().0.extend(incidents);
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Described { sink, description } = notice {
            assert_eq!(&**sink, "words");
            let words = (description.incident.id.to_string(), description.text.to_string());
            self.0.lock().unwrap().1.push(words);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

const GRAPH: &str = r#"
[app]
name = "descriptions"
slo = "500ms"
[sources.north]
uri = "emulated:uniform?rate=RATE&frames=FRAMES&size=160x90"
mode = "MODE"
[sources.south]
uri = "emulated:uniform?rate=RATE&frames=FRAMES&size=160x90"
mode = "MODE"
[devices."emulated:a"]
slots = 1
[models.any]
device = "emulated:a"
profile = { "1" = "8ms" }
[modules.find]
operator = "emulate"
model = "any"
inputs = ["north", "south"]
[transforms.there]
type = "crowd"
inputs = ["find"]
min = 1
after = "1ms"
[sinks.words]
type = "record"
inputs = ["there"]
[sinks.all]
type = "record"
inputs = ["there"]
[sinks.neither]
type = "record"
inputs = ["find"]
"#;

/// Runs the graph with a server of models; gives the report and what `all` and `neither` recorded.
fn run_with(
    server: &ChatServer,
    (rate, frames, mode): (&str, &str, &str),
    keys: &[(&str, Value)],
    options: &RunOptions,
) -> (Report, Recorded, Recorded) {
    let text = GRAPH
        .replace("RATE", rate)
        .replace("FRAMES", frames)
        .replace("MODE", mode);
    let fixed = [
        ("url", Value::Text(server.url())),
        ("model", Value::Text("llava".to_owned())),
        ("picture", Value::Text("frame".to_owned())),
    ];
    let settings = fixed
        .iter()
        .chain(keys)
        .map(|(key, value)| ((*key).to_owned(), value.clone()));
    let describe = weir_operators::sinks::sink("describe", &Settings(settings.collect())).unwrap();
    let (all, neither) = (Recording::default(), Recording::default());
    let parts = Parts {
        operators: vec![("find", Arc::new(Blinking))],
        sinks: vec![
            ("words", describe),
            ("all", Box::new(all.clone())),
            ("neither", Box::new(neither.clone())),
        ],
        ..Parts::default()
    };
    let catalog: Catalog = catalog_with_sink("record");
    let report = run(assemble(graph(&text, &catalog), parts), options);
    let taken = |recording: &Recording| recording.0.lock().unwrap().clone();
    (report, taken(&all), taken(&neither))
}

fn counts(report: &Report) -> &BTreeMap<String, u64> {
    &report.sinks["words"].counts
}

#[test]
fn descriptions_reach_the_sinks_that_show_their_incidents_also_at_the_end() {
    let server = ChatServer::start(|number, _| Act::Say(format!("words {number}")));
    let keys = [
        ("finish", Value::Number(60.0)),
        ("queue", Value::Number(1_000.0)),
        ("concurrency", Value::Number(2.0)),
    ];
    let options = RunOptions {
        strict: true,
        ..RunOptions::default()
    };
    let (report, all, neither) = run_with(&server, ("100", "200", "lossless"), &keys, &options);
    let mut ids: Vec<&str> = all.0.iter().map(|(_, incident)| &*incident.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut described: Vec<&str> = all.1.iter().map(|(id, _)| id.as_str()).collect();
    described.sort_unstable();
    assert!(ids.len() >= 20, "{ids:?}");
    assert_eq!(described, ids);
    assert_eq!(counts(&report)["answered"], ids.len() as u64);
    assert!(all.1.iter().all(|(_, words)| words.starts_with("words ")));
    assert!(neither.0.is_empty() && neither.1.is_empty());
}

#[test]
fn frames_under_overload_go_on_beside_a_server_that_never_answers() {
    let server = ChatServer::start(|_, _| Act::Stall);
    let keys = [
        ("finish", Value::Number(0.05)),
        ("queue", Value::Number(1.0)),
        ("timeout", Value::Number(600.0)),
    ];
    let options = at_own_pace(None);
    let (report, all, _) = run_with(&server, ("200", "400", "live"), &keys, &options);
    let requests = &report.requests;
    assert!(requests.arrived == 800 && requests.dropped > 0, "{requests:?}");
    // The sink was given every delivery, and none waited for the server.
    let words = &report.sinks["words"];
    assert_eq!((words.skipped, words.lost), (0, 0));
    assert_eq!(words.written, report.sinks["all"].written);
    let counts = counts(&report);
    assert!(counts["questions"] > 0 && counts["answered"] == 0, "{counts:?}");
    assert_eq!(counts["asked"], 1);
    assert_eq!(counts["questions"], counts["crowded_out"] + counts["expired"]);
    assert!(counts["questions"] <= all.0.len() as u64);
}
