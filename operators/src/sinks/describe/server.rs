//! One request to a server of models, and what its answer means.

use std::sync::Arc;

use ureq::Agent;
use ureq::tls::TlsConfig;

use super::super::outbox::Outcome;
use super::super::tls;
use super::super::webhook::{Address, Receiver, agent, is_unreached, read};
use super::answers::Answer;
use super::keys::Config;
use super::questions::Reply;
use super::subject::Subject;

/// Bytes of an answer that are read; a longer one is no answer.
const MAX_ANSWER: u64 = 256 << 10;

/// See the module.
pub(super) struct Server {
    agent: Agent,
    address: Address,
    receiver: Receiver,
    config: Arc<Config>,
}

impl Server {
    /// `key`: what the server knows its clients by.
    pub(super) fn new(
        config: Arc<Config>,
        address: &Address,
        (key, encryption): (Option<String>, Option<TlsConfig>),
    ) -> Self {
        Self {
            agent: agent(config.timeout, encryption),
            receiver: Receiver::with_token(address.clone(), key),
            address: address.clone(),
            config,
        }
    }

    /// Asks about a picture. The reply has the answer if it is of the form that was asked for.
    pub(super) fn ask(&self, subject: &Subject) -> (Reply, Option<Answer>) {
        let said = |reason: &str| self.receiver.said(reason);
        let prompt = match self.config.question(subject) {
            Ok(prompt) => prompt,
            // It would be the same again.
            Err(reason) => return (Reply::Refused(reason), None),
        };
        let body = self.config.chat.request(&prompt, subject.picture.jpeg());
        let address = self.address.with("/chat/completions");
        let mut request = self
            .agent
            .post(address)
            .header("Content-Type", "application/json");
        if let Some(key) = self.receiver.token() {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        let answered = request
            .send(&body[..])
            .and_then(|answer| read(answer, MAX_ANSWER));
        match answered {
            Ok(answer) => match answer.outcome(said) {
                Outcome::Delivered => self.read(&answer.body),
                Outcome::Limited(reason, wait) => (Reply::Limited(reason, Some(wait)), None),
                Outcome::Failed(reason) if answer.status == 429 => (Reply::Limited(reason, None), None),
                Outcome::Failed(reason) => (Reply::Failed(reason), None),
                Outcome::Refused(reason) | Outcome::Unreached(reason) => (Reply::Refused(reason), None),
            },
            Err(ureq::Error::Http(error)) => (Reply::Refused(said(&error.to_string())), None),
            Err(error) if is_unreached(&error) => (Reply::Unreached(said(&error.to_string())), None),
            Err(error @ ureq::Error::Timeout(_)) => (Reply::TimedOut(said(&error.to_string())), None),
            Err(error) => (Reply::Failed(said(&tls::explained(&error.to_string()))), None),
        }
    }

    fn read(&self, body: &[u8]) -> (Reply, Option<Answer>) {
        let chat = &self.config.chat;
        match chat.response(body) {
            Ok((words, usage)) => match chat.form.read(&words) {
                Ok(answer) => (Reply::Answered(usage), Some(answer)),
                Err(reason) => (Reply::Wrong(usage, self.receiver.said(&reason)), None),
            },
            Err(reason) => (Reply::Failed(self.receiver.said(&reason)), None),
        }
    }
}
