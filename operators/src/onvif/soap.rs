//! Requests to one device: SOAP over HTTP, to the address that was asked and to no other. The password leaves this machine as a
//! digest only: in the token of a request, or as the answer to a challenge over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use ureq::Agent;
use ureq::http::{HeaderMap, StatusCode};

use super::deadline::{Deadline, wall_time};
use super::text::{clean, xml_escaped};
use super::xml::{self, Element};
use crate::media::login::{HttpLogin, SoapDigest};

/// Longest wait for one answer.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(5);

/// Longest time for all questions to a device.
const MAX_DEVICE_TIME: Duration = Duration::from_secs(30);

/// Bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;

/// Challenges over HTTP that one request answers: the first, and one whose nonce expired.
const MAX_CHALLENGES: u32 = 2;

const ENVELOPE: &str = "http://www.w3.org/2003/05/soap-envelope";
const SECURITY: &str = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd";
const UTILITY: &str = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd";
const DIGEST: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#PasswordDigest";
const BASE64: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#Base64Binary";

/// User and password of devices.
#[derive(Clone)]
pub struct Login {
    /// Name of the user.
    pub name: String,
    /// Its password, which leaves this machine as a digest only.
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Login").finish_non_exhaustive()
    }
}

/// Reason why there is no answer to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Nothing that speaks SOAP answers.
    Unreached(String),
    /// A login is needed, or was refused.
    Login(String),
    /// The device refuses the request.
    Fault(String),
}

impl Problem {
    /// The reason for messages, without control characters.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Unreached(reason) | Self::Login(reason) | Self::Fault(reason) => reason,
        }
    }
}

/// An HTTP answer.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

/// Connection to one device.
pub struct Client {
    agent: Agent,
    origin: String,
    port: u16,
    login: Option<Login>,
    /// Place of user and password, for a device that wants a login and gets none.
    login_keys: &'static str,
    /// The challenge of the device, once it sent one. It takes the place of tokens.
    challenge: Option<HttpLogin>,
    /// Seconds by which the clock of the device is ahead.
    clock_offset: i64,
    deadline: Deadline,
    answer_time: Duration,
    /// Elements for the headers of the next requests.
    header: String,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Client({})", self.origin)
    }
}

impl Client {
    /// A client of the device at that address. `login_keys` names the place of user and password for messages.
    #[must_use]
    pub fn new(device: SocketAddr, login: Option<Login>, login_keys: &'static str) -> Self {
        let agent = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .proxy(None)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: agent.into(),
            origin: format!("http://{device}"),
            port: device.port(),
            login,
            login_keys,
            challenge: None,
            clock_offset: 0,
            deadline: Deadline::after(MAX_DEVICE_TIME),
            answer_time: MAX_ANSWER_TIME,
            header: String::new(),
        }
    }

    /// Port that it is connected to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the time for all further requests together, and the longest wait for one answer.
    pub fn limit(&mut self, all: Duration, answer: Duration) {
        self.deadline = Deadline::after(all);
        self.answer_time = answer;
    }

    /// Sets elements for the headers of further requests, such as those of WS-Addressing.
    pub fn set_header(&mut self, header: String) {
        self.header = header;
    }

    /// Sets the difference to the clock of the device, which tokens go by.
    pub fn set_clock_offset(&mut self, seconds: i64) {
        self.clock_offset = seconds;
    }

    /// The answer to a request without a token; a challenge over HTTP is answered.
    ///
    /// # Errors
    /// A [`Problem`].
    pub fn call_without_token(&mut self, path: &str, request: &str) -> Result<Element, Problem> {
        self.call_with(path, request, false)
    }

    /// The answer to a request: the element within the body of its envelope.
    ///
    /// # Errors
    /// A [`Problem`].
    pub fn call(&mut self, path: &str, request: &str) -> Result<Element, Problem> {
        self.call_with(path, request, true)
    }

    fn call_with(&mut self, path: &str, request: &str, with_token: bool) -> Result<Element, Problem> {
        let mut challenges = 0;
        loop {
            let was_answered = self.challenge.is_some();
            let answer = self.post(path, request, with_token)?;
            let is_challenge = answer.status == StatusCode::UNAUTHORIZED;
            let result = if is_challenge { None } else { Some(read(&answer)) };
            let needs_login = is_challenge || matches!(result, Some(Err(Problem::Login(_))));
            if self.login.is_none() && needs_login {
                return Err(Problem::Login(format!("it needs a login: {}", self.login_keys)));
            }
            match result {
                // The password was not sent, so the login was not refused.
                Some(Err(Problem::Login(reason))) if !with_token && !was_answered => {
                    return Err(Problem::Fault(reason));
                }
                Some(result) => return result,
                None => {}
            }
            let offers = answer.headers.get_all("www-authenticate");
            let offers = offers.iter().filter_map(|offer| offer.to_str().ok());
            let challenge = HttpLogin::choose(offers).map_err(|names| match names.as_str() {
                "" if with_token => Problem::Login("it refuses the login".to_owned()),
                "" => Problem::Fault("it wants a token".to_owned()),
                names => Problem::Login(format!(
                    "it wants a login by {}, which is not known",
                    clean(names)
                )),
            })?;
            if challenge.sends_password() {
                let reason = "it wants the password as plain text (Basic), which is not sent: switch Digest on in the device";
                return Err(Problem::Login(reason.to_owned()));
            }
            challenges += 1;
            let is_refused = was_answered && !challenge.is_stale();
            if is_refused || challenges > MAX_CHALLENGES {
                return Err(Problem::Login("it refuses the login".to_owned()));
            }
            self.challenge = Some(challenge);
        }
    }

    fn post(&mut self, path: &str, request: &str, with_token: bool) -> Result<Answer, Problem> {
        let unreached = Problem::Unreached;
        let Some(left) = self.deadline.left() else {
            return Err(unreached("its answers took too long together".to_owned()));
        };
        let (mut header, mut authorization) = (String::new(), None);
        match (&self.login, &mut self.challenge) {
            (Some(login), Some(challenge)) => {
                let value = challenge.authorization(&login.name, &login.password, "POST", path);
                authorization = Some(value.map_err(unreached)?);
            }
            (Some(login), None) if with_token => {
                header = token(login, self.clock_offset).map_err(unreached)?
            }
            _ => {}
        }
        let envelope = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><s:Envelope xmlns:s=\"{ENVELOPE}\"><s:Header>{header}{}</s:Header>\
             <s:Body>{request}</s:Body></s:Envelope>",
            self.header
        );
        let mut post = self
            .agent
            .post(format!("{}{path}", self.origin))
            .header("Content-Type", "application/soap+xml; charset=utf-8")
            // Simple devices close idle connections without a word.
            .header("Connection", "close");
        if let Some(authorization) = authorization {
            post = post.header("Authorization", authorization);
        }
        let timeout = left.min(self.answer_time);
        let post = post.config().timeout_global(Some(timeout)).build();
        let failed = |error: &ureq::Error| unreached(failure(error));
        let mut response = post.send(envelope).map_err(|error| failed(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = if status == StatusCode::UNAUTHORIZED || status.is_redirection() {
            Vec::new()
        } else {
            let body = response.body_mut().with_config().limit(MAX_ANSWER);
            body.read_to_vec().map_err(|error| failed(&error))?
        };
        Ok(Answer {
            status,
            headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

/// Header of a request with the digest of the password.
fn token(login: &Login, clock_offset: i64) -> Result<String, String> {
    let offset = Duration::from_secs(clock_offset.unsigned_abs());
    let now = wall_time();
    let by_device = if clock_offset < 0 {
        now.checked_sub(offset)
    } else {
        now.checked_add(offset)
    };
    let token = SoapDigest::new(&login.password, by_device.unwrap_or(now))?;
    Ok(format!(
        "<Security s:mustUnderstand=\"1\" xmlns=\"{SECURITY}\"><UsernameToken><Username>{}</Username><Password \
         Type=\"{DIGEST}\">{}</Password><Nonce EncodingType=\"{BASE64}\">{}</Nonce><Created \
         xmlns=\"{UTILITY}\">{}</Created></UsernameToken></Security>",
        xml_escaped(&login.name),
        token.digest,
        token.nonce,
        token.created,
    ))
}

fn failure(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it gave no answer in time".to_owned(),
        ureq::Error::BodyExceedsLimit(_) => format!("its answer is longer than {} MiB", MAX_ANSWER >> 20),
        ureq::Error::Io(error) => format!("it is not reached: {}", clean(&weir_files::io_reason(error))),
        error => clean(&error.to_string()),
    }
}

/// The element within the body of an answer.
fn read(answer: &Answer) -> Result<Element, Problem> {
    let status = answer.status;
    if status.is_redirection() {
        let location = answer.headers.get("location").and_then(|to| to.to_str().ok());
        let to = weir_flow::mask_credentials(location.unwrap_or("another address")).into_owned();
        let reason = format!("it redirects to {}, which is not followed", clean(&to));
        return Err(Problem::Unreached(reason));
    }
    let no_onvif = |reason: &str| {
        if status.is_success() {
            Problem::Unreached(reason.to_owned())
        } else {
            Problem::Unreached(format!("it answers {}, not as ONVIF does", status.as_u16()))
        }
    };
    let mut root = xml::parse(&answer.body).map_err(|reason| no_onvif(&reason))?;
    let content = root.take_at("Body").and_then(|mut body| body.take_first());
    let content = content.ok_or_else(|| no_onvif("its answer is no SOAP envelope"))?;
    if content.name == "Fault" {
        return Err(fault(&content));
    }
    if !status.is_success() {
        return Err(no_onvif(""));
    }
    Ok(content)
}

/// A fault of SOAP 1.2, or of SOAP 1.1.
fn fault(fault: &Element) -> Problem {
    let codes = fault.texts_below("Value");
    let text = fault
        .text_at(&["Reason", "Text"])
        .or(fault.text_at(&["faultstring"]));
    let text = clean(text.or(codes.last().copied()).unwrap_or("no reason"));
    let is_login = |code: &&str| {
        ["NotAuthorized", "FailedAuthentication", "FailedCheck"]
            .iter()
            .any(|known| code.ends_with(known))
    };
    if codes.iter().any(is_login) {
        return Problem::Login(format!("it refuses the login: {text}"));
    }
    Problem::Fault(format!("it refuses a request: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> Result<Element, Problem> {
        read(&Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.to_owned(),
        })
    }

    #[test]
    fn faults_are_read_whatever_the_status_is() {
        let fault = "<s:Envelope xmlns:s='x'><s:Body><s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>\
                     ter:NotAuthorized</s:Value></s:Subcode></s:Code><s:Reason><s:Text>Sender \u{1b}not authorized</s:Text>\
                     </s:Reason></s:Fault></s:Body></s:Envelope>";
        for status in [200, 400, 500] {
            let login = Problem::Login("it refuses the login: Sender \\u{1b}not authorized".to_owned());
            assert_eq!(answered(status, fault), Err(login));
        }
        let other = answered(500, &fault.replace("NotAuthorized", "ActionNotSupported"));
        assert!(matches!(other, Err(Problem::Fault(_))), "{other:?}");
    }

    #[test]
    fn pages_are_no_answers() {
        for (status, body, reason) in [
            (404, "<html><body>no</body></html>", "it answers 404"),
            (200, "<html></html>", "no SOAP envelope"),
            (200, "hello", "no XML"),
            (302, "", "redirects to another address"),
        ] {
            let problem = answered(status, body).unwrap_err();
            assert!(problem.reason().contains(reason), "{problem:?}");
        }
    }

    #[test]
    fn tokens_have_no_password_and_the_time_of_the_device() {
        let login = Login {
            name: "a&b".to_owned(),
            password: "secret".to_owned(),
        };
        let token = token(&login, -1_000_000_000_000).unwrap();
        assert!(token.contains("<Username>a&amp;b</Username>"), "{token}");
        assert!(
            !token.contains("secret") && !format!("{login:?}").contains("secret"),
            "{token}"
        );
        assert!(token.contains(">1970-01-01T00:00:00Z<"), "{token}");
    }
}
