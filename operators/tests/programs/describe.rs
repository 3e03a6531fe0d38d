//! `describe` sinks against a server of models that answers, lies, stalls, limits, refuses and is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_flow::{Description, Incident, IncidentValue, Notice, Phase, Sink, Value};

use super::delivered::{best, delivery, give, incident, open, text};
use crate::chat_server::{Act, ChatServer};

pub(super) type Counts = BTreeMap<&'static str, u64>;

/// An incident with a picture.
fn pictured(stream: &str, number: usize) -> Incident {
    Incident {
        best: best(format!("JPEG {number}").as_bytes()),
        track: Some(number as u64),
        ..incident(stream, number)
    }
}

fn opened(url: &str, keys: &[(&str, Value)]) -> Box<dyn Sink> {
    let all = [("url", text(url)), ("model", text("llava"))];
    let all: Vec<(&str, Value)> = all.into_iter().chain(keys.iter().cloned()).collect();
    open("describe", &all)
}

pub(super) fn ask(sink: &mut dyn Sink, incidents: impl IntoIterator<Item = Incident>) {
    for incident in incidents {
        give(sink, incident);
    }
}

/// Waits until the counts are as they should be.
pub(super) fn wait_until(sink: &dyn Sink, holds: impl Fn(&Counts) -> bool) -> Counts {
    for _ in 0..15_000 {
        let counts = sink.counts();
        check(&counts);
        if holds(&counts) {
            return counts;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("it never came: {:?}, outage {:?}", sink.counts(), sink.outage());
}

/// Each question ends once.
fn check(counts: &Counts) {
    let ended = [
        "answered",
        "wrong",
        "refused",
        "failed",
        "expired",
        "crowded_out",
        "over_budget",
        "queued",
    ];
    let ended: u64 = ended.iter().map(|name| counts[name]).sum();
    assert_eq!(counts["questions"], ended, "{counts:?}");
}

pub(super) fn done(counts: &Counts) -> bool {
    counts["queued"] == 0
}

fn say(words: &str) -> Act {
    Act::Say(words.to_owned())
}

#[test]
fn each_incident_is_described_once_with_its_picture_and_tokens() {
    let server = ChatServer::start(|number, _| say(&format!("A van,\nnumber {number}.")));
    let keys = [
        ("prompt", text("What does the {{ class }} at {{ stream }} do?")),
        ("price_in", Value::Number(2.0)),
        ("price_out", Value::Number(10.0)),
    ];
    let mut sink = opened(&server.url(), &keys);
    assert!(sink.describes());
    ask(&mut *sink, [pictured("north", 1), pictured("north", 1)]);
    let notice = Notice::Analytics {
        stream: "north".into(),
        ended_tracks: Vec::new(),
        incidents: vec![pictured("north", 2), incident("north", 3)],
    };
    sink.on_notice(&notice).unwrap();
    let counts = wait_until(&*sink, |counts| counts["answered"] == 2);
    assert_eq!(
        (counts["questions"], counts["asked"], counts["no_picture"]),
        (2, 2, 1)
    );
    assert_eq!((counts["tokens_in"], counts["tokens_out"]), (200, 14));
    assert_eq!(counts["price_millionths"], 2 * (200 + 70));
    let described = sink.take_descriptions();
    let texts: Vec<&str> = described.iter().map(|one| &*one.text).collect();
    assert_eq!(texts, ["A van, number 0.", "A van, number 1."]);
    assert!(sink.take_descriptions().is_empty());
    let [one, _] = &described[..] else {
        panic!("{described:?}")
    };
    assert_eq!((&*one.stream, one.tokens_in, one.of_track), ("north", 100, false));
    for asked in server.asked() {
        assert_eq!(
            (asked.path.as_str(), asked.authorization),
            ("/v1/chat/completions", None)
        );
        let content = &asked.body["messages"][0]["content"];
        assert_eq!(content[0]["text"], "What does the car at north do?");
        let picture = content[1]["image_url"]["url"].as_str().unwrap();
        assert!(picture.starts_with("data:image/jpeg;base64,SlBFRy"), "{picture}");
    }
    sink.finish().unwrap();
}

#[test]
fn a_track_is_asked_about_at_its_end_and_once() {
    let server = ChatServer::start(|_, _| say("a van"));
    let mut sink = opened(&server.url(), &[("per", text("track"))]);
    let event = |id: usize, track: u64, phase: Phase| Incident {
        track: Some(track),
        phase,
        ..pictured("north", id)
    };
    let events = [
        event(1, 7, Phase::Began),
        event(2, 7, Phase::Ended),
        event(1, 7, Phase::Ended),
        event(3, 8, Phase::Updated),
    ];
    ask(&mut *sink, events);
    let counts = wait_until(&*sink, |counts| counts["answered"] == 1);
    assert_eq!(counts["questions"], 1);
    let described = sink.take_descriptions();
    assert!(described[0].of_track && described[0].incident.track == Some(7));
}

#[test]
fn answers_of_another_form_are_wrong_and_describe_nothing() {
    let server = ChatServer::start(|number, body| {
        assert_eq!(body["response_format"]["type"], "json_schema");
        say([
            "{\"persons\": 2, \"box\": \"No\"}",
            "two persons",
            "{\"persons\": 2, \"box\": \"perhaps\"}",
        ][number % 3])
    });
    let fields = ["persons: number", "box: yes, no"].map(str::to_owned);
    let mut sink = opened(&server.url(), &[("fields", Value::Texts(fields.to_vec()))]);
    ask(&mut *sink, (0..6).map(|number| pictured("north", number)));
    let counts = wait_until(&*sink, done);
    assert_eq!((counts["answered"], counts["wrong"], counts["asked"]), (2, 4, 6));
    // Wrong answers cost as much.
    assert_eq!(counts["tokens_out"], 42);
    let described = sink.take_descriptions();
    assert_eq!(described.len(), 2);
    let expected = [
        (Arc::from("persons"), IncidentValue::Number(2.0)),
        (Arc::from("box"), IncidentValue::Text("no".into())),
    ];
    assert_eq!(described[0].fields, expected);
    assert_eq!(&*described[0].text, "persons 2, box no");
}

#[test]
fn server_that_fails_in_every_way_loses_no_question() {
    let server = ChatServer::start(|number, _| match number % 8 {
        1 => Act::Status(503, "", "busy".to_owned()),
        3 => Act::Garbage,
        5 => Act::Close,
        6 => Act::Status(200, "", "{\"choices\": []}".to_owned()),
        _ => say("a van"),
    });
    let mut sink = opened(&server.url(), &[("concurrency", Value::Number(3.0))]);
    ask(&mut *sink, (0..24).map(|number| pictured("north", number)));
    let counts = wait_until(&*sink, done);
    assert_eq!(counts["answered"] + counts["failed"], 24, "{counts:?}");
    assert_eq!(sink.take_descriptions().len() as u64, counts["answered"]);
    assert!(counts["asked"] > 24, "{counts:?}");
}

#[test]
fn stalled_and_endless_answers_time_out() {
    for act in [Act::Stall, Act::Flood] {
        let server = ChatServer::start(move |number, _| if number == 0 { act.clone() } else { say("a van") });
        let mut sink = opened(&server.url(), &[("timeout", Value::Number(0.2))]);
        ask(&mut *sink, [pictured("north", 1)]);
        let counts = wait_until(&*sink, |counts| counts["answered"] == 1);
        assert_eq!(counts["asked"], 2, "{counts:?}");
    }
}

#[test]
fn rate_limit_is_waited_for() {
    let server = ChatServer::start(|number, _| {
        if number < 2 {
            let body = "{\"error\": {\"message\": \"slow down\"}}";
            Act::Status(429, "Retry-After: 0.05\r\n", body.to_owned())
        } else {
            say("a van")
        }
    });
    let mut sink = opened(&server.url(), &[]);
    ask(&mut *sink, [pictured("north", 1)]);
    let counts = wait_until(&*sink, |counts| counts["answered"] == 1);
    assert_eq!((counts["limited"], counts["asked"]), (2, 3));
    assert_eq!(sink.outage(), None);
}

#[test]
fn refusal_is_reported_in_the_words_of_the_server_without_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.txt");
    std::fs::write(&file, "sk-SECRETkey123\n").unwrap();
    let server = ChatServer::start(|_, _| {
        let body = "{\"error\": {\"message\": \"Incorrect key sk-SECRETkey123\\u001b[31m, see the page\"}}";
        Act::Status(401, "", body.to_owned())
    });
    let mut sink = opened(&server.url(), &[("key_file", text(file.to_str().unwrap()))]);
    ask(&mut *sink, [pictured("north", 1)]);
    wait_until(&*sink, |counts| counts["refused"] == 1);
    assert_eq!(
        server.asked()[0].authorization.as_deref(),
        Some("Bearer sk-SECRETkey123")
    );
    let expected = format!(
        "http://{}: it answers 401: Incorrect key ***[31m, see the page",
        server.address
    );
    assert_eq!(sink.outage(), Some(expected));
}

#[test]
fn redirect_is_not_followed() {
    let other = ChatServer::start(|_, _| say("a van"));
    let location: &'static str = format!("Location: {}/chat/completions\r\n", other.url()).leak();
    let server = ChatServer::start(move |_, _| Act::Status(307, location, String::new()));
    let mut sink = opened(&server.url(), &[]);
    ask(&mut *sink, [pictured("north", 1)]);
    wait_until(&*sink, |counts| counts["refused"] == 1);
    assert!(other.asked().is_empty());
}

#[test]
fn dead_server_is_left_alone_and_asked_when_it_is_there_again() {
    let server = ChatServer::start(|_, _| say("a van"));
    let (address, url) = (server.address, server.url());
    drop(server);
    let mut sink = opened(&url, &[]);
    ask(&mut *sink, (0..3).map(|number| pictured("north", number)));
    wait_until(&*sink, |counts| counts["pauses"] >= 1);
    let outage = sink.outage().unwrap();
    assert!(outage.starts_with(&format!("http://{address}: ")), "{outage}");
    let _server = ChatServer::start_at(address, |_, _| say("a van"));
    let counts = wait_until(&*sink, |counts| counts["answered"] == 3);
    assert_eq!((counts["failed"], sink.outage()), (0, None));
}

#[test]
fn full_queue_keeps_the_newest_and_the_end_gives_up_the_rest() {
    let server = ChatServer::start(|_, _| Act::Stall);
    let keys = [("queue", Value::Number(4.0)), ("finish", Value::Number(0.1))];
    let mut sink = opened(&server.url(), &keys);
    ask(&mut *sink, (0..200).map(|number| pictured("north", number)));
    let counts = sink.counts();
    assert!(
        counts["questions"] == 200 && (4..=5).contains(&counts["queued"]),
        "{counts:?}"
    );
    sink.finish().unwrap();
    let counts = sink.counts();
    check(&counts);
    assert!(done(&counts) && counts["expired"] > 0, "{counts:?}");
}

#[test]
fn budget_of_a_day_ends_the_questions() {
    let server = ChatServer::start(|_, _| say("a van"));
    let keys = [
        ("tokens_per_day", Value::Number(400.0)),
        ("max_tokens", Value::Number(10.0)),
    ];
    let mut sink = opened(&server.url(), &keys);
    ask(&mut *sink, (0..20).map(|number| pictured("north", number)));
    let counts = wait_until(&*sink, done);
    // Each takes 107, and 110 must be left for it.
    assert_eq!((counts["answered"], counts["over_budget"]), (3, 17));
    assert!(sink.outage().unwrap().contains("budget"));
}

#[test]
fn pictures_of_private_cameras_are_not_sent() {
    let server = ChatServer::start(|_, _| say("a van"));
    let mut sink = opened(&server.url(), &[("picture", text("frame"))]);
    let of_camera = |is_private: bool, number: usize| {
        let mut delivery = delivery("north", Vec::new(), vec![pictured("north", number)]);
        let frame = Arc::get_mut(&mut delivery.frame).unwrap();
        frame.privacy = frame.privacy.clone().with_private(is_private);
        delivery
    };
    sink.accept(&of_camera(true, 1)).unwrap();
    let notice = Notice::Analytics {
        stream: "north".into(),
        ended_tracks: Vec::new(),
        incidents: vec![pictured("north", 2)],
    };
    sink.on_notice(&notice).unwrap();
    assert_eq!((sink.counts()["private"], sink.counts()["questions"]), (2, 0));
    sink.accept(&of_camera(false, 3)).unwrap();
    wait_until(&*sink, |counts| counts["answered"] == 1);
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn descriptions_go_on_to_a_web_server_unless_their_alarm_was_held_back() {
    let hook = ChatServer::start(|_, _| Act::Status(200, "", String::new()));
    let keys = [
        ("url", text(&format!("http://{}/hook", hook.address))),
        ("cooldown", Value::Number(600.0)),
    ];
    let mut sink = open("webhook", &keys);
    ask(&mut *sink, [pictured("north", 1), pictured("north", 2)]);
    for number in [1, 2] {
        let description = Description {
            stream: "north".into(),
            incident: Arc::new(pictured("north", number)),
            of_track: false,
            model: "llava".into(),
            text: "A van stops.".into(),
            fields: Vec::new(),
            time_ms: 5_000,
            tokens_in: 100,
            tokens_out: 7,
        };
        let notice = Notice::Described {
            sink: "words".into(),
            description: Arc::new(description),
        };
        sink.on_notice(&notice).unwrap();
    }
    sink.finish().unwrap();
    let events: Vec<(String, String)> = hook
        .asked()
        .iter()
        .map(|asked| {
            let text = |key: &str| asked.body[key].as_str().unwrap_or_default().to_owned();
            (text("type"), text("description"))
        })
        .collect();
    let expected = [("incident", ""), ("described", "A van stops.")];
    assert_eq!(
        events,
        expected.map(|(kind, words)| (kind.to_owned(), words.to_owned()))
    );
}

#[test]
fn faults_of_keys_are_refused_at_once() {
    let spec = weir_operators::sinks::catalog();
    let spec = spec.iter().find(|spec| spec.name == "describe").unwrap();
    let faults = |keys: &[(&str, Value)]| {
        let settings = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        let found = (spec.check.0)(&weir_flow::Settings(settings.collect()));
        found.into_iter().map(|fault| fault.key).collect::<Vec<_>>()
    };
    assert_eq!(faults(&[]), ["url", "model"]);
    let url = ("url", text("http://127.0.0.1:1/v1"));
    let model = ("model", text("m"));
    let one = Value::Texts(vec!["yes".to_owned()]);
    let both = Value::Texts(vec!["yes".to_owned(), "no".to_owned()]);
    for (key, value) in [
        ("prompt", text("{{ clas }}")),
        ("answers", one.clone()),
        ("fields", one),
        ("timezone", text("Mars")),
        ("price_per_day", Value::Number(1.0)),
        ("ca_file", text("a.pem")),
    ] {
        assert_eq!(faults(&[url.clone(), model.clone(), (key, value)]), [key]);
    }
    assert_eq!(
        faults(&[
            url.clone(),
            model.clone(),
            ("answers", both.clone()),
            ("fields", both)
        ]),
        ["fields"]
    );
    assert_eq!(faults(&[("url", text("llava")), model]), ["url"]);
}
