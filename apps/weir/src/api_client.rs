//! Asks an engine that serves.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use weir_serve::Token;

use crate::error::{UserError, request_reason};
use crate::service::token;

/// As long as the engine may take to answer, with some time for the way.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Asks an engine.
pub(crate) struct Client {
    agent: ureq::Agent,
    /// Address of the engine, with its protocol.
    at: String,
    token: Option<Token>,
}

impl Client {
    /// Of the engine at `HOST:PORT` or `https://HOST:PORT`, with the token of a file or of the variable.
    ///
    /// # Errors
    /// A token that cannot be used.
    pub(crate) fn new(at: &str, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            // What is refused is said in the body.
            .http_status_as_error(false)
            .build()
            .into();
        Ok(Self {
            agent,
            at: if at.starts_with("https://") {
                at.to_owned()
            } else {
                format!("http://{at}")
            },
            token: token(token_file)?,
        })
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// An engine that is not reached, and what it refuses.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&str>) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.at);
        let mut request = ureq::http::Request::builder().method(method).uri(&url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {}", token.as_str()));
        }
        if body.is_some() {
            request = request.header("Content-Type", "application/json");
        }
        let answered = match body {
            Some(body) => self.agent.run(request.body(body.to_owned())?),
            None => self.agent.run(request.body(())?),
        };
        let unreachable = |error: ureq::Error| {
            UserError::new(format!(
                "cannot connect to an engine at {}: {}; start it with weir serve, or give its address with --at",
                self.at,
                request_reason(&error)
            ))
        };
        let mut response = answered.map_err(unreachable)?;
        let text = response.body_mut().read_to_string().map_err(unreachable)?;
        let value: Value = serde_json::from_str(&text)
            .context("the answer is not JSON; is this the address of a weir engine?")?;
        if response.status().is_success() {
            return Ok(value);
        }
        let error = value["error"].as_str().unwrap_or("it refuses");
        let hint = value["hint"].as_str().map(|hint| format!("; {hint}"));
        let message = format!("{error}{}", hint.unwrap_or_default());
        Err(if response.status().is_client_error() {
            UserError::new(message).into()
        } else {
            anyhow::anyhow!(message)
        })
    }
}
