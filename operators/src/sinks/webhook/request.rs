//! One POST, and what its answer means.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Timeout};
use weir_flow::{Settings, SinkError};

use super::super::outbox::{Message, Outcome, Transport};
use super::super::renewed::Renewed;
use super::super::secret::secret;
use super::super::tls;
use super::address::{Address, Receiver};
use super::answer::Answer;
use super::encoding::identifier;
use super::form::{Form, Prepared};
use super::is_standard;
use super::signature::Signer;

/// Bytes of an answer that are read; the connection is closed on longer ones.
const MAX_ANSWER: u64 = 16 << 10;

/// Encryption of connections, where `settings` name the authorities that are trusted.
///
/// # Errors
/// The file holds none, or the address needs none.
pub(in crate::sinks) fn checked_tls(
    address: &Address,
    settings: &Settings,
) -> Result<Option<TlsConfig>, SinkError> {
    let Some(path) = settings.text("ca_file").filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    if !address.is_encrypted() {
        return Err(SinkError {
            target: format!("to {}", address.shown),
            reason: "`ca_file` has no effect with an address that begins with http://: use an address with https://"
                .to_owned(),
        });
    }
    let authorities = tls::authorities(Path::new(path))?;
    let authorities: Vec<Certificate<'static>> = authorities
        .iter()
        .map(|authority| Certificate::from_der(authority).to_owned())
        .collect();
    let roots = RootCerts::new_with_certs(&authorities);
    Ok(Some(TlsConfig::builder().root_certs(roots).build()))
}

/// A client that follows no redirect: a body with a signature or a picture is not sent on to wherever an answer says.
pub(in crate::sinks) fn agent(timeout: Duration, encryption: Option<TlsConfig>) -> Agent {
    let agent = Agent::config_builder()
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
        .tls_config(encryption.unwrap_or_default());
    agent.build().into()
}

/// Reads an answer to its end, so that the connection can be used again. Of a longer one than `max_bytes` the body is empty, and
/// the connection is closed.
///
/// # Errors
/// The answer breaks off, or does not come in time.
pub(in crate::sinks) fn read(
    mut answer: ureq::http::Response<ureq::Body>,
    max_bytes: u64,
) -> Result<Answer, ureq::Error> {
    let status = answer.status().as_u16();
    let retry_after = answer.headers().get("retry-after");
    let retry_after = retry_after
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let body = match answer.body_mut().with_config().limit(max_bytes).read_to_vec() {
        Ok(body) => body,
        Err(ureq::Error::BodyExceedsLimit(_)) => Vec::new(),
        // The status says enough of an answer that takes nothing.
        Err(error) if (200..=299).contains(&status) => return Err(error),
        Err(_) => Vec::new(),
    };
    Ok(Answer {
        status,
        retry_after,
        body,
    })
}

/// Receiver, signature and client, by keys and their files.
struct Access {
    agent: Agent,
    receiver: Receiver,
    signer: Option<Signer>,
}

impl Access {
    fn read(settings: &Settings) -> Result<Self, SinkError> {
        let receiver = Receiver::open(settings)?;
        let encryption = checked_tls(&receiver.address, settings)?;
        let secret = secret(settings, "secret", "secret_file")?;
        let signer = secret.map(|secret| Signer::new(&secret, is_standard(settings)));
        let signer = signer.transpose().map_err(|reason| SinkError {
            target: "to a webhook".to_owned(),
            reason: reason.to_owned(),
        })?;
        let timeout = Duration::from_secs_f64(settings.number("timeout", 5.0));
        Ok(Self {
            agent: agent(timeout, encryption),
            receiver,
            signer,
        })
    }
}

pub(super) struct HttpTransport {
    access: Arc<Access>,
    renewed: Renewed<Arc<Access>>,
    form: Form,
}

impl HttpTransport {
    /// # Errors
    /// A file cannot be read, or holds something else.
    pub(super) fn new(form: Form, settings: &Settings) -> Result<Self, SinkError> {
        let renewed = Renewed::new(settings, |settings| Access::read(settings).map(Arc::new))?;
        Ok(Self {
            access: renewed.get(),
            renewed,
            form,
        })
    }

    fn send(&self, id: &str, prepared: &Prepared) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let Access {
            agent,
            receiver,
            signer,
        } = &*self.access;
        let mut request = agent.post(receiver.address.with(&prepared.path));
        for (name, value) in &prepared.headers {
            request = request.header(name, value);
        }
        let mut names = prepared.headers.iter().map(|(name, _)| name);
        let is_named = names.any(|name| name.eq_ignore_ascii_case("authorization"));
        if let Some(login) = receiver.address.login().filter(|_| !is_named) {
            request = request.header("Authorization", login);
        }
        // Services for phones have no use for these.
        if !self.form.is_preset() {
            let (id, now) = (identifier(id), now_s());
            request = request
                .header("X-Weir-Event", &id)
                .header("X-Weir-Timestamp", now.to_string());
            let headers = signer
                .iter()
                .flat_map(|signer| signer.headers(&id, now, &prepared.body));
            for (name, value) in headers {
                request = request.header(name, value);
            }
        }
        request.send(&prepared.body[..])
    }
}

impl Transport for HttpTransport {
    fn attempt(&mut self, message: &Message) -> Outcome {
        self.access = self.renewed.get();
        let receiver = &self.access.receiver;
        let said = |reason: &str| receiver.said(reason);
        let prepared = match self.form.prepare(&receiver.account, message) {
            Ok(prepared) => prepared,
            // It would be the same again.
            Err(reason) => return Outcome::Refused(said(&reason)),
        };
        match self.send(&message.id, &prepared) {
            Ok(answer) => match read(answer, MAX_ANSWER) {
                Ok(answer) => answer.outcome(said),
                Err(error) => Outcome::Failed(said(&format!("its answer breaks off: {error}"))),
            },
            // Headers that cannot be sent never can.
            Err(ureq::Error::Http(error)) => Outcome::Refused(said(&error.to_string())),
            Err(error) if is_unreached(&error) => Outcome::Unreached(said(&error.to_string())),
            Err(error) => Outcome::Failed(said(&tls::explained(&error.to_string()))),
        }
    }
}

/// Whether no request got there, whatever it says.
pub(in crate::sinks) fn is_unreached(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => true,
        ureq::Error::Timeout(step) => matches!(step, Timeout::Resolve | Timeout::Connect),
        ureq::Error::Io(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
        ),
        _ => false,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a receiver compares it with its own clock"
)]
fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    #[test]
    fn answers_without_an_end_take_bounded_memory() {
        use std::io::{Read, Write};

        for (answer, flood) in [
            (
                &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"[..],
                &b"X: a\r\n"[..],
            ),
            (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
            (b"HTTP/1.1 200 OK\r\n\r\n", b"a"),
            (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/hook", listener.local_addr().unwrap());
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4_096]);
                let piece = flood.repeat(10_000);
                let _ = stream.write_all(answer);
                while stream.write_all(&piece).is_ok() {}
            });
            let keys = [("timeout", Value::Number(0.5)), ("url", Value::Text(url))];
            let settings = Settings(keys.map(|(key, value)| (key.to_owned(), value)).into());
            let form = Form::read(&settings, &mut Vec::new());
            let mut transport = HttpTransport::new(form, &settings).unwrap();
            let message = Message {
                stream: "s".into(),
                topic: String::new(),
                id: "s/z/1".to_owned(),
                body: b"{}".to_vec(),
                picture: None,
            };
            let allocated = allocation_counter::measure(|| {
                let _ = transport.attempt(&message);
            });
            assert!(
                allocated.bytes_max < 2 << 20,
                "{}: {} bytes of memory",
                answer.escape_ascii(),
                allocated.bytes_max
            );
        }
    }
}
