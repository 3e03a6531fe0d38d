//! One POST, and what its answer means.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Timeout};
use weir_flow::{Settings, SinkError, mask_credentials};

use super::super::outbox::{Message, Outcome, Transport};
use super::super::tls;
use super::signature::signature;

/// Bytes of an answer that are read; the connection is closed on longer ones.
const MAX_ANSWER: u64 = 16 << 10;

/// The address that `settings` name.
///
/// # Errors
/// There is none, or it is no address of a web server.
pub(super) fn checked_url(settings: &Settings) -> Result<String, SinkError> {
    let failed = |reason: &str| SinkError {
        target: "to a webhook".to_owned(),
        reason: reason.to_owned(),
    };
    let url = settings.text("url").filter(|url| !url.is_empty());
    let url = url.ok_or_else(|| failed("it has no `url`: name the address to post to"))?;
    let parsed = url.parse::<ureq::http::Uri>().ok();
    let parsed =
        parsed.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
    match parsed {
        Some(_) => Ok(url.to_owned()),
        None => Err(failed(
            "its `url` is no address of a web server: it begins with http:// or https://",
        )),
    }
}

/// Encryption of connections, where `settings` name the authorities that are trusted.
///
/// # Errors
/// The file holds none, or the address needs none.
pub(super) fn checked_tls(url: &str, settings: &Settings) -> Result<Option<TlsConfig>, SinkError> {
    let Some(path) = settings.text("ca_file").filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    if !url
        .get(..8)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
    {
        return Err(SinkError {
            target: "to a webhook".to_owned(),
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

pub(super) struct HttpTransport {
    agent: Agent,
    url: String,
    secret: Option<String>,
}

impl HttpTransport {
    pub(super) fn new(
        url: String,
        secret: Option<String>,
        encryption: Option<TlsConfig>,
        settings: &Settings,
    ) -> Self {
        let timeout = Duration::from_secs_f64(settings.number("timeout", 5.0));
        let agent = Agent::config_builder()
            .timeout_global(Some(timeout))
            // A body with a signature is not sent on to wherever an answer says.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .tls_config(encryption.unwrap_or_default())
            .build();
        Self {
            agent: agent.into(),
            url,
            secret,
        }
    }
}

impl Transport for HttpTransport {
    fn attempt(&mut self, message: &Message) -> Outcome {
        let now = now_s();
        let mut request = self
            .agent
            .post(&self.url)
            .header("Content-Type", "application/json")
            .header("X-Weir-Event", header_text(&message.id))
            .header("X-Weir-Timestamp", now.to_string());
        if let Some(secret) = &self.secret {
            let signature = signature(secret.as_bytes(), now, &message.body);
            request = request.header("X-Weir-Signature", format!("sha256={signature}"));
        }
        match request.send(&message.body[..]) {
            Ok(mut answer) => {
                let status = answer.status().as_u16();
                // So that the connection can be used again. What it says changes nothing.
                let read = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
                if let (200..=299, Err(error)) = (status, &read)
                    && !matches!(error, ureq::Error::BodyExceedsLimit(_))
                {
                    return Outcome::Failed(self.said(&format!("its answer breaks off: {error}")));
                }
                self.outcome(status)
            }
            // Headers that cannot be sent never can.
            Err(ureq::Error::Http(error)) => Outcome::Refused(self.said(&error.to_string())),
            Err(error) if is_unreached(&error) => Outcome::Unreached(self.said(&error.to_string())),
            Err(error) => Outcome::Failed(self.said(&tls::explained(&error.to_string()))),
        }
    }
}

impl HttpTransport {
    fn outcome(&self, status: u16) -> Outcome {
        match status {
            200..=299 => Outcome::Delivered,
            300..=399 => Outcome::Refused(self.said(&format!(
                "it answers {status} and redirects events, which is not followed: set the address that it redirects to"
            ))),
            // Not now, or a fault of the server: it may take the event later.
            408 | 425 | 429 | 500.. => Outcome::Failed(self.said(&format!("it answers {status}"))),
            _ => Outcome::Refused(self.said(&format!("it answers {status}"))),
        }
    }

    fn said(&self, reason: &str) -> String {
        let shown = mask_credentials(&self.url);
        format!("{shown}: {}", reason.replace(&self.url, &shown))
    }
}

/// Whether no request got there, whatever it says.
fn is_unreached(error: &ureq::Error) -> bool {
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

/// A text as it may stand in a header: what is no visible ASCII is percent-encoded.
fn header_text(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'%' | 0..=32 | 127.. => format!("%{byte:02X}"),
        visible => char::from(visible).to_string(),
    };
    text.bytes().map(encoded).collect()
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
    use super::*;

    #[test]
    fn names_of_any_script_fit_into_a_header() {
        assert_eq!(header_text("north/gate/7"), "north/gate/7");
        assert_eq!(header_text("t\u{fc}r 5%\n"), "t%C3%BCr%205%25%0A");
    }

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
            let timeout = ("timeout".to_owned(), weir_flow::Value::Number(0.5));
            let mut transport = HttpTransport::new(url, None, None, &Settings([timeout].into()));
            let message = Message {
                stream: "s".into(),
                topic: String::new(),
                id: "s/z/1".to_owned(),
                body: b"{}".to_vec(),
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
