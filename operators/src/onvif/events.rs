//! Events of a camera by pull point (ONVIF Core Specification, Event handling): a subscription, a thread that pulls, and another
//! subscription after each loss.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use weir_flow::{CameraEvent, CameraEvents, CameraReport, StopFlag};

use super::deadline::Deadline;
use super::notification;
use super::place::{Camera, Connected};
use super::soap::{Client, Problem};
use super::text::{place, xml_escaped};
use super::xml::Element;

const EVENTS: &str = "http://www.onvif.org/ver10/events/wsdl";
const NOTIFICATION: &str = "http://docs.oasis-open.org/wsn/b-2";
const ADDRESSING: &str = "http://www.w3.org/2005/08/addressing";
const CREATE: &str =
    "http://www.onvif.org/ver10/events/wsdl/EventPortType/CreatePullPointSubscriptionRequest";
const PULL: &str = "http://www.onvif.org/ver10/events/wsdl/PullPointSubscription/PullMessagesRequest";
const SYNCHRONIZE: &str =
    "http://www.onvif.org/ver10/events/wsdl/PullPointSubscription/SetSynchronizationPointRequest";
const RENEW: &str = "http://docs.oasis-open.org/wsn/bw-2/SubscriptionManager/RenewRequest";
const UNSUBSCRIBE: &str = "http://docs.oasis-open.org/wsn/bw-2/SubscriptionManager/UnsubscribeRequest";

/// Seconds for which the camera keeps a subscription that is not renewed, and after which it is renewed.
const LIFETIME_S: u64 = 60;
const RENEW_AFTER: Duration = if cfg!(test) {
    Duration::from_millis(300)
} else {
    Duration::from_secs(25)
};

/// Seconds for which the camera may wait for an event, and the longest wait for its answer.
const PULL_S: u64 = 10;
const PULL_ANSWER: Duration = Duration::from_secs(15);

/// Messages of one answer.
const MESSAGES: u32 = 50;

/// Shortest time from one pull to the next: some cameras do not wait for events.
const MIN_PULL: Duration = Duration::from_millis(250);

/// Age from which on a subscription that is lost is made again at once: cameras forget them.
const MIN_AGE: Duration = Duration::from_secs(5);

/// Longest time to end a subscription.
const UNSUBSCRIBE_TIME: Duration = Duration::from_secs(2);

/// Wait before the next subscription: it doubles. Cameras lock accounts, so refused logins wait longer.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(60);
const FIRST_LOGIN_WAIT: Duration = Duration::from_secs(60);
const MAX_LOGIN_WAIT: Duration = Duration::from_secs(600);

/// Time between two looks whether the run stops.
const POLL: Duration = Duration::from_millis(100);

/// Answers that wait to be reported.
const MAX_ANSWERS: usize = 4;

/// Parameters of a subscription that are sent back, and characters of each.
const MAX_PARAMETERS: usize = 8;
const MAX_PARAMETER: usize = 512;

/// See the module.
#[derive(Debug)]
pub(crate) struct PullPoint {
    camera: Camera,
    channel: Option<String>,
}

/// A subscription of a camera.
struct Subscription {
    /// Client of its address, at the host that was asked.
    client: Client,
    path: String,
    /// Address as the camera names it.
    address: String,
    /// Elements by which the camera tells it from others.
    identity: String,
}

/// Reason why there is no subscription.
enum NoSubscription {
    /// The camera has no events.
    Unsupported(String),
    Failed(Problem),
}

impl From<Problem> for NoSubscription {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

impl PullPoint {
    pub(crate) fn new(camera: Camera, channel: Option<String>) -> Self {
        Self { camera, channel }
    }

    fn subscribe(&self) -> Result<(Connected, Subscription), NoSubscription> {
        let mut connected = self.camera.connect()?;
        let Some(address) = connected.service(EVENTS, "Events")? else {
            return Err(NoSubscription::Unsupported("it has no event service".to_owned()));
        };
        let Some((port, path)) = place(&address, connected.device) else {
            let reason = "the address of its event service cannot be used".to_owned();
            return Err(NoSubscription::Unsupported(reason));
        };
        let mut client = connected.client_at(port);
        client.set_header(addressing(CREATE, &address));
        let request = format!(
            "<CreatePullPointSubscription xmlns=\"{EVENTS}\"><InitialTerminationTime>PT{LIFETIME_S}S</InitialTerminationTime>\
             </CreatePullPointSubscription>"
        );
        let answer = client.call(&path, &request)?;
        let address = answer.text_at(&["SubscriptionReference", "Address"]);
        let address = address.unwrap_or_default();
        let Some((port, path)) = place(address, connected.device) else {
            let reason = "its subscription has no address that can be used".to_owned();
            return Err(Problem::Fault(reason).into());
        };
        let subscription = Subscription {
            client: connected.client_at(port),
            identity: identity(&answer),
            address: address.to_owned(),
            path,
        };
        Ok((connected, subscription))
    }

    /// Reports the events of a subscription until it is lost or the run stops; whether any pull was answered.
    fn pull(
        &self,
        subscription: Subscription,
        stop: &StopFlag,
        report: &mut dyn FnMut(CameraReport),
    ) -> (bool, Option<Problem>) {
        let (sender, answers) = sync_channel(MAX_ANSWERS);
        let channel = self.channel.clone();
        // A pull takes seconds: the thread is not waited for, and ends with its next answer.
        let thread = std::thread::Builder::new().name("weir-pull".to_owned());
        let started = thread.spawn(move || subscription.pull_all(channel.as_deref(), &sender));
        if let Err(error) = started {
            return (false, Some(Problem::Unreached(format!("no thread: {error}"))));
        }
        report_all(&answers, stop, report)
    }
}

/// Reports answers as they come; whether there was one, and the problem that ended them.
fn report_all(
    answers: &Receiver<Result<Vec<CameraEvent>, Problem>>,
    stop: &StopFlag,
    report: &mut dyn FnMut(CameraReport),
) -> (bool, Option<Problem>) {
    let mut was_answered = false;
    while !stop.is_raised() {
        match answers.recv_timeout(POLL) {
            Ok(Ok(events)) => {
                was_answered = true;
                for event in events {
                    report(CameraReport::Event(event));
                }
            }
            Ok(Err(problem)) => return (was_answered, Some(problem)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    (was_answered, None)
}

impl CameraEvents for PullPoint {
    fn run(&self, stop: &StopFlag, report: &mut dyn FnMut(CameraReport)) {
        let mut waits = Waits::default();
        while !stop.is_raised() {
            let problem = match self.subscribe() {
                Err(NoSubscription::Unsupported(reason)) => {
                    return report(CameraReport::Unsupported { reason });
                }
                Err(NoSubscription::Failed(problem)) => problem,
                Ok((connected, subscription)) => {
                    report(CameraReport::Subscribed);
                    let mut last = subscription.again(&connected);
                    let young = Deadline::after(MIN_AGE);
                    let (was_answered, problem) = self.pull(subscription, stop, report);
                    last.end();
                    if was_answered {
                        waits.reset();
                    }
                    let is_old = young.left().is_none();
                    let Some(problem) = problem.filter(|_| !is_old || !was_answered) else {
                        continue;
                    };
                    problem
                }
            };
            let wait = waits.next(&problem);
            report(CameraReport::Lost {
                reason: problem.reason().to_owned(),
            });
            let wait = Deadline::after(wait);
            while let Some(left) = wait.left().filter(|_| !stop.is_raised()) {
                std::thread::sleep(left.min(POLL));
            }
        }
    }
}

impl Subscription {
    /// The same subscription with another connection, to end it while the first one waits for events.
    fn again(&self, connected: &Connected) -> Self {
        Self {
            client: connected.client_at(self.client.port()),
            path: self.path.clone(),
            address: self.address.clone(),
            identity: self.identity.clone(),
        }
    }

    fn call(&mut self, action: &str, request: &str, time: Duration) -> Result<Element, Problem> {
        let header = addressing(action, &self.address);
        self.client.set_header(header + &self.identity);
        self.client.limit(time, time);
        self.client.call(&self.path, request)
    }

    /// Sends events, or the problem that ends them, until nothing receives them.
    fn pull_all(mut self, channel: Option<&str>, answers: &SyncSender<Result<Vec<CameraEvent>, Problem>>) {
        let request = format!("<SetSynchronizationPoint xmlns=\"{EVENTS}\"/>");
        // A camera that refuses reports states as they change.
        let _ = self.call(SYNCHRONIZE, &request, PULL_ANSWER);
        let mut renewal = Some(Deadline::after(RENEW_AFTER));
        loop {
            let next = Deadline::after(MIN_PULL);
            if renewal.is_some_and(|renewal| renewal.left().is_none()) {
                // A camera that does not renew keeps what is pulled, or the next pull fails.
                renewal = self.renew().then(|| Deadline::after(RENEW_AFTER));
            }
            let pulled = self.pull().map(|answer| notification::events(&answer, channel));
            let is_over = pulled.is_err();
            if answers.send(pulled).is_err() || is_over {
                return;
            }
            if let Some(left) = next.left() {
                std::thread::sleep(left);
            }
        }
    }

    fn pull(&mut self) -> Result<Element, Problem> {
        let request = format!(
            "<PullMessages xmlns=\"{EVENTS}\"><Timeout>PT{PULL_S}S</Timeout><MessageLimit>{MESSAGES}</MessageLimit></PullMessages>"
        );
        self.call(PULL, &request, PULL_ANSWER)
    }

    fn renew(&mut self) -> bool {
        let request = format!(
            "<Renew xmlns=\"{NOTIFICATION}\"><TerminationTime>PT{LIFETIME_S}S</TerminationTime></Renew>"
        );
        self.call(RENEW, &request, UNSUBSCRIBE_TIME).is_ok()
    }

    /// Ends it, so that the camera has room for others. A camera that is gone has forgotten it.
    fn end(&mut self) {
        let request = format!("<Unsubscribe xmlns=\"{NOTIFICATION}\"/>");
        let _ = self.call(UNSUBSCRIBE, &request, UNSUBSCRIBE_TIME);
    }
}

/// Headers that say what is asked, and of which address.
fn addressing(action: &str, address: &str) -> String {
    format!(
        "<Action xmlns=\"{ADDRESSING}\">{action}</Action><To xmlns=\"{ADDRESSING}\">{}</To>",
        xml_escaped(address)
    )
}

/// Parameters of the address of a subscription, as headers.
fn identity(answer: &Element) -> String {
    let parameters = answer.at(&["SubscriptionReference", "ReferenceParameters"]);
    let parameters = parameters.map_or(&[][..], Element::children).iter();
    let is_plain = |parameter: &&Element| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        parameter.name.chars().all(is_name)
            && !parameter.name.is_empty()
            && parameter.text().len() <= MAX_PARAMETER
            && parameter.namespace.len() <= MAX_PARAMETER
    };
    let parameters = parameters.filter(is_plain).take(MAX_PARAMETERS);
    let parameters = parameters.map(|parameter| {
        format!(
            "<{name} xmlns=\"{}\" a:IsReferenceParameter=\"true\" xmlns:a=\"{ADDRESSING}\">{}</{name}>",
            xml_escaped(&parameter.namespace),
            xml_escaped(parameter.text()),
            name = parameter.name,
        )
    });
    parameters.collect()
}

/// Waits between subscriptions that fail.
#[derive(Debug, Default)]
struct Waits {
    tries: u32,
    refusals: u32,
}

impl Waits {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn next(&mut self, problem: &Problem) -> Duration {
        let (tries, first, most) = match problem {
            Problem::Login(_) => (&mut self.refusals, FIRST_LOGIN_WAIT, MAX_LOGIN_WAIT),
            Problem::Unreached(_) | Problem::Fault(_) => (&mut self.tries, FIRST_WAIT, MAX_WAIT),
        };
        let wait = first.saturating_mul(1 << (*tries).min(16)).min(most);
        *tries += 1;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::super::xml::parse;
    use super::*;

    #[test]
    fn parameters_of_a_subscription_are_sent_back_as_headers() {
        let answer = parse(
            "<R xmlns:w='urn:w'><SubscriptionReference><Address>a</Address><ReferenceParameters><d:Id xmlns:d='urn:d'>a&amp;2</d:Id>\
             <w:Other/></ReferenceParameters></SubscriptionReference></R>",
        );
        let headers = identity(&answer.unwrap());
        let read = parse(&format!("<Header>{headers}</Header>")).unwrap();
        let id = read.at(&["Id"]).unwrap();
        assert_eq!((id.text(), &*id.namespace), ("a&2", "urn:d"));
        assert_eq!(&*read.at(&["Other"]).unwrap().namespace, "urn:w");
        assert_eq!(identity(&parse("<R/>").unwrap()), "");
    }

    #[test]
    fn waits_double_and_refused_logins_wait_longer() {
        let mut waits = Waits::default();
        let problem = Problem::Unreached(String::new());
        let seconds: Vec<u64> = (0..8).map(|_| waits.next(&problem).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        let refused = Problem::Login(String::new());
        let seconds: Vec<u64> = (0..5).map(|_| waits.next(&refused).as_secs()).collect();
        assert_eq!(seconds, [60, 120, 240, 480, 600]);
        waits.reset();
        assert_eq!(waits.next(&problem), FIRST_WAIT);
    }
}
