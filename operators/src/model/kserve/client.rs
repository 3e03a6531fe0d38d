//! Calls to one model on one server.

use std::io::Read;
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::http::Response;
use weir_flow::mask_credentials;
use weir_kserve::HEADER_LENGTH;
use weir_kserve::client::{Metadata, ReceivedTensor, read_answer, refusal};

use super::ServerModel;

/// Bytes of a server's word on a model or on an error.
const MAX_WORD: u64 = 1 << 20;
/// Bytes of the outputs of one batch.
const MAX_ANSWER: u64 = 512 << 20;

/// One model on one server, with the connections to it.
pub(super) struct Client {
    agent: Agent,
    /// Address of the server for messages, without a password.
    shown: String,
    /// Of the model: `BASE/v2/models/NAME`.
    address: String,
    authorization: Option<String>,
    timeout: Duration,
}

/// A batch, as it is sent.
pub(super) struct Call<'a> {
    pub(super) body: &'a [u8],
    /// Length of the JSON at its begin.
    pub(super) header: usize,
    /// Names of the outputs, in the order in which they are wanted.
    pub(super) outputs: &'a [String],
    /// After this long an answer is of no use.
    pub(super) limit: Option<Duration>,
}

impl Client {
    pub(super) fn new(model: &ServerModel, url: &str) -> Self {
        let agent = Agent::config_builder()
            // Inputs are sent to whom the graph names, and nowhere else.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build();
        let mut address = format!("{}/v2/models/{}", url.trim_end_matches('/'), model.name);
        if let Some(version) = &model.version {
            address = format!("{address}/versions/{version}");
        }
        Self {
            agent: agent.into(),
            shown: mask_credentials(url).into_owned(),
            address,
            authorization: model.token.as_ref().map(|token| format!("Bearer {token}")),
            timeout: model.timeout,
        }
    }

    /// Requests the metadata of the model from the server.
    ///
    /// # Errors
    /// It is not there, does not know the model, or says what cannot be read.
    pub(super) fn metadata(&self) -> Result<Metadata, String> {
        let mut request = self.agent.get(&self.address);
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let request = request.config().timeout_global(Some(self.timeout)).build();
        let mut answer = request
            .call()
            .map_err(|error| self.failed(&error, self.timeout))?;
        let body = answer
            .body_mut()
            .with_config()
            .limit(MAX_WORD)
            .read_to_vec()
            .map_err(|error| self.failed(&error, self.timeout))?;
        self.check_status(answer.status().as_u16(), &body)?;
        serde_json::from_slice(&body)
            .map_err(|error| self.says(&format!("its description of the model cannot be read: {error}")))
    }

    /// Runs a batch; `buffer` is where its answer is read to. A connection that the server has closed since the last batch is
    /// replaced by a new one, once: to run a batch again changes nothing.
    ///
    /// # Errors
    /// There is no answer in time, it refuses, or its answer cannot be read.
    #[expect(
        clippy::disallowed_methods,
        reason = "what is left of a time-out is between two calls of a driver; nothing is decided by it"
    )]
    pub(super) fn infer(&self, call: &Call<'_>, buffer: &mut Vec<u8>) -> Result<Vec<ReceivedTensor>, String> {
        let limit = call.limit.unwrap_or(self.timeout).min(self.timeout);
        let began = Instant::now();
        let mut answer = match self.post(call, limit) {
            Err(error) if is_lost_connection(&error) => {
                let left = limit.saturating_sub(began.elapsed());
                self.post(call, left.max(Duration::from_millis(1)))
            }
            answer => answer,
        }
        .map_err(|error| self.failed(&error, limit))?;
        let header = header_length(&answer);
        buffer.clear();
        let mut body = answer.body_mut().with_config().limit(MAX_ANSWER).reader();
        body.read_to_end(buffer)
            .map_err(|error| self.failed(&error.into(), limit))?;
        self.check_status(answer.status().as_u16(), buffer)?;
        read_answer(buffer, header, call.outputs).map_err(|reason| self.says(&reason))
    }

    fn post(&self, call: &Call<'_>, limit: Duration) -> Result<Response<ureq::Body>, ureq::Error> {
        let mut request = self
            .agent
            .post(format!("{}/infer", self.address))
            .header("Content-Type", "application/octet-stream")
            .header(HEADER_LENGTH, call.header.to_string());
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let request = request.config().timeout_global(Some(limit)).build();
        request.send(call.body)
    }

    fn check_status(&self, status: u16, body: &[u8]) -> Result<(), String> {
        if (200..=299).contains(&status) {
            return Ok(());
        }
        Err(self.says(&match (status, refusal(body)) {
            (_, Some(reason)) => format!("it answers {status}: {reason}"),
            (300..=399, None) => {
                format!(
                    "it answers {status} and redirects calls, which is not followed: set the address that it redirects to"
                )
            }
            (401 | 403, None) => format!("it answers {status}: name a `token_file` that it accepts"),
            (_, None) => format!("it answers {status}"),
        }))
    }

    fn failed(&self, error: &ureq::Error, limit: Duration) -> String {
        match error {
            ureq::Error::Timeout(_) => self.says(&format!("it gave no answer within {limit:.0?}")),
            ureq::Error::BodyExceedsLimit(limit) => {
                self.says(&format!("its answer is longer than {limit} bytes"))
            }
            error => self.says(&format!("it cannot be reached: {}", unreachable_reason(error))),
        }
    }

    fn says(&self, reason: &str) -> String {
        format!("model server {}: {reason}", self.shown)
    }
}

/// Cause of a failed connection, with its remedy.
fn unreachable_reason(error: &ureq::Error) -> String {
    const UNKNOWN_HOST: &str =
        "its host is not known: check its name in `url`, and the name server of this machine";
    match error {
        ureq::Error::HostNotFound => UNKNOWN_HOST.to_owned(),
        // The standard library has no kind of error for a name that cannot be resolved.
        ureq::Error::Io(error) if error.to_string().contains("lookup address") => UNKNOWN_HOST.to_owned(),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            "the connection is refused: check the port in `url`, and that the server runs".to_owned()
        }
        ureq::Error::Io(error) => weir_files::io_reason(error),
        error => error.to_string(),
    }
}

/// The connection was closed before an answer began.
fn is_lost_connection(error: &ureq::Error) -> bool {
    use std::io::ErrorKind as Kind;
    match error {
        ureq::Error::Io(error) => matches!(
            error.kind(),
            Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe | Kind::UnexpectedEof
        ),
        _ => false,
    }
}

fn header_length(answer: &Response<ureq::Body>) -> Option<usize> {
    answer
        .headers()
        .get(HEADER_LENGTH)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}
