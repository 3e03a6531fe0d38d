//! Cameras that report events and move, and cameras that misbehave, as servers on loopback.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, SystemTime};

use weir_flow::{
    CameraEvents, CameraReport, Incident, Notice, Phase, Settings, Sink, SinkError, SourceLogin, StopFlag,
    Value,
};

use super::events::PullPoint;
use super::place::Camera;
use crate::sinks::{sink, with_ptz_camera};
use crate::soap_server::{Reply, Request, Server};

/// Longest wait of a test for something that comes.
const WAIT: Duration = Duration::from_secs(30);

const USER: &str = "ada";
const PASSWORD: &str = "s3cret";

/// Address of the services of a camera behind a router: requests must not go there.
const INNER: &str = "http://203.0.113.1:81";

fn name_of(request: &Request) -> &str {
    let (_, body) = request.body.split_once("<s:Body><").unwrap_or_default();
    body.split([' ', '>', '/']).next().unwrap_or_default()
}

fn ok(body: &str) -> Reply {
    Reply::soap("200 OK", body)
}

fn fault(code: &str) -> Reply {
    let fault = format!(
        "<s:Fault xmlns:s='x'><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>{code}</s:Value></s:Subcode></s:Code><s:Reason>\
         <s:Text>refused</s:Text></s:Reason></s:Fault>"
    );
    Reply::soap("400 Bad Request", &fault)
}

#[expect(clippy::disallowed_methods, reason = "a camera has a clock")]
fn time(ahead_s: u64) -> Reply {
    Reply::soap_time(SystemTime::now() + Duration::from_secs(ahead_s))
}

/// The services of a camera.
fn services() -> Reply {
    let service = |namespace: &str, path: &str| {
        format!(
            "<S:Service><S:Namespace>{namespace}</S:Namespace><S:XAddr>{INNER}{path}</S:XAddr></S:Service>"
        )
    };
    ok(&format!(
        "<S:R>{}{}{}</S:R>",
        service("http://www.onvif.org/ver10/events/wsdl", "/onvif/events"),
        service("http://www.onvif.org/ver10/media/wsdl", "/onvif/media"),
        service("http://www.onvif.org/ver20/ptz/wsdl", "/onvif/ptz"),
    ))
}

fn subscribed(address: &str) -> Reply {
    ok(&format!(
        "<e:R xmlns:v='urn:vendor'><e:SubscriptionReference><w:Address>{address}</w:Address><w:ReferenceParameters><v:Id>a7</v:Id>\
         </w:ReferenceParameters></e:SubscriptionReference></e:R>"
    ))
}

fn message(topic: &str, data: &str) -> String {
    format!(
        "<n:NotificationMessage><n:Topic>{topic}</n:Topic><n:Message><t:Message PropertyOperation='Changed'><t:Source>\
         <t:SimpleItem Name='Rule' Value='Yard'/></t:Source><t:Data>{data}</t:Data></t:Message></n:Message></n:NotificationMessage>"
    )
}

fn motion(active: bool) -> String {
    let data = format!("<t:SimpleItem Name='IsMotion' Value='{active}'/>");
    message("tns1:RuleEngine/tns1:CellMotionDetector/tns1:Motion", &data)
}

fn pulled(messages: &str) -> Reply {
    ok(&format!(
        "<e:PullMessagesResponse>{messages}</e:PullMessagesResponse>"
    ))
}

/// A camera whose answers the test gives, by the name of the request and the number of its kind so far; `None`: the usual one.
fn camera(answer: impl Fn(&Request, usize) -> Option<Reply> + Send + 'static) -> Server {
    let counts = Mutex::new(std::collections::BTreeMap::<String, usize>::new());
    Server::start(move |request, _| {
        let name = name_of(request);
        let number = {
            let mut counts = counts.lock().unwrap();
            let count = counts.entry(name.to_owned()).or_default();
            *count += 1;
            *count - 1
        };
        if let Some(reply) = answer(request, number) {
            return reply;
        }
        match name {
            "GetSystemDateAndTime" => time(0),
            "GetServices" => services(),
            "CreatePullPointSubscription" => subscribed(&format!("{INNER}/onvif/sub?id=1")),
            "PullMessages" => pulled(""),
            "GetProfiles" if request.path == "/onvif/media" => ok(
                "<m:R><m:Profiles token='p1'/><m:Profiles token='p2'><t:PTZConfiguration token='c'/></m:Profiles></m:R>",
            ),
            "GetPresets" => ok(
                "<p:R><p:Preset token='1'><t:Name>Overview</t:Name></p:Preset><p:Preset token='2'><t:Name>Gate</t:Name></p:Preset></p:R>",
            ),
            "GetStatus" => status("IDLE"),
            _ => ok("<R/>"),
        }
    })
}

fn status(state: &str) -> Reply {
    ok(&format!(
        "<p:R><p:PTZStatus><t:MoveStatus><t:PanTilt>{state}</t:PanTilt></t:MoveStatus></p:PTZStatus></p:R>"
    ))
}

fn names(server: &Server) -> Vec<String> {
    let requests = server.requests();
    requests
        .iter()
        .map(|request| name_of(request).to_owned())
        .collect()
}

/// Reports of a camera until `is_enough`; its subscription is ended then.
fn reports(server: &Server, uri: &str, is_enough: impl Fn(&[CameraReport]) -> bool) -> Vec<CameraReport> {
    let address = format!("http://{}/onvif/device_service", server.address());
    let events = PullPoint::new(Camera::new(&address, uri, None).unwrap(), None);
    let (stop, (sender, received)) = (StopFlag::default(), mpsc::channel());
    let of_thread = stop.clone();
    let thread = std::thread::spawn(move || {
        events.run(&of_thread, &mut |report| {
            let _ = sender.send(report);
        });
    });
    let mut reports = Vec::new();
    while !is_enough(&reports) {
        match received.recv_timeout(WAIT) {
            Ok(report) => reports.push(report),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing comes after {reports:?}"),
        }
    }
    stop.raise();
    thread.join().unwrap();
    reports
}

fn with_login(server: &Server) -> String {
    format!("rtsp://{USER}:{PASSWORD}@{}/main", server.address())
}

fn states(reports: &[CameraReport]) -> Vec<Option<bool>> {
    let events = reports.iter().filter_map(|report| match report {
        CameraReport::Event(event) => Some(event.active),
        _ => None,
    });
    events.collect()
}

fn reason(report: Option<&CameraReport>) -> &str {
    match report {
        Some(CameraReport::Lost { reason } | CameraReport::Unsupported { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn events_are_pulled_from_the_host_that_was_named_and_the_subscription_is_ended() {
    let server = camera(|request, number| match (name_of(request), number) {
        ("PullMessages", 0) => Some(pulled(
            &(motion(true) + &message("tns1:RuleEngine/LineDetector/Crossed", "")),
        )),
        ("PullMessages", 1) => Some(pulled(&motion(false))),
        _ => None,
    });
    let found = reports(&server, &with_login(&server), |reports| {
        states(reports).len() == 3
    });
    assert_eq!(found[0], CameraReport::Subscribed);
    assert_eq!(states(&found), [Some(true), None, Some(false)]);
    let CameraReport::Event(event) = &found[1] else {
        panic!("{found:?}");
    };
    assert_eq!(&*event.topic, "RuleEngine/CellMotionDetector/Motion");
    assert_eq!(&*event.source, "Rule=Yard");

    let requests = server.requests();
    let of = |name: &str| requests.iter().find(|request| name_of(request) == name).unwrap();
    let pull = of("PullMessages");
    assert_eq!(pull.path, "/onvif/sub?id=1");
    let is_identified = pull.body.contains("<Id xmlns=\"urn:vendor\"") && pull.body.contains(">a7</Id>");
    assert!(is_identified, "{}", pull.body);
    assert!(
        pull.body.contains(&format!("{INNER}/onvif/sub?id=1</To>")),
        "{}",
        pull.body
    );
    assert_eq!(of("Unsubscribe").path, "/onvif/sub?id=1");
    assert!(names(&server).contains(&"SetSynchronizationPoint".to_owned()));
    let all: String = requests
        .iter()
        .map(|request| request.head.clone() + &request.body)
        .collect();
    assert!(all.contains("<Username>ada</Username>") && !all.contains(PASSWORD));
}

#[test]
fn relative_addresses_of_subscriptions_are_used() {
    let server = camera(|request, number| match (name_of(request), number) {
        ("CreatePullPointSubscription", _) => Some(subscribed("/onvif/sub/3")),
        ("PullMessages", 0) => Some(pulled(&motion(true))),
        _ => None,
    });
    let found = reports(&server, "rtsp://h/1", |reports| states(reports).len() == 1);
    assert_eq!(states(&found), [Some(true)]);
    let pulls = server
        .requests()
        .into_iter()
        .filter(|request| name_of(request) == "PullMessages");
    assert!(pulls.into_iter().all(|request| request.path == "/onvif/sub/3"));
}

#[test]
fn a_lost_subscription_is_made_again() {
    let server = camera(|request, number| match (name_of(request), number) {
        ("PullMessages", 0 | 2) => Some(pulled(&motion(true))),
        ("PullMessages", 1) => Some(fault("ter:InvalidArgVal")),
        _ => None,
    });
    let found = reports(&server, "rtsp://h/1", |reports| states(reports).len() == 2);
    let subscribed = found.iter().filter(|report| **report == CameraReport::Subscribed);
    assert_eq!(subscribed.count(), 2, "{found:?}");
    assert!(
        names(&server)
            .iter()
            .filter(|name| *name == "Unsubscribe")
            .count()
            >= 2
    );
}

#[test]
fn a_camera_that_refuses_to_renew_is_pulled_further() {
    let server = camera(|request, number| match (name_of(request), number) {
        ("Renew", _) => Some(fault("wsrf-rw:ResourceUnknownFault")),
        ("PullMessages", 6) => Some(pulled(&motion(true))),
        _ => None,
    });
    let found = reports(&server, "rtsp://h/1", |reports| states(reports).len() == 1);
    assert_eq!(found[0], CameraReport::Subscribed);
    assert_eq!(found.len(), 2, "{found:?}");
    let renewals = names(&server).iter().filter(|name| *name == "Renew").count();
    assert_eq!(renewals, 1, "it is asked once");
}

#[test]
fn subscriptions_are_renewed() {
    let server = camera(|_, _| None);
    let renewals = || names(&server).iter().filter(|name| *name == "Renew").count();
    let stop = StopFlag::default();
    let address = format!("http://{}/onvif", server.address());
    let events = PullPoint::new(Camera::new(&address, "rtsp://h/1", None).unwrap(), None);
    let of_thread = stop.clone();
    let thread = std::thread::spawn(move || events.run(&of_thread, &mut |_| {}));
    wait_for("the second renewal", || {
        assert!(!thread.is_finished(), "it ended");
        renewals() >= 2
    });
    stop.raise();
    thread.join().unwrap();
}

type Answering = Box<dyn Fn() -> Reply + Send>;

#[test]
fn answers_that_are_none_are_losses_with_a_reason() {
    let long = format!("<a>{}</a>", "x".repeat(2 << 20));
    let answers: [(&'static str, Answering); 6] = [
        (
            "no SOAP envelope",
            Box::new(|| Reply::with("200 OK", "", "<html></html>")),
        ),
        ("not XML", Box::new(|| ok("<a></b>"))),
        ("longer than 1 MiB", Box::new(move || ok(&long))),
        ("longer than 1 MiB", Box::new(|| Reply::Endless)),
        (
            "which is not followed",
            Box::new(|| Reply::with("302 Found", "Location: http://u:s3cret@elsewhere/\r\n", "")),
        ),
        ("it answers 500", Box::new(|| Reply::with("500 Error", "", "no"))),
    ];
    for (expected, answer) in answers {
        let server =
            camera(move |request, _| (name_of(request) == "CreatePullPointSubscription").then(&answer));
        let found = reports(&server, "rtsp://h/1", |reports| !reports.is_empty());
        let reason = reason(found.first());
        assert!(
            reason.contains(expected) && !reason.contains(PASSWORD),
            "{expected}: {reason}"
        );
    }
}

#[test]
fn a_subscription_without_an_address_is_a_loss() {
    for address in ["", "nowhere", "http://a", "http://h/x y"] {
        let server = camera(move |request, _| {
            (name_of(request) == "CreatePullPointSubscription").then(|| subscribed(address))
        });
        let found = reports(&server, "rtsp://h/1", |reports| !reports.is_empty());
        assert!(reason(found.first()).contains("no address"), "{found:?}");
    }
}

#[test]
fn a_camera_without_events_is_asked_once() {
    let server = camera(|request, _| match name_of(request) {
        "GetServices" => Some(ok("<R/>")),
        "GetCapabilities" => Some(fault("ter:NoSuchService")),
        _ => None,
    });
    let found = reports(&server, "rtsp://h/1", |_| false);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(reason(found.first()), "it has no event service");
    assert!(!names(&server).contains(&"CreatePullPointSubscription".to_owned()));
}

#[test]
fn devices_that_list_no_services_are_asked_for_their_capabilities() {
    let server = camera(|request, number| match (name_of(request), number) {
        ("GetServices", _) => Some(fault("ter:ActionNotSupported")),
        ("GetCapabilities", _) => Some(ok(
            "<R><Capabilities><Events><XAddr>http://203.0.113.1/ev</XAddr></Events></Capabilities></R>",
        )),
        ("PullMessages", 0) => Some(pulled(&motion(true))),
        _ => None,
    });
    let found = reports(&server, "rtsp://h/1", |reports| states(reports).len() == 1);
    assert_eq!(states(&found), [Some(true)]);
}

#[test]
fn tokens_go_by_the_clock_of_the_camera() {
    let server = camera(|request, number| match (name_of(request), number) {
        ("GetSystemDateAndTime", _) => Some(time(7_200)),
        ("PullMessages", 0) => Some(pulled(&motion(true))),
        _ => None,
    });
    reports(&server, &with_login(&server), |reports| {
        states(reports).len() == 1
    });
    let requests = server.requests();
    let pull = requests
        .iter()
        .find(|request| name_of(request) == "PullMessages")
        .unwrap();
    let (_, rest) = pull.body.split_once("<Created").unwrap();
    let created = rest.split(['>', '<']).nth(1).unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "the clock of a camera is compared with that of this machine"
    )]
    let now = SystemTime::now();
    let ahead = humantime::parse_rfc3339(created)
        .unwrap()
        .duration_since(now)
        .unwrap();
    assert!((7_000..=7_200).contains(&ahead.as_secs()), "{ahead:?}");
}

#[test]
fn a_refused_login_is_a_loss_and_waits() {
    let server =
        camera(|request, _| (request.body.contains("UsernameToken")).then(|| fault("ter:NotAuthorized")));
    let found = reports(&server, &with_login(&server), |reports| !reports.is_empty());
    assert!(
        reason(found.first()).contains("it refuses the login"),
        "{found:?}"
    );
    let tokens = server
        .requests()
        .into_iter()
        .filter(|request| request.body.contains("UsernameToken"));
    assert_eq!(tokens.count(), 1);
}

#[test]
fn a_camera_that_wants_a_login_names_the_keys() {
    let server = camera(|request, _| (name_of(request) == "GetServices").then(|| fault("ter:NotAuthorized")));
    let found = reports(&server, "rtsp://h/1", |reports| !reports.is_empty());
    assert!(
        reason(found.first()).contains("`user` and `password_file`"),
        "{found:?}"
    );
}

/// A sink that moves the camera of a server, with further keys.
fn moves(server: &Server, keys: &[(&str, Value)]) -> Result<Box<dyn Sink>, SinkError> {
    let text = |text: &str| Value::Text(text.to_owned());
    let own = [("camera", text("yard")), ("preset", text("gate"))];
    let keys = own.into_iter().chain(keys.iter().cloned());
    let settings = Settings(keys.map(|(key, value)| (key.to_owned(), value)).collect());
    let service = format!("http://{}/onvif/device_service", server.address());
    let login = None::<&SourceLogin>;
    let settings = with_ptz_camera(settings, &service, &with_login(server), login);
    sink("ptz", &settings)?.open()
}

/// An incident of that id begins.
fn alarm(sink: &mut dyn Sink, id: &str, time_ms: u64) {
    let incident = Incident {
        id: id.into(),
        transform: "night".into(),
        kind: "rule",
        phase: Phase::Began,
        track: None,
        class: None,
        score: 1.0,
        rect: None,
        began_ms: time_ms,
        time_ms,
        began_pts_ms: 0.0,
        pts_ms: 0.0,
        zones: Vec::new(),
        values: Vec::new(),
        attributes: Vec::new(),
        best: None,
    };
    let notice = Notice::Analytics {
        stream: "door".into(),
        ended_tracks: Vec::new(),
        incidents: vec![incident],
    };
    sink.on_notice(&notice).unwrap();
}

/// Tokens of the presets that a camera was moved to.
fn gone_to(server: &Server) -> Vec<String> {
    let requests = server.requests().into_iter();
    let requests = requests.filter(|request| name_of(request) == "GotoPreset");
    let token = |request: Request| {
        assert!(
            request.body.contains("<ProfileToken>p2</ProfileToken>"),
            "{}",
            request.body
        );
        let (_, rest) = request.body.split_once("<PresetToken>").unwrap();
        rest.split('<').next().unwrap().to_owned()
    };
    requests.map(token).collect()
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let end = super::Deadline::after(WAIT);
    while !holds() {
        assert!(end.left().is_some(), "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_alarm_moves_the_camera_to_its_preset_and_back() {
    let server = camera(|_, _| None);
    let home = [
        ("home", Value::Text("Overview".to_owned())),
        ("home_after", Value::Number(0.05)),
    ];
    let mut sink = moves(&server, &home).unwrap();
    alarm(&mut *sink, "a", 1_000);
    wait_for("the way back", || sink.counts().get("returns") == Some(&1));
    assert_eq!(gone_to(&server), ["2", "1"]);
    let counts = sink.counts();
    assert_eq!((counts["moves"], counts["failed"], sink.outage()), (1, 0, None));
    sink.finish().unwrap();
}

#[test]
fn a_preset_that_is_missing_is_an_error_that_lists_those_there_are() {
    let server = camera(|_, _| None);
    let missing = [("home", Value::Text("nowhere".to_owned()))];
    let error = moves(&server, &missing).err().unwrap().to_string();
    assert!(
        error.contains("no preset \"nowhere\"; it has Overview, Gate"),
        "{error}"
    );
    let none = camera(|request, _| (name_of(request) == "GetPresets").then(|| ok("<R/>")));
    let error = moves(&none, &[]).err().unwrap().to_string();
    assert!(error.contains("it has none"), "{error}");
    let fixed = camera(|request, _| match name_of(request) {
        "GetProfiles" => Some(ok("<R><Profiles token='p'/></R>")),
        _ => None,
    });
    let error = moves(&fixed, &[]).err().unwrap().to_string();
    assert!(error.contains("no profile has a PTZ configuration"), "{error}");
    let refused = camera(|request, _| {
        request
            .body
            .contains("UsernameToken")
            .then(|| fault("ter:NotAuthorized"))
    });
    let error = moves(&refused, &[]).err().unwrap().to_string();
    assert!(
        error.contains("refuses the login") && !error.contains(PASSWORD),
        "{error}"
    );
}

#[test]
fn a_camera_that_is_offline_is_tried_at_its_first_alarm_and_is_an_outage() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let service = format!("http://{closed}/onvif");
    let keys = [("camera", "yard"), ("preset", "gate")];
    let keys = keys.map(|(key, value)| (key.to_owned(), Value::Text(value.to_owned())));
    let settings = with_ptz_camera(Settings(keys.into()), &service, "rtsp://h/1", None);
    let mut sink = sink("ptz", &settings).unwrap().open().unwrap();
    alarm(&mut *sink, "a", 1_000);
    wait_for("the failure", || sink.counts().get("failed") == Some(&1));
    wait_for("the outage", || sink.outage().is_some());
    sink.finish().unwrap();
}

#[test]
fn moves_of_several_sinks_follow_each_other_and_alarms_of_a_rule_are_held_back() {
    let polls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&polls);
    let server = camera(move |request, _| match name_of(request) {
        "GotoPreset" => {
            seen.store(0, Ordering::Relaxed);
            None
        }
        "GetStatus" if seen.fetch_add(1, Ordering::Relaxed) < 2 => Some(status("MOVING")),
        _ => None,
    });
    let cooldown = [("cooldown", Value::Number(600.0))];
    let mut sinks = [moves(&server, &cooldown).unwrap(), moves(&server, &[]).unwrap()];
    for sink in &mut sinks {
        alarm(&mut **sink, "a", 1_000);
    }
    wait_for("both moves", || {
        sinks.iter().all(|sink| sink.counts().get("moves") == Some(&1))
    });
    let asked = names(&server);
    let asked: Vec<&str> = asked
        .iter()
        .map(String::as_str)
        .filter(|name| ["GotoPreset", "GetStatus"].contains(name))
        .collect();
    let one = ["GotoPreset", "GetStatus", "GetStatus", "GetStatus"];
    assert_eq!(asked, [one, one].concat());
    // Another incident of the same rule within its cool-down moves nothing.
    alarm(&mut *sinks[0], "b", 2_000);
    let counts = sinks[0].counts();
    assert_eq!((counts["moves"], counts["held_cooldown"]), (1, 1));
    for mut sink in sinks {
        sink.finish().unwrap();
    }
}
